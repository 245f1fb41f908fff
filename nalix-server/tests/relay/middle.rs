//! The one in the middle.

use std::time::Duration;

use nalix_core::{
    handshake,
    link::StreamLink,
    record::{self, RecordKind},
};
use nalix_server::ServerHandle;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, duplex, split},
    time::timeout,
};

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
    client: Side,
    server: Side,
}

struct Side {
    read: ReadHalf<DuplexStream>,
    write: WriteHalf<DuplexStream>,
    /// What has been read and not been taken.
    rest: Vec<u8>,
}

impl Middle {
    /// Between a server and a client who is to connect over the link.
    pub(crate) fn new(server: &ServerHandle) -> (Self, StreamLink<DuplexStream>) {
        let (client, theirs) = duplex(CAPACITY);
        let (middle, link) = duplex(CAPACITY);
        server.serve_link(StreamLink::new(link));
        (Self { client: Side::new(client), server: Side::new(middle) }, StreamLink::new(theirs))
    }

    /// Takes the next whole record, with its header. `None` at the end of what this party says.
    pub(crate) async fn take(&mut self, from: Party) -> Option<Vec<u8>> {
        let side = self.side(from);
        within("a record", async {
            loop {
                if let Some(header) = side.rest.first_chunk::<{ record::HEADER }>() {
                    let (_, len) = record::parse(*header).expect("honest records only");
                    if side.rest.len() >= record::HEADER + len {
                        return Some(side.rest.drain(..record::HEADER + len).collect());
                    }
                }
                if side.read.read_buf(&mut side.rest).await.unwrap_or(0) == 0 {
                    assert!(side.rest.is_empty(), "{from:?} has ended inside a record");
                    return None;
                }
            }
        })
        .await
    }

    /// Takes the next record, which must be there and of this kind.
    pub(crate) async fn take_kind(&mut self, from: Party, kind: RecordKind) -> Vec<u8> {
        let record = self.take(from).await.unwrap_or_else(|| panic!("{from:?} has ended without a {kind:?}"));
        assert_eq!(kind_of(&record), kind, "from {from:?}");
        record
    }

    /// Gives the server a record, and takes what it says to that.
    pub(crate) async fn answer_to(&mut self, record: &[u8]) -> Vec<u8> {
        self.give(Party::Server, record).await;
        self.take_kind(Party::Server, RecordKind::Sealed).await
    }

    /// Gives a party what it takes for the other's words. It may have closed already.
    pub(crate) async fn give(&mut self, to: Party, bytes: &[u8]) {
        drop(within("taken", self.side(to).write.write_all(bytes)).await);
    }

    /// Passes on the next record, and returns it.
    pub(crate) async fn pass(&mut self, from: Party) -> Vec<u8> {
        let record = self.take(from).await.expect("a record");
        self.give(from.other(), &record).await;
        record
    }

    /// Makes a party believe that the other has ended.
    pub(crate) async fn end(&mut self, to: Party) {
        drop(self.side(to).write.shutdown().await);
    }

    /// Whether this party is silent for as long as it takes for everything else to happen.
    pub(crate) async fn is_silent(&mut self, from: Party) -> bool {
        let side = self.side(from);
        side.rest.is_empty()
            && timeout(Duration::from_millis(100), side.read.read_buf(&mut side.rest)).await.is_err()
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

    fn side(&mut self, party: Party) -> &mut Side {
        match party {
            Party::Client => &mut self.client,
            Party::Server => &mut self.server,
        }
    }
}

impl Side {
    fn new(stream: DuplexStream) -> Self {
        let (read, write) = split(stream);
        Self { read, write, rest: Vec::new() }
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

pub(crate) fn kind_of(record: &[u8]) -> RecordKind {
    record::parse(*record.first_chunk().unwrap()).unwrap().0
}

const CAPACITY: usize = 4 * handshake::MAX_HELLO;
