//! A packet as the macro sees it.

use proc_macro2::{Ident, TokenStream};
use syn::{DeriveInput, Expr, LitStr, Path, Type};

use crate::{
    attr::{Args, Kind, Known},
    ctxt::Ctxt,
    path,
    wire::{Container, Settings},
};

pub(crate) struct Packet {
    pub(crate) container: Container,
    pub(crate) keys: Keys,
}

/// What `#[packet(...)]` says.
pub(crate) struct Keys {
    pub(crate) opcode: Option<(Ident, Expr)>,
    pub(crate) reply: Option<(Ident, Type)>,
    pub(crate) error: Option<(Ident, Type)>,
    pub(crate) stream: Option<(Ident, Type)>,
    pub(crate) upload: Option<(Ident, Type)>,
    pub(crate) exact: bool,
    pub(crate) encrypt: bool,
    pub(crate) idempotent: Option<Ident>,
    /// With the threshold, if it says one.
    pub(crate) compress: Option<(Ident, Option<Expr>)>,
    pub(crate) priority: Option<LitStr>,
    pub(crate) delivery: Option<LitStr>,
    pub(crate) permission: Option<(Ident, Expr)>,
    pub(crate) max_size: Option<(Ident, Expr)>,
    pub(crate) rename: Option<LitStr>,
    pub(crate) krate: Option<Path>,
}

impl Keys {
    pub(crate) fn parse(cx: &mut Ctxt, args: TokenStream) -> Self {
        Self::from(Args::parse(cx, args, &KNOWN))
    }
}

impl From<Args> for Keys {
    fn from(mut args: Args) -> Self {
        Keys {
            opcode: args.expr("opcode"),
            reply: args.ty("reply"),
            error: args.ty("error"),
            stream: args.ty("stream"),
            upload: args.ty("upload"),
            exact: args.flag("exact").is_some(),
            encrypt: args.flag("encrypt").is_some(),
            idempotent: args.flag("idempotent"),
            compress: args.maybe_expr("compress"),
            priority: args.text("priority"),
            delivery: args.text("delivery"),
            permission: args.expr("permission"),
            max_size: args.expr("max_size"),
            rename: args.text("rename"),
            krate: args.path("crate").map(|(_, path)| path),
        }
    }
}

impl Packet {
    /// `None` if `nalix_core` is not found, which has been reported.
    pub(crate) fn new(cx: &mut Ctxt, input: DeriveInput) -> Option<Self> {
        let keys = Keys::from(Args::collect(cx, &input.attrs, "__packet", &KNOWN));
        let krate = path::find(cx, keys.krate.as_ref())?;
        let settings = Settings {
            rename: keys.rename.clone(),
            exact: keys.exact,
            ..Settings::of_packet(cx, &input.attrs)
        };
        Some(Packet { container: Container::new(cx, krate, input, settings), keys })
    }
}

const KNOWN: Known = Known {
    place: "a packet",
    keys: &[
        ("opcode", Kind::Expr),
        ("reply", Kind::Type),
        ("error", Kind::Type),
        ("stream", Kind::Type),
        ("upload", Kind::Type),
        ("exact", Kind::Flag),
        ("encrypt", Kind::Flag),
        ("idempotent", Kind::Flag),
        ("compress", Kind::MaybeExpr),
        ("priority", Kind::Text),
        ("delivery", Kind::Text),
        ("permission", Kind::Expr),
        ("max_size", Kind::Expr),
        ("rename", Kind::Text),
        ("crate", Kind::Path),
    ],
};
