//! Collects errors, so that one compile reports all mistakes of an item.

use std::fmt::Display;

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;

#[derive(Default)]
pub(crate) struct Ctxt {
    errors: Vec<syn::Error>,
}

impl Ctxt {
    /// Reports a mistake at the given tokens.
    pub(crate) fn error(&mut self, at: impl ToTokens, message: impl Display) {
        self.errors.push(syn::Error::new_spanned(at, message));
    }

    /// Reports a mistake at a span, where there are no tokens to point at.
    pub(crate) fn error_at(&mut self, span: Span, message: impl Display) {
        self.errors.push(syn::Error::new(span, message));
    }

    pub(crate) fn push(&mut self, error: syn::Error) {
        self.errors.push(error);
    }

    /// How many mistakes there are so far; lets a caller see whether a part of its work went well.
    pub(crate) fn count(&self) -> usize {
        self.errors.len()
    }

    pub(crate) fn has_failed(&self) -> bool {
        !self.errors.is_empty()
    }

    /// The errors as code.
    pub(crate) fn into_tokens(self) -> TokenStream {
        self.errors.iter().map(syn::Error::to_compile_error).collect()
    }
}
