//! `#[packet(...)]`, in two halves.
//!
//! The attribute only adds a hidden derive to the item, which does the work. A derive is given the item after `cfg` and
//! `cfg_attr` have been applied to fields and variants, so that nothing generated can disagree with what is compiled.

mod check;
mod expand;
mod model;

use proc_macro2::TokenStream;
use quote::quote;
use syn::{
    Attribute, DeriveInput, ImplItemFn, Item, Meta, Path, Token, parse::Parser, punctuated::Punctuated,
    visit_mut::VisitMut,
};

use self::model::{Keys, Packet};
use crate::{attr, ctxt::Ctxt, path, wire};

pub(crate) fn attribute(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut cx = Ctxt::default();
    let mut parsed = match syn::parse2::<Item>(item.clone()) {
        Ok(parsed) => parsed,
        Err(error) => return misplaced(&mut cx, item, error),
    };
    let attrs = match &mut parsed {
        Item::Struct(item) => &mut item.attrs,
        Item::Enum(item) => &mut item.attrs,
        Item::Union(item) => &mut item.attrs,
        _ => return misplaced(&mut cx, item, syn::Error::new_spanned(&parsed, ON_ITEMS)),
    };
    remove_wire(&mut cx, attrs);
    // The derive reads the keys again and reports what is wrong with them.
    let keys = Keys::parse(&mut Ctxt::default(), args.clone());
    let Some(krate) = path::find(&mut cx, keys.krate.as_ref()) else {
        // Attributes of a derive that is not there would be errors of their own.
        RemoveAttributes.visit_item_mut(&mut parsed);
        let errors = cx.into_tokens();
        return quote!(#errors #parsed);
    };
    let errors = cx.into_tokens();
    quote! {
        #errors
        #[::core::prelude::v1::derive(#krate::__private::__Packet)]
        #[__packet(#args)]
        #parsed
    }
}

pub(crate) fn derive(input: TokenStream) -> TokenStream {
    let mut cx = Ctxt::default();
    let input: DeriveInput = match syn::parse2(input) {
        Ok(input) => input,
        Err(error) => return error.into_compile_error(),
    };
    let Some(mut packet) = Packet::new(&mut cx, input) else { return cx.into_tokens() };
    check::check(&mut cx, &mut packet);
    wire::check(&mut cx, &packet.container);
    let impls = wire::impls(&cx, &packet.container);
    let packet = expand::expand(&packet, cx.has_failed());
    let errors = cx.into_tokens();
    quote!(#errors #impls #packet)
}

/// `#[packet]` where it does not belong; the item is kept as it is.
fn misplaced(cx: &mut Ctxt, item: TokenStream, error: syn::Error) -> TokenStream {
    match syn::parse2::<ImplItemFn>(item.clone()) {
        Ok(method) => cx.error(&method.sig.ident, ON_METHODS),
        Err(_) => cx.push(error),
    }
    let errors = std::mem::take(cx).into_tokens();
    quote!(#errors #item)
}

/// Takes `Wire` out of the item's derive lists: it would be implemented twice.
fn remove_wire(cx: &mut Ctxt, attrs: &mut [Attribute]) {
    for attr in attrs.iter_mut().filter(|attr| attr.path().is_ident("derive")) {
        let Meta::List(list) = &mut attr.meta else { continue };
        let parser = Punctuated::<Path, Token![,]>::parse_terminated;
        let Ok(paths) = parser.parse2(list.tokens.clone()) else { continue };
        let (wire, others): (Vec<_>, Vec<_>) =
            paths.into_iter().partition(|path| attr::is_called(path, "Wire"));
        for path in &wire {
            cx.error(path, "`#[packet]` derives `Wire` by itself: remove it from this list");
        }
        list.tokens = quote!(#(#others),*);
    }
}

struct RemoveAttributes;

impl VisitMut for RemoveAttributes {
    fn visit_attributes_mut(&mut self, attrs: &mut Vec<Attribute>) {
        attrs.retain(|attr| !attr.path().is_ident("wire"));
    }
}

const ON_ITEMS: &str = "`#[packet]` goes on a struct or an enum";
const ON_METHODS: &str = "`#[packet]` on a method marks a handler, which needs `#[packet_controller]` on the impl \
                          block; on its own, `#[packet]` goes on a struct or an enum";
