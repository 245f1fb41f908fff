//! What a controller is at run time: handlers in a table, and the calls and replies that pass through it.
//!
//! `#[packet_controller]` implements [`Controller`]; a [`Router`] holds the table and is a
//! `tower::Service<Call, Response = Reply>`. Types are erased here, in [`Handlers::add`], and nowhere else.

mod call;
mod context;
mod discover;
mod extract;
mod guard;
mod handlers;
mod items;
mod limiter;
mod offload;
mod policy;
mod reply;
mod respond;
mod router;
mod stream;

pub(crate) use self::items::Items;
pub(crate) use self::reply::unsendable;
pub use self::{
    call::{Call, CallKind, Parts, decode_call},
    context::Context,
    discover::{ControllerInfo, NoDefault, Probe, discovered},
    extract::{Extract, ExtractRef, Require, State, StateMap},
    guard::{crowded, denied, too_often},
    handlers::{HandlerSpec, Handlers, Order, RouterError, Run},
    limiter::RateLimiter,
    policy::{Check, ConcurrencyPolicy, Policy, RateKey, RatePolicy},
    reply::{Outcome, Reply, ReplyBuffer, ReplyFuture, ReplyKind},
    respond::{IntoFailure, Respond, respond_marker},
    router::{Route, Router, RouterBuilder, RouterFuture},
    stream::{CallUpload, IntoItem, RespondStream, take_upload},
};
pub(crate) use crate::caught::{Panicked, caught};
use std::{future::Future, pin::Pin, sync::Arc};

use crate::status::CloseReason;

/// The future of a lifecycle hook.
pub type HookFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A set of handlers with their shared state. Implemented by `#[packet_controller]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a controller",
    label = "not a controller",
    note = "mark one of its `impl` blocks with `#[packet_controller]`"
)]
pub trait Controller: Send + Sync + Sized + 'static {
    /// The type's name, for messages and traces.
    const NAME: &'static str;

    /// Adds every handler to the table.
    fn register(self: &Arc<Self>, handlers: &mut Handlers);

    /// Runs when a connection is ready, before its first packet is handled. `None` where the controller has no such
    /// hook.
    fn connected(self: &Arc<Self>, _ctx: &Context) -> Option<HookFuture> {
        None
    }

    /// Runs when a session has lost its link and is kept for another: before [`Controller::resumed`] or
    /// [`Controller::disconnected`] run. Whatever hook was still running is finished first.
    fn detached(self: &Arc<Self>, _ctx: &Context, _why: &CloseReason) -> Option<HookFuture> {
        None
    }

    /// Runs when a session goes on over another link, before the first packet that comes over it is handled.
    fn resumed(self: &Arc<Self>, _ctx: &Context) -> Option<HookFuture> {
        None
    }

    /// Runs when a connection has ended, exactly once for each connection whose handshake was done: also if `connected`
    /// was still running, or has panicked.
    fn disconnected(self: &Arc<Self>, _ctx: &Context, _why: &CloseReason) -> Option<HookFuture> {
        None
    }
}
