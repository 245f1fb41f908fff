//! The rules for packets.

use proc_macro2::Span;
use syn::{
    Expr, ExprLit, ExprUnary, GenericParam, Lifetime, Lit, TypeReference, UnOp, parse_quote, visit::Visit,
};

use super::model::Packet;
use crate::{
    ctxt::Ctxt,
    values::{self, SIZE},
};

pub(super) fn check(cx: &mut Ctxt, packet: &mut Packet) {
    let keys = &mut packet.keys;
    match &keys.opcode {
        None => cx.error_at(
            Span::call_site(),
            "a packet needs an opcode: `#[packet(opcode = 0x1001)]`, any number from 0x0100 to 0xFFFF that no other \
             packet has",
        ),
        Some((_, opcode)) => literal_opcode(cx, opcode),
    }
    if let (Some((key, _)), None, None) = (&keys.error, &keys.reply, &keys.stream) {
        cx.error(
            key,
            "`error` needs `reply` or `stream`: a packet that is not answered cannot be answered with an error",
        );
    }
    if let (Some(key), true) = (&keys.idempotent, keys.stream.is_some() || keys.upload.is_some()) {
        cx.error(
            key,
            "`idempotent` goes on packets that are answered once: a stream or an upload is not sent again by itself",
        );
    } else if let (Some(key), None) = (&keys.idempotent, &keys.reply) {
        cx.error(key, "`idempotent` needs `reply`: only a packet that is answered is sent again when the answer is missing");
    }
    if let Some(priority) = &keys.priority
        && !["control", "high", "normal", "bulk"].contains(&priority.value().as_str())
    {
        cx.error(priority, "a priority is `\"control\"`, `\"high\"`, `\"normal\"` or `\"bulk\"`");
    }
    if let Some(delivery) = &keys.delivery {
        if !["reliable", "droppable", "drop_oldest", "latest"].contains(&delivery.value().as_str()) {
            cx.error(
                delivery,
                "a delivery is `\"reliable\"`, `\"droppable\"`, `\"drop_oldest\"` or `\"latest\"`",
            );
        }
        if keys.reply.is_some() || keys.stream.is_some() || keys.upload.is_some() {
            cx.error(delivery, "`delivery` goes on one-way packets: one that is answered is never left out");
        }
    }
    if let Some((_, Some(threshold))) = &keys.compress {
        literal_threshold(cx, threshold);
    }
    if let Some((_, permission)) = &keys.permission {
        values::check_permission(cx, permission);
    }
    if let Some((_, size)) = &keys.max_size {
        SIZE.check(cx, size);
    }
    if let (Some((key, _)), Some(_)) = (&keys.reply, &keys.stream) {
        cx.error(
            key,
            "`reply` cannot go with `stream`: a packet is answered once, or with items until they end",
        );
        // Whichever is meant, the handlers of the other would add errors of their own.
        keys.reply = None;
    }
    if let (Some((key, _)), None, None) = (&keys.upload, &keys.reply, &keys.stream) {
        cx.error(
            key,
            "`upload` needs `reply` or `stream`: whoever uploads must learn what became of it; `reply = ()` will do",
        );
    }
    for (key, ty) in
        [&mut keys.reply, &mut keys.error, &mut keys.stream, &mut keys.upload].into_iter().flatten()
    {
        let before = cx.count();
        Borrowed { cx, what: key.to_string() }.visit_type(ty);
        if cx.count() > before {
            // Said once; the compiler need not say it again in its own words.
            *ty = parse_quote!(());
        }
    }
    for param in &packet.container.generics.params {
        if !matches!(param, GenericParam::Lifetime(_)) {
            cx.error(
                param,
                "a packet cannot have type or const parameters: an opcode stands for one layout; make it a \
                 `#[derive(Wire)]` value and give each packet that holds one its own opcode",
            );
        }
    }
}

/// What can be said of an opcode that is written out; constants are checked by the compiler when it knows them.
fn literal_opcode(cx: &mut Ctxt, opcode: &Expr) {
    match opcode {
        Expr::Lit(ExprLit { lit: Lit::Int(lit), .. }) => match lit.base10_parse::<u128>() {
            Ok(0..0x0100) => cx.error(lit, "opcodes from 0x0000 to 0x00FF are reserved for the framework"),
            Ok(0x0100..=0xFFFF) => {}
            _ => cx.error(lit, "an opcode is a 16-bit number: 0xFFFF is the last one"),
        },
        Expr::Lit(lit) => cx.error(lit, "an opcode is a number"),
        _ => {}
    }
}

/// What can be said of a threshold that is written out; the type of others is checked by the compiler.
fn literal_threshold(cx: &mut Ctxt, threshold: &Expr) {
    const A_NUMBER: &str =
        "`compress` takes the number of bytes from which on a message is compressed: `compress = 4096`";
    match threshold {
        Expr::Lit(ExprLit { lit: Lit::Int(lit), .. }) => match lit.base10_parse::<u128>() {
            Ok(0..=LONGEST_MESSAGE) => {}
            _ => cx.error(lit, "no message is longer than 1,073,741,824 bytes, so none would be compressed"),
        },
        Expr::Lit(_) | Expr::Unary(ExprUnary { op: UnOp::Neg(_), .. }) => cx.error(threshold, A_NUMBER),
        _ => {}
    }
}

/// `session::MAX_MESSAGE` of nalix-core.
const LONGEST_MESSAGE: u128 = 1 << 30;

/// Reports what borrows in a type that must be owned.
struct Borrowed<'c> {
    cx: &'c mut Ctxt,
    what: String,
}

impl Borrowed<'_> {
    fn report(&mut self, at: &dyn quote::ToTokens) {
        let what = &self.what;
        let message =
            format!("the `{what}` type must be owned, since it outlives the bytes it was read from");
        self.cx.error(at, message);
    }
}

impl<'ast> Visit<'ast> for Borrowed<'_> {
    fn visit_type_reference(&mut self, ty: &'ast TypeReference) {
        self.report(ty);
    }

    fn visit_lifetime(&mut self, lifetime: &'ast Lifetime) {
        if lifetime.ident != "static" {
            self.report(lifetime);
        }
    }
}
