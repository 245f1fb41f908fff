//! What `#[connected]` and `#[disconnected]` become: the trait methods of the same names.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;

use super::{
    handler,
    model::{Hook, Method, Moment},
};

pub(super) fn method(krate: &TokenStream, hook: &Hook) -> TokenStream {
    let Method { cfgs, lints, sig } = &hook.method;
    let ident = &sig.ident;
    let name = format_ident!("{}", hook.moment.name());
    let args = hook.method.args();
    let passed = args.iter().zip(["__ctx", "__why"]).map(|(arg, name)| {
        // A wrong type is reported where it is written.
        let name = format_ident!("{name}", span = arg.ty.span());
        quote_spanned!(arg.ty.span()=> &#name)
    });
    let receiver = handler::receiver(&hook.method);
    let call = quote!(Self::#ident(#receiver, #(#passed),*));
    let wait = hook.method.is_async().then(|| quote!(.await));
    let (why, keep_why) = match hook.moment {
        Moment::Connected => (None, None),
        Moment::Disconnected => (
            Some(quote!(, __why: &#krate::CloseReason)),
            Some(quote!(let __why = ::core::clone::Clone::clone(__why);)),
        ),
    };
    let future = quote_spanned! {ident.span()=>
        #krate::__private::std::boxed::Box::pin(async move {
            let __this = &__this;
            #call #wait;
        })
    };
    quote! {
        #(#cfgs)*
        #lints
        fn #name(
            self: &#krate::__private::std::sync::Arc<Self>,
            __ctx: &#krate::controller::Context
            #why
        ) -> ::core::option::Option<#krate::controller::HookFuture> {
            let __this = #krate::__private::std::sync::Arc::clone(self);
            let __ctx = ::core::clone::Clone::clone(__ctx);
            #keep_why
            ::core::option::Option::Some(#future)
        }
    }
}
