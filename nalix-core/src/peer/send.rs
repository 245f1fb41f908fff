//! Sending one-way packets.

use std::{
    fmt,
    future::Future,
    ops::Deref,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use super::{
    Connection, SendError,
    append::append_packet,
    attached::Attached,
    large::large,
    shared::{Shared, State, wake},
    waiters::Ticket,
    waiting::Bounds,
};
use crate::{
    frame::{Head, Metadata},
    packet::{Delivery, Encoded, OneWay},
    status::{CloseCode, CloseReason},
};

/// The future of a one-way packet: done when the packet is in the outbox.
///
/// Cancel safe: dropped before it is done, it has sent nothing.
#[must_use = "futures do nothing unless they are awaited"]
pub struct SendFuture<'a, P: OneWay> {
    shared: Hold<'a>,
    packet: &'a P,
    attached: Attached,
    ticket: Option<Ticket>,
    done: bool,
}

/// What it sends over.
enum Hold<'a> {
    Lent(&'a Shared),
    Own(Arc<Shared>),
}

impl Deref for Hold<'_> {
    type Target = Shared;

    #[inline]
    fn deref(&self) -> &Shared {
        match self {
            Hold::Lent(shared) => shared,
            Hold::Own(shared) => shared,
        }
    }
}

impl<P: OneWay> fmt::Debug for SendFuture<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendFuture").field("packet", &P::NAME).field("done", &self.done).finish()
    }
}

impl<'a, P: OneWay> SendFuture<'a, P> {
    pub(super) fn new(shared: &'a Shared, packet: &'a P) -> Self {
        Self { shared: Hold::Lent(shared), packet, attached: Attached::default(), ticket: None, done: false }
    }

    pub(super) fn holding(shared: Arc<Shared>, packet: &'a P) -> Self {
        Self { shared: Hold::Own(shared), packet, attached: Attached::default(), ticket: None, done: false }
    }

    /// Begins again over a connection, once it has resolved with [`SendError::Closed`]. For sessions.
    #[doc(hidden)]
    pub fn __restart(&mut self, connection: &Connection) {
        self.shared = Hold::Own(Arc::clone(&connection.shared));
        (self.ticket, self.done) = (None, false);
    }

    /// Lets a key and a value travel with the packet, as [`RequestBuilder::metadata`](crate::RequestBuilder::metadata) does
    /// with a request: for its handler. Subscribers are given the packet alone.
    ///
    /// What cannot travel fails with [`SendError::Encode`]; nothing is sent then.
    ///
    /// ```no_run
    /// # use nalix_core::{Connection, packet};
    /// # #[packet(opcode = 0x3001)]
    /// # struct Moved { x: f32, y: f32 }
    /// # async fn f(connection: Connection) -> Result<(), Box<dyn std::error::Error>> {
    /// connection.send(&Moved { x: 1.0, y: 2.0 }).metadata("tenant", "blue").await?;
    /// # Ok(()) }
    /// ```
    pub fn metadata(mut self, key: &str, value: impl AsRef<[u8]>) -> Self {
        self.attached.push(key, value.as_ref());
        self
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
        let (large, priority) = (large(this.packet), P::PRIORITY.unwrap_or_default());
        let is_first = this.ticket.is_some() || state.waiters.is_first_sender(priority, large);
        if queued.is_some() || !is_first || !state.has_room_for(priority, large) {
            if queued.is_none() {
                let again = this.ticket.is_some();
                this.ticket = Some(state.waiters.push_sender(cx.waker(), (priority, large), again));
            }
            return Poll::Pending;
        }
        let result = append(&mut state, this.packet, &this.attached);
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
    put::<P>(shared, |state| {
        if !state.has_room_for(P::PRIORITY.unwrap_or_default(), large(packet)) {
            return Err(SendError::Full);
        }
        append(state, packet, &Attached::default())
    })
}

/// Appends the packet if there is room right now, and closes the connection if there is none: both under one lock, so
/// that nothing can be left out that the reason does not count.
pub(super) fn try_send_or_close<P: OneWay>(shared: &Shared, packet: &P) -> Result<(), SendError> {
    let mut wakers = Vec::new();
    let mut full = false;
    put::<P>(shared, |state| {
        let priority = P::PRIORITY.unwrap_or_default();
        if state.has_room_for(priority, large(packet)) {
            return append(state, packet, &Attached::default());
        }
        full = true;
        state.left_out += 1;
        let missed = state.left_out_in_all();
        let message =
            format!("the peer does not read as fast as it is sent to: {missed} packets were left out");
        state.close(CloseReason::new(CloseCode::SlowConsumer, message), &mut wakers);
        Ok(())
    })?;
    for waker in wakers {
        waker.wake();
    }
    if full { Err(SendError::Full) } else { Ok(()) }
}

/// Appends the packet if little waits.
pub(super) fn try_send_droppable<P: OneWay>(shared: &Shared, packet: &P) -> Result<(), SendError> {
    let mark = shared.setup.drop_mark;
    put::<P>(shared, |state| {
        let large = large(packet);
        // Only large ones wait for large ones.
        let ahead = if large > 0 { state.out.large_len() } else { 0 };
        let priority = P::PRIORITY.unwrap_or_default();
        let waiting = state.backlog_for(priority).saturating_add(ahead);
        if waiting >= mark || !state.has_room_for(priority, large) {
            state.left_out += 1;
            return Err(SendError::Full);
        }
        append(state, packet, &Attached::default())
    })
}

/// Puts the packet in the place of the one with the same key.
pub(super) fn try_send_latest<P: OneWay>(
    shared: &Shared,
    key: u64,
    packet: &Encoded<P>,
) -> Result<(), SendError> {
    let setup = &shared.setup;
    check_len(shared, packet)?;
    let bounds = Bounds { packets: setup.max_latest, bytes: setup.outbox };
    put::<P>(
        shared,
        |state| {
            if state.latest.put(key, packet, bounds) { Ok(()) } else { Err(SendError::Full) }
        },
    )
}

/// Puts the packet behind those of its kind, and drops the oldest of them that there is no room for.
pub(super) fn try_send_drop_oldest<P: OneWay>(
    shared: &Shared,
    packet: &Encoded<P>,
) -> Result<usize, SendError> {
    check_len(shared, packet)?;
    let bounds = Bounds { packets: shared.setup.max_latest, bytes: shared.setup.drop_mark };
    let mut dropped = 0;
    put::<P>(shared, |state| {
        dropped = state.latest.recent.put(packet, bounds).ok_or(SendError::Full)?;
        Ok(())
    })?;
    Ok(dropped)
}

/// Sends the packet in the way that `delivery` says. Returns how many others were dropped for it.
pub(super) fn try_send_as<P: OneWay>(
    shared: &Shared,
    delivery: Delivery,
    packet: &Encoded<P>,
) -> Result<usize, SendError> {
    match delivery {
        Delivery::Reliable => try_send_or_close(shared, packet).map(|()| 0),
        Delivery::Droppable => try_send_droppable(shared, packet).map(|()| 0),
        Delivery::DropOldest => try_send_drop_oldest(shared, packet),
        Delivery::Latest(key) => try_send_latest(shared, key, packet).map(|()| 0),
    }
}

/// For packets that wait before they are appended, where their length is not checked again.
fn check_len<P: OneWay>(shared: &Shared, packet: &Encoded<P>) -> Result<(), SendError> {
    let limit = shared.setup.terms.message_out;
    if packet.payload().len() > limit { Err(SendError::TooLarge { limit }) } else { Ok(()) }
}

/// Runs `f` under the lock unless nothing can be sent, and wakes the driver if it has put something there.
fn put<P: OneWay>(
    shared: &Shared,
    f: impl FnOnce(&mut State) -> Result<(), SendError>,
) -> Result<(), SendError> {
    if P::ENCRYPT && !shared.is_secured() {
        return Err(SendError::EncryptionRequired);
    }
    let mut state = shared.lock();
    if let Some(reason) = state.gone() {
        return Err(SendError::Closed(reason.clone()));
    }
    f(&mut state)?;
    let driver = shared.wake_driver(&mut state);
    drop(state);
    wake([driver]);
    Ok(())
}

fn append<P: OneWay>(state: &mut State, packet: &P, attached: &Attached) -> Result<(), SendError> {
    let head = Head::notify(P::OPCODE);
    let metadata = (Metadata::default(), attached.entries()?);
    append_packet(&mut state.out, head, metadata, packet)?;
    Ok(())
}
