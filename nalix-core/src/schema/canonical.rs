//! Walking a schema's references, and the form in which two schemas of one layout are equal.

use std::collections::HashMap;

use super::{Contract, Def, Field, Fields, Schema, Type, Variant};

impl Contract {
    /// The contract without what has no effect on the layout: type names and `max_len`s are gone, and named types stand in
    /// the order in which they are first met, starting at the root and going through them one after the other.
    pub(super) fn canonical(&self) -> Contract {
        Contract {
            packet: self.packet.canonical(),
            reply: self.reply.as_ref().map(Schema::canonical),
            error: self.error.as_ref().map(Schema::canonical),
            item: self.item.as_ref().map(Schema::canonical),
            chunk: self.chunk.as_ref().map(Schema::canonical),
        }
    }
}

impl Schema {
    fn canonical(&self) -> Schema {
        let mut order = Order::default();
        let root = order.renumber(&self.root);
        let mut defs = Vec::new();
        // A queue and not recursion: chains of named types may be long.
        while let Some(&old) = order.met.get(defs.len()) {
            // A hand-made schema may refer to nothing; that is not for us to judge.
            let def = self.defs.get(old).cloned().unwrap_or_else(|| Def::structure("", Fields::default()));
            defs.push(order.def(def));
        }
        Schema { defs, root }
    }

    /// Whether a reference points at no named type.
    pub(super) fn refers_beyond_its_defs(&self) -> bool {
        let mut beyond = false;
        let mut look = |index| beyond |= index >= self.defs.len();
        references(&self.root, &mut look);
        for def in &self.defs {
            match def {
                Def::Struct { fields, .. } => fields.list.iter().for_each(|f| references(&f.ty, &mut look)),
                Def::Enum { variants, .. } => variants
                    .iter()
                    .flat_map(|variant| &variant.fields.list)
                    .for_each(|f| references(&f.ty, &mut look)),
            }
        }
        beyond
    }
}

/// Calls `found` with every reference in a type.
fn references(ty: &Type, found: &mut impl FnMut(usize)) {
    match ty {
        Type::Unit | Type::Primitive(_) | Type::Varint(_) => {}
        Type::Option(inner) | Type::Seq(inner) | Type::Set(inner) | Type::Array(inner, _) => {
            references(inner, found);
        }
        Type::Map(key, value) => {
            references(key, found);
            references(value, found);
        }
        Type::Tuple(items) => items.iter().for_each(|item| references(item, found)),
        Type::Named(index) => found(*index),
    }
}

/// Named types in the order in which they are met.
#[derive(Default)]
struct Order {
    met: Vec<usize>,
    new: HashMap<usize, usize>,
}

impl Order {
    fn def(&mut self, def: Def) -> Def {
        match def {
            Def::Struct { fields, .. } => Def::Struct { name: String::new(), fields: self.fields(fields) },
            Def::Enum { variants, extensible, .. } => {
                let variants = variants
                    .into_iter()
                    .map(|v| Variant { name: v.name, fields: self.fields(v.fields) })
                    .collect();
                Def::Enum { name: String::new(), variants, extensible }
            }
        }
    }

    fn fields(&mut self, fields: Fields) -> Fields {
        let list =
            fields.list.into_iter().map(|f| Field { ty: self.renumber(&f.ty), max_len: None, ..f }).collect();
        Fields { list, ..fields }
    }

    fn renumber(&mut self, ty: &Type) -> Type {
        match ty {
            Type::Unit | Type::Primitive(_) | Type::Varint(_) => ty.clone(),
            Type::Option(value) => Type::Option(self.boxed(value)),
            Type::Seq(item) => Type::Seq(self.boxed(item)),
            Type::Set(item) => Type::Set(self.boxed(item)),
            Type::Map(key, value) => {
                let key = self.boxed(key);
                Type::Map(key, self.boxed(value))
            }
            Type::Array(item, count) => Type::Array(self.boxed(item), *count),
            Type::Tuple(items) => Type::Tuple(items.iter().map(|item| self.renumber(item)).collect()),
            Type::Named(old) => Type::Named(*self.new.entry(*old).or_insert_with(|| {
                self.met.push(*old);
                self.met.len() - 1
            })),
        }
    }

    fn boxed(&mut self, ty: &Type) -> Box<Type> {
        Box::new(self.renumber(ty))
    }
}
