//! For `#[wire(with = ...)]`: a `Cow` that borrows from the input when it is decoded.
//!
//! Without it a `Cow` is decoded as owned, so that it may stand in a reply; with it a `Cow<'a, str>` ([`text`]) or
//! `Cow<'a, [u8]>` ([`bytes`]) of a borrowed packet is read without a copy. The bytes on the wire are the same.

macro_rules! borrowed {
    ($(#[$doc:meta])* $name:ident, $t:ty) => {
        $(#[$doc])*
        pub mod $name {
            use std::borrow::Cow;

            use crate::{
                error::DecodeError,
                schema::{Describe, SchemaBuilder, Type},
                wire::{Decode, Encode, Reader, Writer},
            };

            /// Appends the value.
            pub fn encode(value: &$t, w: &mut Writer<'_>) {
                value.encode(w);
            }

            /// Takes a value off the front without copying it.
            ///
            /// # Errors
            /// [`DecodeError`] if the bytes are not such a value.
            pub fn decode<'de>(r: &mut Reader<'de>) -> Result<Cow<'de, $t>, DecodeError> {
                <&$t>::decode(r).map(Cow::Borrowed)
            }

            /// The layout.
            pub fn describe(schema: &mut SchemaBuilder) -> Type {
                <$t>::describe(schema)
            }
        }
    };
}

borrowed! {
    /// A `Cow<str>`, borrowed.
    text, str
}

borrowed! {
    /// A `Cow<[u8]>`, borrowed.
    bytes, [u8]
}
