//! The receiving end of a stream without its types: what it takes from the connection and tells it.

use std::{
    collections::VecDeque,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use tokio::time::Instant;

use crate::{
    CallId,
    frame::{FrameKind, Head, Metadata},
    peer::{
        calls,
        flow::{Ending, Flow, Owner},
        flows::Key,
        shared::{Shared, State, wake},
    },
    session::Cover,
};

/// The receiving end of a stream without its types.
#[derive(Debug)]
pub(crate) struct RawIncoming {
    pub(in crate::peer) shared: Arc<Shared>,
    key: Key,
    /// From how many consumed bytes on the connection is told of them.
    pub(super) tell_at: usize,
    /// What it takes of the connection's room for large items.
    reserved: usize,
    deadline: Option<Instant>,
}

/// What there is to read.
pub(super) enum Next {
    Items,
    End(Ending),
    Late,
}

impl RawIncoming {
    pub(in crate::peer) fn new(shared: Arc<Shared>, key: Key, deadline: Option<Instant>) -> Self {
        let tell_at = shared.setup.terms.window_in.div_ceil(2).max(1);
        Self { shared, key, tell_at, reserved: 0, deadline }
    }

    pub(super) fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= Instant::now())
    }

    /// The longest item, in bytes.
    #[inline]
    pub(super) fn max_item(&self) -> usize {
        self.shared.setup.terms.message_in
    }

    pub(super) fn poll(
        &mut self,
        consumed: usize,
        into: &mut VecDeque<Bytes>,
        cx: &Context<'_>,
    ) -> Poll<Next> {
        let mut state = self.shared.lock();
        let told = grant(&mut state, self.key, consumed, &mut self.tell_at);
        let driver = if told { self.shared.wake_driver(&mut state) } else { None };
        let late = self.is_late();
        let next = match state.flows.get(self.key) {
            None => Poll::Ready(Next::End(Ending::Over)),
            Some(flow) => {
                let found = flow.incoming.as_mut().is_some_and(|incoming| incoming.take(into));
                match &flow.end {
                    _ if found => Poll::Ready(Next::Items),
                    Some(end) => Poll::Ready(Next::End(end.clone())),
                    None if late => Poll::Ready(Next::Late),
                    None => {
                        match &mut flow.reader {
                            Some(reader) => reader.clone_from(cx.waker()),
                            reader => *reader = Some(cx.waker().clone()),
                        }
                        Poll::Pending
                    }
                }
            }
        };
        drop(state);
        wake([driver]);
        next
    }

    pub(super) fn consume(&mut self, n: usize) {
        let mut state = self.shared.lock();
        if grant(&mut state, self.key, n, &mut self.tell_at) {
            let driver = self.shared.wake_driver(&mut state);
            drop(state);
            wake([driver]);
        }
    }

    /// Makes room for a large item of so many bytes. Returns whether there is any.
    pub(super) fn assemble(&mut self, n: usize) -> bool {
        let room = self.shared.lock().flows.budget.assemble(n);
        self.reserved = if room { n } else { 0 };
        room
    }

    /// Gives the room of a large item back.
    pub(super) fn assembled(&mut self) {
        let reserved = std::mem::take(&mut self.reserved);
        if reserved > 0 {
            self.shared.lock().flows.budget.assembled(reserved);
        }
    }
}

/// Notes what has been consumed, and grants it to the sender again when it is worth a frame. `tell_at` is
/// after how many more.
fn grant(state: &mut State, key: Key, consumed: usize, tell_at: &mut usize) -> bool {
    if consumed == 0 {
        return false;
    }
    let gone = state.gone().is_some();
    let State { flows, out, .. } = state;
    let Some((call, n)) = flows.consume(key, consumed, tell_at) else { return false };
    if gone {
        return false;
    }
    let head = match call {
        Owner::Ours(call) => Head::of_call(FrameKind::Credit, call.id()),
        Owner::Peers(id) => Head::of_upload(FrameKind::Credit, id),
    };
    // A varint is never too large.
    out.append_error(Cover::Sealed, head, 3, |w| w.put_varint(n)).is_ok()
}

/// Gives a call up, and tells the peer if it knows of it. Returns the driver's waker.
pub(in crate::peer) fn give_up(shared: &Shared, state: &mut State, call: calls::Key) -> Option<Waker> {
    if !state.calls.abandon(call) || state.gone().is_some() {
        return None;
    }
    if state.cancel(call.id()) {
        return tell(shared, state, Some(Head::of_call(FrameKind::Cancel, call.id())));
    }
    shared.wake_driver(state)
}

impl Drop for RawIncoming {
    fn drop(&mut self) {
        let mut writer = None;
        let mut state = self.shared.lock();
        let driver = match state.flows.get(self.key) {
            Some(flow) if flow.end.is_none() => {
                match flow.call {
                    // The call is over for both directions.
                    Owner::Ours(call) => {
                        writer = flow.writer.take();
                        state.flows.end(self.key, Ending::Over);
                        give_up(&self.shared, &mut state, call)
                    }
                    Owner::Peers(id) => {
                        let head = Head::of_upload(FrameKind::Cancel, id);
                        tell(&self.shared, &mut state, Some(head))
                    }
                }
            }
            _ => None,
        };
        if let Some(Flow { incoming: Some(incoming), .. }) = state.flows.get(self.key) {
            incoming.clear();
        }
        state.flows.budget.assembled(self.reserved);
        let flow = state.flows.release(self.key);
        let next = state.next_waiter();
        drop(state);
        drop(flow);
        wake([driver, next, writer]);
    }
}

/// Appends a frame without a payload, unless the goodbye has been said. Returns the driver's waker.
fn tell(shared: &Shared, state: &mut State, head: Option<Head>) -> Option<Waker> {
    let head = head?;
    if state.gone().is_some() {
        return None;
    }
    // An empty payload is never too large.
    drop(state.out.append(Cover::Sealed, head, Metadata::default(), 0, |_| ()));
    shared.wake_driver(state)
}

impl Shared {
    /// A call of the peer's has an upload: what comes of it is kept for the handle from now on.
    pub(crate) fn expect_upload(self: &Arc<Self>, id: CallId, cover: Cover) -> RawIncoming {
        let key = self.lock().flows.expect_upload(id, cover, Instant::now());
        RawIncoming::new(Arc::clone(self), key, None)
    }

    /// A call of the peer's with an upload has been answered.
    pub(crate) fn upload_over(&self, id: CallId) {
        let reader = self.lock().flows.upload_over(id);
        wake([reader]);
    }
}
