//! A description of every wire type: what fingerprints are computed from and what tools and error messages read.
//!
//! The derive builds it. Two peers whose shared packets have equal fingerprints agree on every byte; where they
//! differ, [`compare`] says whether the difference is one that the rules of growth allow, and names it if not.

mod canonical;
mod codec;
mod compare;
mod describe;
mod fingerprint;
mod print;
mod types;

pub use self::{
    compare::{Difference, compare},
    fingerprint::Fingerprint,
    types::{Contract, Def, Field, Fields, Schema, SchemaBuilder, Type, TypeKey, Variant},
};

/// A type that can describe its layout on the wire.
///
/// Implemented together with [`Encode`](crate::wire::Encode) by `#[derive(Wire)]` and `#[packet]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not describe its wire layout",
    label = "not a wire type",
    note = "add `#[derive(Wire)]` to `{Self}`"
)]
pub trait Describe {
    /// The type's description; named types register themselves with the builder and return a reference.
    fn describe(schema: &mut SchemaBuilder) -> Type;
}
