//! Finds `nalix_core` from where the user's code is.

use std::env;

use proc_macro_crate::{FoundCrate, crate_name};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use syn::Path;

use crate::ctxt::Ctxt;

/// The path to `nalix_core`: the one given with `crate = path`, else by the names in the user's `Cargo.toml`.
///
/// `None` if there is none, which has been reported: nothing can be generated then.
pub(crate) fn find(cx: &mut Ctxt, given: Option<&Path>) -> Option<TokenStream> {
    if let Some(path) = given {
        return Some(path.to_token_stream());
    }
    if let Some(core) = dependency("nalix-core") {
        return Some(quote!(::#core));
    }
    for facade in ["nalix-server", "nalix-client"] {
        if let Some(facade) = dependency(facade) {
            return Some(quote!(::#facade::__core));
        }
    }
    // Other build systems have no manifest to look into; there the crate has its own name.
    if env::var_os("CARGO_MANIFEST_DIR").is_none() {
        return Some(quote!(::nalix_core));
    }
    cx.error_at(
            Span::call_site(),
            "this crate depends on none of `nalix-core`, `nalix-server` and `nalix-client`: add one of them to its \
             `Cargo.toml`, or say where to find `nalix_core` with `crate = path::to::nalix_core`",
        );
    None
}

/// The name under which the user's crate knows a package, if it depends on it.
fn dependency(package: &str) -> Option<Ident> {
    let name = match crate_name(package).ok()? {
        FoundCrate::Name(name) => name,
        // In the package itself, its tests and its examples; its library declares itself under this name.
        FoundCrate::Itself => package.replace('-', "_"),
    };
    Some(Ident::new(&name, Span::call_site()))
}
