//! A value of exactly as many bytes as a test wants.

use nalix_core::{
    error::DecodeError,
    schema::{Describe, SchemaBuilder, Type},
    wire::{Decode, Encode, Reader, Writer},
};

/// So many bytes. It takes all there is, so it must be the last field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Blob(pub(crate) usize);

impl Encode for Blob {
    fn encode(&self, w: &mut Writer<'_>) {
        w.put(&vec![7; self.0]);
    }
}

impl Decode<'_> for Blob {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let n = r.remaining();
        assert!(r.bytes(n)?.iter().all(|&byte| byte == 7), "not the bytes that were sent");
        Ok(Blob(n))
    }
}

impl Describe for Blob {
    fn describe(builder: &mut SchemaBuilder) -> Type {
        Vec::<u8>::describe(builder)
    }
}
