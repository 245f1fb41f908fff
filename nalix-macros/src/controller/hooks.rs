//! What `#[connected]` and its like become: the trait methods of the same names.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;

use super::{
    handler,
    model::{Hook, Method},
};
use crate::span;

pub(super) fn method(krate: &TokenStream, hook: &Hook) -> TokenStream {
    let Method { cfgs, lints, sig } = &hook.method;
    let ident = &sig.ident;
    let name = format_ident!("{}", hook.moment.name());
    let args = hook.method.args();
    let passed = args.iter().zip(["__ctx", "__why"]).map(|(arg, name)| {
        // A wrong type is reported where it is written.
        let name = format_ident!("{name}");
        span::at(span::place(arg.ty.span()), quote!(&#name))
    });
    let receiver = handler::receiver(&hook.method);
    let call = quote!(Self::#ident(#receiver, #(#passed),*));
    let wait = hook.method.is_async().then(|| quote!(.await));
    let has_reason = hook.moment.has_reason();
    let why = has_reason.then(|| quote!(, __why: &#krate::CloseReason));
    let keep_why = has_reason.then(|| quote!(let __why = ::core::clone::Clone::clone(__why);));
    let body = quote!(let __this = &__this; #call #wait;);
    let pin = span::at(ident.span(), quote!(#krate::__private::std::boxed::Box::pin));
    // A future that is not `Send` is reported at the method's name.
    let future = quote_spanned!(ident.span()=> #pin(async move { #body }));
    quote! {
        #(#cfgs)*
        #lints
        fn #name(
            self: &#krate::__private::std::sync::Arc<Self>,
            __ctx: &#krate::controller::Context
            #why
        ) -> ::core::option::Option<#krate::controller::HookFuture> {
            let __this = ::core::clone::Clone::clone(self);
            let __ctx = ::core::clone::Clone::clone(__ctx);
            #keep_why
            ::core::option::Option::Some(#future)
        }
    }
}
