//! One session over one connection after the other.

mod backoff;
mod line;
mod options;
mod state;
mod supervisor;
mod verdict;
mod wait;

pub(crate) use self::{
    backoff::Backoff,
    line::{Line, LineOf},
    supervisor::{first_connect, supervise},
    wait::{Stop, Wait},
};
pub use self::{
    options::ReconnectOptions,
    state::{Cause, Events, SessionEvent, SessionState},
};
