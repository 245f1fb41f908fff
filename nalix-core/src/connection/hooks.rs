//! Hooks of controllers: when a connection is ready, when it loses its link and has another, and when it has ended.

use std::{
    future::Future,
    pin::pin,
    task::{Context as Task, Poll},
};

use super::driver::Driver;
use crate::{
    controller::{Context, HookFuture, Router, caught},
    link::Link,
    status::{CloseCode, CloseReason},
};

impl<L: Link> Driver<L> {
    /// Those of controllers that have come since this was last called.
    pub(super) fn start_hooks(&mut self) {
        let hooks = self.router.connected_from(self.hooks_run, &self.context);
        self.hooks_run = self.router.hook_count();
        self.queue_hooks(hooks);
    }

    /// The link is lost for this reason, or there is another. What has been begun is finished first.
    pub(super) fn start_link_hooks(&mut self, lost: Option<&CloseReason>) {
        let hooks = match lost {
            Some(why) => self.router.detached(&self.context, why),
            None => self.router.resumed(&self.context),
        };
        self.queue_hooks(hooks);
    }

    fn queue_hooks(&mut self, mut hooks: Vec<HookFuture>) {
        if !hooks.is_empty() {
            let earlier = self.hooks.take();
            self.hooks = Some(Box::pin(async move {
                if let Some(earlier) = earlier {
                    earlier.await;
                }
                for hook in hooks.drain(..) {
                    hook.await;
                }
            }));
        }
    }

    pub(super) fn poll_hooks(&mut self, cx: &mut Task<'_>) {
        let Some(hooks) = &mut self.hooks else { return };
        match caught(|| hooks.as_mut().poll(cx)) {
            Ok(Poll::Pending) => {}
            Ok(Poll::Ready(())) => self.hooks = None,
            Err(_) => {
                self.hooks = None;
                self.close(CloseReason::new(CloseCode::Internal, "the connection could not be set up"));
            }
        }
    }

    pub(super) fn hooks_done(&self) -> bool {
        self.hooks.is_none()
    }
}

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
