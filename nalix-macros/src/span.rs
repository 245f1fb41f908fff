//! Where the compiler points.
//!
//! Code that is to be reported at a token of the user's gets that token's span. Generated variables must not: a token
//! that came out of another macro brings that macro's names with it, and the variable would not be found. So variables
//! are made with `quote!` and put into what `quote_spanned!` makes, or given the span that [`place`] returns.

use proc_macro2::{Group, Span, TokenStream, TokenTree};

/// The place of a span, with the names of our own macro.
pub(crate) fn place(span: Span) -> Span {
    span.resolved_at(Span::call_site())
}

/// The same tokens, all at `span`: an expression is reported where its first and last token are, so that one which is to
/// be reported at one place has to lie there as a whole.
pub(crate) fn at(span: Span, tokens: TokenStream) -> TokenStream {
    let move_one = |mut token: TokenTree| {
        if let TokenTree::Group(group) = &token {
            token = TokenTree::Group(Group::new(group.delimiter(), at(span, group.stream())));
        }
        token.set_span(span);
        token
    };
    tokens.into_iter().map(move_one).collect()
}
