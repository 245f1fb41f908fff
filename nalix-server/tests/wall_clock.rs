//! The system's clock is set while tickets, rates and bans are live: none of them ends later for it, or forgets.
//!
//! Rates and bans take the time from the runtime's clock alone, so only that of the store can be set here.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use nalix_client::{Client, ConnectError, Session, SessionTicket};
use nalix_core::{CloseCode, link::StreamLink};
use nalix_server::{
    Identity, Options, PublicKey, Server, ServerHandle, packet, packet_controller, store::MemoryStore,
};
use support::soon;
use tokio::{
    io::duplex,
    time::{Instant, advance},
};

#[packet(opcode = 0x1001, reply = ())]
struct Rare;

struct Game;

#[packet_controller]
impl Game {
    #[packet(rate = "1/h")]
    fn rare(&self, _: Rare) {}
}

struct World {
    server: ServerHandle,
    key: PublicKey,
    /// Where the system's clock stands, once it has been set.
    wall: Arc<Mutex<Option<SystemTime>>>,
}

impl World {
    async fn new() -> Self {
        let wall = Arc::new(Mutex::new(None));
        let clock = Arc::clone(&wall);
        let store = MemoryStore::new()
            .clock(move || clock.lock().unwrap().unwrap_or_else(SystemTime::now))
            .monotonic_clock(|| Instant::now().into_std());
        let identity = Identity::generate().unwrap();
        let key = identity.public_key();
        let server = Server::builder()
            .identity(identity)
            .sessions(store)
            .ticket_lifetime(HOUR)
            .no_listener()
            .options(Options::default().keep_alive(None))
            .controller(Game);
        Self { server: server.build().await.unwrap().spawn().0, key, wall }
    }

    async fn connect(&self, from: IpAddr, ticket: Option<SessionTicket>) -> Result<Session, ConnectError> {
        let (ours, theirs) = duplex(1 << 16);
        let from = SocketAddr::new(from, 1_000);
        self.server.serve_link(StreamLink::new(theirs).with_addrs(Some(from), None));
        let options = Options::default().keep_alive(None);
        let client = Client::builder("memory").server_key(self.key).options(options);
        let client = match ticket {
            Some(ticket) => client.resume(ticket),
            None => client,
        };
        soon(client.connect_over(StreamLink::new(ours))).await
    }
}

const HOUR: Duration = Duration::from_secs(3_600);
const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_or_forward_lengthens_no_ticket_rate_or_ban() {
    let now = SystemTime::now();
    for set in [UNIX_EPOCH, now - HOUR, now - HOUR / 6, now + HOUR / 6, now + 1_000 * HOUR] {
        let world = World::new().await;
        let (good, bad) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
        let session = world.connect(good, None).await.unwrap();
        let late = world.connect(good, None).await.unwrap().ticket().unwrap();
        session.request(Rare).await.unwrap();
        assert!(world.server.guard().ban(bad, HOUR));

        *world.wall.lock().unwrap() = Some(set);
        advance(HOUR - SECOND).await;
        assert!(session.request(Rare).await.is_err(), "{set:?}: the rate has forgotten");
        assert!(world.connect(bad, None).await.is_err(), "{set:?}: the ban is over");
        let resumed = world.connect(good, session.ticket()).await.unwrap();
        assert!(resumed.is_resumed(), "{set:?}: the ticket has ended early");
        assert!(resumed.request(Rare).await.is_err(), "{set:?}: the session's rate has forgotten");

        advance(SECOND).await;
        resumed.request(Rare).await.unwrap();
        assert!(world.connect(bad, None).await.is_ok(), "{set:?}: the ban goes on");
        let Err(ConnectError::Refused(reason)) = world.connect(good, Some(late)).await else {
            panic!("{set:?}: the ticket lives on");
        };
        assert_eq!(reason.code, CloseCode::TicketRefused);
    }
}
