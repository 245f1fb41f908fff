//! Values of keys that mean more than their tokens: numbers in a range, times, rates, permissions.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{Expr, ExprLit, ExprUnary, Lit, LitStr, UnOp, spanned::Spanned};

use crate::ctxt::Ctxt;

/// A number, and what it may be.
pub(crate) struct Number {
    pub(crate) least: u64,
    pub(crate) most: u64,
    /// Said of a number that is out of range, and of what is no number.
    pub(crate) message: &'static str,
}

impl Number {
    /// Checks what is written out; constants are checked by the compiler, with [`Number::value`]. Returns what is known.
    pub(crate) fn check(&self, cx: &mut Ctxt, expr: &Expr) -> Option<u64> {
        let known = match expr {
            Expr::Lit(ExprLit { lit: Lit::Int(lit), .. }) => lit.base10_parse::<u64>().ok(),
            Expr::Lit(_) | Expr::Unary(ExprUnary { op: UnOp::Neg(_), .. }) => None,
            _ => return None,
        };
        let known = known.filter(|known| (self.least..=self.most).contains(known));
        if known.is_none() {
            cx.error(expr, self.message);
        }
        known
    }

    /// The number, of type `ty`.
    pub(crate) fn value(&self, expr: &Expr, ty: &TokenStream) -> TokenStream {
        if matches!(expr, Expr::Lit(_)) {
            return quote!(#expr);
        }
        let Number { least, message, .. } = self;
        quote_spanned! {expr.span()=>
            const {
                let __number: #ty = #expr;
                ::core::assert!(__number as ::core::primitive::u64 >= #least, #message);
                __number
            }
        }
    }
}

/// `"1500ms"`, `"2s"`, `"5min"`, `"1h"`, `"1d"`: milliseconds.
pub(crate) fn millis(cx: &mut Ctxt, text: &LitStr) -> Option<u64> {
    let value = text.value();
    let digits = value.trim_start().bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = value.trim().split_at(digits);
    let millis = match (number.parse(), unit_millis(unit)) {
        (Ok(number), Some(unit)) => {
            u64::checked_mul(number, unit).filter(|millis| (1..=YEAR).contains(millis))
        }
        _ => None,
    };
    if millis.is_none() {
        cx.error(
            text,
            "a time is a number and one of ms, s, min, h, d, such as \"500ms\" or \"2s\": more than zero, and at most 365 d",
        );
    }
    millis
}

/// `"10/s"`, `"100/5min"`: how many, and in how many milliseconds.
pub(crate) fn rate(cx: &mut Ctxt, text: &LitStr) -> Option<(u32, u64)> {
    let value = text.value();
    let parsed = value.split_once('/').and_then(|(count, period)| {
        let (count, period) = (count.trim(), period.trim());
        let digits = period.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = period.split_at(digits);
        let number = if digits == 0 { 1 } else { number.parse().ok()? };
        let period = u64::checked_mul(number, unit_millis(unit)?)?;
        let count = count.bytes().all(|c| c.is_ascii_digit()).then(|| count.parse().ok())??;
        (count > 0 && (1..=YEAR).contains(&period)).then_some((count, period))
    });
    if parsed.is_none() {
        cx.error(
            text,
            "a rate is a count and a period, such as \"10/s\" or \"100/5min\": from 1 to 4294967295, in one of ms, s, \
             min, h, d, and in at most 365 d",
        );
    }
    parsed
}

fn unit_millis(unit: &str) -> Option<u64> {
    match unit.trim_start() {
        "ms" => Some(1),
        "s" => Some(1_000),
        "min" => Some(60_000),
        "h" => Some(3_600_000),
        "d" => Some(86_400_000),
        _ => None,
    }
}

/// What can be said of a permission that is written out.
pub(crate) fn check_permission(cx: &mut Ctxt, expr: &Expr) {
    let message = "a permission is `Permission::USER` or the like, or a number from 0 to 255";
    match expr {
        Expr::Lit(ExprLit { lit: Lit::Int(lit), .. }) if lit.base10_parse::<u8>().is_ok() => {}
        Expr::Lit(_) | Expr::Unary(ExprUnary { op: UnOp::Neg(_), .. }) => cx.error(expr, message),
        _ => {}
    }
}

/// The permission: a number is its level.
pub(crate) fn permission(krate: &TokenStream, expr: &Expr) -> TokenStream {
    match expr {
        Expr::Lit(_) => quote!(#krate::Permission::new(#expr)),
        _ => quote!(#expr),
    }
}

/// `session::MAX_MESSAGE` of nalix-core.
const LONGEST_MESSAGE: u64 = 1 << 30;
/// In milliseconds.
const YEAR: u64 = 365 * 86_400_000;

/// For `max_size`.
pub(crate) const SIZE: Number = Number {
    least: 0,
    most: LONGEST_MESSAGE,
    message: "`max_size` is a number of bytes, at most 1,073,741,824, which no message is longer than",
};
