//! Schemas for people to read.

use std::{
    collections::HashMap,
    fmt::{self, Display, Formatter, Write},
};

use super::{Contract, Def, Field, Fields, Schema, Type};

impl Display for Contract {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "packet {}", self.packet)?;
        if let Some(reply) = &self.reply {
            write!(f, "\n\nreply {reply}")?;
        }
        if let Some(error) = &self.error {
            write!(f, "\n\nerror {error}")?;
        }
        if let Some(item) = &self.item {
            write!(f, "\n\nstream {item}")?;
        }
        if let Some(chunk) = &self.chunk {
            write!(f, "\n\nupload {chunk}")?;
        }
        Ok(())
    }
}

/// The root, then the named types, each much as it stands in the source.
impl Display for Schema {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let names = Names::of(self);
        names.ty(f, &self.root)?;
        for (index, def) in self.defs.iter().enumerate() {
            f.write_str("\n\n")?;
            names.def(f, index, def)?;
        }
        Ok(())
    }
}

/// A type of this schema on one line, its references by name.
pub(super) fn type_name(schema: &Schema, ty: &Type) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = Names::of(schema).ty(&mut out, ty);
    out
}

/// What the named types are called, by index.
struct Names(Vec<String>);

impl Names {
    fn of(schema: &Schema) -> Self {
        let mut count = HashMap::new();
        for def in &schema.defs {
            *count.entry(def.name()).or_insert(0) += 1;
        }
        let name = |(index, def): (usize, &Def)| match count.get(def.name()) {
            // Names are no keys: `a::Item` and `b::Item` are both `Item`.
            Some(2..) => format!("{}#{index}", def.name().escape_debug()),
            _ => def.name().escape_debug().to_string(),
        };
        Self(schema.defs.iter().enumerate().map(name).collect())
    }

    fn def(&self, f: &mut impl Write, index: usize, def: &Def) -> fmt::Result {
        match def {
            Def::Struct { fields, .. } => {
                write!(f, "{}struct ", modifiers(fields.extensible, fields.exact))?;
                self.name(f, index)?;
                self.lines(f, &fields.list, |f, field| self.field(f, field))
            }
            Def::Enum { variants, extensible, .. } => {
                write!(f, "{}enum ", modifiers(*extensible, false))?;
                self.name(f, index)?;
                self.lines(f, variants, |f, variant| {
                    let fields = &variant.fields;
                    let modifiers = modifiers(fields.extensible, fields.exact);
                    write!(f, "{modifiers}{}", variant.name.escape_debug())?;
                    self.payload(f, fields)
                })
            }
        }
    }

    fn lines<W: Write, T>(
        &self,
        f: &mut W,
        items: &[T],
        show: impl Fn(&mut W, &T) -> fmt::Result,
    ) -> fmt::Result {
        if items.is_empty() {
            return f.write_str(" {}");
        }
        f.write_str(" {\n")?;
        for item in items {
            f.write_str("    ")?;
            show(f, item)?;
            f.write_str(",\n")?;
        }
        f.write_str("}")
    }

    fn payload(&self, f: &mut impl Write, fields: &Fields) -> fmt::Result {
        if fields.list.is_empty() {
            return Ok(());
        }
        f.write_str(" { ")?;
        for (i, field) in fields.list.iter().enumerate() {
            f.write_str(if i == 0 { "" } else { ", " })?;
            self.field(f, field)?;
        }
        f.write_str(" }")
    }

    fn field(&self, f: &mut impl Write, field: &Field) -> fmt::Result {
        match (field.since, field.max_len) {
            (0 | 1, None) => {}
            (0 | 1, Some(max_len)) => write!(f, "#[wire(max_len = {max_len})] ")?,
            (since, None) => write!(f, "#[wire(since = {since})] ")?,
            (since, Some(max_len)) => write!(f, "#[wire(since = {since}, max_len = {max_len})] ")?,
        }
        write!(f, "{}: ", field.name.escape_debug())?;
        self.ty(f, &field.ty)
    }

    fn ty(&self, f: &mut impl Write, ty: &Type) -> fmt::Result {
        match ty {
            Type::Unit => f.write_str("()"),
            Type::Primitive(name) => write!(f, "{}", name.escape_debug()),
            Type::Varint(name) => write!(f, "varint<{}>", name.escape_debug()),
            Type::Option(value) => self.generic(f, "option", &[value]),
            Type::Seq(item) => self.generic(f, "seq", &[item]),
            Type::Set(item) => self.generic(f, "set", &[item]),
            Type::Map(key, value) => self.generic(f, "map", &[key, value]),
            Type::Array(item, count) => {
                f.write_str("[")?;
                self.ty(f, item)?;
                write!(f, "; {count}]")
            }
            Type::Tuple(items) => self.generic(f, "tuple", &items.iter().collect::<Vec<_>>()),
            Type::Named(index) => self.name(f, *index),
        }
    }

    fn generic(&self, f: &mut impl Write, name: &str, arguments: &[&Type]) -> fmt::Result {
        write!(f, "{name}<")?;
        for (i, argument) in arguments.iter().enumerate() {
            f.write_str(if i == 0 { "" } else { ", " })?;
            self.ty(f, argument)?;
        }
        f.write_str(">")
    }

    fn name(&self, f: &mut impl Write, index: usize) -> fmt::Result {
        f.write_str(self.0.get(index).map_or("?", String::as_str))
    }
}

fn modifiers(extensible: bool, exact: bool) -> &'static str {
    match (extensible, exact) {
        (false, false) => "",
        (true, false) => "extensible ",
        (false, true) => "exact ",
        (true, true) => "extensible exact ",
    }
}
