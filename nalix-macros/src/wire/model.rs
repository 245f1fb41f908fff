//! A type as the derive sees it.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::{
    Attribute, Data, DeriveInput, Expr, ExprLit, Fields, Generics, Index, Lit, LitStr, Member, Path, Type,
    ext::IdentExt,
};

use crate::{
    attr::{self, Args, Kind, Known},
    ctxt::Ctxt,
};

/// A struct or enum.
pub(crate) struct Container {
    pub(crate) ident: Ident,
    pub(crate) generics: Generics,
    pub(crate) krate: TokenStream,
    /// Its name in schemas and errors.
    pub(crate) name: String,
    /// Lint attributes that every impl repeats.
    pub(crate) lints: TokenStream,
    pub(crate) extensible: bool,
    /// Whether trailing bytes are refused at top level; only packets set it.
    pub(crate) exact: bool,
    pub(crate) max_depth: Option<Expr>,
    pub(crate) packed: Option<Attribute>,
    pub(crate) shape: Shape,
}

pub(crate) enum Shape {
    Struct(FieldsOf),
    Enum(Vec<Variant>),
    /// A union; an error has been reported.
    Other,
}

/// The fields of a struct or a variant, in the order of their definition.
pub(crate) type FieldsOf = Vec<Field>;

pub(crate) struct Variant {
    pub(crate) ident: Ident,
    pub(crate) name: String,
    pub(crate) rename: Option<LitStr>,
    pub(crate) fields: FieldsOf,
}

pub(crate) struct Field {
    pub(crate) member: Member,
    /// Its name in schemas.
    pub(crate) name: String,
    /// Its name in errors: `Type.field`, `Type::Variant.field`.
    pub(crate) path: String,
    pub(crate) ty: Type,
    pub(crate) keys: FieldKeys,
}

/// What `#[wire(...)]` says of a field, with the keys themselves to point at.
#[derive(Default)]
pub(crate) struct FieldKeys {
    pub(crate) max_len: Option<(Ident, Expr)>,
    pub(crate) varint: Option<Ident>,
    pub(crate) default: Option<(Ident, Option<Path>)>,
    pub(crate) since: Option<(Ident, u32)>,
    pub(crate) skip: Option<Ident>,
    pub(crate) rename: Option<LitStr>,
    pub(crate) with: Option<(Ident, Path)>,
    pub(crate) max_depth: Option<(Ident, Expr)>,
}

/// What a field is on the wire.
pub(crate) enum Form<'a> {
    Plain,
    Varint,
    With(&'a Path),
    Skip,
}

impl Field {
    pub(crate) fn form(&self) -> Form<'_> {
        match &self.keys {
            FieldKeys { skip: Some(_), .. } => Form::Skip,
            FieldKeys { with: Some((_, module)), .. } => Form::With(module),
            FieldKeys { varint: Some(_), .. } => Form::Varint,
            _ => Form::Plain,
        }
    }

    /// Whether its type's own impls are used.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self.form(), Form::Plain)
    }

    pub(crate) fn is_skipped(&self) -> bool {
        matches!(self.form(), Form::Skip)
    }

    /// Whether `Default` is needed of its type.
    pub(crate) fn uses_default(&self) -> bool {
        let may_be_absent = self.keys.skip.is_some() || self.keys.since.is_some();
        may_be_absent && !matches!(self.keys.default, Some((_, Some(_))))
    }
}

impl Container {
    pub(crate) fn new(cx: &mut Ctxt, krate: TokenStream, input: DeriveInput, settings: Settings) -> Self {
        let lints = attr::lints(&input.attrs, inner_attrs(&input.data));
        let name = match &settings.rename {
            Some(rename) => rename.value(),
            None => input.ident.unraw().to_string(),
        };
        let shape = match &input.data {
            Data::Struct(data) => Shape::Struct(fields(cx, &name, &data.fields)),
            Data::Enum(data) => {
                Shape::Enum(data.variants.iter().map(|v| Variant::new(cx, &name, v)).collect())
            }
            Data::Union(data) => {
                cx.error(
                    data.union_token,
                    "a union cannot travel: nothing says which of its fields is valid",
                );
                Shape::Other
            }
        };
        Container {
            krate,
            name,
            lints,
            extensible: settings.extensible,
            exact: settings.exact,
            max_depth: settings.max_depth,
            packed: input.attrs.iter().find(|attr| is_packed(attr)).cloned(),
            shape,
            ident: input.ident,
            generics: input.generics,
        }
    }

    /// `#[inline]` for types so small that a call would cost more than their code: without it, no other crate can
    /// inline them, and a `Vec` of small structs makes a call for each field of each item.
    pub(crate) fn inline(&self) -> Option<TokenStream> {
        (self.all_fields().len() <= INLINE_FIELDS).then(|| quote!(#[inline]))
    }

    /// All fields, of all variants.
    pub(crate) fn all_fields(&self) -> Vec<&Field> {
        match &self.shape {
            Shape::Struct(fields) => fields.iter().collect(),
            Shape::Enum(variants) => variants.iter().flat_map(|v| &v.fields).collect(),
            Shape::Other => Vec::new(),
        }
    }
}

impl Variant {
    fn new(cx: &mut Ctxt, container: &str, variant: &syn::Variant) -> Self {
        let mut args = Args::collect(cx, &variant.attrs, "wire", &VARIANT);
        let rename = args.text("rename");
        let name = rename.as_ref().map_or_else(|| variant.ident.unraw().to_string(), LitStr::value);
        let fields = fields(cx, &format!("{container}::{name}"), &variant.fields);
        Variant { ident: variant.ident.clone(), name, rename, fields }
    }
}

/// What attributes on the type say.
#[derive(Default)]
pub(crate) struct Settings {
    pub(crate) krate: Option<Path>,
    pub(crate) rename: Option<LitStr>,
    pub(crate) extensible: bool,
    pub(crate) exact: bool,
    pub(crate) max_depth: Option<Expr>,
}

impl Settings {
    /// Of a type with `#[derive(Wire)]`.
    pub(crate) fn of_value(cx: &mut Ctxt, attrs: &[Attribute]) -> Self {
        let mut args = Args::collect(cx, attrs, "wire", &VALUE);
        Settings {
            krate: args.path("crate").map(|(_, path)| path),
            rename: args.text("rename"),
            ..Self::shared(&mut args)
        }
    }

    /// Of a packet, whose name and crate are given to `#[packet]` instead.
    pub(crate) fn of_packet(cx: &mut Ctxt, attrs: &[Attribute]) -> Self {
        Self::shared(&mut Args::collect(cx, attrs, "wire", &PACKET))
    }

    fn shared(args: &mut Args) -> Self {
        Settings {
            extensible: args.flag("extensible").is_some(),
            max_depth: args.expr("max_depth").map(|(_, expr)| expr),
            ..Settings::default()
        }
    }
}

fn fields(cx: &mut Ctxt, owner: &str, fields: &Fields) -> FieldsOf {
    let field = |(i, field): (usize, &syn::Field)| {
        let keys = field_keys(cx, &field.attrs);
        let (member, own_name) = match &field.ident {
            Some(ident) => (Member::Named(ident.clone()), ident.unraw().to_string()),
            None => (Member::Unnamed(Index::from(i)), i.to_string()),
        };
        let name = keys.rename.as_ref().map_or(own_name, LitStr::value);
        Field { member, path: format!("{owner}.{name}"), name, ty: field.ty.clone(), keys }
    };
    fields.iter().enumerate().map(field).collect()
}

fn field_keys(cx: &mut Ctxt, attrs: &[Attribute]) -> FieldKeys {
    let mut args = Args::collect(cx, attrs, "wire", &FIELD);
    FieldKeys {
        max_len: args.expr("max_len"),
        varint: args.flag("varint"),
        default: args.maybe_path("default"),
        since: args.expr("since").and_then(|(key, expr)| version(cx, &expr).map(|version| (key, version))),
        skip: args.flag("skip"),
        rename: args.text("rename"),
        with: args.path("with"),
        max_depth: args.expr("max_depth"),
    }
}

/// The number given to `since`. A literal, since the order of fields is checked by it.
fn version(cx: &mut Ctxt, expr: &Expr) -> Option<u32> {
    let parsed = match expr {
        Expr::Lit(ExprLit { lit: Lit::Int(lit), .. }) => lit.base10_parse::<u32>().ok(),
        _ => None,
    };
    match parsed {
        Some(version) if version >= 2 => Some(version),
        Some(_) => {
            cx.error(
                expr,
                "`since` counts from 2: fields without it were there from the start, in version 1",
            );
            None
        }
        None => {
            cx.error(expr, "`since` needs a whole number, written out");
            None
        }
    }
}

fn is_packed(attr: &Attribute) -> bool {
    let mut packed = false;
    if attr.path().is_ident("repr") {
        // What is not understood here is for the compiler to judge.
        let _ = attr.parse_nested_meta(|meta| {
            packed |= meta.path.is_ident("packed");
            if meta.input.peek(syn::token::Paren) {
                let content;
                syn::parenthesized!(content in meta.input);
                content.parse::<TokenStream>()?;
            }
            Ok(())
        });
    }
    packed
}

fn inner_attrs(data: &Data) -> Vec<&Attribute> {
    match data {
        Data::Struct(data) => data.fields.iter().flat_map(|f| &f.attrs).collect(),
        Data::Enum(data) => {
            let variants = data.variants.iter();
            variants.flat_map(|v| v.attrs.iter().chain(v.fields.iter().flat_map(|f| &f.attrs))).collect()
        }
        Data::Union(_) => Vec::new(),
    }
}

/// The most fields of a type whose code is offered for inlining.
const INLINE_FIELDS: usize = 8;

const VALUE: Known = Known {
    place: "a type",
    keys: &[
        ("extensible", Kind::Flag),
        ("max_depth", Kind::Expr),
        ("rename", Kind::Text),
        ("crate", Kind::Path),
    ],
};

const PACKET: Known = Known {
    place: "a packet (its name and crate go into `#[packet(...)]`)",
    keys: &[("extensible", Kind::Flag), ("max_depth", Kind::Expr)],
};

const VARIANT: Known = Known { place: "a variant", keys: &[("rename", Kind::Text)] };

const FIELD: Known = Known {
    place: "a field",
    keys: &[
        ("max_len", Kind::Expr),
        ("varint", Kind::Flag),
        ("since", Kind::Expr),
        ("default", Kind::MaybePath),
        ("skip", Kind::Flag),
        ("with", Kind::Path),
        ("max_depth", Kind::Expr),
        ("rename", Kind::Text),
    ],
};
