//! One session over one connection after the other.

mod backoff;
mod line;
mod state;
mod supervisor;
mod verdict;
mod wait;

pub use self::state::{Cause, Events, SessionEvent, SessionState};
pub(crate) use self::{
    backoff::Backoff,
    line::{Line, LineOf},
    supervisor::{first_connect, supervise},
    wait::{Stop, Wait},
};
