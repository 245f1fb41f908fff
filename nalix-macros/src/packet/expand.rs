//! What makes a value a packet: its opcode, the conversation it opens, its entry in the registry.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::{Expr, GenericParam, Lifetime, ext::IdentExt, spanned::Spanned};

use super::model::Packet;
use crate::{
    values::{self, SIZE},
    wire::Container,
};

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
    let shape = shape(packet).into_iter().map(|(name, types)| {
        quote! {
            #[automatically_derived]
            #lints
            impl #impl_generics #krate::packet::#name for #ident #ty_generics #where_clause {
                #types
            }
        }
    });
    let flag = |name: TokenStream| quote!(const #name: ::core::primitive::bool = true;);
    let streams = packet.keys.stream.as_ref().map(|_| flag(quote!(STREAMS)));
    let uploads = packet.keys.upload.as_ref().map(|_| flag(quote!(UPLOADS)));
    let encrypt = packet.keys.encrypt.then(|| {
        quote!(
            const ENCRYPT: ::core::primitive::bool = true;
        )
    });
    let idempotent = packet.keys.idempotent.as_ref().map(|_| flag(quote!(IDEMPOTENT)));
    let compress = packet.keys.compress.as_ref().filter(|_| !failed).map(|(_, threshold)| {
        let threshold = match threshold {
            Some(threshold) => quote!(#threshold),
            None => quote!(#krate::packet::COMPRESS_FROM),
        };
        // A name that the user's expression cannot mean.
        let from = Ident::new("__from", Span::mixed_site());
        quote!(
            const COMPRESS: ::core::option::Option<::core::primitive::usize> = {
                let #from: ::core::primitive::usize = #threshold;
                ::core::option::Option::Some(#from)
            };
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
    let delivery = packet.keys.delivery.as_ref().and_then(|delivery| {
        let variant = match delivery.value().as_str() {
            "reliable" => quote!(Reliable),
            "droppable" => quote!(Droppable),
            "drop_oldest" => quote!(DropOldest),
            "latest" => quote!(Latest(0)),
            _ => return None,
        };
        let delivery = quote!(#krate::packet::Delivery);
        Some(quote!(const DELIVERY: #delivery = #delivery::#variant;))
    });
    let permission = packet.keys.permission.as_ref().filter(|_| !failed).map(|(_, permission)| {
        let permission = values::permission(krate, permission);
        quote!(
            const PERMISSION: ::core::option::Option<#krate::Permission> =
                ::core::option::Option::Some(#permission);
        )
    });
    let max_size = packet.keys.max_size.as_ref().filter(|_| !failed).map(|(_, size)| {
        let size = SIZE.value(size, &quote!(::core::primitive::usize));
        quote!(
            const MAX_SIZE: ::core::option::Option<::core::primitive::usize> =
                ::core::option::Option::Some(#size);
        )
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
            #idempotent
            #compress
            #streams
            #uploads
            #priority
            #delivery
            #permission
            #max_size
        }
        #(#shape)*
        #opcode_check
        #registration
    }
}

/// The traits that say which conversation the packet opens, with their types.
fn shape(packet: &Packet) -> Vec<(TokenStream, TokenStream)> {
    let (krate, keys) = (&packet.container.krate, &packet.keys);
    let error = match &keys.error {
        Some((_, error)) => quote!(#error),
        None => quote!(#krate::packet::NoError),
    };
    let mut shape = Vec::new();
    if let Some((_, chunk)) = &keys.upload {
        shape.push((quote!(Uploads), quote!(type Chunk = #chunk;)));
    }
    if let Some((_, item)) = &keys.stream {
        shape.push((quote!(Streams), quote!(type Item = #item; type Error = #error;)));
    }
    let answer = match (&keys.reply, &keys.stream) {
        (Some((_, reply)), None) => quote!(type Reply = #reply; type Error = #error;),
        // An upload without an answer is reported, and has one all the same.
        (None, None) if keys.upload.is_some() => quote!(type Reply = (); type Error = #error;),
        _ => TokenStream::new(),
    };
    let name = match (&keys.upload, &keys.stream, &keys.reply) {
        (Some(_), Some(_), _) => quote!(DuplexRequest),
        (Some(_), None, _) => quote!(UploadRequest),
        (None, Some(_), _) => quote!(StreamRequest),
        (None, None, Some(_)) => quote!(Request),
        (None, None, None) => quote!(OneWay),
    };
    shape.push((name, answer));
    shape
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
    let keys = &packet.keys;
    let (shape, contract) = match (&keys.upload, &keys.stream, &keys.reply) {
        (Some(_), Some(_), _) => (quote!(Duplex), "duplex"),
        (Some(_), None, _) => (quote!(Upload), "upload"),
        (None, Some(_), _) => (quote!(Stream), "stream"),
        (None, None, Some(_)) => (quote!(Request), "request"),
        (None, None, None) => (quote!(OneWay), "one_way"),
    };
    let contract = match &keys.error {
        Some(_) => format_ident!("{contract}_with_error"),
        None => format_ident!("{contract}"),
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
            )
            .with_priority(<#ty as #krate::packet::Packet>::PRIORITY);
            #krate::__private::inventory::submit! { #krate::registry::PacketEntry(&__INFO) }
        };
    }
}
