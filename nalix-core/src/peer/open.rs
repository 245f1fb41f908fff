//! Calls with a stream, an upload, or both.

use std::{
    fmt,
    future::{Future, IntoFuture},
    marker::PhantomData,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use tokio::time::Instant;

use super::{
    Connection, Incoming, Outgoing, RequestError, Upload,
    append::append_packet,
    calls::Calls,
    flow::{Flow, Owner, Receiving, Sending},
    flows::Key,
    incoming::RawIncoming,
    large::large,
    outgoing::RawOutgoing,
    shared::{Shared, State, wake},
    waiters::Ticket,
};
use crate::{
    error::EncodeError,
    frame::{Head, Metadata},
    packet::{DuplexRequest, Packet, StreamRequest, Streams, UploadRequest, Uploads},
    session::Cover,
    status::{Code, Status},
};

/// The ends that a packet `P` opens: [`Incoming`], [`Upload`], or both of [`Outgoing`] and [`Incoming`].
pub trait Opens<P: Packet>: sealed::Open {
    /// The error type that the packet declares.
    type Error;
}

impl<P: StreamRequest> Opens<P> for Incoming<P::Item, P::Error> {
    type Error = P::Error;
}

impl<P: UploadRequest> Opens<P> for Upload<P> {
    type Error = P::Error;
}

impl<P: DuplexRequest> Opens<P>
    for (Outgoing<<P as Uploads>::Chunk>, Incoming<<P as Streams>::Item, <P as Streams>::Error>)
{
    type Error = <P as Streams>::Error;
}

mod sealed {
    use super::{Opened, UploadRequest, Wire};

    /// What there is of a call with streams.
    pub trait Open: Sized {
        /// Whether items come.
        const IN: bool;
        /// Whether chunks go.
        const OUT: bool;

        /// Puts types on.
        #[doc(hidden)]
        fn open(opened: Opened) -> Self;
    }

    impl<T: Wire, E: Wire> Open for super::Incoming<T, E> {
        const IN: bool = true;
        const OUT: bool = false;

        fn open(opened: Opened) -> Self {
            super::Incoming::new(opened.incoming())
        }
    }

    impl<P: UploadRequest> Open for super::Upload<P> {
        const IN: bool = false;
        const OUT: bool = true;

        fn open(opened: Opened) -> Self {
            super::Upload::new(opened.outgoing(true))
        }
    }

    impl<C: Wire, T: Wire, E: Wire> Open for (super::Outgoing<C>, super::Incoming<T, E>) {
        const IN: bool = true;
        const OUT: bool = true;

        fn open(opened: Opened) -> Self {
            (super::Outgoing::new(opened.outgoing(false)), super::Incoming::new(opened.incoming()))
        }
    }
}

use crate::Wire;

/// A call with streams that has been sent.
#[derive(Debug)]
pub struct Opened {
    shared: Arc<Shared>,
    key: Key,
    deadline: Option<Instant>,
}

impl Opened {
    fn incoming(&self) -> RawIncoming {
        RawIncoming::new(Arc::clone(&self.shared), self.key, self.deadline)
    }

    fn outgoing(&self, alone: bool) -> RawOutgoing {
        RawOutgoing::new(Arc::clone(&self.shared), self.key, self.deadline, alone)
    }
}

/// A call with streams that has not been made yet. Await it, or set its options first.
///
/// It is done when the packet is in the outbox, and does not wait for the peer: whether that serves it is told where the
/// answer or the first item is awaited. There is no default timeout, for streams last as long as they last.
///
/// With as many streams open as the `stream_budget` option allows, one more fails with [`Code::ResourceExhausted`]; nothing is
/// sent then.
#[must_use = "nothing is sent until it is awaited"]
pub struct OpenBuilder<P, O> {
    connection: Connection,
    packet: P,
    timeout: Option<Duration>,
    deadline: Option<Instant>,
    ends: PhantomData<fn() -> O>,
}

impl<P: Packet, O> fmt::Debug for OpenBuilder<P, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenBuilder").field("packet", &P::NAME).field("timeout", &self.timeout).finish()
    }
}

impl<P: Packet, O: Opens<P>> OpenBuilder<P, O> {
    pub(super) fn new(connection: Connection, packet: P) -> Self {
        Self { connection, packet, timeout: None, deadline: None, ends: PhantomData }
    }

    /// How long the whole conversation may take, from the first poll on. It travels along as remaining time, and the peer
    /// stops the handler when it has passed.
    ///
    /// Zero fails with [`RequestError::Timeout`] before anything is sent.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// When the conversation ends at the latest. Of this and a timeout, the earlier counts.
    pub fn deadline(mut self, deadline: std::time::Instant) -> Self {
        self.deadline = Some(Instant::from_std(deadline));
        self
    }
}

impl<P: Packet, O: Opens<P>> IntoFuture for OpenBuilder<P, O> {
    type Output = Result<O, RequestError<O::Error>>;
    type IntoFuture = OpenFuture<P, O>;

    fn into_future(self) -> OpenFuture<P, O> {
        OpenFuture {
            connection: self.connection,
            timeout: self.timeout,
            deadline: self.deadline,
            packet: Some(self.packet),
            done: false,
            ticket: None,
            ends: PhantomData,
        }
    }
}

/// The future of a call with streams: done when its packet is in the outbox.
///
/// Cancel safe: dropped before it is done, it has sent nothing. Polled again after it has resolved, it stays pending.
#[must_use = "futures do nothing unless they are awaited"]
pub struct OpenFuture<P, O> {
    connection: Connection,
    timeout: Option<Duration>,
    deadline: Option<Instant>,
    packet: Option<P>,
    /// Whether it has resolved, though the packet is still there.
    done: bool,
    ticket: Option<Ticket>,
    ends: PhantomData<fn() -> O>,
}

impl<P: Packet, O> fmt::Debug for OpenFuture<P, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenFuture").field("packet", &P::NAME).finish_non_exhaustive()
    }
}

// Nothing in it is pinned: the packet is lent to be encoded.
impl<P, O> Unpin for OpenFuture<P, O> {}

impl<P: Packet, O: Opens<P>> Future for OpenFuture<P, O> {
    type Output = Result<O, RequestError<O::Error>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if this.done || this.packet.is_none() {
            return Poll::Pending;
        }
        if let Some(timeout) = this.timeout.take() {
            // What cannot be represented is as good as for ever.
            let at = Instant::now().checked_add(timeout);
            this.deadline = [this.deadline, at].into_iter().flatten().min();
        }
        let result = this.start(cx);
        match &result {
            // It has not been sent, and may go over another connection.
            Poll::Ready(Err(RequestError::Closed(_))) => (this.ticket, this.done) = (None, true),
            Poll::Ready(_) => this.packet = None,
            Poll::Pending => {}
        }
        result
    }
}

/// For sessions, which make a call over one connection after the other. None of it is for users.
#[doc(hidden)]
impl<P: Packet, O: Opens<P>> OpenFuture<P, O> {
    /// The connection that it is made on.
    pub fn __connection(&self) -> &Connection {
        &self.connection
    }

    /// When it ends at the latest. To be read from the first poll on.
    pub fn __deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// How many bytes the packet may have, as far as that is known before it is encoded, while it is not sent.
    pub fn __size_hint(&self) -> usize {
        self.packet.as_ref().map_or(0, P::size_hint)
    }

    /// Starts to count the time, if that has not been done.
    pub fn __fix_deadline(&mut self) {
        let at = self.timeout.take().and_then(|timeout| Instant::now().checked_add(timeout));
        self.deadline = [self.deadline, at].into_iter().flatten().min();
    }

    /// Begins again over a connection, after it has resolved since the last one had ended.
    pub fn __restart(&mut self, connection: Connection) -> bool {
        (self.connection, self.done) = (connection, false);
        self.packet.is_some()
    }
}

impl<P: Packet, O: Opens<P>> OpenFuture<P, O> {
    fn start(&mut self, cx: &Context<'_>) -> Poll<<Self as Future>::Output> {
        let shared = &self.connection.shared;
        let Some(packet) = &self.packet else { return Poll::Pending };
        if P::ENCRYPT && !shared.is_secured() {
            return Poll::Ready(Err(RequestError::EncryptionRequired));
        }
        let remaining = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if remaining.is_some_and(|left| left.is_zero()) {
            return Poll::Ready(Err(RequestError::Timeout));
        }
        let mut state = shared.lock();
        if let Some(reason) = state.gone() {
            return Poll::Ready(Err(RequestError::Closed(reason.clone())));
        }
        let priority = P::PRIORITY.unwrap_or_default();
        // Whoever is still in the queue waits for its turn; one who was woken, or who finds the queue empty, has it.
        let large = large(packet);
        let queued = self.ticket.filter(|&ticket| state.waiters.update(ticket, cx.waker()));
        let had_turn = queued.is_none() && self.ticket.is_some();
        let its_turn = had_turn || (queued.is_none() && state.waiters.is_first_caller(priority, large));
        if let Some(deadline) = self.deadline {
            state.note_deadline(deadline);
        }
        if !its_turn || !state.can_call(priority, large) {
            if queued.is_none() {
                let what = (priority, large);
                self.ticket = Some(state.waiters.push_caller(cx.waker(), what, self.deadline, had_turn));
            }
            let driver = shared.wake_driver(&mut state);
            drop(state);
            wake([driver]);
            return Poll::Pending;
        }
        if O::IN && !state.flows.budget.may_open() {
            let next = had_turn.then(|| state.next_waiter()).flatten();
            drop(state);
            self.ticket = None;
            wake([next]);
            return Poll::Ready(Err(RequestError::Status(too_many_streams())));
        }
        let flow = Streaming { incoming: O::IN, outgoing: O::OUT, deadline: self.deadline };
        let sent = send(&mut state, packet, flow, shared.setup.terms.window_out, remaining);
        let next = state.next_waiter();
        let driver = shared.wake_driver(&mut state);
        drop(state);
        self.ticket = None;
        wake([driver, next]);
        Poll::Ready(match sent {
            Ok(key) => Ok(O::open(Opened { shared: Arc::clone(shared), key, deadline: self.deadline })),
            Err(error) => Err(error.into()),
        })
    }
}

impl<P, O> Drop for OpenFuture<P, O> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.connection.shared.leave_queue(ticket);
        }
    }
}

/// What is to be set up for a call.
struct Streaming {
    incoming: bool,
    outgoing: bool,
    deadline: Option<Instant>,
}

/// Takes a slot and appends the request's frame, or leaves everything as it was.
fn send<P: Packet>(
    state: &mut State,
    packet: &P,
    streaming: Streaming,
    window_out: usize,
    remaining: Option<Duration>,
) -> Result<Key, EncodeError> {
    let State { calls, flows, out, .. } = state;
    let cover = Cover::of(P::ENCRYPT);
    let call = calls.insert(Waker::noop().clone(), None, cover);
    let mut slot = TakenSlot { calls, call, sent: false };
    let head = Head::request(call.id(), P::OPCODE);
    let metadata = (remaining.map(Metadata::remaining).unwrap_or_default(), None);
    let appended = append_packet(out, head, metadata, packet)?;
    slot.sent = true;
    // Nothing may overtake a request that goes in fragments.
    let held = appended.position == u64::MAX;
    let incoming = streaming.incoming.then(|| {
        flows.budget.open();
        Receiving::new(flows.budget.first(), Instant::now())
    });
    let key = flows.insert(Flow {
        call: Owner::Ours(call),
        cover,
        priority: P::PRIORITY,
        incoming,
        outgoing: streaming.outgoing.then(|| Sending::new(window_out, P::COMPRESS, held)),
        end: None,
        handles: u8::from(streaming.incoming) + u8::from(streaming.outgoing),
        reader: None,
        writer: None,
        deadline: streaming.deadline,
        position: appended.position,
    });
    slot.calls.set_stream(call, key);
    Ok(key)
}

#[cold]
fn too_many_streams() -> Status {
    Status::new(Code::ResourceExhausted, "as many streams are open as `stream_budget` allows")
}

/// A slot that is given back if the request cannot be encoded, or if its `Encode` panics: that is user code.
struct TakenSlot<'a> {
    calls: &'a mut Calls,
    call: super::calls::Key,
    sent: bool,
}

impl Drop for TakenSlot<'_> {
    fn drop(&mut self) {
        if !self.sent {
            self.calls.take_back(self.call);
        }
    }
}
