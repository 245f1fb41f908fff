//! Contracts on the wire: peers whose fingerprints differ exchange them to find out what differs.
//!
//! The same bytes, of the contract in its canonical form, are what a fingerprint is computed from.

use super::{Contract, Def, Field, Fields, Schema, Type, Variant};
use crate::{
    error::{DecodeError, DecodeErrorKind},
    wire::{Decode, Encode, Reader, Writer},
};

impl Encode for Contract {
    fn encode(&self, w: &mut Writer<'_>) {
        self.packet.encode(w);
        let flag = |schema: &Option<Schema>, bit| if schema.is_some() { bit } else { 0 };
        w.put_u8(flag(&self.reply, REPLY) | flag(&self.item, ITEM) | flag(&self.chunk, CHUNK));
        for schema in [&self.reply, &self.item, &self.chunk].into_iter().flatten() {
            schema.encode(w);
        }
        self.error.encode(w);
    }
}

impl<'de> Decode<'de> for Contract {
    const MIN_SIZE: usize = Schema::MIN_SIZE + 2;

    fn decode(r: &mut Reader<'de>) -> Result<Self, DecodeError> {
        let packet = Schema::decode(r)?;
        let flags = r.u8()?;
        if flags & !(REPLY | ITEM | CHUNK) != 0 {
            return Err(DecodeErrorKind::BadFlag { found: flags }.into());
        }
        let mut part = |bit| if flags & bit != 0 { Schema::decode(r).map(Some) } else { Ok(None) };
        let (reply, item, chunk) = (part(REPLY)?, part(ITEM)?, part(CHUNK)?);
        Ok(Self { packet, reply, error: Decode::decode(r)?, item, chunk })
    }
}

/// What there is of a contract besides the packet, as flags in one byte. A reply alone is what an option would be.
const REPLY: u8 = 1;
const ITEM: u8 = 2;
const CHUNK: u8 = 4;

impl Encode for Schema {
    fn encode(&self, w: &mut Writer<'_>) {
        self.defs.encode(w);
        self.root.encode(w);
    }
}

impl<'de> Decode<'de> for Schema {
    const MIN_SIZE: usize = 1 + Type::MIN_SIZE;

    fn decode(r: &mut Reader<'de>) -> Result<Self, DecodeError> {
        let schema = Self { defs: Decode::decode(r)?, root: Decode::decode(r)? };
        // Whoever reads a schema may follow its references without looking.
        if schema.refers_beyond_its_defs() {
            return Err(DecodeErrorKind::OutOfRange { expected: "reference to a named type" }.into());
        }
        Ok(schema)
    }
}

impl Encode for Def {
    fn encode(&self, w: &mut Writer<'_>) {
        match self {
            Def::Struct { name, fields } => {
                w.put_u8(def::STRUCT);
                name.encode(w);
                fields.encode(w);
            }
            Def::Enum { name, variants, extensible } => {
                w.put_u8(def::ENUM);
                name.encode(w);
                extensible.encode(w);
                variants.encode(w);
            }
        }
    }
}

impl<'de> Decode<'de> for Def {
    const MIN_SIZE: usize = 4;

    fn decode(r: &mut Reader<'de>) -> Result<Self, DecodeError> {
        match r.u8()? {
            def::STRUCT => Ok(Def::Struct { name: Decode::decode(r)?, fields: Decode::decode(r)? }),
            def::ENUM => Ok(Def::Enum {
                name: Decode::decode(r)?,
                extensible: Decode::decode(r)?,
                variants: Decode::decode(r)?,
            }),
            found => Err(DecodeErrorKind::UnknownVariant { found: found.into() }.into()),
        }
    }
}

impl Encode for Variant {
    fn encode(&self, w: &mut Writer<'_>) {
        self.name.encode(w);
        self.fields.encode(w);
    }
}

impl<'de> Decode<'de> for Variant {
    const MIN_SIZE: usize = 1 + Fields::MIN_SIZE;

    fn decode(r: &mut Reader<'de>) -> Result<Self, DecodeError> {
        Ok(Self { name: Decode::decode(r)?, fields: Decode::decode(r)? })
    }
}

impl Encode for Fields {
    fn encode(&self, w: &mut Writer<'_>) {
        self.extensible.encode(w);
        self.exact.encode(w);
        self.list.encode(w);
    }
}

impl<'de> Decode<'de> for Fields {
    const MIN_SIZE: usize = 3;

    fn decode(r: &mut Reader<'de>) -> Result<Self, DecodeError> {
        Ok(Self { extensible: Decode::decode(r)?, exact: Decode::decode(r)?, list: Decode::decode(r)? })
    }
}

impl Encode for Field {
    fn encode(&self, w: &mut Writer<'_>) {
        self.name.encode(w);
        self.ty.encode(w);
        w.put_varint(self.since.into());
        self.max_len.encode(w);
    }
}

impl<'de> Decode<'de> for Field {
    const MIN_SIZE: usize = 4;

    fn decode(r: &mut Reader<'de>) -> Result<Self, DecodeError> {
        let (name, ty) = (Decode::decode(r)?, Decode::decode(r)?);
        let since = u32::try_from(r.varint()?)
            .map_err(|_| DecodeErrorKind::OutOfRange { expected: "version of a field" })?;
        Ok(Self { name, ty, since, max_len: Decode::decode(r)? })
    }
}

/// Goes into itself without counting levels: how deep a type nests is settled by our own source, and a fingerprint must
/// exist whatever that is. A peer's types are read below, through containers that count.
impl Encode for Type {
    fn encode(&self, w: &mut Writer<'_>) {
        let (tag, inner) = match self {
            Type::Unit => return w.put_u8(tag::UNIT),
            Type::Primitive(name) => {
                w.put_u8(tag::PRIMITIVE);
                return name.encode(w);
            }
            Type::Varint(name) => {
                w.put_u8(tag::VARINT);
                return name.encode(w);
            }
            Type::Map(key, value) => {
                w.put_u8(tag::MAP);
                key.as_ref().encode(w);
                return value.as_ref().encode(w);
            }
            Type::Array(item, count) => {
                w.put_u8(tag::ARRAY);
                w.put_varint(*count);
                return item.as_ref().encode(w);
            }
            Type::Tuple(items) => {
                w.put_u8(tag::TUPLE);
                w.put_len(items.len());
                return items.iter().for_each(|item| item.encode(w));
            }
            Type::Named(index) => {
                w.put_u8(tag::NAMED);
                return w.put_len(*index);
            }
            Type::Option(value) => (tag::OPTION, value),
            Type::Seq(item) => (tag::SEQ, item),
            Type::Set(item) => (tag::SET, item),
        };
        w.put_u8(tag);
        inner.as_ref().encode(w);
    }
}

impl<'de> Decode<'de> for Type {
    const MIN_SIZE: usize = 1;

    fn decode(r: &mut Reader<'de>) -> Result<Self, DecodeError> {
        Ok(match r.u8()? {
            tag::UNIT => Type::Unit,
            tag::PRIMITIVE => Type::Primitive(Decode::decode(r)?),
            tag::VARINT => Type::Varint(Decode::decode(r)?),
            tag::OPTION => Type::Option(Decode::decode(r)?),
            tag::SEQ => Type::Seq(Decode::decode(r)?),
            tag::SET => Type::Set(Decode::decode(r)?),
            tag::MAP => Type::Map(Decode::decode(r)?, Decode::decode(r)?),
            tag::ARRAY => {
                let count = r.varint()?;
                Type::Array(Decode::decode(r)?, count)
            }
            tag::TUPLE => Type::Tuple(Decode::decode(r)?),
            tag::NAMED => Type::Named(usize::try_from(r.varint()?).unwrap_or(usize::MAX)),
            found => return Err(DecodeErrorKind::UnknownVariant { found: found.into() }.into()),
        })
    }
}

mod def {
    pub(super) const STRUCT: u8 = 0;
    pub(super) const ENUM: u8 = 1;
}

mod tag {
    pub(super) const UNIT: u8 = 0;
    pub(super) const PRIMITIVE: u8 = 1;
    pub(super) const VARINT: u8 = 2;
    pub(super) const OPTION: u8 = 3;
    pub(super) const SEQ: u8 = 4;
    pub(super) const SET: u8 = 5;
    pub(super) const MAP: u8 = 6;
    pub(super) const ARRAY: u8 = 7;
    pub(super) const TUPLE: u8 = 8;
    pub(super) const NAMED: u8 = 9;
}
