//! `#[derive(Wire)]`: a type's encoding, its decoding and its description.

mod bounds;
mod check;
mod decode;
mod describe;
mod encode;
mod fallback;
mod model;

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::DeriveInput;

pub(crate) use self::model::{Container, Settings};
use crate::{attr, ctxt::Ctxt, path};

pub(crate) fn derive(input: TokenStream) -> TokenStream {
    let mut cx = Ctxt::default();
    let input: DeriveInput = match syn::parse2(input) {
        Ok(input) => input,
        Err(error) => return error.into_compile_error(),
    };
    if input.attrs.iter().any(|attr| attr::is_called(attr.path(), "packet")) {
        cx.error_at(Span::call_site(), "`#[packet]` derives `Wire` by itself: remove it from this list");
        return cx.into_tokens();
    }
    let settings = Settings::of_value(&mut cx, &input.attrs);
    let Some(krate) = path::find(&mut cx, settings.krate.as_ref()) else { return cx.into_tokens() };
    let container = Container::new(&mut cx, krate, input, settings);
    check::check(&mut cx, &container);
    let impls = impls(&cx, &container);
    let failure = container.generics.params.is_empty().then(|| failure(&container));
    let errors = cx.into_tokens();
    quote!(#errors #impls #failure)
}

/// Checks a packet's fields; the packet's own rules are checked by the caller.
pub(crate) fn check(cx: &mut Ctxt, container: &Container) {
    check::check(cx, container);
}

/// The three traits, or stand-ins for them where there have been errors.
pub(crate) fn impls(cx: &Ctxt, container: &Container) -> TokenStream {
    if cx.has_failed() {
        return fallback::expand(container);
    }
    let encode = encode::expand(container);
    let decode = decode::expand(container);
    let describe = describe::expand(container);
    quote!(#encode #decode #describe)
}

/// Lets `?` turn the type into a `Failure` of itself. Only for types without parameters: for others the compiler could
/// not rule out that the type is `Status`, which converts differently.
fn failure(container: &Container) -> TokenStream {
    let Container { ident, krate, lints, .. } = container;
    quote! {
        #[automatically_derived]
        #lints
        impl ::core::convert::From<#ident> for #krate::Failure<#ident> {
            fn from(__error: #ident) -> Self {
                #krate::Failure::Application(__error)
            }
        }
    }
}
