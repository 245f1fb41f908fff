//! A packet that is encoded once and sent many times.

use std::{fmt, marker::PhantomData};

use bytes::Bytes;

use super::{Delivery, OneWay, Packet, Precompressed, Priority, Request};
use crate::{
    Opcode,
    error::EncodeError,
    frame::compress::compressed,
    permission::Permission,
    schema::{Describe, SchemaBuilder, Type},
    wire::{Encode, Writer, to_vec},
};

/// A packet, encoded once for many connections. Clones share the bytes.
///
/// It is a packet itself, of the same opcode and kind as `P`: what sends or asks with a `P` takes an `Encoded<P>`, and
/// copies bytes where it would encode. Those of over 16 KiB are not even copied until their fragments are written, so all
/// connections that they wait for share them. What `P` says of its encryption, its compression and its priority holds for it;
/// one that is compressed is so from the start, once and not for each connection. A connection encodes and compresses what it
/// is given while it is locked; where packets of megabytes would keep others waiting by that, make them an `Encoded` first.
///
/// ```
/// use nalix_core::{Connection, Encoded, packet};
///
/// #[packet(opcode = 0x3f0a)]
/// struct Shifted {
///     x: f32,
///     y: f32,
/// }
///
/// fn tell(everybody: &[Connection], shifted: &Shifted) -> Result<(), Box<dyn std::error::Error>> {
///     let encoded = Encoded::new(shifted)?;
///     for connection in everybody {
///         connection.try_send(&encoded)?;
///     }
///     Ok(())
/// }
/// ```
pub struct Encoded<P> {
    payload: Bytes,
    /// For peers that can inflate it, if that is shorter and the packet is marked.
    compressed: Option<Bytes>,
    packet: PhantomData<fn() -> P>,
}

impl<P: Packet> Encoded<P> {
    /// Encodes a packet. How long it may be is a matter of each connection, and checked when it is sent.
    ///
    /// # Errors
    /// [`EncodeError`] if the packet breaks a rule of its own type, such as a `max_len`.
    pub fn new(packet: &P) -> Result<Self, EncodeError> {
        let payload = Bytes::from(to_vec(packet)?);
        let compressed = match P::COMPRESS {
            Some(from) if payload.len() >= from => compressed(&payload, |c| c.map(Bytes::copy_from_slice)),
            _ => None,
        };
        Ok(Self { payload, compressed, packet: PhantomData })
    }

    /// The encoded packet, which is not compressed.
    pub fn payload(&self) -> &Bytes {
        &self.payload
    }

    /// Its compressed form, if it has one.
    pub(crate) fn compressed(&self) -> Option<&Bytes> {
        self.compressed.as_ref()
    }
}

impl<P> Clone for Encoded<P> {
    fn clone(&self) -> Self {
        Self { payload: self.payload.clone(), compressed: self.compressed.clone(), packet: PhantomData }
    }
}

/// Without the content: it may be confidential.
impl<P: Packet> fmt::Debug for Encoded<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoded").field("packet", &P::NAME).field("len", &self.payload.len()).finish()
    }
}

impl<P> Encode for Encoded<P> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.put(&self.payload);
    }

    #[inline]
    fn size_hint(&self) -> usize {
        self.payload.len()
    }
}

impl<P: Describe> Describe for Encoded<P> {
    fn describe(builder: &mut SchemaBuilder) -> Type {
        P::describe(builder)
    }
}

impl<P: Packet> Packet for Encoded<P> {
    const OPCODE: Opcode = P::OPCODE;
    const NAME: &'static str = P::NAME;
    const EXACT: bool = P::EXACT;
    const ENCRYPT: bool = P::ENCRYPT;
    const COMPRESS: Option<usize> = P::COMPRESS;
    const PRIORITY: Option<Priority> = P::PRIORITY;
    const IDEMPOTENT: bool = P::IDEMPOTENT;
    const DELIVERY: Delivery = P::DELIVERY;
    const PERMISSION: Option<Permission> = P::PERMISSION;
    const MAX_SIZE: Option<usize> = P::MAX_SIZE;

    #[inline]
    fn encoding(&self) -> Option<&Bytes> {
        Some(&self.payload)
    }

    fn __compressed(&self) -> Precompressed<'_> {
        match &self.compressed {
            Some(bytes) => Precompressed::Known { len: self.payload.len(), bytes },
            None => Precompressed::Useless,
        }
    }
}

impl<P: OneWay> OneWay for Encoded<P> {}

impl<P: Request> Request for Encoded<P> {
    type Reply = P::Reply;
    type Error = P::Error;
}
