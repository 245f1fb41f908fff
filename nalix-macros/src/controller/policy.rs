//! The keys of a handler that say what its calls must meet.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::{Expr, ExprLit, Lit, LitStr, Path};

use super::{handler, model::Handler};
use crate::{
    attr::Args,
    ctxt::Ctxt,
    values::{self, Number, SIZE},
};

#[derive(Default)]
pub(crate) struct PolicyKeys {
    permission: Option<(Ident, Expr)>,
    check: Option<(Ident, Expr)>,
    rate: Option<LitStr>,
    burst: Option<(Ident, Expr)>,
    cost: Option<(Ident, Expr)>,
    key: Option<(Ident, Path)>,
    concurrency: Option<(Ident, Expr)>,
    queue: Option<(Ident, Expr)>,
    wait: Option<LitStr>,
    timeout: Option<LitStr>,
    transport: Option<(Ident, Expr)>,
    max_size: Option<(Ident, Expr)>,
    breaker: Option<(Ident, Expr)>,
    cool_down: Option<LitStr>,
}

impl PolicyKeys {
    pub(super) fn take(args: &mut Args) -> Self {
        Self {
            permission: args.expr("permission"),
            check: args.expr("check"),
            rate: args.text("rate"),
            burst: args.expr("burst"),
            cost: args.expr("cost"),
            key: args.path("key"),
            concurrency: args.expr("concurrency"),
            queue: args.expr("queue"),
            wait: args.text("wait"),
            timeout: args.text("timeout"),
            transport: args.expr("transport"),
            max_size: args.expr("max_size"),
            breaker: args.expr("breaker"),
            cool_down: args.text("cool_down"),
        }
    }
}

/// Reports every value that is wrong, or that nothing would come of.
pub(super) fn check(cx: &mut Ctxt, handler: &Handler) {
    let keys = &handler.keys.policy;
    if let Some((_, permission)) = &keys.permission {
        values::check_permission(cx, permission);
    }
    rate(cx, keys);
    concurrency(cx, keys);
    if let Some(timeout) = &keys.timeout {
        values::millis(cx, timeout);
        let method = &handler.method;
        let waits = method.is_async()
            || method.output().is_some_and(handler::returns_stream)
            || handler.keys.spawn.is_some()
            || handler.keys.blocking.is_some();
        if !waits {
            cx.error(
                timeout,
                "`timeout` is for handlers that wait: one that is not async runs to its end at once",
            );
        }
    }
    if let Some((_, transport)) = &keys.transport {
        transports(cx, transport);
    }
    if let Some((_, size)) = &keys.max_size {
        SIZE.check(cx, size);
    }
    if let Some((_, breaker)) = &keys.breaker {
        FAILURES.check(cx, breaker);
    }
    if let Some(cool_down) = &keys.cool_down {
        values::millis(cx, cool_down);
        if keys.breaker.is_none() {
            cx.error(cool_down, "`cool_down` needs `breaker`: it says for how long one is open");
        }
    }
}

fn rate(cx: &mut Ctxt, keys: &PolicyKeys) {
    let rate = keys.rate.as_ref().and_then(|rate| values::rate(cx, rate));
    let burst = keys.burst.as_ref().and_then(|(_, burst)| BURST.check(cx, burst));
    let cost = keys.cost.as_ref().and_then(|(_, cost)| COST.check(cx, cost));
    if let Some((_, key)) = &keys.key
        && rate_key(key).is_none()
    {
        cx.error(key, "the key of a rate is `session`, `identity` or `address`");
    }
    if keys.rate.is_none() {
        if let Some((_, burst)) = &keys.burst {
            cx.error(burst, "`burst` needs `rate`: it says how many of those may come at once");
        }
        if let Some((_, cost)) = &keys.cost {
            cx.error(cost, "`cost` needs `rate`: it says how many of those a call counts for");
        }
        if let Some((_, key)) = &keys.key {
            cx.error(key, "`key` needs `rate`: it says who shares one");
        }
    }
    // Without a burst, as many may come at once as come in a period; one that is a constant is not known here.
    let most = match &keys.burst {
        Some(_) => burst,
        None => rate.map(|(count, _)| count.into()),
    };
    if let (Some(cost), Some(most), Some((_, expr))) = (cost, most, &keys.cost)
        && cost > most
    {
        cx.error(
            expr,
            format!("no call would ever pass: it counts for {cost}, and at most {most} come at once"),
        );
    }
}

fn concurrency(cx: &mut Ctxt, keys: &PolicyKeys) {
    if let Some((_, at_once)) = &keys.concurrency {
        PLACES.check(cx, at_once);
    }
    let queue = keys.queue.as_ref().and_then(|(_, queue)| QUEUE.check(cx, queue));
    if let Some(wait) = &keys.wait {
        values::millis(cx, wait);
        if queue == Some(0) {
            cx.error(wait, "`wait` cannot go with `queue = 0`, where nobody waits");
        }
    }
    if keys.concurrency.is_none() {
        if let Some((_, queue)) = &keys.queue {
            cx.error(queue, "`queue` needs `concurrency`: it says how many more may wait");
        }
        if let Some(wait) = &keys.wait {
            cx.error(wait, "`wait` needs `concurrency`: it says how long a call may wait for the others");
        }
    }
}

fn rate_key(path: &Path) -> Option<TokenStream> {
    match path.get_ident()?.to_string().as_str() {
        "session" => Some(quote!(Session)),
        "identity" => Some(quote!(Identity)),
        "address" => Some(quote!(Address)),
        _ => None,
    }
}

/// The variants of those that are named.
fn transports(cx: &mut Ctxt, expr: &Expr) -> Vec<TokenStream> {
    const FORM: &str = "`transport` is one of `\"tcp\"`, `\"websocket\"`, `\"udp\"`, `\"memory\"`, or a list: `[\"tcp\", \"udp\"]`";
    let mut all = Vec::new();
    let mut add = |cx: &mut Ctxt, expr: &Expr| {
        let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = expr else { return cx.error(expr, FORM) };
        let name = text.value();
        let variant = match name.as_str() {
            "tcp" => quote!(Tcp),
            "websocket" => quote!(WebSocket),
            "udp" => quote!(Udp),
            "memory" => quote!(Memory),
            _ => return cx.error(expr, FORM),
        };
        if all.iter().any(|(known, _)| *known == name) {
            return cx.error(expr, format!("`{name}` is named twice"));
        }
        all.push((name, variant));
    };
    match expr {
        Expr::Array(list) if !list.elems.is_empty() => list.elems.iter().for_each(|expr| add(cx, expr)),
        expr => add(cx, expr),
    }
    all.into_iter().map(|(_, variant)| variant).collect()
}

/// The statement that adds the policy to `__spec`.
pub(super) fn settings(krate: &TokenStream, keys: &PolicyKeys) -> TokenStream {
    let controller = quote!(#krate::controller);
    let policy = quote!(#controller::Policy);
    let (u32, usize) = (quote!(::core::primitive::u32), quote!(::core::primitive::usize));
    // What is wrong has been reported, and is left out.
    let mut cx = Ctxt::default();
    let mut steps = Vec::new();
    let mut step = |name: TokenStream, args: TokenStream| {
        steps.push(quote!(let __policy = #policy::#name(__policy, #args);));
    };
    let mut time = |text: &LitStr| values::millis(&mut cx, text).map(|millis| duration(krate, millis));
    if let Some((_, permission)) = &keys.permission {
        step(quote!(permission), values::permission(krate, permission));
    }
    if let Some((_, check)) = &keys.check {
        step(quote!(check), quote!(#check));
    }
    if let Some(timeout) = keys.timeout.as_ref().and_then(&mut time) {
        step(quote!(timeout), timeout);
    }
    if let Some((_, at_once)) = &keys.concurrency {
        let at_once = PLACES.value(at_once, &usize);
        let kind = quote!(#controller::ConcurrencyPolicy);
        let mut made = quote!(#kind::new(#at_once));
        if let Some((_, queue)) = &keys.queue {
            let queue = QUEUE.value(queue, &usize);
            made = quote!(#kind::queue(#made, #queue));
        }
        if let Some(wait) = keys.wait.as_ref().and_then(&mut time) {
            made = quote!(#kind::wait(#made, #wait));
        }
        step(quote!(concurrency), made);
    }
    if let Some((_, failures)) = &keys.breaker {
        let failures = FAILURES.value(failures, &u32);
        let cool_down = match keys.cool_down.as_ref().and_then(&mut time) {
            Some(cool_down) => quote!(::core::option::Option::Some(#cool_down)),
            None => quote!(::core::option::Option::None),
        };
        step(quote!(breaker), quote!(#failures, #cool_down));
    }
    if let Some((_, size)) = &keys.max_size {
        step(quote!(max_size), SIZE.value(size, &usize));
    }
    if let Some((count, period)) = keys.rate.as_ref().and_then(|rate| values::rate(&mut cx, rate)) {
        let kind = quote!(#controller::RatePolicy);
        let burst = keys.burst.as_ref().map(|(_, burst)| BURST.value(burst, &u32));
        let burst = burst.unwrap_or_else(|| quote!(#count));
        let mut made = quote!(#kind::new(#krate::__private::rate(#count, #period, #burst)));
        if let Some((_, cost)) = &keys.cost {
            let cost = COST.value(cost, &u32);
            made = quote!(#kind::cost(#made, #cost));
        }
        if let Some(key) = keys.key.as_ref().and_then(|(_, key)| rate_key(key)) {
            made = quote!(#kind::key(#made, #controller::RateKey::#key));
        }
        step(quote!(rate), made);
    }
    if let Some((_, transport)) = &keys.transport {
        let variants = transports(&mut cx, transport);
        step(quote!(transports), quote!(&[#(#krate::link::Transport::#variants),*]));
    }
    if steps.is_empty() {
        return TokenStream::new();
    }
    quote! {
        let __spec = #controller::HandlerSpec::policy(__spec, |__policy| {
            #(#steps)*
            __policy
        });
    }
}

fn duration(krate: &TokenStream, millis: u64) -> TokenStream {
    quote!(#krate::__private::std::time::Duration::from_millis(#millis))
}

const BURST: Number = Number {
    least: 1,
    most: u32::MAX as u64,
    message: "`burst` is how many may come at once: from 1 to 4294967295",
};
const COST: Number = Number {
    least: 1,
    most: u32::MAX as u64,
    message: "`cost` is how many a call counts for: from 1 to 4294967295",
};
const PLACES: Number = Number {
    least: 1,
    most: u32::MAX as u64,
    message: "`concurrency` is how many calls run at once on all connections together: at least 1",
};
const QUEUE: Number =
    Number { least: 0, most: u32::MAX as u64, message: "`queue` is how many calls may wait, or 0" };
const FAILURES: Number = Number {
    least: 1,
    most: u32::MAX as u64,
    message: "`breaker` is after how many failures in a row the handler is left alone: at least 1",
};
