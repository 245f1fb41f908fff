//! Sending one-way packets.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use super::{
    SendError,
    large::large,
    shared::{Shared, State, wake},
    waiters::Ticket,
};
use crate::{
    frame::{Head, Metadata},
    packet::OneWay,
    session::Cover,
};

/// The future of a one-way packet: done when the packet is in the outbox.
///
/// Cancel safe: dropped before it is done, it has sent nothing.
#[must_use = "futures do nothing unless they are awaited"]
pub struct SendFuture<'a, P: OneWay> {
    shared: &'a Shared,
    packet: &'a P,
    ticket: Option<Ticket>,
    done: bool,
}

impl<P: OneWay> fmt::Debug for SendFuture<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendFuture").field("packet", &P::NAME).field("done", &self.done).finish()
    }
}

impl<'a, P: OneWay> SendFuture<'a, P> {
    pub(super) fn new(shared: &'a Shared, packet: &'a P) -> Self {
        Self { shared, packet, ticket: None, done: false }
    }
}

impl<P: OneWay> Future for SendFuture<'_, P> {
    type Output = Result<(), SendError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if this.done {
            return Poll::Pending;
        }
        if P::ENCRYPT && !this.shared.is_secured() {
            this.done = true;
            return Poll::Ready(Err(SendError::EncryptionRequired));
        }
        let mut state = this.shared.lock();
        if let Some(reason) = state.gone() {
            let error = SendError::Closed(reason.clone());
            this.done = true;
            return Poll::Ready(Err(error));
        }
        let queued = this.ticket.filter(|&ticket| state.waiters.update(ticket, cx.waker()));
        let large = large(this.packet);
        let its_turn = queued.is_none() && (this.ticket.is_some() || state.waiters.is_first_sender(large));
        if !its_turn || !state.has_room_for(large) {
            if queued.is_none() {
                this.ticket = Some(state.waiters.push_sender(cx.waker(), large, this.ticket.is_some()));
            }
            return Poll::Pending;
        }
        let result = append(&mut state, this.packet);
        let next = state.next_waiter();
        let driver = this.shared.wake_driver(&mut state);
        drop(state);
        this.done = true;
        wake([driver, next]);
        Poll::Ready(result)
    }
}

impl<P: OneWay> Drop for SendFuture<'_, P> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket
            && !self.done
        {
            self.shared.leave_queue(ticket);
        }
    }
}

/// Appends the packet if there is room right now.
pub(super) fn try_send<P: OneWay>(shared: &Shared, packet: &P) -> Result<(), SendError> {
    if P::ENCRYPT && !shared.is_secured() {
        return Err(SendError::EncryptionRequired);
    }
    shared.with(|state| {
        if let Some(reason) = state.gone() {
            return Err(SendError::Closed(reason.clone()));
        }
        if !state.has_room_for(large(packet)) {
            return Err(SendError::Full);
        }
        append(state, packet)
    })
}

fn append<P: OneWay>(state: &mut State, packet: &P) -> Result<(), SendError> {
    let head = Head::notify(P::OPCODE);
    let cover = Cover::of(P::ENCRYPT);
    let hint = packet.size_hint();
    state.out.append_as(P::PRIORITY, cover, head, Metadata::default(), hint, |w| packet.encode(w))?;
    Ok(())
}
