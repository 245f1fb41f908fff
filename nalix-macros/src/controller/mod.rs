//! `#[packet_controller]`: an impl block whose marked methods become handlers.

mod check;
mod expand;
mod handler;
mod hooks;
mod model;
mod policy;

use proc_macro2::TokenStream;
use quote::quote;
use syn::Item;

use self::model::Controller;
use crate::{
    attr::{Args, Kind, Known},
    ctxt::Ctxt,
    path,
};

pub(crate) fn attribute(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut cx = Ctxt::default();
    let block = match syn::parse2::<Item>(item.clone()) {
        Ok(Item::Impl(block)) => block,
        Ok(other) => {
            cx.error(
                model::head(&other),
                "`#[packet_controller]` goes on an `impl` block of the controller's type",
            );
            let errors = cx.into_tokens();
            return quote!(#errors #other);
        }
        Err(error) => {
            let error = error.into_compile_error();
            return quote!(#error #item);
        }
    };
    let krate = Args::parse(&mut cx, args, &KNOWN).path("crate").map(|(_, path)| path);
    let Some(krate) = path::find(&mut cx, krate.as_ref()) else {
        let block = Controller::new(&mut Ctxt::default(), TokenStream::new(), block).block;
        let errors = cx.into_tokens();
        return quote!(#errors #block);
    };
    let mut controller = Controller::new(&mut cx, krate, block);
    check::check(&mut cx, &mut controller);
    let block = &controller.block;
    let expansion = expand::expand(&controller);
    let errors = cx.into_tokens();
    quote!(#errors #block #expansion)
}

const KNOWN: Known = Known { place: "a controller", keys: &[("crate", Kind::Path)] };
