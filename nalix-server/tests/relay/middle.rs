//! The one in the middle.

use nalix_core::{
    handshake,
    link::StreamLink,
    record::{self, RecordKind},
};
use nalix_server::ServerHandle;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, duplex, split};

use crate::support::within;

/// One of the two who believe that they talk with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Party {
    Client,
    Server,
}

impl Party {
    pub(crate) const BOTH: [Party; 2] = [Party::Client, Party::Server];

    pub(crate) fn other(self) -> Self {
        match self {
            Party::Client => Party::Server,
            Party::Server => Party::Client,
        }
    }
}

/// Passes on nothing by itself.
pub(crate) struct Middle {
    client: End,
    server: End,
}

/// One end of a link, which says and hears records by hand.
pub(crate) struct End {
    read: ReadHalf<DuplexStream>,
    write: WriteHalf<DuplexStream>,
    /// What has been read and not been taken.
    rest: Vec<u8>,
}

impl End {
    /// Opposite the server, as somebody it does not know.
    pub(crate) fn of(server: &ServerHandle) -> Self {
        let (ours, theirs) = duplex(CAPACITY);
        server.serve_link(StreamLink::new(theirs));
        Self::new(ours)
    }

    fn new(stream: DuplexStream) -> Self {
        let (read, write) = split(stream);
        Self { read, write, rest: Vec::new() }
    }

    /// Takes the next whole record, with its header. `None` at the end.
    pub(crate) async fn take(&mut self) -> Option<Vec<u8>> {
        within("a record", async {
            loop {
                if let Some(header) = self.rest.first_chunk::<{ record::HEADER }>() {
                    let (_, len) = record::parse(*header).expect("honest records only");
                    if self.rest.len() >= record::HEADER + len {
                        return Some(self.rest.drain(..record::HEADER + len).collect());
                    }
                }
                if self.read.read_buf(&mut self.rest).await.unwrap_or(0) == 0 {
                    assert!(self.rest.is_empty(), "the end inside a record");
                    return None;
                }
            }
        })
        .await
    }

    /// Takes the next record, which must be there and of this kind.
    pub(crate) async fn take_kind(&mut self, kind: RecordKind) -> Vec<u8> {
        let record = self.take().await.unwrap_or_else(|| panic!("the end instead of a {kind:?}"));
        let found = record::parse(*record.first_chunk().unwrap()).unwrap().0;
        assert_eq!(found, kind);
        record
    }

    /// Says something. The other end may have closed already.
    pub(crate) async fn give(&mut self, bytes: &[u8]) {
        drop(within("taken", self.write.write_all(bytes)).await);
    }

    /// Says that nothing more comes.
    pub(crate) async fn end(&mut self) {
        drop(self.write.shutdown().await);
    }
}

impl Middle {
    /// Between a server and a client who is to connect over the link.
    pub(crate) fn new(server: &ServerHandle) -> (Self, StreamLink<DuplexStream>) {
        let (client, theirs) = duplex(CAPACITY);
        (Self { client: End::new(client), server: End::of(server) }, StreamLink::new(theirs))
    }

    /// Takes the next whole record that this party says, with its header. `None` at the end.
    pub(crate) async fn take(&mut self, from: Party) -> Option<Vec<u8>> {
        self.end_of(from).take().await
    }

    /// Takes the next record, which must be there and of this kind.
    pub(crate) async fn take_kind(&mut self, from: Party, kind: RecordKind) -> Vec<u8> {
        self.end_of(from).take_kind(kind).await
    }

    /// Gives the server a record, and takes what it says to that.
    pub(crate) async fn answer_to(&mut self, record: &[u8]) -> Vec<u8> {
        self.give(Party::Server, record).await;
        self.take_kind(Party::Server, RecordKind::Sealed).await
    }

    /// Gives a party what it takes for the other's words.
    pub(crate) async fn give(&mut self, to: Party, bytes: &[u8]) {
        self.end_of(to).give(bytes).await;
    }

    /// Passes on the next record, and returns it.
    pub(crate) async fn pass(&mut self, from: Party) -> Vec<u8> {
        let record = self.take(from).await.expect("a record");
        self.give(from.other(), &record).await;
        record
    }

    /// Makes a party believe that the other has ended.
    pub(crate) async fn end(&mut self, to: Party) {
        self.end_of(to).end().await;
    }

    /// From here on passes everything on as it is, until both have ended.
    pub(crate) async fn step_aside(self) {
        let Self { client, server } = self;
        within("the end of both", async {
            tokio::join!(
                copy(client.rest, client.read, server.write),
                copy(server.rest, server.read, client.write)
            )
        })
        .await;
    }

    fn end_of(&mut self, party: Party) -> &mut End {
        match party {
            Party::Client => &mut self.client,
            Party::Server => &mut self.server,
        }
    }
}

/// Goes on reading when the other side takes nothing any more, and the other way round.
async fn copy(mut bytes: Vec<u8>, mut from: ReadHalf<DuplexStream>, mut to: WriteHalf<DuplexStream>) {
    loop {
        drop(to.write_all(&bytes).await);
        bytes.clear();
        if from.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            drop(to.shutdown().await);
            return;
        }
    }
}

const CAPACITY: usize = 4 * handshake::MAX_HELLO;
