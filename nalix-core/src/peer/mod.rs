//! What the rest of a program holds of a connection: the [`Connection`] handle, and behind it the outbox and the table
//! of calls in flight that it shares with the driver.

mod append;
mod arrival;
mod attached;
mod attributes;
mod budget;
mod calls;
mod clock;
mod commands;
mod cut;
mod deadlines;
mod deliver;
mod early;
mod error;
mod flow;
mod flows;
mod handle;
mod incoming;
mod kept;
mod large;
mod latest;
mod life;
mod number;
mod open;
mod outgoing;
mod push;
mod received;
mod recent;
mod request;
mod response;
mod resumption;
mod rtt;
mod send;
mod shared;
mod standing;
mod waiters;
mod waiting;

pub(crate) use self::{
    arrival::Arrival,
    attached::Attached,
    budget::StreamLimits,
    calls::Answer,
    commands::Commands,
    flow::granted,
    incoming::RawIncoming,
    number::Number,
    push::Pushed,
    received::ALONG,
    shared::{Setup, Shared},
};
pub use self::{
    clock::ClockSample,
    early::EarlyRequest,
    error::{Offline, RequestError, SendError, StreamError},
    handle::{Connection, Duplex},
    incoming::Incoming,
    kept::Detached,
    open::{OpenBuilder, OpenFuture, Opens},
    outgoing::{Finish, Outgoing, SendChunk, Upload},
    push::{Audience, Lag, Lagged, Listener, Queue, Subscription},
    request::{RequestBuilder, RequestFuture, ResponseBuilder, ResponseFuture},
    response::Response,
    resumption::Resumption,
    rtt::Rtt,
    send::SendFuture,
};
