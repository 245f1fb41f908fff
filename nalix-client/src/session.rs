//! The client's end of a conversation.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use nalix_core::{
    CloseReason, Connection, Duplex, DuplexRequest, Incoming, Listener, OneWay, Push, Queue, Request, Rtt,
    SendError, StreamRequest, Subscription, Upload, UploadRequest,
    controller::{Controller, RouterError},
    handshake::SessionTicket,
};

use tokio::time::timeout;

use crate::{
    ClockError, Events, OpenBuilder, RequestBuilder, SendFuture, ServerTime, SessionState, reconnect::Line,
    send,
};

/// A session with a server, over one connection after the other: when it loses one, it looks for another, and keeps its
/// subscriptions and what it serves. Cheap to clone; it is over when the last clone is dropped.
///
/// See [`ReconnectOptions`](crate::ReconnectOptions) and `docs/reconnect.md`.
#[derive(Debug, Clone)]
pub struct Session {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    line: Arc<Line>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.line.close();
    }
}

impl Session {
    pub(crate) fn new(line: Arc<Line>) -> Self {
        Self { inner: Arc::new(Inner { line }) }
    }

    pub(crate) fn line(&self) -> Arc<Line> {
        Arc::clone(&self.inner.line)
    }

    /// Calls the server: await the result, or set options first. See
    /// [`RequestFuture`](nalix_core::RequestFuture) for what happens when it is dropped.
    ///
    /// ```no_run
    /// # use nalix_client::{Session, RequestError, packet};
    /// # use std::time::Duration;
    /// #[packet(opcode = 0x1001, reply = u64)]
    /// struct Count;
    ///
    /// # async fn f(session: Session) -> Result<(), Box<dyn std::error::Error>> {
    /// let n = session.request(Count).await?;
    /// match session.request(Count).timeout(Duration::from_millis(200)).await {
    ///     Ok(n) => println!("{n}"),
    ///     Err(RequestError::Timeout) => println!("too slow"),
    ///     Err(error) => return Err(error.into()),
    /// }
    /// # Ok(()) }
    /// ```
    pub fn request<P: Request>(&self, packet: P) -> RequestBuilder<P> {
        let (connection, online) = self.inner.line.route();
        RequestBuilder::new(connection.request(packet), online)
    }

    /// Asks the server for a stream: await the [`Incoming`], or set options first.
    ///
    /// ```no_run
    /// # use nalix_client::{Session, packet};
    /// #[packet(opcode = 0x4001, stream = u64)]
    /// struct Watch;
    ///
    /// # async fn f(session: Session) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut ticks = session.stream(Watch).await?;
    /// while let Some(tick) = ticks.next().await {
    ///     println!("{}", tick?);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn stream<P: StreamRequest>(&self, packet: P) -> OpenBuilder<P, Incoming<P::Item, P::Error>> {
        let (connection, online) = self.inner.line.route();
        OpenBuilder::new(connection.stream(packet), online)
    }

    /// Starts an upload: await the [`Upload`], send its chunks, and finish it to get the answer.
    ///
    /// ```no_run
    /// # use nalix_client::{Session, packet};
    /// #[packet(opcode = 0x4002, upload = Vec<u8>, reply = u64)]
    /// struct Store {
    ///     name: String,
    /// }
    ///
    /// # async fn f(session: Session) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut upload = session.upload(Store { name: "notes".into() }).await?;
    /// upload.send(&vec![1, 2, 3]).await?;
    /// println!("{} bytes are stored", upload.finish().await?);
    /// # Ok(()) }
    /// ```
    pub fn upload<P: UploadRequest>(&self, packet: P) -> OpenBuilder<P, Upload<P>> {
        let (connection, online) = self.inner.line.route();
        OpenBuilder::new(connection.upload(packet), online)
    }

    /// Opens a stream in both directions.
    ///
    /// ```no_run
    /// # use nalix_client::{Session, packet};
    /// #[packet(opcode = 0x4003, upload = String, stream = String)]
    /// struct Shell;
    ///
    /// # async fn f(session: Session) -> Result<(), Box<dyn std::error::Error>> {
    /// let (mut input, mut output) = session.duplex(Shell).await?;
    /// input.send(&"ls".to_owned()).await?;
    /// let line = output.next().await;
    /// # Ok(()) }
    /// ```
    pub fn duplex<P: DuplexRequest>(&self, packet: P) -> OpenBuilder<P, Duplex<P>> {
        let (connection, online) = self.inner.line.route();
        OpenBuilder::new(connection.duplex(packet), online)
    }

    /// Sends a one-way packet: done when it is in the outbox. Cancel safe: see [`SendFuture`]. Takes a reference, since the
    /// packet is not kept, where a request is kept until its turn has come.
    ///
    /// A server that drains drops one-way packets; see [`SessionState::Draining`].
    ///
    /// # Errors
    /// [`SendError`] if the session is over or the packet cannot be sent.
    pub fn send<'a, P: OneWay>(&'a self, packet: &'a P) -> SendFuture<'a, P> {
        SendFuture::new(&self.inner.line, packet)
    }

    /// Sends a one-way packet without waiting.
    ///
    /// # Errors
    /// [`SendError::Full`] if the outbox has no room now, else as [`Session::send`].
    pub fn try_send<P: OneWay>(&self, packet: &P) -> Result<(), SendError> {
        send::try_send(&self.inner.line, packet)
    }

    /// Subscribes to a one-way packet of the server's. Packets are queued from now on, until the subscription is dropped or
    /// the session is over; when as many wait as the option [`push_queue`](crate::Options::push_queue) says, the oldest are
    /// left out. A subscription does not keep the session open.
    ///
    /// What the server sends as soon as it sees the connection may come before this can be called; see
    /// [`ClientBuilder::on`](crate::ClientBuilder::on). A packet that a controller serves goes to both.
    ///
    /// ```no_run
    /// # use nalix_client::{Session, packet};
    /// #[packet(opcode = 0x3001)]
    /// struct Moved {
    ///     x: f32,
    ///     y: f32,
    /// }
    ///
    /// # async fn f(session: Session) {
    /// let mut moves = session.subscribe::<Moved>();
    /// while let Some(moved) = moves.next().await {
    ///     match moved {
    ///         Ok(moved) => println!("at {}, {}", moved.x, moved.y),
    ///         Err(lagged) => println!("{lagged}"),
    ///     }
    /// }
    /// println!("it is over: {:?}", session.state());
    /// # }
    /// ```
    pub fn subscribe<T: Push>(&self) -> Subscription<T> {
        self.subscribe_with(Queue::drop_oldest(self.inner.line.push_queue))
    }

    /// As [`Session::subscribe`], with a queue of its own kind.
    ///
    /// ```no_run
    /// # use nalix_client::{Queue, Session, packet};
    /// # #[packet(opcode = 0x3001)]
    /// # struct Moved { x: f32, y: f32 }
    /// # fn f(session: Session) {
    /// // Only where it is now matters, not how it got there.
    /// let mut position = session.subscribe_with::<Moved>(Queue::latest());
    /// # }
    /// ```
    pub fn subscribe_with<T: Push>(&self, queue: Queue) -> Subscription<T> {
        self.inner.line.audience.subscribe_with(queue)
    }

    /// Calls a closure with each one-way packet of this type, from now on until the [`Listener`] is dropped. The closure
    /// should be short, since the connection waits for it; see [`Connection::on`].
    ///
    /// ```no_run
    /// # use nalix_client::{Session, packet};
    /// # #[packet(opcode = 0x3001)]
    /// # struct Moved { x: f32, y: f32 }
    /// # fn f(session: Session) {
    /// let listener = session.on::<Moved>(|moved| println!("at {}, {}", moved.x, moved.y));
    /// // ...
    /// drop(listener);
    /// # }
    /// ```
    pub fn on<T: Push>(&self, f: impl FnMut(Arc<T>) + Send + 'static) -> Listener {
        self.inner.line.audience.on(f)
    }

    /// How many one-way packets have come that nobody took: no controller serves them, and nobody was subscribed. They are
    /// dropped.
    pub fn unclaimed(&self) -> u64 {
        self.inner.line.audience.unclaimed()
    }

    /// Answers the server's requests, and takes its one-way packets, with one more controller, from now on.
    ///
    /// # Errors
    /// [`RouterError`] if it serves an opcode that is served already, or needs a state that the builder was not given.
    pub fn serve<C: Controller>(&self, controller: C) -> Result<(), RouterError> {
        self.inner.line.router.add(controller, &self.inner.line.connection())
    }

    /// How the session is now.
    pub fn state(&self) -> SessionState {
        self.inner.line.session_state()
    }

    /// What happens to the session from now on: that it loses its connection, looks for another, has found one.
    ///
    /// ```no_run
    /// # use nalix_client::{Session, SessionEvent};
    /// # async fn f(session: Session) {
    /// let mut events = session.events();
    /// while let Some(event) = events.next().await {
    ///     match event {
    ///         SessionEvent::Retrying { attempt, delay } => println!("attempt {attempt} in {delay:?}"),
    ///         SessionEvent::Fresh { lost } => println!("back, and {lost} calls are lost: log in again"),
    ///         other => println!("{other:?}"),
    ///     }
    /// }
    /// # }
    /// ```
    pub fn events(&self) -> Events {
        self.inner.line.events()
    }

    /// Waits until the session has a connection, which it may have already. Cancel safe.
    ///
    /// # Errors
    /// Why the session is over, if it is.
    pub async fn connected(&self) -> Result<(), CloseReason> {
        self.inner.line.connected().await
    }

    /// Tells the session that the network may be another one now: a telephone has changed from one to the other, a computer
    /// has woken up. A session that waits for its next attempt makes it at once, unless the server has asked it to wait; one
    /// that has a connection sees within 3 s whether that still works.
    pub fn network_changed(&self) {
        self.inner.line.hint();
    }

    /// How many calls and sends wait for a connection.
    pub fn waiting(&self) -> usize {
        self.inner.line.waiting()
    }

    /// Waits until the server says that it will close soon, or the connection has ended: see [`Session::state`]. When it closes, the
    /// session looks for another connection; what runs until then finishes. Cancel safe.
    pub async fn draining(&self) {
        self.inner.line.connection().peer_draining().await;
    }

    /// Waits until the session is over. Cancel safe.
    pub async fn closed(&self) -> CloseReason {
        self.inner.line.closed().await
    }

    /// Writes what waits, tells the server, and ends the session. Calls in flight end with
    /// [`RequestError::Disconnected`](nalix_core::RequestError). Cancel safe: once called, the session ends.
    pub async fn close(&self) -> CloseReason {
        self.inner.line.close();
        self.closed().await
    }

    /// With what this session can be resumed later, by [`ClientBuilder::resume`](crate::ClientBuilder::resume), once. `None` if
    /// the server keeps no sessions. It is a secret: whoever has it can go on with the session.
    pub fn ticket(&self) -> Option<SessionTicket> {
        self.inner.line.ticket()
    }

    /// Whether the server has gone on with an earlier session.
    pub fn is_resumed(&self) -> bool {
        self.inner.line.is_resumed()
    }

    /// The connection under it: the one it has, or the last one it had.
    pub fn connection(&self) -> Connection {
        self.inner.line.connection()
    }

    /// Measures a round trip now; see [`Connection::ping`]. What has been measured so far is in [`Session::rtt`].
    ///
    /// Cancel safe.
    ///
    /// # Errors
    /// Why the connection has ended, if it does before the answer. One that has lost its link and goes on over another answers late.
    pub async fn ping(&self) -> Result<Duration, CloseReason> {
        self.connection().ping().await
    }

    /// What is known of round trips on the current connection: the latest, a smoothed mean, the jitter and the shortest. `None` until
    /// the first was measured.
    pub fn rtt(&self) -> Option<Rtt> {
        self.connection().rtt()
    }

    /// The server's time now, and by how much that may be off. `None` until the first [`Session::sync_clock`] has come through.
    ///
    /// It never goes back, also when the server's clock is set back: then it goes at half the pace until it is right again.
    ///
    /// ```no_run
    /// # async fn f(session: nalix_client::Session) -> Result<(), Box<dyn std::error::Error>> {
    /// session.sync_clock().await?;
    /// if let Some(now) = session.server_time() {
    ///     println!("{:?}, give or take {:?}", now.time, now.error);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn server_time(&self) -> Option<ServerTime> {
        self.inner.line.clock.read(Instant::now())
    }

    /// Learns what time it is at the server: by five round trips, of which the best counts, each within 2 s. Do so again now and
    /// then (every minute or so): what it rests on ages, and how fast the server's clock goes is learnt from sample to sample.
    ///
    /// Cancel safe: what has come through by then counts.
    ///
    /// # Errors
    /// [`ClockError`] if not one of them was answered.
    pub async fn sync_clock(&self) -> Result<ServerTime, ClockError> {
        let mut error = ClockError::Unanswered;
        for _ in 0..SAMPLES {
            let connection = self.connection();
            match timeout(PATIENCE, connection.sample_clock()).await {
                Ok(Ok(sample)) => self.inner.line.clock.add(connection.id(), sample),
                Ok(Err(reason)) => {
                    error = ClockError::Closed(reason);
                    break;
                }
                Err(_) => break,
            }
        }
        self.server_time().ok_or(error)
    }

    /// Whether it looks for another connection when it loses one.
    pub fn reconnects(&self) -> bool {
        self.inner.line.reconnects()
    }
}

/// How many round trips make up a look at the server's clock.
const SAMPLES: usize = 5;
/// How long each may take.
const PATIENCE: Duration = Duration::from_secs(2);
