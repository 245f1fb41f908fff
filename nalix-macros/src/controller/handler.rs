//! What one handler becomes: an entry in the table, and a function that decodes, extracts, runs and encodes.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::{
    Attribute, GenericParam, Lifetime, PatType, ReceiverKind, Type, TypeImplTrait, TypeParamBound,
    spanned::Spanned,
    visit::Visit,
    visit_mut::{self, VisitMut},
};

use super::{
    check::Receives,
    model::{Controller, Handler, HandlerKeys, Method},
    policy,
};
use crate::{attr, span};

/// The statement that adds a handler to the table.
pub(super) fn registration(controller: &Controller, handler: &Handler) -> TokenStream {
    let krate = &controller.krate;
    let Method { cfgs, lints, sig } = &handler.method;
    let Some(packet) = packet_type(handler) else { return TokenStream::new() };
    let name = format!("{}::{}", controller.name, handler.method.name());
    // The line of the method, not that of the attribute on the block.
    let line = quote_spanned!(sig.ident.span()=> ::core::line!());
    let settings = settings(krate, &handler.keys);
    let args = Arguments::new(krate, &handler.method);
    let required = &args.required;
    let streams = handler.method.output().is_some_and(returns_stream);
    let function = match handler.method.is_async() || streams {
        true => asynchronous(krate, handler, &packet, &args),
        false => synchronous(krate, handler, &packet, &args),
    };
    quote! {
        #(#cfgs)*
        #lints
        {
            // Asked first and in the same words as in the check of opcodes, so that a type which is no packet is
            // reported once.
            let _: #krate::Opcode = <#packet as #krate::packet::Packet>::OPCODE;
            let __spec = #krate::controller::HandlerSpec::new::<#packet>(
                #name,
                #krate::registry::Location { file: ::core::file!(), line: #line },
            );
            #settings
            #(#required)*
            #krate::controller::Handlers::add(__handlers, self, __spec, |__this, __call| #function);
        }
    }
}

/// The type of a handler's packet, in a form that stands outside the method.
pub(super) fn packet_type(handler: &Handler) -> Option<Type> {
    handler.packet().map(|ty| elide(ty, &handler.method))
}

fn settings(krate: &TokenStream, keys: &HandlerKeys) -> TokenStream {
    let order = match (&keys.concurrent, &keys.lane) {
        (Some(_), _) => Some(quote!(Concurrent)),
        (_, Some(lane)) => Some(quote!(Lane(#lane))),
        _ => None,
    };
    let run = match (&keys.spawn, &keys.blocking) {
        (Some(_), _) => Some(quote!(Spawn)),
        (_, Some(_)) => Some(quote!(Blocking)),
        _ => None,
    };
    let spec = quote!(#krate::controller::HandlerSpec);
    let order = order.map(|o| quote!(let __spec = #spec::order(__spec, #krate::controller::Order::#o);));
    let run = run.map(|r| quote!(let __spec = #spec::run(__spec, #krate::controller::Run::#r);));
    let encrypt = keys.encrypt.is_some().then(|| quote!(let __spec = #spec::encrypt(__spec);));
    let policy = policy::settings(krate, &keys.policy);
    quote!(#order #run #encrypt #policy)
}

/// Runs to its end at once: nothing is allocated, unless a stream comes out of it.
fn synchronous(krate: &TokenStream, handler: &Handler, packet: &Type, args: &Arguments) -> TokenStream {
    let done = quote!(#krate::controller::Outcome::Ready);
    let prepare = prepare(krate, packet, args, |reply| quote!(#done(#reply)));
    let call = call(&handler.method, args);
    let finish = match is_never(&handler.method) {
        true => call,
        false => {
            let respond = respond(krate, handler, packet);
            quote!(let __value = #call; #respond)
        }
    };
    let upload = args.upload.as_ref().map(|_| quote!(upload: __upload,));
    quote! {{
        let #krate::controller::Parts { context: __context, payload: __payload, reply: __reply, #upload .. } =
            #krate::controller::Call::into_parts(__call);
        #prepare
        #finish
    }}
}

/// Becomes one future, which owns all that the handler may borrow.
fn asynchronous(krate: &TokenStream, handler: &Handler, packet: &Type, args: &Arguments) -> TokenStream {
    let prepare = prepare(krate, packet, args, |reply| quote!(#reply));
    let call = call(&handler.method, args);
    let wait = handler.method.is_async().then(|| quote!(.await));
    let finish = match handler.method.output() {
        Some(Type::Never(_)) => quote!(#call #wait),
        // A type with `impl Trait` in it can't be written twice; the value says what it is.
        Some(ty) if returns_stream(ty) => {
            let respond =
                quote!(#krate::controller::RespondStream::<#packet, _>::respond_stream(__value, __reply));
            let respond = span::at(span::place(ty.span()), respond);
            quote!(let __value = #call #wait; #respond.await)
        }
        _ => {
            let respond = respond(krate, handler, packet);
            quote!(let __value = #call.await; #krate::controller::Outcome::settle(#respond).await)
        }
    };
    let upload = args.upload.as_ref().map(|_| quote!(upload: __upload,));
    let body = quote! {
        let __this = &__this;
        let #krate::controller::Parts { context: __context, payload: __payload, reply: __reply, #upload .. } = __parts;
        #prepare
        #finish
    };
    // A future that is not `Send` is reported at the handler's name.
    let span = handler.method.sig.ident.span();
    let pin = span::at(span, quote!(#krate::__private::std::boxed::Box::pin));
    let boxed = quote_spanned!(span=> #pin(async move { #body }));
    quote! {{
        let __this = ::core::clone::Clone::clone(__this);
        let __parts = #krate::controller::Call::into_parts(__call);
        #krate::controller::Outcome::Pending(#boxed)
    }}
}

/// Extracts the arguments, then decodes the packet: a call that is refused anyway is not decoded. `early` makes what
/// the function returns of a reply.
fn prepare(
    krate: &TokenStream,
    packet: &Type,
    args: &Arguments,
    early: impl Fn(TokenStream) -> TokenStream,
) -> TokenStream {
    let refused = early(quote!(#krate::controller::ReplyBuffer::status(__reply, __status)));
    let malformed = early(quote!(__reply));
    let extracted = args.extracted.iter().map(|Extracted { cfgs, name, ty }| {
        quote! {
            #(#cfgs)*
            let #name = match <#ty as #krate::controller::Extract>::extract(&__context) {
                ::core::result::Result::Ok(__value) => __value,
                ::core::result::Result::Err(__status) => return #refused,
            };
        }
    });
    let upload = args.upload.as_ref().map(|ty| {
        // The type of the chunks is compared where the user has written it.
        let take = quote!(#krate::controller::take_upload::<#packet>(__upload));
        let take = span::at(span::place(ty.span()), take);
        quote!(let __upload: #ty = #take;)
    });
    quote! {
        #(#extracted)*
        let (__packet, __reply) =
            match #krate::controller::decode_call::<#packet>(&__payload, &__context, __reply) {
                ::core::result::Result::Ok(__decoded) => __decoded,
                ::core::result::Result::Err(__reply) => return #malformed,
            };
        #upload
    }
}

/// The call of the user's method, by its path: no name that it may have can be mistaken for another.
fn call(method: &Method, args: &Arguments) -> TokenStream {
    let ident = &method.sig.ident;
    let receiver = receiver(method);
    let passed = &args.passed;
    let upload = method.upload().map(|_| quote!(, __upload));
    quote!(Self::#ident(#receiver, #(#passed,)* __packet #upload))
}

/// `__this` is an `&Arc<Self>`.
pub(super) fn receiver(method: &Method) -> TokenStream {
    let receives = match method.receiver().map(|receiver| &receiver.kind) {
        Some(ReceiverKind::Typed(_, ty)) => Receives::of(ty),
        _ => None,
    };
    match receives.unwrap_or(Receives::Reference) {
        Receives::Reference => quote!(&**__this),
        Receives::SharedReference => quote!(__this),
        Receives::Shared => quote!(::core::clone::Clone::clone(__this)),
    }
}

/// Encodes what the handler returned. A type that cannot be returned is reported where it is written.
fn respond(krate: &TokenStream, handler: &Handler, packet: &Type) -> TokenStream {
    let method = &handler.method;
    match method.output() {
        None => {
            let unit = quote_spanned!(method.sig.ident.span()=> ());
            quote!(<#unit as #krate::controller::Respond<#packet, _>>::respond(__value, __reply))
        }
        // A type with `impl Trait` in it can't be written twice; the value says what it is.
        Some(ty) if !impl_traits(ty).is_empty() => {
            let respond = quote!(#krate::controller::Respond::<#packet, _>::respond(__value, __reply));
            span::at(span::place(ty.span()), respond)
        }
        Some(ty) => {
            let ty = elide(ty, method);
            quote!(<#ty as #krate::controller::Respond<#packet, _>>::respond(__value, __reply))
        }
    }
}

/// Whether a return type is that of a stream: it has an `impl Trait` in it, other than `impl Respond<_, _>`.
pub(super) fn returns_stream(ty: &Type) -> bool {
    let traits = impl_traits(ty);
    let is_respond = |bound: &TypeParamBound| matches!(bound, TypeParamBound::Trait(bound) if attr::is_called(&bound.path, "Respond"));
    !traits.is_empty() && !traits.iter().any(|ty| ty.bounds.iter().any(is_respond))
}

/// The `impl Trait`s in a type.
fn impl_traits(ty: &Type) -> Vec<&TypeImplTrait> {
    struct Search<'a>(Vec<&'a TypeImplTrait>);
    impl<'ast> Visit<'ast> for Search<'ast> {
        fn visit_type_impl_trait(&mut self, ty: &'ast TypeImplTrait) {
            self.0.push(ty);
        }
    }
    let mut search = Search(Vec::new());
    search.visit_type(ty);
    search.0
}

fn is_never(method: &Method) -> bool {
    matches!(method.output(), Some(Type::Never(_)))
}

/// The arguments between `self` and the packet.
struct Arguments {
    /// What each needs to be there.
    required: Vec<TokenStream>,
    /// Those that are taken out of the call.
    extracted: Vec<Extracted>,
    /// All of them, as they are passed.
    passed: Vec<TokenStream>,
    /// The type of the one behind the packet, if there is one.
    upload: Option<Type>,
}

struct Extracted {
    cfgs: Vec<Attribute>,
    name: syn::Ident,
    ty: Type,
}

impl Arguments {
    fn new(krate: &TokenStream, method: &Method) -> Self {
        let mut args =
            Arguments { required: Vec::new(), extracted: Vec::new(), passed: Vec::new(), upload: None };
        args.upload = method.upload().map(|arg| elide(&arg.ty, method));
        let all = method.args();
        let all = &all[..all.len() - usize::from(args.upload.is_some())];
        let Some((_, extracted)) = all.split_last() else { return args };
        for (i, arg) in extracted.iter().enumerate() {
            args.add(krate, method, i, arg);
        }
        args
    }

    fn add(&mut self, krate: &TokenStream, method: &Method, i: usize, arg: &PatType) {
        let cfgs: Vec<_> = arg.attrs.iter().filter(|attr| attr.path().is_ident("cfg")).cloned().collect();
        let ty = elide(&arg.ty, method);
        if let Type::Reference(reference) = &ty {
            let ty = &reference.elem;
            self.passed.push(quote! {
                #(#cfgs)* <#ty as #krate::controller::ExtractRef>::extract_ref(&__context)
            });
            return;
        }
        let name = format_ident!("__arg{i}");
        self.required.push(quote! {
            #(#cfgs)* let __spec = #krate::controller::HandlerSpec::require::<#ty>(__spec);
        });
        self.passed.push(quote!(#(#cfgs)* #name));
        self.extracted.push(Extracted { cfgs, name, ty });
    }
}

/// `ty` with the method's own lifetimes left to inference: outside the method they have no names.
fn elide(ty: &Type, method: &Method) -> Type {
    struct Elide<'a>(Vec<&'a Lifetime>);
    impl VisitMut for Elide<'_> {
        fn visit_lifetime_mut(&mut self, lifetime: &mut Lifetime) {
            if self.0.iter().any(|own| own.ident == lifetime.ident) {
                *lifetime = Lifetime::new("'_", lifetime.span());
            }
            visit_mut::visit_lifetime_mut(self, lifetime);
        }
    }
    let own = method.sig.generics.params.iter().filter_map(|param| match param {
        GenericParam::Lifetime(param) => Some(&param.lifetime),
        _ => None,
    });
    let mut ty = ty.clone();
    Elide(own.collect()).visit_type_mut(&mut ty);
    ty
}
