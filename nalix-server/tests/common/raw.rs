//! A peer that speaks the protocol frame by frame.

use bytes::Bytes;
use nalix_core::{
    CallId, Opcode,
    error::ProtocolError,
    frame::{FrameKind, Head, Metadata},
    handshake::{Contracts, Hello, HelloReply, MAX_HELLO_REPLY, Params},
    record::{self, RecordKind},
    session::{Frame, Inbound, Outbound},
};
use nalix_server::{ServerHandle, link::StreamLink};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

pub(crate) struct RawPeer {
    io: DuplexStream,
    inbound: Inbound,
    outbound: Outbound,
}

impl RawPeer {
    /// Connects and shakes hands.
    pub(crate) async fn connect(server: &ServerHandle) -> Self {
        let (mut io, theirs) = tokio::io::duplex(1 << 20);
        server.serve_link(StreamLink::new(theirs));
        let params = Params::new(1 << 20, 1024, Contracts::default());
        io.write_all(&record::build(RecordKind::Hello, &Hello::new(&params).body())).await.unwrap();
        let mut peer = Self { io, inbound: Inbound::new(MAX_HELLO_REPLY), outbound: Outbound::new(1 << 20) };
        let reply = loop {
            if let Some(record) = peer.inbound.next_record().unwrap() {
                assert_eq!(record.kind, RecordKind::HelloReply);
                break HelloReply::parse(&record.body).unwrap();
            }
            peer.fill().await;
        };
        assert_eq!(reply.version, 1);
        peer.inbound.establish(1 << 20);
        peer
    }

    pub(crate) fn request(&mut self, id: u32, opcode: u16, payload: &[u8]) {
        self.append(Head::request(CallId::new(id), Opcode::new(opcode)), payload);
    }

    pub(crate) fn notify(&mut self, opcode: u16, payload: &[u8]) {
        self.append(Head::notify(Opcode::new(opcode)), payload);
    }

    pub(crate) fn plain(&mut self, kind: FrameKind, payload: &[u8]) {
        self.append(Head::plain(kind), payload);
    }

    fn append(&mut self, head: Head, payload: &[u8]) {
        self.outbound.append(head, Metadata::default(), payload.len(), |w| w.put(payload)).unwrap();
    }

    pub(crate) async fn flush(&mut self) {
        let bytes = self.outbound.take(Vec::new());
        self.io.write_all(&bytes).await.unwrap();
    }

    /// Writes bytes that need not be a record.
    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        self.io.write_all(bytes).await.unwrap();
    }

    /// The next frame, or `None` at the end of the link.
    pub(crate) async fn frame(&mut self) -> Option<Frame> {
        loop {
            match self.inbound.next_frame() {
                Ok(Some(frame)) => return Some(frame),
                Ok(None) => {}
                Err(error) => panic!("{}", as_text(&error)),
            }
            if self.fill().await == 0 {
                return None;
            }
        }
    }

    async fn fill(&mut self) -> usize {
        self.io.read_buf(self.inbound.buffer()).await.unwrap()
    }
}

/// The payload of a frame with a failure, as a status.
pub(crate) fn status(payload: &Bytes) -> nalix_server::Status {
    match nalix_core::frame::decode_failure(payload).unwrap() {
        nalix_server::Failure::Status(status) => status,
        other => panic!("{other:?}"),
    }
}

fn as_text(error: &ProtocolError) -> String {
    format!("the server broke the protocol: {error}")
}
