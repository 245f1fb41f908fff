//! `impl Controller`, the entry that lets it be discovered, and the checks that only the compiler can make.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{Generics, parse_quote, spanned::Spanned};

use super::{
    handler, hooks,
    model::{Controller, Handler, Method},
};
use crate::attr;

pub(super) fn expand(controller: &Controller) -> TokenStream {
    if controller.hopeless {
        return TokenStream::new();
    }
    let Controller { block, krate, name, .. } = controller;
    let ty = &block.self_ty;
    let lints = attr::lints(&block.attrs, []);
    let cfgs: Vec<_> = block.attrs.iter().filter(|attr| attr.path().is_ident("cfg")).collect();
    let generics = generics(controller);
    let (impl_generics, _, where_clause) = generics.split_for_impl();
    let registrations = controller.handlers.iter().map(|handler| handler::registration(controller, handler));
    let hooks = controller.hooks.iter().map(|hook| hooks::method(krate, hook));
    let generic = !block.generics.params.is_empty();
    // What a parameter stands for is not known here, so there is nothing that could be compared or discovered.
    let discovery = (!generic).then(|| discovery(controller));
    let opcodes = (!generic).then(|| opcodes(krate, &controller.handlers));
    let uploads = (!generic).then(|| uploads(krate, &controller.handlers));
    quote! {
        #(#cfgs)*
        #[automatically_derived]
        #lints
        impl #impl_generics #krate::controller::Controller for #ty #where_clause {
            const NAME: &'static ::core::primitive::str = #name;

            fn register(
                self: &#krate::__private::std::sync::Arc<Self>,
                __handlers: &mut #krate::controller::Handlers,
            ) {
                #(#registrations)*
            }

            #(#hooks)*
        }

        #(#cfgs)*
        #lints
        const _: () = {
            #discovery
            #opcodes
            #uploads
        };
    }
}

/// The block's generics; a generic controller is one where the parameters let it be shared.
fn generics(controller: &Controller) -> Generics {
    let mut generics = controller.block.generics.clone();
    if !generics.params.is_empty() {
        let ty = &controller.block.self_ty;
        generics.make_where_clause().predicates.push(parse_quote! {
            #ty: ::core::marker::Send + ::core::marker::Sync + 'static
        });
    }
    generics
}

fn discovery(controller: &Controller) -> TokenStream {
    let Controller { block, krate, name, .. } = controller;
    let ty = &block.self_ty;
    let path_end = format!("::{name}");
    quote! {
        #krate::__private::inventory::submit! {
            #krate::controller::ControllerInfo::new(
                ::core::concat!(::core::module_path!(), #path_end),
                #krate::registry::Location { file: ::core::file!(), line: ::core::line!() },
                |__builder| {
                    #[allow(unused_imports)] // used if the type has no `Default`
                    use #krate::controller::NoDefault as _;
                    #krate::controller::Probe::<#ty>::new().__discover(__builder)
                },
            )
        }
    }
}

/// A handler that leaves out the upload of its packet does not compile.
fn uploads(krate: &TokenStream, handlers: &[Handler]) -> TokenStream {
    let checks = handlers.iter().filter(|handler| handler.method.upload().is_none()).filter_map(|handler| {
        let packet = handler::packet_type(handler)?;
        let Method { cfgs, lints, .. } = &handler.method;
        let check = quote_spanned! {packet.span()=>
            const _: () = ::core::assert!(
                !<#packet as #krate::packet::Packet>::UPLOADS,
                "this packet has an upload: the handler takes it as the argument behind the packet, of type `Incoming<_>`",
            );
        };
        Some(quote!(#(#cfgs)* #lints #check))
    });
    checks.collect()
}

/// Two types with one opcode, handled by one controller, do not compile.
fn opcodes(krate: &TokenStream, handlers: &[Handler]) -> TokenStream {
    if handlers.len() < 2 {
        return TokenStream::new();
    }
    let entries = handlers.iter().filter_map(|handler| {
        let (packet, cfgs, name) =
            (handler::packet_type(handler)?, &handler.method.cfgs, handler.method.name());
        let message = format!("`{name}` handles a packet with the same opcode already");
        Some(quote!(#(#cfgs)* (<#packet as #krate::packet::Packet>::OPCODE, #name, #message)))
    });
    let checks = handlers.iter().skip(1).filter_map(|handler| {
        let (packet, cfgs, name) =
            (handler::packet_type(handler)?, &handler.method.cfgs, handler.method.name());
        let opcode = quote!(<#packet as #krate::packet::Packet>::OPCODE);
        let message = quote!(__message);
        let check = quote_spanned! {packet.span()=>
            const _: () = if let ::core::option::Option::Some(#message) =
                #krate::__private::served_before(__SERVED, #opcode, #name)
            {
                ::core::panic!("{}", #message)
            };
        };
        let lints = &handler.method.lints;
        Some(quote!(#(#cfgs)* #lints #check))
    });
    let lints = handlers.iter().map(|handler| &handler.method.lints);
    quote! {
        #(#lints)*
        const __SERVED: &[(#krate::Opcode, &::core::primitive::str, &::core::primitive::str)] = &[#(#entries),*];
        #(#checks)*
    }
}
