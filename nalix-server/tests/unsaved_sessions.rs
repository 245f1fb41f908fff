//! What a server has taken away from a session does not come back, whatever its store does meanwhile.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use nalix_client::{Client, ConnectError, Session, SessionTicket};
use nalix_core::{CloseCode, Permission, link::memory};
use nalix_server::{
    BuildError, Connection, DrainReport, Identity, Options, PublicKey, Server, ServerHandle, packet,
    packet_controller,
    store::{MemoryStore, SessionId, SessionRecord, SessionStore, StoreError, StoreFuture, Taken, TicketId},
};

use support::{soon, until};
use tokio::task::JoinHandle;

type Hook = Box<dyn FnOnce(&MemoryStore) + Send>;

/// A store that fails when it is told to, and has others do things at the worst moment.
#[derive(Clone, Default)]
struct Shaky(Arc<Inner>);

#[derive(Default)]
struct Inner {
    store: MemoryStore,
    /// How many updates fail.
    failing: Mutex<u32>,
    failed: Mutex<u32>,
    before_take: Mutex<Option<Hook>>,
}

impl Shaky {
    fn fail(&self, updates: u32) {
        *self.0.failing.lock().unwrap() = updates;
    }

    fn failed(&self) -> u32 {
        *self.0.failed.lock().unwrap()
    }

    fn before_take(&self, hook: impl FnOnce(&MemoryStore) + Send + 'static) {
        *self.0.before_take.lock().unwrap() = Some(Box::new(hook));
    }
}

impl SessionStore for Shaky {
    fn put(&self, ticket: TicketId, record: SessionRecord) -> StoreFuture<'_, ()> {
        self.0.store.put(ticket, record)
    }

    fn get(&self, ticket: TicketId) -> StoreFuture<'_, Option<SessionRecord>> {
        self.0.store.get(ticket)
    }

    fn take(
        &self,
        ticket: TicketId,
        seen: &SessionRecord,
        next: (TicketId, SessionRecord),
    ) -> StoreFuture<'_, Taken> {
        let hook = self.0.before_take.lock().unwrap().take();
        if let Some(hook) = hook {
            hook(&self.0.store);
        }
        self.0.store.take(ticket, seen, next)
    }

    fn update(&self, ticket: TicketId, record: SessionRecord) -> StoreFuture<'_, bool> {
        let mut failing = self.0.failing.lock().unwrap();
        if *failing > 0 {
            *failing -= 1;
            *self.0.failed.lock().unwrap() += 1;
            return StoreFuture::ready(Err(StoreError::new("unreachable")));
        }
        self.0.store.update(ticket, record)
    }

    fn revoke(&self, session: SessionId, lifetime: Duration) -> StoreFuture<'_, usize> {
        self.0.store.revoke(session, lifetime)
    }
}

#[packet(opcode = 0x1001, reply = ())]
struct Nothing;

struct Quiet;

#[packet_controller]
impl Quiet {
    #[packet]
    fn nothing(&self, _: Nothing) {}
}

struct Both {
    store: Shaky,
    server: ServerHandle,
    key: PublicKey,
}

impl Both {
    async fn new() -> Self {
        Self::running().await.0
    }

    async fn running() -> (Self, JoinHandle<Result<DrainReport, BuildError>>) {
        let (store, identity) = (Shaky::default(), Identity::generate().unwrap());
        let key = identity.public_key();
        let server =
            Server::builder().identity(identity).sessions(store.clone()).no_listener().controller(Quiet);
        let server = server.options(Options::default().keep_alive(None)).build().await.unwrap();
        let (server, running) = server.spawn();
        (Self { store, server, key }, running)
    }

    async fn connect(&self, ticket: Option<SessionTicket>) -> Result<(Session, Connection), ConnectError> {
        let (ours, theirs) = memory::pair(1 << 16);
        let before: Vec<_> = self.server.connections().iter().map(Connection::id).collect();
        self.server.serve_link(theirs);
        let client = Client::builder("memory").server_key(self.key);
        let client = match ticket {
            Some(ticket) => client.resume(ticket),
            None => client,
        };
        let session = soon(client.connect_over(ours)).await?;
        let new = || self.server.connections().into_iter().find(|end| !before.contains(&end.id()));
        until("the server has a connection", || new().is_some()).await;
        Ok((session, new().unwrap()))
    }

    /// An administrator, as the store knows too, and the ticket.
    async fn administrator(&self) -> (Session, Connection, SessionTicket) {
        let (session, there) = self.connect(None).await.unwrap();
        there.set_permission(ADMIN);
        assert!(there.resumption().unwrap().saved().await);
        let ticket = session.ticket().unwrap();
        (session, there, ticket)
    }

    async fn resumed(&self, ticket: SessionTicket) -> Permission {
        let (session, there) = self.connect(Some(ticket)).await.unwrap();
        assert!(session.is_resumed());
        there.permission()
    }
}

const ADMIN: Permission = Permission::new(200);
const GUEST: Permission = Permission::new(1);

fn is_told_to_try_again(error: &ConnectError) -> bool {
    matches!(error, ConnectError::Refused(reason) if reason.code == CloseCode::Internal)
        && error.is_retryable()
}

#[tokio::test(start_paused = true)]
async fn a_permission_that_was_lowered_while_the_store_failed_once_does_not_come_back() {
    let both = Both::new().await;
    let (session, there, ticket) = both.administrator().await;
    both.store.fail(1);
    there.set_permission(GUEST);
    let kept = there.resumption().unwrap().clone();
    assert!(!kept.saved().await, "it has failed");
    session.close().await;
    drop(there);
    // The delay is over on its own: the clock is the only one who does anything.
    until_saved(&both, &ticket).await;
    assert!(kept.saved().await);
    assert_eq!(both.store.failed(), 1);
    assert_eq!(both.resumed(ticket).await, GUEST);
}

/// Waits until nobody is refused for what the store has not taken yet.
async fn until_saved(both: &Both, ticket: &SessionTicket) {
    let permission = async || {
        let record = both.store.get(ticket.id).await.unwrap().unwrap();
        record.data.get::<u8>("nalix.permission").unwrap().unwrap()
    };
    soon(async {
        while permission().await != GUEST.get() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_permission_that_was_lowered_while_the_store_failed_for_long_does_not_come_back() {
    let both = Both::new().await;
    let (session, there, ticket) = both.administrator().await;
    both.store.fail(u32::MAX);
    there.set_permission(GUEST);
    session.close().await;
    drop((session, there));
    // The store has the session as it was, and would give it back.
    for hours in 0..3 {
        let error = both.connect(Some(ticket.clone())).await.unwrap_err();
        assert!(is_told_to_try_again(&error), "{error:?}");
        let failed = both.store.failed();
        // The memory's clock stands still, so the ticket is good for longer than the server believes.
        tokio::time::advance(Duration::from_secs(15 * 60)).await;
        until("it is tried again", || both.store.failed() > failed).await;
        assert!(both.store.failed() < 1_000, "after {hours} quarters it has been asked too often");
    }
    both.store.fail(0);
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(both.resumed(ticket).await, GUEST);
}

/// Those who wait for a store that fails would otherwise hold up their handlers.
#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_store_that_fails_for_long() {
    let both = Both::new().await;
    let (_session, there, _) = both.administrator().await;
    both.store.fail(u32::MAX);
    there.set_permission(GUEST);
    let kept = there.resumption().unwrap();
    assert!(!kept.saved().await);
    kept.insert("n", &1u32).unwrap();
    let started = tokio::time::Instant::now();
    assert!(!kept.saved().await);
    assert_eq!(started.elapsed(), Duration::ZERO, "it has waited for the next attempt");
}

#[tokio::test(start_paused = true)]
async fn attempts_to_save_end_when_the_ticket_has_expired() {
    let both = Both::new().await;
    let (session, there, ticket) = both.administrator().await;
    both.store.fail(u32::MAX);
    there.set_permission(GUEST);
    session.close().await;
    drop((session, there));
    tokio::time::sleep(Duration::from_secs(2 * 60 * 60)).await;
    let failed = both.store.failed();
    assert!(failed > 10, "{failed}");
    tokio::time::sleep(Duration::from_secs(60 * 60)).await;
    assert_eq!(both.store.failed(), failed);
    drop(ticket);
}

#[tokio::test(start_paused = true)]
async fn a_permission_that_was_lowered_is_saved_before_the_server_ends() {
    let (both, running) = Both::running().await;
    let (session, there, ticket) = both.administrator().await;
    both.store.fail(u32::MAX);
    there.set_permission(GUEST);
    session.close().await;
    drop((session, there));
    // Attempts are seconds apart now, more than the end of a server waits.
    tokio::time::sleep(Duration::from_secs(300)).await;
    both.store.fail(0);
    both.server.shutdown();
    soon(running).await.unwrap().unwrap();
    let record = now(both.store.get(ticket.id)).unwrap();
    assert_eq!(record.data.get::<u8>("nalix.permission").unwrap(), Some(GUEST.get()));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_gone_does_not_keep_a_server_from_ending() {
    let (both, running) = Both::running().await;
    let (_session, there, _) = both.administrator().await;
    both.store.fail(u32::MAX);
    there.set_permission(GUEST);
    let began = tokio::time::Instant::now();
    both.server.stop_now();
    soon(running).await.unwrap().unwrap();
    assert!(began.elapsed() <= Duration::from_secs(2), "in time that stands still: {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_update_between_looking_a_ticket_up_and_taking_it_is_not_lost() {
    let both = Both::new().await;
    let (session, there, ticket) = both.administrator().await;
    session.close().await;
    drop(there);
    let id = ticket.id;
    // As another server that shares the store would.
    both.store.before_take(move |store| {
        let mut record = now(store.get(id)).unwrap();
        record.data.insert("nalix.permission", &GUEST.get()).unwrap();
        record.data.insert("word", &String::from("late")).unwrap();
        assert!(now(store.update(id, record)));
    });
    let (resumed, there) = both.connect(Some(ticket)).await.unwrap();
    assert!(resumed.is_resumed());
    assert_eq!(there.permission(), GUEST);
    assert_eq!(there.resumption().unwrap().get::<String>("word").unwrap().as_deref(), Some("late"));
    let stored = now(both.store.get(resumed.ticket().unwrap().id)).unwrap();
    assert_eq!(stored.data.get::<u8>("nalix.permission").unwrap(), Some(GUEST.get()));
}

/// The store does not get the change before the ticket is gone, but the server knows of it.
#[tokio::test(start_paused = true)]
async fn a_change_that_waits_for_the_store_while_the_ticket_is_taken_is_not_lost() {
    let both = Both::new().await;
    let (_first, there, ticket) = both.administrator().await;
    let earlier = there.clone();
    let store = both.store.clone();
    both.store.before_take(move |_| {
        store.fail(1);
        earlier.set_permission(GUEST);
    });
    let (resumed, there) = both.connect(Some(ticket)).await.unwrap();
    assert!(resumed.is_resumed());
    assert_eq!(there.permission(), GUEST);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let stored = now(both.store.get(resumed.ticket().unwrap().id)).unwrap();
    assert_eq!(stored.data.get::<u8>("nalix.permission").unwrap(), Some(GUEST.get()));
}

/// A session that changes with every look cannot be taken, and nobody tries for ever.
#[tokio::test]
async fn a_session_that_never_stands_still_is_refused_for_now() {
    let both = Both::new().await;
    let (session, _, ticket) = both.administrator().await;
    session.close().await;
    let (id, weak) = (ticket.id, Arc::downgrade(&both.store.0));
    change_before_each_take(weak, id, 0);
    let error = both.connect(Some(ticket.clone())).await.unwrap_err();
    assert!(is_told_to_try_again(&error), "{error:?}");
    *both.store.0.before_take.lock().unwrap() = None;
    assert_eq!(both.resumed(ticket).await, ADMIN);
}

fn change_before_each_take(shaky: Weak<Inner>, id: TicketId, n: u32) {
    let Some(strong) = shaky.upgrade() else { return };
    *strong.before_take.lock().unwrap() = Some(Box::new(move |store| {
        let mut record = now(store.get(id)).unwrap();
        record.data.insert("n", &n).unwrap();
        assert!(now(store.update(id, record)));
        change_before_each_take(shaky, id, n + 1);
    }));
}

/// The result of a future that is ready at once.
fn now<T>(future: StoreFuture<'_, T>) -> T {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut cx) {
        std::task::Poll::Ready(result) => result.unwrap(),
        std::task::Poll::Pending => panic!("a store in memory does not wait"),
    }
}
