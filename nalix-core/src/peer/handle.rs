//! The handle of a connection.

use std::{
    fmt,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    Incoming, Listener, OpenBuilder, Outgoing, Queue, RequestBuilder, Resumption, Rtt, SendError, SendFuture,
    Subscription, Upload, send, shared::Shared,
};
use crate::{
    ConnectionId,
    handshake::{PublicKey, Sealing},
    packet::{DuplexRequest, Encoded, OneWay, Push, Request, StreamRequest, Streams, UploadRequest, Uploads},
    status::{CloseCode, CloseReason},
};

/// Both ends of a packet with a stream in both directions.
pub type Duplex<P> = (Outgoing<<P as Uploads>::Chunk>, Incoming<<P as Streams>::Item, <P as Streams>::Error>);

/// One end of a connection: calls the other end, sends to it, closes. Cheap to clone; all clones are the same
/// connection, which lives until one end closes it or the link breaks.
#[derive(Clone)]
pub struct Connection {
    pub(super) shared: Arc<Shared>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("id", &self.id())
            .field("peer_addr", &self.peer_addr())
            .field("closed", &self.close_reason())
            .finish_non_exhaustive()
    }
}

impl PartialEq for Connection {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl Eq for Connection {}

impl Connection {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Its number in this process.
    pub fn id(&self) -> ConnectionId {
        self.shared.setup.number.id()
    }

    /// The peer's address, where the link has addresses.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.shared.addresses().0
    }

    /// Our address, where the link has addresses.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.shared.addresses().1
    }

    /// When its handshake was done.
    pub fn established_at(&self) -> Instant {
        self.shared.setup.since.into_std()
    }

    /// Whether what the connection carries is encrypted, and what of it.
    pub fn sealing(&self) -> Sealing {
        self.shared.setup.terms.sealing
    }

    /// The key that the peer has proven to have: a server's always on a secured connection, a client's if it has one.
    pub fn peer_key(&self) -> Option<&PublicKey> {
        self.shared.setup.peer_key.as_ref()
    }

    /// The session of the client's that this connection is part of, on the side that accepted it and if it keeps sessions.
    pub fn resumption(&self) -> Option<&Resumption> {
        self.shared.setup.resumption.as_ref()
    }

    /// The longest message that may be sent here, in bytes of its encoding.
    pub fn max_message(&self) -> usize {
        self.shared.setup.terms.message_out
    }

    /// The longest message that the other side may send, in bytes of its encoding.
    pub fn max_received(&self) -> usize {
        self.shared.setup.terms.message_in
    }

    /// Calls the other side: await the result, or set options first.
    ///
    /// ```no_run
    /// # use nalix_core::{Connection, packet};
    /// # use std::time::Duration;
    /// #[packet(opcode = 0x1001, reply = u64)]
    /// struct Count;
    ///
    /// # async fn f(connection: Connection) -> Result<(), Box<dyn std::error::Error>> {
    /// let n = connection.request(Count).await?;
    /// let n = connection.request(Count).timeout(Duration::from_secs(1)).await?;
    /// # Ok(()) }
    /// ```
    pub fn request<P: Request>(&self, packet: P) -> RequestBuilder<P> {
        RequestBuilder::new(self.clone(), packet)
    }

    /// Asks the other side for a stream: await the [`Incoming`], or set options first.
    ///
    /// The answer has a window of its own, so that a stream that nobody reads holds nothing else up.
    ///
    /// ```no_run
    /// # use nalix_core::{Connection, packet};
    /// #[packet(opcode = 0x4001, stream = u64)]
    /// struct Watch;
    ///
    /// # async fn f(connection: Connection) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut ticks = connection.stream(Watch).await?;
    /// let first = ticks.next().await;
    /// # Ok(()) }
    /// ```
    pub fn stream<P: StreamRequest>(&self, packet: P) -> OpenBuilder<P, Incoming<P::Item, P::Error>> {
        OpenBuilder::new(self.clone(), packet)
    }

    /// Starts an upload: await the [`Upload`], send its chunks, and finish it to get the answer.
    pub fn upload<P: UploadRequest>(&self, packet: P) -> OpenBuilder<P, Upload<P>> {
        OpenBuilder::new(self.clone(), packet)
    }

    /// Opens a stream in both directions.
    ///
    /// ```no_run
    /// # use nalix_core::{Connection, packet};
    /// #[packet(opcode = 0x4003, upload = String, stream = String)]
    /// struct Shell;
    ///
    /// # async fn f(connection: Connection) -> Result<(), Box<dyn std::error::Error>> {
    /// let (mut input, mut output) = connection.duplex(Shell).await?;
    /// input.send(&"ls".to_owned()).await?;
    /// let line = output.next().await;
    /// # Ok(()) }
    /// ```
    pub fn duplex<P: DuplexRequest>(&self, packet: P) -> OpenBuilder<P, Duplex<P>> {
        OpenBuilder::new(self.clone(), packet)
    }

    /// Sends a one-way packet: done when it is in the outbox, which waits for room if the peer is slow to read.
    ///
    /// Packets of one sender and one [`Priority`](crate::packet::Priority) arrive in the order in which they were sent, as far as
    /// they are no longer than 16 KiB. Cancel safe: see [`SendFuture`].
    pub fn send<'a, P: OneWay>(&'a self, packet: &'a P) -> SendFuture<'a, P> {
        SendFuture::new(&self.shared, packet)
    }

    /// As [`Connection::send`], with a future that keeps the connection by itself. For sessions.
    #[doc(hidden)]
    pub fn __send<'a, P: OneWay>(&self, packet: &'a P) -> SendFuture<'a, P> {
        SendFuture::holding(Arc::clone(&self.shared), packet)
    }

    /// Sends a one-way packet without waiting.
    ///
    /// # Errors
    /// [`SendError::Full`] if the outbox has no room now, else as [`Connection::send`].
    pub fn try_send<P: OneWay>(&self, packet: &P) -> Result<(), SendError> {
        send::try_send(&self.shared, packet)
    }

    /// Sends a one-way packet without waiting, and closes the connection if the outbox has no room: as
    /// [`CloseCode::SlowConsumer`](crate::CloseCode), with a message that says how many packets were left out in all, this one
    /// included ([`Connection::left_out`]). For what is of no use to a peer that misses a part of it.
    ///
    /// # Errors
    /// [`SendError::Full`] if there was no room, else as [`Connection::send`].
    pub fn try_send_or_close<P: OneWay>(&self, packet: &P) -> Result<(), SendError> {
        send::try_send_or_close(&self.shared, packet)
    }

    /// Sends a one-way packet that may be left out: if [`Options::drop_mark`](crate::connection::Options) bytes or more
    /// wait to be written, it is. Bytes of other packets of over 16 KiB count for one that is over 16 KiB itself.
    ///
    /// # Errors
    /// [`SendError::Full`] if it has been left out, else as [`Connection::send`].
    pub fn try_send_droppable<P: OneWay>(&self, packet: &P) -> Result<(), SendError> {
        send::try_send_droppable(&self.shared, packet)
    }

    /// Sends a one-way packet of which only the latest counts: it replaces the packet of the same type and key that has
    /// not been written yet, if there is one. One of over 16 KiB cannot be replaced any more once a part of it has been
    /// written; while it goes, others of its type wait, so that the latest comes last.
    ///
    /// The packets of this kind that wait go at the next write, whatever else waits: their order to others is
    /// not kept, and the priority of those that fit a frame has no effect.
    ///
    /// # Errors
    /// [`SendError::Full`] if as many keys wait already as [`Options::max_latest`](crate::connection::Options) allows, or as
    /// many bytes as `outbox`, and this one is not among them (one that is alone may be longer); else as [`Connection::send`].
    pub fn try_send_latest<P: OneWay>(&self, key: u64, packet: &Encoded<P>) -> Result<(), SendError> {
        send::try_send_latest(&self.shared, key, packet)
    }

    /// Subscribes to a one-way packet of the peer's: from now on, each that comes is queued for the subscription. When as
    /// many wait as the option [`push_queue`](crate::connection::Options::push_queue) says, the oldest are left out.
    ///
    /// A packet with a handler goes to its handler and to its subscribers. Packets that come while this side drains go to
    /// neither.
    ///
    /// ```no_run
    /// # use nalix_core::{Connection, packet};
    /// #[packet(opcode = 0x3001)]
    /// struct Moved {
    ///     x: f32,
    ///     y: f32,
    /// }
    ///
    /// # async fn f(connection: Connection) {
    /// let mut moves = connection.subscribe::<Moved>();
    /// while let Some(moved) = moves.next().await {
    ///     match moved {
    ///         Ok(moved) => println!("at {}, {}", moved.x, moved.y),
    ///         Err(lagged) => println!("{lagged}"),
    ///     }
    /// }
    /// # }
    /// ```
    pub fn subscribe<T: Push>(&self) -> Subscription<T> {
        self.subscribe_with(Queue::drop_oldest(self.shared.setup.push_queue))
    }

    /// As [`Connection::subscribe`], with a queue of its own kind.
    ///
    /// ```no_run
    /// # use nalix_core::{Connection, Queue, packet};
    /// # #[packet(opcode = 0x3001)]
    /// # struct Moved { x: f32, y: f32 }
    /// # async fn f(connection: Connection) {
    /// // Only where it is now matters, not how it got there.
    /// let mut position = connection.subscribe_with::<Moved>(Queue::latest());
    /// # }
    /// ```
    pub fn subscribe_with<T: Push>(&self, queue: Queue) -> Subscription<T> {
        Subscription::new(&self.shared.pushes, queue)
    }

    /// Calls a closure with each one-way packet of this type, from now on until the [`Listener`] is dropped.
    ///
    /// The closure runs on the connection's task and holds up everything else there, so it should be short: for what takes
    /// longer, or waits, there is [`Connection::subscribe`]. A panic in it is caught, and it is called again for the next
    /// packet. What it captures lives as long as it does: a `Session` in it, with [`Listener::keep`], is closed by hand only.
    ///
    /// ```no_run
    /// # use nalix_core::{Connection, packet};
    /// # #[packet(opcode = 0x3001)]
    /// # struct Moved { x: f32, y: f32 }
    /// # async fn f(connection: Connection) {
    /// let listener = connection.on(|moved: std::sync::Arc<Moved>| println!("{}", moved.x));
    /// // ...
    /// drop(listener);
    /// connection.on::<Moved>(|moved| println!("{}", moved.y)).keep();
    /// # }
    /// ```
    pub fn on<T: Push>(&self, f: impl FnMut(Arc<T>) + Send + 'static) -> Listener {
        Listener::new(&self.shared.pushes, f)
    }

    /// How many one-way packets have come that nobody took: no handler serves them, and nobody was subscribed, or this side
    /// drained, or they are marked `encrypt` and came in the clear. They are dropped.
    pub fn unclaimed(&self) -> u64 {
        self.shared.pushes.unclaimed()
    }

    /// How many one-way packets have come that somebody was subscribed to and that did not decode. They are dropped, and
    /// count for the option [`max_malformed`](crate::connection::Options::max_malformed).
    pub fn malformed_pushes(&self) -> u64 {
        self.shared.pushes.malformed()
    }

    /// How many one-way packets have been left out since the peer reads too slowly for them: droppable ones, those that
    /// were dropped for later ones, and those of which only the latest counts, whether the next has replaced them or there was no
    /// room for their key;
    /// and the one for which [`Connection::try_send_or_close`] has closed.
    pub fn left_out(&self) -> u64 {
        self.shared.lock().left_out_in_all()
    }

    /// Closes the connection: what is in the outbox is written, the peer is told, every call in flight ends. Returns at
    /// once; see [`Connection::closed`].
    pub fn close(&self) {
        self.close_with(CloseReason::new(CloseCode::Normal, ""));
    }

    /// Closes the connection for the given reason, which the peer is told.
    pub fn close_with(&self, reason: CloseReason) {
        self.shared.request_close(reason);
    }

    /// Tells the peer that the connection will close, lets the calls that run finish, refuses new ones, and closes when
    /// none is left, or after `within`.
    pub fn drain(&self, within: Duration) {
        self.shared.request_drain(within);
    }

    /// Ends the connection at once and without a word to the peer: nothing more is written, handlers that run are
    /// dropped. For one that has been asked to close and takes too long.
    pub fn abort(&self) {
        self.shared.request_abort();
    }

    /// Whether the peer has said that it will close soon: it finishes what runs, answers new requests with
    /// [`Code::Unavailable`](crate::Code) and drops one-way packets.
    pub fn is_peer_draining(&self) -> bool {
        self.shared.is_peer_draining()
    }

    /// What has been measured of round trips on this connection: by the pings that keep it alive while the peer is silent
    /// ([`Options::keep_alive`](field@crate::connection::Options::keep_alive)), and by [`Connection::ping`]. `None` until the first
    /// was answered.
    pub fn rtt(&self) -> Option<Rtt> {
        self.shared.rtt()
    }

    /// Measures a round trip now: how long until the peer has answered a ping, behind what waits in front of it on the link.
    /// Its handlers have no part in it. Those who ask while a ping is on its way get its time.
    ///
    /// Cancel safe: the ping is sent or not, and measured if it is.
    ///
    /// # Errors
    /// Why the connection has ended, if it does before the answer.
    pub async fn ping(&self) -> Result<Duration, CloseReason> {
        match self.shared.request_ping().await {
            Ok(took) => Ok(took),
            Err(_) => Err(self.closed().await),
        }
    }

    /// When the peer will close at the latest, if it has said that it will close soon and that is not too far away to tell.
    pub fn peer_drain_deadline(&self) -> Option<Instant> {
        self.shared.peer_drain_deadline().map(Into::into)
    }

    /// Waits until the peer says that it will close soon, or the connection has ended. Cancel safe.
    pub async fn peer_draining(&self) {
        self.shared.reached(|life| life.peer_drain.is_some() || life.closed.is_some()).await;
    }

    /// Waits until this side has begun to drain, or the connection has ended: for handlers that would otherwise go on until
    /// they are cut off, such as streams without an end. Cancel safe.
    ///
    /// ```no_run
    /// # use nalix_core::Context;
    /// # async fn next_round() {}
    /// # async fn f(ctx: &Context) {
    /// loop {
    ///     tokio::select! {
    ///         () = ctx.draining() => break,
    ///         () = next_round() => {}
    ///     }
    /// }
    /// # }
    /// ```
    pub async fn draining(&self) {
        self.shared.reached(|life| life.drain.is_some() || life.closed.is_some()).await;
    }

    /// How many bytes wait to be written, those of large messages included. Small amounts that the driver is just writing do
    /// not count.
    pub fn queued_bytes(&self) -> usize {
        self.shared.waiting_len()
    }

    /// Why the connection has ended, if it has.
    pub fn close_reason(&self) -> Option<CloseReason> {
        self.shared.close_reason()
    }

    /// Waits until the connection has ended. Cancel safe.
    pub async fn closed(&self) -> CloseReason {
        self.shared.reached(|life| life.closed.is_some()).await;
        self.close_reason().unwrap_or_else(|| CloseReason::new(CloseCode::Lost, ""))
    }

    /// Whether this side closes the connection, or has closed it, for something that a peer must not do: it broke the protocol,
    /// or sent more packets that do not decode than [`Options::max_malformed`](crate::connection::Options) allows.
    pub fn is_peer_at_fault(&self) -> bool {
        self.shared.is_peer_at_fault()
    }

    /// How many bytes wait to be written.
    pub fn unwritten_bytes(&self) -> usize {
        self.shared.backlog()
    }

    /// How many calls of ours the peer has not answered yet.
    pub fn calls_in_flight(&self) -> usize {
        self.shared.in_flight()
    }

    /// How many calls of ours, streams among them, had no answer or no end when the connection ended.
    pub fn lost_calls(&self) -> usize {
        self.shared.lock().lost_calls
    }

    /// Answers that came when nobody waited for them any more, or that answered no call at all.
    pub fn late_answers(&self) -> u64 {
        self.shared.lock().calls.late
    }

    pub(crate) fn router_changed(&self) {
        self.shared.router_changed();
    }

    /// Keeps a value with the connection, one of each type, and returns the one it replaces.
    pub fn set<T: Send + Sync + 'static>(&self, value: T) -> Option<Arc<T>> {
        self.shared.attributes.set(value)
    }

    /// The value of this type kept with the connection.
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.shared.attributes.get()
    }

    /// The value of this type kept with the connection; if there is none, the one that `make` makes is kept.
    ///
    /// Of several who ask at once, all get the same. `make` must not touch the values kept with the connection.
    pub fn get_or_set<T: Send + Sync + 'static>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        self.shared.attributes.get_or_set(make)
    }

    /// Takes the value of this type out.
    pub fn remove<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.shared.attributes.remove()
    }
}
