//! Subscribing to the peer's one-way packets.

mod listener;
mod mailbox;
mod subscription;
mod table;

pub(crate) use self::table::Pushed;
pub(super) use self::table::Pushes;
pub use self::{
    listener::Listener,
    mailbox::{Lag, Lagged, Queue},
    subscription::Subscription,
};
