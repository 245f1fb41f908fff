//! Hooks that run when a connection has ended.

use std::{future::Future, pin::pin, task::Poll};

use crate::{
    controller::{Context, Router, caught},
    status::CloseReason,
};

/// Runs the hooks of all controllers one after the other. One that panics does not keep the others from running.
pub async fn run_disconnected(router: &Router, ctx: &Context, why: &CloseReason) {
    for hook in router.disconnected(ctx, why) {
        let mut hook = pin!(hook);
        std::future::poll_fn(|cx| match caught(|| hook.as_mut().poll(cx)) {
            Ok(polled) => polled,
            Err(_) => Poll::Ready(()),
        })
        .await;
    }
}
