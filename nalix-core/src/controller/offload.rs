//! Handlers that run off the connection's task.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::task::JoinHandle;

use super::{Call, Outcome, Reply, Run, handlers::Handler};
use crate::status::Status;

/// Runs a call on a task of its own or on a thread for blocking work.
pub(super) fn offload(run: Run, handler: Arc<dyn Handler>, call: Call) -> Outcome {
    let task = match run {
        Run::Blocking => tokio::task::spawn_blocking(move || match handler.call(call) {
            Outcome::Ready(reply) => reply,
            // The macro refuses `blocking` on async handlers.
            Outcome::Pending(_) => {
                Reply::from_status(Status::internal("a blocking handler must not be async"))
            }
        }),
        _ => tokio::spawn(async move {
            match handler.call(call) {
                Outcome::Ready(reply) => reply,
                Outcome::Pending(future) => future.await,
            }
        }),
    };
    Outcome::Pending(Box::pin(Offloaded { task }))
}

/// Waits for the task; dropping it stops the task (one that blocks runs to its end, unheard).
struct Offloaded {
    task: JoinHandle<Reply>,
}

impl Future for Offloaded {
    type Output = Reply;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Reply> {
        Pin::new(&mut self.task).poll(cx).map(|done| match done {
            Ok(reply) => reply,
            // Goes on as if the handler had panicked in place, so that it is caught and answered in one way.
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => Reply::from_status(Status::unavailable("the server is shutting down")),
        })
    }
}

impl Drop for Offloaded {
    fn drop(&mut self) {
        self.task.abort();
    }
}
