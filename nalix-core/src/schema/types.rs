//! The parts a schema is made of.

use std::{borrow::Cow, collections::HashMap};

use super::Describe;

/// The layout of one type and of everything it is made of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Schema {
    /// Named types, in the order in which they are first met from the root: the same on every build.
    pub defs: Vec<Def>,
    /// The type described.
    pub root: Type,
}

impl Schema {
    /// Describes `T`.
    pub fn of<T: Describe + ?Sized>() -> Self {
        let mut builder = SchemaBuilder::default();
        let root = T::describe(&mut builder);
        builder.finish(root)
    }
}

/// What a packet's two sides agree on: the packet, what comes back, and what follows it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Contract {
    /// The packet itself.
    pub packet: Schema,
    /// Its reply; `None` for one-way packets.
    pub reply: Option<Schema>,
    /// The error type it declares, if it does.
    pub error: Option<Schema>,
    /// The items of its stream, if it is answered with one.
    pub item: Option<Schema>,
    /// The chunks of its upload, if it has one.
    pub chunk: Option<Schema>,
}

impl Contract {
    /// Puts a contract together.
    pub fn new(packet: Schema, reply: Option<Schema>, error: Option<Schema>) -> Self {
        Self { packet, reply, error, item: None, chunk: None }
    }

    /// The contract of a packet that is answered with a stream of such items.
    #[must_use]
    pub fn with_item(mut self, item: Schema) -> Self {
        self.item = Some(item);
        self
    }

    /// The contract of a packet that such chunks follow.
    #[must_use]
    pub fn with_chunk(mut self, chunk: Schema) -> Self {
        self.chunk = Some(chunk);
        self
    }
}

/// A type's layout.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Type {
    /// Nothing: no byte on the wire.
    #[default]
    Unit,
    /// A primitive by its name: `u8` ... `u128`, `i8` ... `i128`, `f32`, `f64`, `nonzero_u8` ... `nonzero_i128`, `bool`,
    /// `char`, `str`, `never`, `duration`, `system_time`, `ipv4`, `ipv6`, `ip`, `socket_addr_v4`, `socket_addr_v6`,
    /// `socket_addr`; or, for a user's own codec, the name that it gives. Bytes are no primitive but a `Seq` of `u8`.
    Primitive(Cow<'static, str>),
    /// A number as a varint; the name is that of its Rust type.
    Varint(Cow<'static, str>),
    /// A flag, then the value if the flag is 1.
    Option(Box<Type>),
    /// A count, then the items.
    Seq(Box<Type>),
    /// A count, then distinct items.
    Set(Box<Type>),
    /// A count, then key and value in turn, keys distinct.
    Map(Box<Type>, Box<Type>),
    /// A fixed number of items.
    Array(Box<Type>, u64),
    /// Items of several types in a row.
    Tuple(Vec<Type>),
    /// The named type at this place in [`Schema::defs`].
    Named(usize),
}

impl Type {
    /// A primitive, or a user's own codec, by name.
    pub const fn primitive(name: &'static str) -> Self {
        Type::Primitive(Cow::Borrowed(name))
    }

    /// A number written as a varint, by the name of its Rust type.
    pub const fn varint(name: &'static str) -> Self {
        Type::Varint(Cow::Borrowed(name))
    }
}

/// A named type.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Def {
    /// A struct.
    Struct {
        /// Its name, for people; not part of the fingerprint.
        name: String,
        /// Its fields.
        fields: Fields,
    },
    /// An enum: the variant's number as a varint, then its fields.
    Enum {
        /// Its name, for people; not part of the fingerprint.
        name: String,
        /// Its variants, in the order of their numbers, from 0.
        variants: Vec<Variant>,
        /// Whether it is written with its length in bytes in front.
        extensible: bool,
    },
}

impl Def {
    /// A struct.
    pub fn structure(name: impl Into<String>, fields: Fields) -> Self {
        Def::Struct { name: name.into(), fields }
    }

    /// An enum.
    pub fn enumeration(name: impl Into<String>, variants: Vec<Variant>, extensible: bool) -> Self {
        Def::Enum { name: name.into(), variants, extensible }
    }

    /// The type's name.
    pub fn name(&self) -> &str {
        match self {
            Def::Struct { name, .. } | Def::Enum { name, .. } => name,
        }
    }
}

/// The fields of a struct or a variant, in their order on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub struct Fields {
    /// The fields. Skipped ones are not in the list.
    pub list: Vec<Field>,
    /// Whether they are written with their length in bytes in front, so that nested types can grow.
    pub extensible: bool,
    /// Whether bytes behind the last field are an error at top level (`#[packet(exact)]`).
    pub exact: bool,
}

impl Fields {
    /// Fields that are neither extensible nor exact.
    pub fn new(list: Vec<Field>) -> Self {
        Self { list, extensible: false, exact: false }
    }

    /// Marks them as written with their length in front.
    #[must_use]
    pub fn extensible(mut self) -> Self {
        self.extensible = true;
        self
    }

    /// Marks them as exact at top level.
    #[must_use]
    pub fn exact(mut self) -> Self {
        self.exact = true;
        self
    }
}

/// One field.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Field {
    /// Its name (after `rename`), or its number in a tuple struct.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// The version that added it; 1 for those there from the start.
    pub since: u32,
    /// Its `max_len`, if it has one. Not part of the fingerprint.
    pub max_len: Option<u64>,
}

impl Field {
    /// A field that was there from the start.
    pub fn new(name: impl Into<String>, ty: Type) -> Self {
        Self { name: name.into(), ty, since: 1, max_len: None }
    }

    /// Sets the version that added it.
    #[must_use]
    pub fn since(mut self, since: u32) -> Self {
        self.since = since;
        self
    }

    /// Sets its `max_len`.
    #[must_use]
    pub fn max_len(mut self, max_len: u64) -> Self {
        self.max_len = Some(max_len);
        self
    }
}

/// One variant of an enum.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Variant {
    /// Its name (after `rename`).
    pub name: String,
    /// Its payload.
    pub fields: Fields,
}

impl Variant {
    /// A variant.
    pub fn new(name: impl Into<String>, fields: Fields) -> Self {
        Self { name: name.into(), fields }
    }
}

/// Tells named types apart while a schema is built, so that recursive ones end.
///
/// Made by the derive from the place of the definition and the type's full name with its generic arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TypeKey {
    place: (&'static str, u32, u32),
    name: &'static str,
}

impl TypeKey {
    /// The key of `T`, defined in `file` at `line` and `column`.
    pub fn of<T: ?Sized>(file: &'static str, line: u32, column: u32) -> Self {
        Self { place: (file, line, column), name: std::any::type_name::<T>() }
    }
}

/// Collects named types while a schema is built.
#[derive(Debug, Default)]
pub struct SchemaBuilder {
    index: HashMap<TypeKey, usize>,
    /// `None` while the type is being described.
    defs: Vec<Option<Def>>,
}

impl SchemaBuilder {
    /// Describes a named type, once: `define` runs only the first time its key is met.
    pub fn named(&mut self, key: TypeKey, define: impl FnOnce(&mut Self) -> Def) -> Type {
        if let Some(&at) = self.index.get(&key) {
            return Type::Named(at);
        }
        let at = self.defs.len();
        self.index.insert(key, at);
        self.defs.push(None);
        let def = define(self);
        self.defs[at] = Some(def);
        Type::Named(at)
    }

    fn finish(self, root: Type) -> Schema {
        Schema { defs: self.defs.into_iter().flatten().collect(), root }
    }
}
