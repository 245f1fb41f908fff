//! Waiting for a connection.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use nalix_core::{CloseReason, Connection, Offline};
use tokio::time::{Instant, Sleep, sleep_until};

use super::line::Line;

/// A place among those who wait for a connection, until it is dropped.
#[derive(Debug)]
pub(crate) struct Wait {
    line: Arc<Line>,
    place: u64,
    /// When it has waited for long enough.
    expiry: Option<Instant>,
    /// When its call must be done.
    deadline: Option<Instant>,
    sleep: Option<Pin<Box<Sleep>>>,
}

/// Why something does not go over a connection of the session.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The session is over.
    Over(CloseReason),
    /// It does not wait, or has waited for long enough.
    Offline(Offline),
    /// Its deadline has passed.
    Late,
}

impl Wait {
    pub(super) fn new(
        line: Arc<Line>,
        place: u64,
        expiry: Option<Instant>,
        deadline: Option<Instant>,
    ) -> Self {
        Self { line, place, expiry, deadline, sleep: None }
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Connection, Stop>> {
        match self.line.poll_place(self.place, cx.waker()) {
            Some(Ok(connection)) => return Poll::Ready(Ok(connection)),
            Some(Err(reason)) => return Poll::Ready(Err(Stop::Over(reason))),
            None => {}
        }
        let Some(until) = [self.expiry, self.deadline].into_iter().flatten().min() else {
            return Poll::Pending;
        };
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(until)));
        if sleep.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        let late = self.deadline.is_some_and(|deadline| deadline <= until);
        Poll::Ready(Err(if late { Stop::Late } else { Stop::Offline(Offline::Expired) }))
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.line.leave(self.place);
    }
}
