//! What makes a value a packet: its opcode, the conversation it opens, its entry in the registry.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{Expr, GenericParam, Lifetime, ext::IdentExt, spanned::Spanned};

use super::model::Packet;
use crate::wire::Container;

/// `failed` says that there have been errors: the packet still gets its traits, so that its uses add no errors.
pub(super) fn expand(packet: &Packet, failed: bool) -> TokenStream {
    let Container { ident, krate, lints, generics, name, exact, .. } = &packet.container;
    let (impl_generics, ty_generics, where_clause) = generics.split_for_impl();
    let opcode = match &packet.keys.opcode {
        Some((_, opcode)) if !failed => quote!(#opcode),
        // A reserved one, which is never compared with others.
        _ => quote!(0),
    };
    let opcode_check = match &packet.keys.opcode {
        Some((_, opcode)) if !failed => opcode_check(krate, opcode),
        _ => TokenStream::new(),
    };
    let shape = match &packet.keys.reply {
        Some((_, reply)) => {
            let error = match &packet.keys.error {
                Some((_, error)) => quote!(#error),
                None => quote!(#krate::packet::NoError),
            };
            quote! {
                #[automatically_derived]
                #lints
                impl #impl_generics #krate::packet::Request for #ident #ty_generics #where_clause {
                    type Reply = #reply;
                    type Error = #error;
                }
            }
        }
        None => quote! {
            #[automatically_derived]
            #lints
            impl #impl_generics #krate::packet::OneWay for #ident #ty_generics #where_clause {}
        },
    };
    let encrypt = packet.keys.encrypt.then(|| {
        quote!(
            const ENCRYPT: ::core::primitive::bool = true;
        )
    });
    let priority = packet.keys.priority.as_ref().and_then(|priority| {
        let variant = match priority.value().as_str() {
            "control" => quote!(Control),
            "high" => quote!(High),
            "normal" => quote!(Normal),
            "bulk" => quote!(Bulk),
            _ => return None,
        };
        let priority = quote!(#krate::packet::Priority);
        Some(quote!(
            const PRIORITY: ::core::option::Option<#priority> =
                ::core::option::Option::Some(#priority::#variant);
        ))
    });
    let registration = (!failed).then(|| registration(packet));
    quote! {
        #[automatically_derived]
        #lints
        impl #impl_generics #krate::packet::Packet for #ident #ty_generics #where_clause {
            const OPCODE: #krate::Opcode = #krate::Opcode::new(#opcode);
            const NAME: &'static ::core::primitive::str = #name;
            const EXACT: ::core::primitive::bool = #exact;
            #encrypt
            #priority
        }
        #shape
        #opcode_check
        #registration
    }
}

/// Refuses reserved numbers that are not written out.
fn opcode_check(krate: &TokenStream, opcode: &Expr) -> TokenStream {
    if matches!(opcode, Expr::Lit(_)) {
        return TokenStream::new();
    }
    quote_spanned! {opcode.span()=>
        const _: () = ::core::assert!(
            !#krate::Opcode::new(#opcode).is_reserved(),
            "opcodes from 0x0000 to 0x00FF are reserved for the framework",
        );
    }
}

fn registration(packet: &Packet) -> TokenStream {
    let Container { ident, krate, lints, generics, .. } = &packet.container;
    let arguments = generics.params.iter().filter_map(|param| match param {
        GenericParam::Lifetime(param) => Some(Lifetime::new("'static", param.lifetime.span())),
        _ => None,
    });
    let ty = match generics.params.is_empty() {
        true => quote!(#ident),
        false => quote!(#ident<#(#arguments),*>),
    };
    let path_end = format!("::{}", ident.unraw());
    let (shape, contract) = match (&packet.keys.reply, &packet.keys.error) {
        (None, _) => (quote!(OneWay), quote!(one_way)),
        (Some(_), None) => (quote!(Request), quote!(request)),
        (Some(_), Some(_)) => (quote!(Request), quote!(request_with_error)),
    };
    quote! {
        #lints
        const _: () = {
            static __INFO: #krate::registry::PacketInfo = #krate::registry::PacketInfo::new(
                <#ty as #krate::packet::Packet>::OPCODE,
                <#ty as #krate::packet::Packet>::NAME,
                ::core::concat!(::core::module_path!(), #path_end),
                #krate::registry::Location { file: ::core::file!(), line: ::core::line!() },
                #krate::registry::Shape::#shape,
                #krate::__private::contract::#contract::<#ty>,
            );
            #krate::__private::inventory::submit! { #krate::registry::PacketEntry(&__INFO) }
        };
    }
}
