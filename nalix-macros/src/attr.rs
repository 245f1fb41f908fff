//! Reads lists of `key` and `key = value`.

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::quote;
use syn::{
    Attribute, Expr, ExprPath, LitStr, Meta, Path, Token, Type,
    ext::IdentExt,
    parse::{ParseStream, Parser},
    token::Paren,
};

use crate::ctxt::Ctxt;

/// The keys that one kind of place knows.
pub(crate) struct Known {
    /// The place, for messages: `a field`, `a packet`, ...
    pub(crate) place: &'static str,
    pub(crate) keys: &'static [(&'static str, Kind)],
}

/// What a key wants as its value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Flag,
    Expr,
    Type,
    Path,
    Text,
    /// A path, or nothing.
    MaybePath,
    /// A value, or nothing.
    MaybeExpr,
}

enum Value {
    None,
    Expr(Expr),
    Type(Type),
    Path(Path),
    Text(LitStr),
}

/// The keys found, each at most once.
#[derive(Default)]
pub(crate) struct Args {
    list: Vec<(Ident, Value)>,
}

impl Args {
    /// Reads one list.
    pub(crate) fn parse(cx: &mut Ctxt, tokens: TokenStream, known: &Known) -> Self {
        let mut args = Args::default();
        args.read(cx, tokens, known);
        args
    }

    /// Reads and joins the lists of all attributes called `name`.
    pub(crate) fn collect(cx: &mut Ctxt, attrs: &[Attribute], name: &str, known: &Known) -> Self {
        let mut args = Args::default();
        for attr in attrs.iter().filter(|attr| attr.path().is_ident(name)) {
            args.read_meta(cx, &attr.meta, known);
        }
        args
    }

    /// Reads the list of one attribute, which may have none.
    pub(crate) fn of_meta(cx: &mut Ctxt, meta: &Meta, known: &Known) -> Self {
        let mut args = Args::default();
        match meta {
            Meta::Path(_) => {}
            _ => args.read_meta(cx, meta, known),
        }
        args
    }

    pub(crate) fn flag(&mut self, key: &str) -> Option<Ident> {
        self.take(key).map(|(key, _)| key)
    }

    pub(crate) fn expr(&mut self, key: &str) -> Option<(Ident, Expr)> {
        match self.take(key)? {
            (key, Value::Expr(expr)) => Some((key, expr)),
            _ => None,
        }
    }

    pub(crate) fn maybe_expr(&mut self, key: &str) -> Option<(Ident, Option<Expr>)> {
        match self.take(key)? {
            (key, Value::Expr(expr)) => Some((key, Some(expr))),
            (key, _) => Some((key, None)),
        }
    }

    pub(crate) fn ty(&mut self, key: &str) -> Option<(Ident, Type)> {
        match self.take(key)? {
            (key, Value::Type(ty)) => Some((key, ty)),
            _ => None,
        }
    }

    pub(crate) fn path(&mut self, key: &str) -> Option<(Ident, Path)> {
        match self.take(key)? {
            (key, Value::Path(path)) => Some((key, path)),
            _ => None,
        }
    }

    pub(crate) fn maybe_path(&mut self, key: &str) -> Option<(Ident, Option<Path>)> {
        match self.take(key)? {
            (key, Value::Path(path)) => Some((key, Some(path))),
            (key, _) => Some((key, None)),
        }
    }

    pub(crate) fn text(&mut self, key: &str) -> Option<LitStr> {
        match self.take(key)? {
            (_, Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    fn take(&mut self, key: &str) -> Option<(Ident, Value)> {
        let at = self.list.iter().position(|(found, _)| found == key)?;
        Some(self.list.swap_remove(at))
    }

    fn read_meta(&mut self, cx: &mut Ctxt, meta: &Meta, known: &Known) {
        match meta {
            Meta::List(list) if !list.tokens.is_empty() => self.read(cx, list.tokens.clone(), known),
            Meta::List(_) => {}
            _ => cx.error(meta, format!("expected a list in parentheses of: {}", names(known))),
        }
    }

    fn read(&mut self, cx: &mut Ctxt, tokens: TokenStream, known: &Known) {
        let parser = |input: ParseStream<'_>| {
            while !input.is_empty() {
                if let Err(error) = self.read_one(cx, input, known) {
                    cx.push(error);
                    skip_to_comma(input)?;
                }
                if !input.is_empty() {
                    input.parse::<Token![,]>()?;
                }
            }
            Ok(())
        };
        if let Err(error) = parser.parse2(tokens) {
            cx.push(error);
        }
    }

    fn read_one(&mut self, cx: &mut Ctxt, input: ParseStream<'_>, known: &Known) -> syn::Result<()> {
        if !input.peek(Ident::peek_any) {
            return Err(input.error(format!("expected one of the keys: {}", names(known))));
        }
        let key = input.call(Ident::parse_any)?;
        let Some(&(name, kind)) = known.keys.iter().find(|(name, _)| key == name) else {
            let message = format!("unknown key `{key}` for {}; known keys: {}", known.place, names(known));
            cx.error(&key, message);
            return skip_to_comma(input);
        };
        let value = read_value(input, &key, kind)?;
        if !input.is_empty() && !input.peek(Token![,]) {
            return Err(input.error(format!("expected `,` after the value of `{name}`")));
        }
        if self.list.iter().any(|(found, _)| *found == key) {
            cx.error(&key, format!("`{name}` is given twice"));
            return Ok(());
        }
        self.list.push((key, value));
        Ok(())
    }
}

fn read_value(input: ParseStream<'_>, key: &Ident, kind: Kind) -> syn::Result<Value> {
    let has_value = input.peek(Token![=]);
    let missing =
        |what: &str| Err(syn::Error::new(key.span(), format!("`{key}` needs {what}: `{key} = ...`")));
    match kind {
        Kind::Flag if has_value || input.peek(Paren) => {
            return Err(input.error(format!("`{key}` takes no value")));
        }
        Kind::Flag => return Ok(Value::None),
        Kind::MaybePath | Kind::MaybeExpr if !has_value => return Ok(Value::None),
        Kind::Expr if !has_value => return missing("a value"),
        Kind::Type if !has_value => return missing("a type"),
        Kind::Path if !has_value => return missing("a path"),
        Kind::Text if !has_value => return missing("a string"),
        _ => {}
    }
    input.parse::<Token![=]>()?;
    if input.is_empty() || input.peek(Token![,]) {
        return missing("a value");
    }
    match kind {
        Kind::Flag => Ok(Value::None),
        Kind::Expr | Kind::MaybeExpr => input.parse().map(Value::Expr),
        Kind::Type => input.parse().map(Value::Type),
        // As an expression, since that form of a path allows both `crate::f` and `Type::<u8>::f`.
        Kind::Path | Kind::MaybePath => Ok(Value::Path(input.parse::<ExprPath>()?.path)),
        Kind::Text => match input.parse::<LitStr>()? {
            text if text.value().is_empty() => {
                Err(syn::Error::new(text.span(), format!("`{key}` cannot be empty")))
            }
            text => Ok(Value::Text(text)),
        },
    }
}

/// Goes to the next comma that is not inside angle brackets.
fn skip_to_comma(input: ParseStream<'_>) -> syn::Result<()> {
    let mut depth = 0;
    while !input.is_empty() && (depth > 0 || !input.peek(Token![,])) {
        match input.parse::<TokenTree>()? {
            TokenTree::Punct(p) if p.as_char() == '<' => depth += 1,
            TokenTree::Punct(p) if p.as_char() == '>' && depth > 0 => depth -= 1,
            _ => {}
        }
    }
    Ok(())
}

fn names(known: &Known) -> String {
    known.keys.iter().map(|(name, _)| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// Whether an attribute is called `name`, alone or at the end of a path.
pub(crate) fn is_called(path: &Path, name: &str) -> bool {
    path.segments.last().is_some_and(|last| last.ident == name)
}

/// The attributes about lints that code generated for an item must repeat, so that what the user allowed stays allowed
/// and the item's own deprecation does not warn in its own code.
pub(crate) fn lints<'a>(
    attrs: &'a [Attribute],
    inner: impl IntoIterator<Item = &'a Attribute>,
) -> TokenStream {
    let deprecated = attrs.iter().chain(inner).any(|attr| attr.path().is_ident("deprecated"));
    let deprecated = deprecated.then(|| quote!(#[allow(deprecated)]));
    let own = attrs.iter().filter_map(|attr| match &attr.meta {
        // What is expected in the user's code need not happen in ours.
        Meta::List(list) if list.path.is_ident("allow") || list.path.is_ident("expect") => {
            let lints = &list.tokens;
            Some(quote!(#[allow(#lints)]))
        }
        _ => None,
    });
    quote!(#deprecated #(#own)*)
}
