use nalix_core::Wire;

mod empty {}

mod wrong {
    use nalix_core::{error::DecodeError, schema::{SchemaBuilder, Type}, wire::{Reader, Writer}};

    pub fn encode(_: &u64, _: &mut Writer<'_>) {}

    pub fn decode(_: &mut Reader<'_>) -> Result<u64, DecodeError> {
        Ok(0)
    }

    pub fn describe(_: &mut SchemaBuilder) -> Type {
        Type::primitive("wrong")
    }
}

#[derive(Wire)]
struct Named {
    #[wire(with = empty)]
    a: u32,
    #[wire(with = wrong)]
    b: u32,
}

fn main() {}
