//! The driver of a connection: one task that owns the link, takes frames apart, runs handlers in place, and writes
//! what everybody has put into the outbox.
//!
//! It is a state machine polled by hand and never awaits a write while it could read: two peers that both write
//! would wait for each other.

mod acknowledge;
mod anchor;
mod answers;
mod blame;
mod cell;
mod clocks;
mod compressed;
#[cfg(test)]
mod covers;
mod dispatch;
mod driver;
mod establish;
mod flood;
mod frames;
mod guarded;
mod hooks;
mod inbox;
mod large;
mod liveness;
mod options;
mod patience;
mod phase;
mod pushes;
mod reading;
mod running;
mod streams;
mod timer;
mod times;
mod unread;
#[cfg(test)]
mod worn_out;
mod writing;

pub use self::{
    anchor::{Anchor, LinkWatcher, Refused, Why},
    cell::RouterCell,
    dispatch::{Dispatch, Layered, Serving},
    driver::Driver,
    establish::{
        ConnectError, Established, accept, accept_unless, connect, connect_attached, connect_early, refuse,
    },
    hooks::run_disconnected,
    options::Options,
};
pub use crate::peer::{Audience, EarlyRequest};
