//! A server and its clients, with who knows what about whom.

use std::sync::{Arc, Mutex};

use nalix_client::{Client, ClientBuilder, ConnectError, Session};
use nalix_core::{
    Identity, PublicKey, RequestError, Sealing, link::memory, packet::NoError, record::RecordKind,
};
use nalix_server::{
    CloseReason, Context, Server, ServerBuilder, ServerHandle, packet, packet_controller, store::MemoryStore,
};
use tokio::task::JoinHandle;

use crate::{
    middle::{Middle, Party},
    support::{Live, until, within},
};

#[packet(opcode = 0x1001, reply = u32)]
pub(crate) struct Double(pub(crate) u32);

#[packet(opcode = 0x1002)]
pub(crate) struct News(pub(crate) u32);

#[packet(opcode = 0x1003, reply = u32, encrypt)]
pub(crate) struct Secret(pub(crate) u32);

/// Served on both sides. Clones are the same.
#[derive(Default, Clone)]
pub(crate) struct Game {
    pub(crate) runs: Live,
    pub(crate) connected: Live,
    ended: Arc<Mutex<Vec<CloseReason>>>,
}

#[packet_controller]
impl Game {
    #[packet]
    fn double(&self, Double(n): Double) -> u32 {
        drop(self.runs.enter());
        n * 2
    }

    #[packet]
    fn news(&self, _: News) {
        drop(self.runs.enter());
    }

    #[packet]
    fn secret(&self, Secret(n): Secret) -> u32 {
        drop(self.runs.enter());
        n + 1
    }

    #[connected]
    fn connected(&self, _: &Context) {
        drop(self.connected.enter());
    }

    #[disconnected]
    fn disconnected(&self, _: &Context, reason: &CloseReason) {
        self.ended.lock().unwrap().push(reason.clone());
    }
}

impl Game {
    /// Why the last connection has ended on this side.
    pub(crate) fn last_end(&self) -> Option<CloseReason> {
        self.ended.lock().unwrap().last().cloned()
    }
}

/// How a client comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    Pinned,
    Mutual,
    Resumed,
}

impl How {
    pub(crate) const ALL: [How; 3] = [How::Pinned, How::Mutual, How::Resumed];
}

pub(crate) struct World {
    pub(crate) server: ServerHandle,
    pub(crate) game: Game,
    pub(crate) key: PublicKey,
    pub(crate) me: Identity,
    sealing: Sealing,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(Sealing::All, |server| server).await
    }

    pub(crate) async fn with(sealing: Sealing, set: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Self {
        let (identity, me) = (Identity::generate().unwrap(), Identity::generate().unwrap());
        let (key, game) = (identity.public_key(), Game::default());
        let server = Server::builder().identity(identity).sealing(sealing).sessions(MemoryStore::new());
        let server = set(server.no_listener().controller(game.clone()));
        Self { server: server.build().await.unwrap().handle(), game, key, me, sealing }
    }

    /// A client that has what it needs to come in like this.
    pub(crate) async fn client(&self, how: How) -> ClientBuilder {
        let client = Client::builder("relay").sealing(self.sealing);
        match how {
            How::Pinned => client.server_key(self.key),
            How::Mutual => client.server_key(self.key).identity(self.me.clone()),
            How::Resumed => {
                let first = Client::builder("relay").server_key(self.key).identity(self.me.clone());
                let session = self.directly(first).await.expect("the handshake succeeds");
                let ticket = session.ticket().expect("a ticket").clone();
                session.close().await;
                client.resume(ticket)
            }
        }
    }

    /// Connects with nobody in between.
    pub(crate) async fn directly(&self, client: ClientBuilder) -> Result<Session, ConnectError> {
        let (ours, theirs) = memory::pair(1 << 16);
        self.server.serve_link(theirs);
        within("the handshake", client.connect_over(ours)).await
    }

    /// Begins to connect.
    pub(crate) fn begin(&self, client: ClientBuilder) -> (Middle, Connecting) {
        let (middle, link) = Middle::new(&self.server);
        (middle, tokio::spawn(client.connect_over(link)))
    }

    /// Connects, with an honest relay so far.
    pub(crate) async fn open(&self, how: How) -> Open {
        let theirs = Game::default();
        let before = self.server.connection_count();
        let client = self.client(how).await.controller(theirs.clone());
        let (mut middle, connecting) = self.begin(client);
        let mut flight = middle.pass(Party::Client).await;
        middle.pass(Party::Server).await;
        let session = connecting.await.unwrap().expect("the handshake succeeds");
        if how != How::Resumed {
            let ready = middle.take_kind(Party::Client, RecordKind::Sealed).await;
            assert_eq!(self.server.connection_count(), before, "the client may be a recording");
            middle.give(Party::Server, &ready).await;
            flight.extend(ready);
        }
        until("open at the server", || self.server.connection_count() == before + 1).await;
        Open { middle, session, theirs, flight }
    }

    /// Waits until the server has no connection.
    pub(crate) async fn is_empty(&self) {
        until("the server is empty", || self.server.connection_count() == 0).await;
    }

    /// Expects the server to be as good as before.
    pub(crate) async fn serves(&self) {
        let session = self.directly(self.client(How::Pinned).await).await.expect("the server has a place");
        assert_eq!(session.request(Double(4)).await.unwrap(), 8);
        session.close().await;
        self.is_empty().await;
    }
}

pub(crate) type Connecting = JoinHandle<Result<Session, ConnectError>>;

/// A connection with somebody in the middle.
pub(crate) struct Open {
    pub(crate) middle: Middle,
    pub(crate) session: Session,
    /// What the client serves.
    pub(crate) theirs: Game,
    /// All that the client has sent so far.
    pub(crate) flight: Vec<u8>,
}

pub(crate) type Calling = JoinHandle<Result<u32, RequestError<NoError>>>;

impl Open {
    /// Makes the client call, and takes what it says.
    pub(crate) async fn call(&mut self, n: u32) -> (Calling, Vec<u8>) {
        let session = self.session.clone();
        let calling = tokio::spawn(async move { session.request(Double(n)).await });
        (calling, self.middle.take_kind(Party::Client, RecordKind::Sealed).await)
    }

    /// A whole call, passed on honestly. Returns the request's record and the answer's.
    pub(crate) async fn exchange(&mut self) -> (Vec<u8>, Vec<u8>) {
        let (calling, request) = self.call(1).await;
        let reply = self.middle.answer_to(&request).await;
        self.middle.give(Party::Client, &reply).await;
        assert_eq!(calling.await.unwrap().unwrap(), 2);
        (request, reply)
    }
}
