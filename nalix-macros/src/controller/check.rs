//! The rules for controllers, handlers and hooks.

use quote::ToTokens;
use syn::{
    FnArg, GenericParam, Receiver, ReceiverKind, Safety, Type, TypeImplTrait, TypeReference,
    visit::{self, Visit},
};

use super::model::{Controller, Handler, Hook, Method, Moment, is_incoming};
use super::{handler, policy};
use crate::{attr, ctxt::Ctxt};

/// Reports what is wrong and leaves only those handlers and hooks that code can be generated for.
pub(super) fn check(cx: &mut Ctxt, controller: &mut Controller) {
    block(cx, controller);
    let failed_before = cx.has_failed();
    controller.handlers.retain(|handler| passes(cx, |cx| self::handler(cx, handler)));
    controller.hooks.retain(|hook| passes(cx, |cx| self::hook(cx, hook)));
    one_handler_a_packet(cx, controller);
    one_hook_a_moment(cx, controller);
    let nothing = controller.handlers.is_empty() && controller.hooks.is_empty();
    if nothing && !failed_before && !cx.has_failed() {
        let message = "a controller without handlers: mark at least one method with `#[packet]`";
        cx.error(&controller.block.self_ty, message);
    }
}

fn passes(cx: &mut Ctxt, rules: impl FnOnce(&mut Ctxt)) -> bool {
    let before = cx.count();
    rules(cx);
    cx.count() == before
}

fn block(cx: &mut Ctxt, controller: &mut Controller) {
    let block = &controller.block;
    if let Some((path, _)) = &block.trait_ {
        cx.error(
            path,
            "`#[packet_controller]` goes on an inherent impl block, `impl Type { ... }`, not on that of a trait",
        );
        controller.hopeless = true;
    }
    for param in &block.generics.params {
        if let GenericParam::Lifetime(param) = param {
            cx.error(
                param,
                "a controller cannot borrow: it lives as long as the server, so keep an `Arc` instead",
            );
            controller.hopeless = true;
        }
    }
}

fn handler(cx: &mut Ctxt, handler: &Handler) {
    let Handler { method, keys } = handler;
    signature(cx, method, "handler");
    if let (Some(_), Some(lane)) = (&keys.concurrent, &keys.lane) {
        cx.error(lane, "`lane` cannot go with `concurrent`: a lane is an order, and `concurrent` means none");
    }
    if let (Some(spawn), Some(_)) = (&keys.spawn, &keys.blocking) {
        cx.error(spawn, "`spawn` cannot go with `blocking`: a handler runs in one place");
    }
    if let (Some(blocking), Some(_)) = (&keys.blocking, &method.sig.asyncness) {
        cx.error(blocking, "`blocking` is for handlers that are not async: this one waits without blocking");
    }
    if let (Some(blocking), Some(output)) = (&keys.blocking, method.output())
        && handler::returns_stream(output)
    {
        cx.error(blocking, "`blocking` is not for streams: they are polled, which must not block");
    }
    policy::check(cx, handler);
    arguments(cx, method);
}

fn arguments(cx: &mut Ctxt, method: &Method) {
    let mut args = method.args();
    for arg in &args {
        ImplTrait { cx }.visit_type(&arg.ty);
    }
    if let Some(upload) = method.upload() {
        args.pop();
        if let Some(cfg) = upload.attrs.iter().find(|attr| attr.path().is_ident("cfg")) {
            cx.error(cfg, "the upload of a handler cannot depend on `cfg`: write a handler for each case");
        }
    }
    if let Some(arg) = args.iter().find(|arg| is_incoming(&arg.ty)) {
        cx.error(
            &arg.ty,
            "a handler takes its upload behind its packet, as the last argument, and takes one",
        );
        return;
    }
    let Some((packet, extracted)) = args.split_last() else {
        cx.error(
            &method.sig.ident,
            "a handler takes its packet as the last argument, and this one takes none",
        );
        return;
    };
    for arg in extracted {
        if let Type::Reference(TypeReference { mutability: Some(mutable), .. }) = &*arg.ty {
            cx.error(
                mutable,
                "handlers share what they borrow: take `&Context`, or other extractors by value",
            );
        }
    }
    match &*packet.ty {
        Type::Reference(ty) => {
            let message = match &*ty.elem {
                Type::Path(path) if attr::is_called(&path.path, "Context") => {
                    "a handler takes its packet as the last argument, and this one takes none"
                }
                _ => "a handler takes its packet by value",
            };
            cx.error(ty, message);
        }
        Type::Path(ty) => {
            if let Some(lifetime) = static_argument(&ty.path) {
                cx.error(
                    lifetime,
                    "a packet borrows from the received bytes, which end with the call: write `'_`",
                );
            }
        }
        _ => {}
    }
    if let Some(cfg) = packet.attrs.iter().find(|attr| attr.path().is_ident("cfg")) {
        cx.error(cfg, "the packet of a handler cannot depend on `cfg`: write a handler for each case");
    }
}

fn static_argument(path: &syn::Path) -> Option<&syn::Lifetime> {
    let syn::PathArguments::AngleBracketed(args) = &path.segments.last()?.arguments else { return None };
    args.args.iter().find_map(|arg| match arg {
        syn::GenericArgument::Lifetime(lifetime) if lifetime.ident == "static" => Some(lifetime),
        _ => None,
    })
}

fn hook(cx: &mut Ctxt, hook: &Hook) {
    let method = &hook.method;
    let name = hook.moment.name();
    signature(cx, method, "hook");
    let (count, why) = if hook.moment.has_reason() { (2, ", why: &CloseReason") } else { (1, "") };
    let form = format!("fn {name}(&self, ctx: &Context{why})");
    let args = method.args();
    if args.len() != count || !args.iter().all(|arg| is_shared_reference(&arg.ty)) {
        let message = format!("a method marked `#[{name}]` looks like `{form}`, async or not");
        match args.is_empty() {
            true => cx.error(&method.sig.ident, message),
            false => cx.error(&method.sig.inputs, message),
        }
    }
    match method.output() {
        Some(Type::Tuple(unit)) if unit.elems.is_empty() => {}
        Some(ty) => {
            cx.error(ty, format!("a method marked `#[{name}]` returns nothing: nobody waits for its result"));
        }
        None => {}
    }
}

fn is_shared_reference(ty: &Type) -> bool {
    matches!(ty, Type::Reference(ty) if ty.mutability.is_none())
}

/// What handlers and hooks may not be.
fn signature(cx: &mut Ctxt, method: &Method, what: &str) {
    let sig = &method.sig;
    if let Some(token) = &sig.constness {
        cx.error(token, format!("a {what} cannot be `const`"));
    }
    if let Safety::Unsafe(token) = &sig.safety {
        cx.error(token, format!("a {what} cannot be `unsafe`: any peer can have it called"));
    }
    if let Some(abi) = &sig.abi {
        cx.error(abi, format!("a {what} cannot be `extern`"));
    }
    for param in &sig.generics.params {
        if !matches!(param, GenericParam::Lifetime(_)) {
            cx.error(param, format!("a {what} cannot be generic: nobody would say what the parameter is"));
        }
    }
    match sig.inputs.first() {
        Some(FnArg::Receiver(receiver)) => self::receiver(cx, receiver, what),
        Some(FnArg::Typed(first)) => {
            cx.error(first, format!("a {what} takes `&self` first"));
        }
        None => cx.error(&sig.ident, format!("a {what} takes `&self` first")),
    }
}

fn receiver(cx: &mut Ctxt, receiver: &Receiver, what: &str) {
    let message = match &receiver.kind {
        ReceiverKind::Reference(_, _, None) => return,
        ReceiverKind::Reference(_, _, Some(_)) => {
            format!(
                "a {what} takes `&self`: many run at once, so keep what changes behind a lock or an atomic"
            )
        }
        ReceiverKind::Value => {
            format!("a {what} takes `&self`: the controller is still there for the next call")
        }
        ReceiverKind::Typed(_, ty) if Receives::of(ty).is_some() => return,
        _ => format!("a {what} takes `&self`, `self: &Arc<Self>` or `self: Arc<Self>`"),
    };
    cx.error(receiver, message);
}

/// In what form a method receives its controller.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Receives {
    Reference,
    SharedReference,
    Shared,
}

impl Receives {
    /// The form that the type of a `self: Type` stands for.
    pub(super) fn of(ty: &Type) -> Option<Self> {
        match ty {
            Type::Reference(ty) if ty.mutability.is_none() => match &*ty.elem {
                elem if is_arc(elem) => Some(Receives::SharedReference),
                Type::Path(path) if path.path.is_ident("Self") => Some(Receives::Reference),
                _ => None,
            },
            ty if is_arc(ty) => Some(Receives::Shared),
            _ => None,
        }
    }
}

fn is_arc(ty: &Type) -> bool {
    matches!(ty, Type::Path(ty) if attr::is_called(&ty.path, "Arc"))
}

struct ImplTrait<'c> {
    cx: &'c mut Ctxt,
}

impl<'ast> Visit<'ast> for ImplTrait<'_> {
    fn visit_type_impl_trait(&mut self, ty: &'ast TypeImplTrait) {
        self.cx.error(ty, "a handler cannot be generic: name the type instead of `impl Trait`");
        visit::visit_type_impl_trait(self, ty);
    }
}

/// Finds packets that are written in the same way twice; the compiler finds those with different names for one opcode.
///
/// Methods under a `cfg` may be alternatives, so they are left to the compiler too.
fn one_handler_a_packet(cx: &mut Ctxt, controller: &mut Controller) {
    let mut seen: Vec<(String, String)> = Vec::new();
    controller.handlers.retain(|handler| {
        let Some(ty) = handler.packet().filter(|_| handler.method.cfgs.is_empty()) else { return true };
        let tokens = ty.to_token_stream().to_string();
        if let Some((_, first)) = seen.iter().find(|(found, _)| *found == tokens) {
            cx.error(ty, format!("`{first}` handles this packet already"));
            return false;
        }
        seen.push((tokens, handler.method.name()));
        true
    });
}

fn one_hook_a_moment(cx: &mut Ctxt, controller: &mut Controller) {
    let mut seen: Vec<(Moment, String)> = Vec::new();
    controller.hooks.retain(|hook| {
        if !hook.method.cfgs.is_empty() {
            return true;
        }
        if let Some((moment, first)) = seen.iter().find(|(moment, _)| *moment == hook.moment) {
            let message = format!("`{first}` is marked `#[{}]` already: a controller has one", moment.name());
            cx.error(&hook.method.sig.ident, message);
            return false;
        }
        seen.push((hook.moment, hook.method.name()));
        true
    });
}
