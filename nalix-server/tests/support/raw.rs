//! A peer made by hand, that sends whatever bytes a test wants.

use bytes::Bytes;
use nalix_client::{Client, Session};
use nalix_core::{
    CallId, CloseReason, Status,
    error::ProtocolError,
    frame::{Control, FrameKind, Head},
    handshake::{self, Answer, Contracts, Hello, Params, Responder, ServerSecurity},
    link::StreamLink,
    record::{RecordKind, build},
    session::{Frame, Inbound, Record},
};
use nalix_server::{Options, ServerHandle};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::{frame, record, soon, status};

/// The other end of a server's or client's link.
pub(crate) struct RawPeer {
    pub(crate) stream: DuplexStream,
    inbound: Inbound,
}

impl RawPeer {
    /// A link to the server on which nothing has been said yet.
    pub(crate) fn silent(server: &ServerHandle) -> Self {
        Self::silent_over(server, 1 << 20)
    }

    pub(crate) fn silent_over(server: &ServerHandle, capacity: usize) -> Self {
        let (ours, theirs) = duplex(capacity);
        server.serve_link(StreamLink::new(theirs));
        Self { stream: ours, inbound: Inbound::new(handshake::MAX_HELLO) }
    }

    /// A client whose handshake is done.
    pub(crate) async fn connect(server: &ServerHandle) -> Self {
        Self::connect_over(server, 1 << 20).await
    }

    pub(crate) async fn connect_over(server: &ServerHandle, capacity: usize) -> Self {
        let mut peer = Self::silent_over(server, capacity);
        peer.write(&Self::hello()).await;
        peer.finish_handshake().await;
        peer
    }

    /// A client that takes compressed messages.
    pub(crate) async fn connect_inflating(server: &ServerHandle) -> Self {
        let mut peer = Self::silent(server);
        let params = params().with_compression(true).with_streams(1 << 20);
        peer.write(&build(RecordKind::Hello, &Hello::plaintext(&params).body())).await;
        peer.finish_handshake().await;
        peer.inbound.set_inflation(true);
        peer
    }

    /// A Hello record with generous limits.
    pub(crate) fn hello() -> Vec<u8> {
        build(RecordKind::Hello, &Hello::plaintext(&params()).body())
    }

    /// Reads the answer to a hello.
    pub(crate) async fn finish_handshake(&mut self) {
        let reply = self.record().await.expect("an answer to the hello");
        assert_eq!(reply.kind, RecordKind::HelloReply);
        assert_eq!(Answer::parse(&reply.body).expect("a good reply").version, 1);
        self.inbound.establish(nalix_core::session::MAX_MESSAGE);
    }

    /// A server made by hand, and the client that has connected to it.
    pub(crate) async fn accept(options: Options) -> (Self, Session) {
        Self::accept_over(options, 1 << 20, 65_536).await
    }

    /// The same over a link that takes so many bytes, by a server that takes so many calls.
    pub(crate) async fn accept_over(options: Options, capacity: usize, max_calls: usize) -> (Self, Session) {
        let params = Params::new(nalix_core::session::MAX_MESSAGE, max_calls, Contracts::default());
        Self::accept_with(options, capacity, params).await
    }

    /// The same by a server with these parameters.
    pub(crate) async fn accept_with(options: Options, capacity: usize, params: Params) -> (Self, Session) {
        let inflates = params.compression;
        let (ours, theirs) = duplex(capacity);
        let client = Client::builder("").plaintext().options(options);
        let connecting = tokio::spawn(client.connect_over(StreamLink::new(theirs)));
        let mut peer = Self { stream: ours, inbound: Inbound::new(handshake::MAX_HELLO) };
        let hello = peer.record().await.expect("a hello");
        let hello = Hello::parse(&hello.body).expect("a good hello");
        let responder =
            Responder::read(&hello, params, &ServerSecurity::Plaintext, None).expect("acceptable");
        peer.write(&responder.accept(None, None).expect("acceptable").reply).await;
        peer.inbound.establish(nalix_core::session::MAX_MESSAGE);
        peer.inbound.set_inflation(inflates);
        (peer, connecting.await.expect("no panic").expect("the handshake succeeds"))
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        soon(self.stream.write_all(bytes)).await.expect("the other end takes it");
    }

    /// Writes as far as the other end takes it: it may close in the middle.
    pub(crate) async fn write_some(&mut self, bytes: &[u8]) {
        drop(soon(self.stream.write_all(bytes)).await);
    }

    /// Writes frames in one record.
    pub(crate) async fn send(&mut self, frames: &[Vec<u8>]) {
        self.write(&record(frames)).await;
    }

    /// The next record of the handshake, or `None` at the end of input.
    pub(crate) async fn record(&mut self) -> Option<Record> {
        loop {
            if let Some(record) = self.inbound.next_record().expect("a good record") {
                return Some(record);
            }
            if !self.fill().await {
                return None;
            }
        }
    }

    /// The next frame, or `None` at the end of input.
    pub(crate) async fn frame(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.next_frame().expect("a good frame") {
                return Some(frame);
            }
            if !self.fill().await {
                return None;
            }
        }
    }

    /// The status in the next frame, which must be an Error about the call `id`.
    pub(crate) async fn status(&mut self, id: u32) -> Status {
        let frame = self.frame().await.expect("an answer");
        assert_eq!((frame.kind, frame.id), (FrameKind::Error, CallId::new(id)), "{frame:?}");
        status(&frame.payload)
    }

    /// The payload of the next frame, which must be the Reply to the call `id`.
    pub(crate) async fn reply(&mut self, id: u32) -> Bytes {
        let frame = self.frame().await.expect("an answer");
        assert_eq!((frame.kind, frame.id), (FrameKind::Reply, CallId::new(id)), "{frame:?}");
        frame.payload
    }

    /// Sends a ping and expects its answer next: the other end is well.
    pub(crate) async fn ping(&mut self) {
        self.send(&[frame(Head::plain(FrameKind::Ping), b"are you well?")]).await;
        let pong = self.frame().await.expect("a pong");
        assert_eq!((pong.kind, &pong.payload[..]), (FrameKind::Pong, &b"are you well?"[..]));
    }

    /// Expects a goodbye as the next frame and the end of input behind it.
    pub(crate) async fn goodbye(&mut self) -> CloseReason {
        let frame = self.frame().await.expect("a goodbye");
        assert_eq!(frame.kind, FrameKind::Control, "{frame:?}");
        let reason = match Control::decode(&frame.payload).expect("a good control message") {
            Control::Close(reason) => reason,
            other => panic!("no goodbye: {other:?}"),
        };
        assert_eq!(self.frame().await, None, "nothing comes behind a goodbye");
        reason
    }

    /// Expects the handshake to be refused and the end of input behind that.
    pub(crate) async fn refusal(&mut self) -> CloseReason {
        let record = self.record().await.expect("a refusal");
        assert_eq!(record.kind, RecordKind::Abort, "{record:?}");
        assert_eq!(self.record().await, None, "nothing comes behind a refusal");
        handshake::read_abort(&record.body)
    }

    fn next_frame(&mut self) -> Result<Option<Frame>, ProtocolError> {
        self.inbound.next_frame()
    }

    async fn fill(&mut self) -> bool {
        let buffer = self.inbound.buffer();
        soon(self.stream.read_buf(buffer)).await.unwrap_or(0) > 0
    }
}

fn params() -> Params {
    Params::new(nalix_core::session::MAX_MESSAGE, 65_536, Contracts::default())
}
