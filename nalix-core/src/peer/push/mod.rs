//! Subscribing to the peer's one-way packets.

mod audience;
mod listener;
mod mailbox;
mod subscription;
mod table;

pub(crate) use self::table::Pushed;
pub(super) use self::table::Pushes;
pub use self::{
    audience::Audience,
    listener::Listener,
    mailbox::{Lag, Lagged, Queue},
    subscription::Subscription,
};
