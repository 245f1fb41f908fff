//! What the rest of a program holds of a connection: the [`Connection`] handle, and behind it the outbox and the table
//! of calls in flight that it shares with the driver.

mod attached;
mod attributes;
mod calls;
mod commands;
mod early;
mod error;
mod handle;
mod large;
mod latest;
mod number;
mod push;
mod request;
mod resumption;
mod send;
mod shared;
mod waiters;

pub(crate) use self::{
    calls::Answer,
    commands::Commands,
    number::Number,
    push::Pushed,
    shared::{Setup, Shared},
};
pub use self::{
    early::EarlyRequest,
    error::{RequestError, SendError},
    handle::Connection,
    push::{Lag, Lagged, Listener, Queue, Subscription},
    request::{RequestBuilder, RequestFuture},
    resumption::Resumption,
    send::SendFuture,
};
