//! An impl block as the macro sees it.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote};
use syn::{
    Attribute, FnArg, ImplItem, ImplItemFn, Item, ItemImpl, LitStr, Meta, PatType, Receiver, ReturnType,
    Signature, Token, Type, ext::IdentExt, parse::Parser, punctuated::Punctuated,
};

use super::policy::PolicyKeys;
use crate::{
    attr::{self, Args, Kind, Known},
    ctxt::Ctxt,
};

pub(crate) struct Controller {
    /// The user's block without the attributes that are ours.
    pub(crate) block: ItemImpl,
    pub(crate) krate: TokenStream,
    /// The type's name, for messages.
    pub(crate) name: String,
    pub(crate) handlers: Vec<Handler>,
    pub(crate) hooks: Vec<Hook>,
    /// Whether the block has errors that leave no controller to speak of.
    pub(crate) hopeless: bool,
}

/// What handlers and hooks have in common.
pub(crate) struct Method {
    /// `cfg` attributes, which everything generated for the method repeats.
    pub(crate) cfgs: Vec<Attribute>,
    pub(crate) lints: TokenStream,
    pub(crate) sig: Signature,
}

pub(crate) struct Handler {
    pub(crate) method: Method,
    pub(crate) keys: HandlerKeys,
}

pub(crate) struct HandlerKeys {
    pub(crate) concurrent: Option<Ident>,
    pub(crate) lane: Option<LitStr>,
    pub(crate) spawn: Option<Ident>,
    pub(crate) blocking: Option<Ident>,
    pub(crate) encrypt: Option<Ident>,
    pub(crate) policy: PolicyKeys,
}

pub(crate) struct Hook {
    pub(crate) method: Method,
    pub(crate) moment: Moment,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    Connected,
    Detached,
    Resumed,
    Disconnected,
}

impl Moment {
    const ALL: [Moment; 4] = [Moment::Connected, Moment::Detached, Moment::Resumed, Moment::Disconnected];

    /// Whether the hook is told why.
    pub(crate) fn has_reason(self) -> bool {
        matches!(self, Moment::Detached | Moment::Disconnected)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Moment::Connected => "connected",
            Moment::Detached => "detached",
            Moment::Resumed => "resumed",
            Moment::Disconnected => "disconnected",
        }
    }
}

impl Controller {
    pub(crate) fn new(cx: &mut Ctxt, krate: TokenStream, mut block: ItemImpl) -> Self {
        let name = match &*block.self_ty {
            Type::Path(ty) => ty.path.segments.last().map(|last| last.ident.unraw().to_string()),
            _ => None,
        };
        let mut controller = Controller {
            krate,
            name: name.unwrap_or_else(|| block.self_ty.to_token_stream().to_string()),
            handlers: Vec::new(),
            hooks: Vec::new(),
            hopeless: false,
            block: block.clone(),
        };
        for item in &mut block.items {
            if let ImplItem::Fn(method) = item {
                controller.method(cx, method);
            }
        }
        controller.block = block;
        controller
    }

    /// Takes our attributes off a method and notes what they say.
    fn method(&mut self, cx: &mut Ctxt, method: &mut ImplItemFn) {
        let marks = take_marks(&mut method.attrs);
        let Some(first) = marks.first() else { return };
        if let Some(other) = marks.get(1) {
            let message = match other.role == first.role {
                true => format!("`#[{}]` is given twice", other.role.name()),
                false => format!(
                    "a method is marked with one of `#[{}]` and `#[{}]`",
                    first.role.name(),
                    other.role.name()
                ),
            };
            cx.error(&other.meta, message);
            return;
        }
        let own_cfgs = method.attrs.iter().filter(|attr| attr.path().is_ident("cfg"));
        let parts = Method {
            cfgs: own_cfgs.chain(&first.cfg).cloned().collect(),
            lints: attr::lints(&method.attrs, []),
            sig: method.sig.clone(),
        };
        match first.role {
            Role::Handler => {
                let mut args = Args::of_meta(cx, &first.meta, &HANDLER);
                let keys = HandlerKeys {
                    concurrent: args.flag("concurrent"),
                    lane: args.text("lane"),
                    spawn: args.flag("spawn"),
                    blocking: args.flag("blocking"),
                    encrypt: args.flag("encrypt"),
                    policy: PolicyKeys::take(&mut args),
                };
                self.handlers.push(Handler { method: parts, keys });
            }
            Role::Hook(moment) => {
                if !matches!(first.meta, Meta::Path(_)) {
                    cx.error(&first.meta, format!("`#[{}]` takes no arguments", moment.name()));
                }
                self.hooks.push(Hook { method: parts, moment });
            }
        }
    }
}

impl Method {
    /// What stands before the other arguments, if it is a `self`.
    pub(crate) fn receiver(&self) -> Option<&Receiver> {
        match self.sig.inputs.first() {
            Some(FnArg::Receiver(receiver)) => Some(receiver),
            _ => None,
        }
    }

    /// The arguments after `self`.
    pub(crate) fn args(&self) -> Vec<&PatType> {
        let args = self.sig.inputs.iter();
        args.filter_map(|arg| if let FnArg::Typed(arg) = arg { Some(arg) } else { None }).collect()
    }

    /// The argument behind the packet: that which is called `Incoming`, if it is the last.
    pub(crate) fn upload(&self) -> Option<&PatType> {
        self.args().into_iter().last().filter(|arg| is_incoming(&arg.ty))
    }

    pub(crate) fn is_async(&self) -> bool {
        self.sig.asyncness.is_some()
    }

    /// Its name, without `r#`.
    pub(crate) fn name(&self) -> String {
        self.sig.ident.unraw().to_string()
    }

    /// The return type, if one is written.
    pub(crate) fn output(&self) -> Option<&Type> {
        match &self.sig.output {
            ReturnType::Default => None,
            ReturnType::Type(_, ty) => Some(ty),
        }
    }
}

impl Handler {
    /// The type of its packet: that of the last argument, but for an upload.
    pub(crate) fn packet(&self) -> Option<&Type> {
        let mut args = self.method.args();
        if self.method.upload().is_some() {
            args.pop();
        }
        args.last().map(|arg| &*arg.ty)
    }
}

/// Whether a type is written as that of an upload's receiving end.
pub(crate) fn is_incoming(ty: &Type) -> bool {
    matches!(ty, Type::Path(ty) if attr::is_called(&ty.path, "Incoming"))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Handler,
    Hook(Moment),
}

impl Role {
    fn of(meta: &Meta) -> Option<Role> {
        let mut roles = std::iter::once(Role::Handler).chain(Moment::ALL.map(Role::Hook));
        roles.find(|role| attr::is_called(meta.path(), role.name()))
    }

    fn name(self) -> &'static str {
        match self {
            Role::Handler => "packet",
            Role::Hook(moment) => moment.name(),
        }
    }
}

/// One of our attributes on a method.
struct Mark {
    role: Role,
    meta: Meta,
    /// The condition it stands under, if it was inside a `cfg_attr`.
    cfg: Option<Attribute>,
}

fn take_marks(attrs: &mut Vec<Attribute>) -> Vec<Mark> {
    let mut marks = Vec::new();
    let mut kept = Vec::new();
    for attr in attrs.drain(..) {
        if let Some(role) = Role::of(&attr.meta) {
            marks.push(Mark { role, meta: attr.meta, cfg: None });
        } else if attr.path().is_ident("cfg_attr") {
            kept.extend(take_conditional(attr, &mut marks));
        } else {
            kept.push(attr);
        }
    }
    *attrs = kept;
    marks
}

/// Takes our attributes out of a `cfg_attr`; what is left of it stays.
fn take_conditional(mut attr: Attribute, marks: &mut Vec<Mark>) -> Option<Attribute> {
    let Meta::List(list) = &mut attr.meta else { return Some(attr) };
    let parser = Punctuated::<Meta, Token![,]>::parse_terminated;
    let Ok(metas) = parser.parse2(list.tokens.clone()) else { return Some(attr) };
    let mut metas = metas.into_iter();
    let Some(condition) = metas.next() else { return Some(attr) };
    let before = marks.len();
    let mut others = Vec::new();
    for meta in metas {
        match Role::of(&meta) {
            Some(role) => {
                marks.push(Mark { role, meta, cfg: Some(syn::parse_quote!(#[cfg(#condition)])) });
            }
            None => others.push(meta),
        }
    }
    if marks.len() > before {
        list.tokens = quote!(#condition, #(#others),*);
        if others.is_empty() {
            return None;
        }
    }
    Some(attr)
}

/// The tokens to point at for an item that is no impl block.
pub(crate) fn head(item: &Item) -> TokenStream {
    match item {
        Item::Struct(item) => item.ident.to_token_stream(),
        Item::Enum(item) => item.ident.to_token_stream(),
        Item::Trait(item) => item.ident.to_token_stream(),
        Item::Mod(item) => item.ident.to_token_stream(),
        Item::Fn(item) => item.sig.ident.to_token_stream(),
        other => other.to_token_stream(),
    }
}

const HANDLER: Known = Known {
    place: "a handler",
    keys: &[
        ("concurrent", Kind::Flag),
        ("lane", Kind::Text),
        ("spawn", Kind::Flag),
        ("blocking", Kind::Flag),
        ("encrypt", Kind::Flag),
        ("permission", Kind::Expr),
        ("check", Kind::Expr),
        ("rate", Kind::Text),
        ("burst", Kind::Expr),
        ("cost", Kind::Expr),
        ("key", Kind::Path),
        ("concurrency", Kind::Expr),
        ("queue", Kind::Expr),
        ("wait", Kind::Text),
        ("timeout", Kind::Text),
        ("transport", Kind::Expr),
        ("max_size", Kind::Expr),
        ("breaker", Kind::Expr),
        ("cool_down", Kind::Text),
    ],
};
