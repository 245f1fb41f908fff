//! What the rest of a program holds of a connection: the [`Connection`] handle, and behind it the outbox and the table
//! of calls in flight that it shares with the driver.

mod attributes;
mod calls;
mod early;
mod error;
mod handle;
mod large;
mod request;
mod resumption;
mod send;
mod shared;
mod waiters;

pub(crate) use self::{
    calls::Answer,
    shared::{Commands, Setup, Shared},
};
pub use self::{
    early::EarlyRequest,
    error::{RequestError, SendError},
    handle::Connection,
    request::{RequestBuilder, RequestFuture},
    resumption::Resumption,
    send::SendFuture,
};
