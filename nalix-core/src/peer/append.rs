//! Packets on their way into the outbox, compressed if they are marked so.

use super::large::shared_bytes;
use crate::{
    error::EncodeError,
    frame::{Entries, FRAGMENT, Head, Metadata, compress::written},
    packet::{Packet, Precompressed},
    session::{Appended, Cover, Outbound},
};

/// Appends a packet.
#[inline]
pub(super) fn append_packet<P: Packet>(
    out: &mut Outbound,
    head: Head,
    metadata: (Metadata, Option<&Entries>),
    packet: &P,
) -> Result<Appended, EncodeError> {
    if let Some(from) = P::COMPRESS.filter(|_| out.compresses()) {
        let limit = out.max_message();
        return append_compressed(out, (from, limit), head, metadata, packet);
    }
    let cover = Cover::of(P::ENCRYPT);
    if let Some(bytes) = shared_bytes(packet) {
        return out.append_encoded(P::PRIORITY, cover, head, metadata, bytes);
    }
    out.append_as(P::PRIORITY, cover, head, metadata, packet.size_hint(), |w| packet.encode(w))
}

/// Compresses a packet from so many bytes on. It may have `limit` bytes without.
fn append_compressed<P: Packet>(
    out: &mut Outbound,
    (from, limit): (usize, usize),
    head: Head,
    metadata: (Metadata, Option<&Entries>),
    packet: &P,
) -> Result<Appended, EncodeError> {
    let cover = Cover::of(P::ENCRYPT);
    let from = match packet.__compressed() {
        Precompressed::Known { len, .. } if len > limit => {
            return Err(EncodeError::MessageTooLarge { limit });
        }
        Precompressed::Known { bytes, .. } if bytes.len() > FRAGMENT => {
            return out.append_encoded(P::PRIORITY, cover, head.with_compressed(), metadata, bytes.clone());
        }
        Precompressed::Known { bytes, .. } => {
            return out.append_compressed(P::PRIORITY, cover, head, metadata, bytes);
        }
        Precompressed::Useless => match shared_bytes(packet) {
            Some(bytes) if bytes.len() <= limit => {
                return out.append_encoded(P::PRIORITY, cover, head, metadata, bytes);
            }
            _ => usize::MAX,
        },
        Precompressed::Unknown => from,
    };
    written(
        limit,
        from,
        |w| packet.encode(w),
        |bytes, compressed| match compressed {
            true => out.append_compressed(P::PRIORITY, cover, head, metadata, bytes),
            false => out.append_as(P::PRIORITY, cover, head, metadata, bytes.len(), |w| w.put(bytes)),
        },
    )?
}
