//! A session over one connection after the other.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use nalix_client::{
    Advice, Cause, Client, CloseCode, CloseReason, ConnectError, Context, Options, ReconnectOptions,
    SessionEvent, SessionState, Side, link::memory, packet, packet_controller,
};
use nalix_server::HubExt;
use support::{Site, event, fresh, soon, until};
use tokio::time::{Instant, sleep};

#[packet(opcode = 0x1001, reply = u32)]
struct Double {
    n: u32,
}

/// Makes the server push so many numbers.
#[packet(opcode = 0x1002, reply = ())]
struct Push {
    count: u32,
}

/// Makes the server call its client.
#[packet(opcode = 0x1003, reply = Result<u32, String>)]
struct AskBack {
    n: u32,
}

#[packet(opcode = 0x2001, reply = u32)]
struct Triple {
    n: u32,
}

#[packet(opcode = 0x2002, reply = u32)]
struct Quadruple {
    n: u32,
}

#[packet(opcode = 0x3001)]
struct Number {
    n: u32,
}

struct Lab;

#[packet_controller]
impl Lab {
    #[packet(concurrent)]
    fn double(&self, double: Double) -> u32 {
        double.n * 2
    }

    #[packet(concurrent)]
    async fn push(&self, ctx: &Context, push: Push) {
        for n in 0..push.count {
            ctx.connection().send(&Number { n }).await.unwrap();
        }
    }

    #[packet]
    async fn ask_back(&self, ctx: &Context, ask: AskBack) -> Result<u32, String> {
        ctx.request(Triple { n: ask.n }).await.map_err(|error| error.to_string())
    }
}

#[derive(Clone, Default)]
struct Triples {
    connected: Arc<AtomicU32>,
    disconnected: Arc<AtomicU32>,
}

#[packet_controller]
impl Triples {
    #[packet]
    fn triple(&self, triple: Triple) -> u32 {
        triple.n * 3
    }

    #[connected]
    fn hello(&self, _: &Context) {
        self.connected.fetch_add(1, SeqCst);
    }

    #[disconnected]
    fn bye(&self, _: &Context, _: &CloseReason) {
        self.disconnected.fetch_add(1, SeqCst);
    }
}

struct Quadruples;

#[packet_controller]
impl Quadruples {
    #[packet]
    fn quadruple(&self, quadruple: Quadruple) -> u32 {
        quadruple.n * 4
    }
}

fn options() -> ReconnectOptions {
    ReconnectOptions::default()
}

#[tokio::test(start_paused = true)]
async fn a_session_goes_on_over_new_connections_for_as_long_as_it_is_cut() {
    let site = Site::with(Lab).await;
    let session = site.connect().await;
    let mut events = session.events();
    let first = session.connection().id();
    for n in 0..100 {
        assert_eq!(soon(session.request(Double { n })).await, Ok(n * 2));
        site.cut();
        assert!(matches!(fresh(&mut events).await, SessionEvent::Fresh { lost: 0 }));
    }
    assert_eq!(soon(session.request(Double { n: 21 })).await, Ok(42));
    assert_ne!(session.connection().id(), first);
    until("one connection is left", || site.server().connection_count() == 1).await;
    assert_eq!(session.state(), SessionState::Connected);
}

#[tokio::test(start_paused = true)]
async fn subscriptions_and_listeners_go_on_and_get_each_packet_once() {
    let site = Site::with(Lab).await;
    let early = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&early);
    let builder = site.builder().on::<Number>(move |_| {
        counter.fetch_add(1, SeqCst);
    });
    let session = builder.connect().await.unwrap();
    let mut numbers = session.subscribe::<Number>();
    let late = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&late);
    let listener = session.on::<Number>(move |_| {
        counter.fetch_add(1, SeqCst);
    });
    let mut events = session.events();
    for round in 1..=5 {
        soon(session.request(Push { count: 10 })).await.unwrap();
        for n in 0..10 {
            assert_eq!(soon(numbers.next()).await.unwrap().unwrap().n, n);
        }
        assert!(numbers.try_next().is_none(), "nothing comes twice");
        assert_eq!((early.load(SeqCst), late.load(SeqCst)), (round * 10, round * 10));
        site.cut();
        fresh(&mut events).await;
    }
    drop(listener);
    soon(session.request(Push { count: 1 })).await.unwrap();
    assert_eq!((early.load(SeqCst), late.load(SeqCst)), (51, 50));
    assert_eq!(session.unclaimed(), 0);
    session.close().await;
    assert_eq!(soon(numbers.next()).await.unwrap().unwrap().n, 0);
    assert!(soon(numbers.next()).await.is_none(), "it ends with the session");
}

#[tokio::test(start_paused = true)]
async fn what_a_client_serves_it_serves_on_every_connection() {
    let site = Site::with(Lab).await;
    let triples = Triples::default();
    let session = site.builder().controller(triples.clone()).connect().await.unwrap();
    let mut events = session.events();
    assert_eq!(soon(session.request(AskBack { n: 2 })).await, Ok(Ok(6)));
    site.cut();
    fresh(&mut events).await;
    assert_eq!(soon(session.request(AskBack { n: 3 })).await, Ok(Ok(9)));
    // Its hooks run once for each connection.
    let counts = || (triples.connected.load(SeqCst), triples.disconnected.load(SeqCst));
    until("both hooks have run", || counts() == (2, 1)).await;
    // One that comes while there is no connection is there on the next.
    site.kill();
    event(&mut events, |event| matches!(event, SessionEvent::Failed { .. })).await;
    session.serve(Quadruples).unwrap();
    site.start(Lab).await;
    fresh(&mut events).await;
    assert_eq!(soon(session.request(AskBack { n: 4 })).await, Ok(Ok(12)));
    let theirs = site.server().connections().pop().unwrap();
    assert_eq!(soon(theirs.request(Quadruple { n: 5 })).await, Ok(20));
    session.close().await;
    until("the hooks have run", || counts() == (3, 3)).await;
}

#[tokio::test(start_paused = true)]
async fn the_state_tells_the_attempt_its_cause_and_when_it_comes() {
    let site = Site::with(Lab).await;
    let session = site.connect().await;
    let mut events = session.events();
    site.kill();
    let lost = event(&mut events, |event| matches!(event, SessionEvent::Lost(_))).await;
    let SessionEvent::Lost(reason) = lost else { panic!("{lost:?}") };
    assert_eq!(reason.code, CloseCode::Lost);
    let told = events.next().await.unwrap();
    let SessionEvent::Retrying { attempt: 1, delay } = told else { panic!("{told:?}") };
    assert!(delay <= Duration::from_millis(100));
    let SessionState::Reconnecting { attempt: 1, cause: Cause::Lost(cause), next: Some(next) } =
        session.state()
    else {
        panic!("{:?}", session.state());
    };
    assert_eq!(cause, reason);
    assert!(next <= (Instant::now() + Duration::from_millis(100)).into_std());
    for attempt in 1..=12 {
        let failed = event(&mut events, |event| matches!(event, SessionEvent::Failed { .. })).await;
        let SessionEvent::Failed { attempt: n, cause: Cause::Failed(error) } = failed else {
            panic!("{failed:?}")
        };
        assert_eq!(n, attempt);
        assert!(matches!(&*error, ConnectError::Dial { address, .. } if address == "memory"));
    }
    until("it waits for the 13th attempt", || {
        matches!(
            session.state(),
            SessionState::Reconnecting { attempt: 13, cause: Cause::Failed(_), next: Some(_) }
        )
    })
    .await;
    site.start(Lab).await;
    assert_eq!(soon(session.connected()).await, Ok(()));
    assert_eq!(session.state(), SessionState::Connected);
}

/// Full jitter: of each delay, all is possible from nothing to a bound that doubles.
#[tokio::test(start_paused = true)]
async fn delays_double_until_a_connection_was_stable() {
    let site = Site::with(Lab).await;
    let session = site.connect_with(options().max_delay(Duration::from_secs(5))).await;
    let mut events = session.events();
    // Nine connections that are dropped at once, as by a server that takes everybody and then changes its mind.
    for attempt in 1..=9 {
        site.cut();
        let told = event(&mut events, |event| matches!(event, SessionEvent::Retrying { .. })).await;
        let SessionEvent::Retrying { attempt: n, delay } = told else { panic!("{told:?}") };
        assert_eq!(n, attempt);
        assert!(delay <= (Duration::from_millis(100) * (1 << (attempt - 1))).min(Duration::from_secs(5)));
        fresh(&mut events).await;
        sleep(Duration::from_secs(9)).await;
    }
    sleep(Duration::from_secs(1)).await;
    site.cut();
    let told = event(&mut events, |event| matches!(event, SessionEvent::Retrying { .. })).await;
    assert!(matches!(told, SessionEvent::Retrying { attempt: 1, .. }), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_takes_and_then_refuses_is_asked_less_and_less_often() {
    let site = Site::with(Lab).await;
    let session = site.connect().await;
    // Each connection lasts for 100 ms.
    let cutter = tokio::spawn({
        let site = site.clone();
        async move {
            loop {
                sleep(Duration::from_millis(100)).await;
                site.cut();
            }
        }
    });
    sleep(Duration::from_secs(600)).await;
    cutter.abort();
    let dialed = site.dialed();
    // Twenty minutes of delays of 15 s on average make some 40, and delays that begin anew make thousands.
    assert!((15..120).contains(&dialed.len()), "{}", dialed.len());
    drop(session);
}

#[tokio::test(start_paused = true)]
async fn advice_to_come_back_later_is_waited_for_by_everybody_and_not_to_the_moment() {
    let site = Site::with(Lab).await;
    let session = site.connect().await;
    let mut events = session.events();
    let advice = Advice::Retry { after: Some(Duration::from_secs(30)) };
    let busy = CloseReason::new(CloseCode::LimitExceeded, "busy").with_advice(advice);
    site.refuse(Some(busy.clone()));
    site.server().connections()[0].close_with(busy);
    for _ in 0..5 {
        let told = event(&mut events, |event| matches!(event, SessionEvent::Retrying { .. })).await;
        let SessionEvent::Retrying { attempt, delay } = told else { panic!("{told:?}") };
        let least = Duration::from_secs(30);
        assert!((least..=least + Duration::from_millis(100 << (attempt - 1))).contains(&delay), "{delay:?}");
        // A hint does not change that.
        session.network_changed();
    }
    assert_eq!(site.dialed().len(), 5, "one for the first connection, and four since");
    site.refuse(None);
    soon(session.connected()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn permanent_reasons_end_the_session() {
    for (code, advice) in [
        (CloseCode::LimitExceeded, Advice::GiveUp),
        (CloseCode::KeyRefused, Advice::None),
        (CloseCode::Incompatible, Advice::None),
        (CloseCode::Normal, Advice::None),
        (CloseCode::GoingAway, Advice::Authenticate),
    ] {
        // On a connection.
        let site = Site::with(Lab).await;
        let session = site.connect().await;
        let mut numbers = session.subscribe::<Number>();
        let reason = CloseReason::new(code, "you again").with_advice(advice);
        site.server().connections()[0].close_with(reason.clone());
        let over = soon(session.closed()).await;
        assert_eq!(over, reason.clone().by(Side::Peer));
        assert_eq!(session.state(), SessionState::Closed(over.clone()));
        assert_eq!(session.connected().await, Err(over));
        assert!(soon(numbers.next()).await.is_none());
        assert_eq!(site.dialed().len(), 1);
        if code == CloseCode::Normal {
            continue;
        }
        // When it wants to come back.
        let session = site.connect().await;
        let mut events = session.events();
        site.refuse(Some(reason.clone()));
        site.cut();
        let over = soon(session.closed()).await;
        assert_eq!(over, reason.by(Side::Peer));
        while let Some(event) = soon(events.next()).await {
            let last = matches!(&event, SessionEvent::Closed(reason) if *reason == over);
            assert!(last || !matches!(event, SessionEvent::Closed(_)));
        }
        assert_eq!(site.dialed().len(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn closing_while_there_is_no_connection_ends_it_at_once() {
    for dials_hang in [false, true] {
        let site = Site::with(Lab).await;
        let session = site.connect().await;
        let mut events = session.events();
        let call = tokio::spawn({
            let session = session.clone();
            async move { session.request(Double { n: 1 }).no_timeout().await }
        });
        until("the call is answered", || call.is_finished()).await;
        site.set_silent(dials_hang);
        site.kill();
        event(&mut events, |event| match event {
            SessionEvent::Retrying { attempt, .. } => dials_hang || *attempt == 9,
            _ => false,
        })
        .await;
        if dials_hang {
            sleep(Duration::from_millis(200)).await;
            assert_eq!(site.dialed().len(), 2);
        }
        let waits = tokio::spawn({
            let session = session.clone();
            async move { session.request(Double { n: 2 }).await }
        });
        until("the call waits", || session.waiting() == 1).await;
        let before = Instant::now();
        let reason = soon(session.close()).await;
        assert_eq!((reason.code, reason.by), (CloseCode::Normal, Side::Local));
        assert!(matches!(waits.await.unwrap(), Err(nalix_client::RequestError::Closed(_))));
        assert!(before.elapsed() < Duration::from_millis(1));
        assert_eq!(session.waiting(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_nobody_holds_stops_looking_for_a_connection() {
    let site = Site::with(Lab).await;
    let session = site.connect().await;
    let mut events = session.events();
    site.kill();
    event(&mut events, |event| matches!(event, SessionEvent::Failed { attempt: 3, .. })).await;
    drop(session);
    let over = event(&mut events, |event| matches!(event, SessionEvent::Closed(_))).await;
    assert!(matches!(over, SessionEvent::Closed(reason) if reason.code == CloseCode::Normal));
    assert!(soon(events.next()).await.is_none());
    sleep(Duration::from_secs(3_600)).await;
    assert_eq!(site.dialed().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_session_gives_up_after_as_many_attempts_as_it_may_make() {
    let site = Site::with(Lab).await;
    let session = site.connect_with(options().max_attempts(3)).await;
    site.kill();
    let reason = soon(session.closed()).await;
    assert_eq!(reason.code, CloseCode::Lost);
    assert!(reason.message.contains("cannot connect to memory"), "{reason}");
    assert_eq!(site.dialed().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn no_reconnect_ends_the_session_with_its_connection() {
    let site = Site::with(Lab).await;
    for session in [
        site.builder().no_reconnect().connect().await.unwrap(),
        site.connect_with(options().enabled(false)).await,
        {
            let (ours, theirs) = memory::pair(4096);
            site.server().serve_link(theirs);
            Client::builder("").plaintext().connect_over(ours).await.unwrap()
        },
    ] {
        let mut events = session.events();
        let dialed = site.dialed().len();
        site.cut();
        assert_eq!(soon(session.closed()).await.code, CloseCode::Lost);
        assert!(matches!(session.state(), SessionState::Closed(_)));
        assert!(matches!(events.next().await, Some(SessionEvent::Closed(_))));
        assert!(events.next().await.is_none());
        assert!(matches!(
            soon(session.request(Double { n: 1 })).await,
            Err(nalix_client::RequestError::Closed(_))
        ));
        assert!(matches!(session.try_send(&Number { n: 1 }), Err(nalix_client::SendError::Closed(_))));
        assert_eq!(site.dialed().len(), dialed);
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_connect_may_wait_for_a_server() {
    let site = Site::empty();
    let error = site.builder().connect().await.unwrap_err();
    assert!(matches!(error, ConnectError::Dial { .. }));
    let error =
        site.builder().reconnect(options().first_connect(true).max_attempts(4)).connect().await.unwrap_err();
    assert!(matches!(error, ConnectError::Dial { .. }));
    assert_eq!(site.dialed().len(), 1 + 5);
    // What cannot become better is not waited for.
    site.refuse(Some(CloseReason::new(CloseCode::KeyRefused, "")));
    let patient = || site.builder().reconnect(options().first_connect(true));
    assert!(matches!(soon(patient().connect()).await, Err(ConnectError::Refused(_))));
    site.refuse(None);
    let connecting = tokio::spawn(patient().connect());
    sleep(Duration::from_secs(20)).await;
    site.start(Lab).await;
    let session = soon(connecting).await.unwrap().unwrap();
    assert_eq!(session.request(Double { n: 4 }).await, Ok(8));
}

#[tokio::test(start_paused = true)]
async fn of_several_addresses_the_next_is_tried_at_once_and_a_good_one_is_kept_to() {
    let site = Site::with(Lab).await;
    site.set_dead(&["memory", "b"]);
    let builder = || site.builder().address("b").address("c");
    let session = builder().connect().await.unwrap();
    assert_eq!(site.addresses(), ["memory", "b", "c"]);
    let mut events = session.events();
    site.cut();
    fresh(&mut events).await;
    assert_eq!(site.addresses()[3..], ["c"], "the one that was good");
    site.set_dead(&["memory", "c"]);
    site.cut();
    fresh(&mut events).await;
    assert_eq!(site.addresses()[4..], ["c", "memory", "b"]);
    // Rounds of failures begin at another one each time.
    site.set_dead(&["memory", "b", "c"]);
    site.cut();
    event(&mut events, |event| matches!(event, SessionEvent::Failed { attempt: 5, .. })).await;
    assert_eq!(site.addresses()[7..13], ["b", "c", "memory", "c", "memory", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_hint_that_the_network_has_changed_makes_the_next_attempt_at_once() {
    let site = Site::with(Lab).await;
    let session = site.connect_with(options().first_delay(Duration::from_secs(10))).await;
    let mut events = session.events();
    site.kill();
    // Until a delay is long.
    loop {
        let told = event(&mut events, |event| matches!(event, SessionEvent::Retrying { .. })).await;
        if matches!(told, SessionEvent::Retrying { delay, .. } if delay > Duration::from_secs(15)) {
            break;
        }
    }
    site.start(Lab).await;
    let (began, dialed) = (Instant::now(), site.dialed().len());
    session.network_changed();
    soon(session.connected()).await.unwrap();
    assert!(began.elapsed() <= Duration::from_secs(10), "{:?}", began.elapsed());
    assert_eq!(site.dialed().len(), dialed + 1);
}

#[tokio::test(start_paused = true)]
async fn hints_without_end_do_not_make_attempts_without_end() {
    let site = Site::with(Lab).await;
    let session = site.connect().await;
    site.kill();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(60) {
        session.network_changed();
        sleep(Duration::from_millis(1)).await;
    }
    // No more often than once in 100 ms.
    assert!(site.dialed().len() < 620, "{}", site.dialed().len());
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_does_not_survive_a_change_of_the_network_is_noticed_soon() {
    let site = Site::with(Lab).await;
    let session = site.connect().await;
    let mut events = session.events();
    // One that answers stays.
    session.network_changed();
    sleep(Duration::from_secs(5)).await;
    assert_eq!(site.dialed().len(), 1);
    // Over this one nothing comes through any more, and nobody says so.
    let (ours, theirs) = memory::pair(1 << 16);
    drop(session);
    drop(event(&mut events, |event| matches!(event, SessionEvent::Closed(_))).await);
    let links = Arc::new(Mutex::new(vec![ours]));
    let dialer = {
        let (links, site) = (Arc::clone(&links), site.clone());
        move |_: &str| {
            let link = links.lock().unwrap().pop().unwrap_or_else(|| {
                let (ours, theirs) = memory::pair(1 << 16);
                site.server().serve_link(theirs);
                ours
            });
            async move { Ok(link) }
        }
    };
    let deaf = tokio::spawn(deaf_after_hello(theirs));
    let builder = Client::builder("memory").plaintext().dialer(dialer);
    let session = builder.options(Options::default().keep_alive(None)).connect().await.unwrap();
    let mut events = session.events();
    let began = Instant::now();
    session.network_changed();
    fresh(&mut events).await;
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    assert_eq!(soon(session.request(Double { n: 4 })).await, Ok(8));
    deaf.abort();
}

#[tokio::test(start_paused = true)]
async fn a_dialer_that_panics_ends_the_session_and_nobody_waits_for_ever() {
    let site = Site::with(Lab).await;
    let dialed = Arc::new(AtomicU32::new(0));
    let server = site.server();
    let dialer = move |_: &str| {
        assert!(dialed.fetch_add(1, SeqCst) == 0, "a fault in a dialer");
        let (ours, theirs) = memory::pair(4096);
        server.serve_link(theirs);
        std::future::ready(Ok(ours))
    };
    let builder = Client::builder("memory").plaintext().dialer(dialer);
    let session = builder.options(Options::default().keep_alive(None)).connect().await.unwrap();
    let mut numbers = session.subscribe::<Number>();
    site.cut();
    assert_eq!(soon(session.closed()).await.code, CloseCode::Internal);
    assert!(soon(numbers.next()).await.is_none());
    assert!(matches!(
        soon(session.request(Double { n: 1 })).await,
        Err(nalix_client::RequestError::Closed(_))
    ));
}

/// With a server that keeps the session: what is sent to its group while it is away comes when it is back, once.
#[tokio::test(start_paused = true)]
async fn a_session_that_goes_on_is_in_its_groups_all_along_and_once() {
    let hooked = Hooked::default();
    let site = Site::with(hooked.clone()).await;
    let session = site.connect().await;
    let mut numbers = session.subscribe::<Number>();
    let mut events = session.events();
    let group = site.server().hub().group("all");
    until("it is in the group", || group.count() == 1).await;
    let (id, mut sent) = (session.connection().id(), 0);
    for _ in 0..20 {
        // Nobody is there to be dialed.
        site.set_dead(&["memory"]);
        site.detach();
        event(&mut events, |event| matches!(event, SessionEvent::Failed { .. })).await;
        assert_eq!(group.count(), 1);
        for _ in 0..3 {
            assert_eq!(group.send(&Number { n: sent }).queued, 1);
            sent += 1;
        }
        site.set_dead(&[]);
        assert_eq!(fresh(&mut events).await, SessionEvent::Resumed);
        for n in sent - 3..sent {
            assert_eq!(soon(numbers.next()).await.unwrap().unwrap().n, n);
        }
        assert!(numbers.try_next().is_none(), "nothing comes twice");
        sleep(Duration::from_secs(20)).await;
    }
    assert_eq!((group.count(), session.connection().id()), (1, id));
    assert_eq!((hooked.connected.lock().unwrap().len(), hooked.disconnected.lock().unwrap().len()), (1, 0));
    session.close().await;
    until("it has left", || group.count() == 0 && hooked.disconnected.lock().unwrap().len() == 1).await;
}

/// Each ticket can be used once, and coming back uses one.
#[tokio::test(start_paused = true)]
async fn the_ticket_of_a_session_is_good_however_often_it_has_come_back() {
    let identity = nalix_client::Identity::generate().unwrap();
    let key = identity.public_key();
    let server = nalix_server::Server::builder().identity(identity).no_listener().controller(Lab);
    let server = server.sessions(nalix_server::store::MemoryStore::new());
    let server = server.options(Options::default().keep_alive(None)).build().await.unwrap().spawn().0;
    let builder = || {
        let server = server.clone();
        let dialer = move |_: &str| {
            let (ours, theirs) = memory::pair(4096);
            server.serve_link(theirs);
            std::future::ready(Ok(ours))
        };
        let builder = Client::builder("memory").server_key(key).dialer(dialer);
        builder.options(Options::default().keep_alive(None))
    };
    let session = builder().connect().await.unwrap();
    let mut events = session.events();
    for (round, fresh_each) in [(0, false), (1, true), (2, false), (3, true)] {
        let before = session.ticket().unwrap();
        until("the server knows it", || server.connection_count() == 1).await;
        let theirs = server.connections().pop().unwrap();
        if fresh_each {
            theirs.abort();
        } else {
            theirs.detach();
        }
        let back = fresh(&mut events).await;
        assert_eq!(back == SessionEvent::Resumed, !fresh_each);
        assert_eq!(soon(session.request(Double { n: round })).await, Ok(round * 2));
        assert_ne!(session.ticket().unwrap(), before);
    }
    let ticket = session.ticket().unwrap();
    session.close().await;
    let again = builder().resume(ticket).connect().await.unwrap();
    assert!(again.is_resumed());
}

/// A server that shakes hands and then neither answers nor goes.
async fn deaf_after_hello(link: memory::MemoryLink) {
    use nalix_core::{connection, handshake::ServerSecurity, registry::Registry};
    let contracts = nalix_core::handshake::Contracts::of(Registry::global().unwrap());
    let established =
        connection::accept(link, contracts, &ServerSecurity::Plaintext, &Options::default()).await.unwrap();
    std::future::pending::<()>().await;
    drop(established);
}

/// Passes everything on until it is told to be silent, and then holds both ends open until it is told to let them go.
async fn pass(
    mut near: tokio::io::DuplexStream,
    mut far: tokio::io::DuplexStream,
    silent: tokio::sync::oneshot::Receiver<()>,
    over: tokio::sync::oneshot::Receiver<()>,
) {
    tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
        _ = silent => {}
    }
    drop(over.await);
}

#[derive(Clone, Default)]
struct Hooked {
    connected: Arc<Mutex<Vec<u64>>>,
    disconnected: Arc<Mutex<Vec<u64>>>,
}

#[packet(opcode = 0x1004, reply = Vec<u8>)]
struct Echo {
    bytes: Vec<u8>,
}

#[packet_controller]
impl Hooked {
    #[connected]
    fn hello(&self, ctx: &Context) {
        assert_eq!(ctx.group("all").join(ctx), nalix_server::Join::Joined);
        self.connected.lock().unwrap().push(ctx.id().get());
    }

    #[disconnected]
    fn bye(&self, ctx: &Context, _: &CloseReason) {
        self.disconnected.lock().unwrap().push(ctx.id().get());
    }

    #[packet(concurrent)]
    async fn echo(&self, ctx: &Context, echo: Echo) -> Vec<u8> {
        ctx.connection().send(&Number { n: echo.bytes.len() as u32 }).await.unwrap();
        echo.bytes
    }
}

/// The cable is cut and nobody says so; the session comes back, and then the old connection dies late, on either side.
#[tokio::test(start_paused = true)]
async fn an_old_connection_that_dies_late_does_no_harm_to_the_new_one() {
    type Ends = (tokio::sync::oneshot::Sender<()>, tokio::sync::oneshot::Sender<()>);
    let hooked = Hooked::default();
    let site = Site::with(hooked.clone()).await;
    let lines = Arc::new(Mutex::new(Vec::<Ends>::new()));
    let dialer = {
        let (lines, site) = (Arc::clone(&lines), site.clone());
        move |_: &str| {
            let (ours, near) = tokio::io::duplex(4096);
            let (far, theirs) = tokio::io::duplex(4096);
            let (silence, silent) = tokio::sync::oneshot::channel();
            let (end, over) = tokio::sync::oneshot::channel();
            tokio::spawn(pass(near, far, silent, over));
            site.server().serve_link(nalix_client::link::StreamLink::new(theirs));
            lines.lock().unwrap().push((silence, end));
            std::future::ready(Ok(nalix_client::link::StreamLink::new(ours)))
        }
    };
    let builder = Client::builder("memory").plaintext().dialer(dialer);
    let session = builder.options(Options::default().keep_alive(None)).connect().await.unwrap();
    let mut numbers = session.subscribe::<Number>();
    let mut events = session.events();
    let (mut old, mut silenced) = (None::<tokio::sync::oneshot::Sender<()>>, Vec::new());
    for round in 0..20 {
        // What fits a frame, and what goes in fragments.
        for size in [10, 5_000, 100_000] {
            let bytes = vec![round; size];
            assert_eq!(soon(session.request(Echo { bytes: bytes.clone() })).await, Ok(bytes));
            assert_eq!(soon(numbers.next()).await.unwrap().unwrap().n, size as u32);
        }
        // The last but one dies now, long after it was replaced.
        if let Some(end) = old.take() {
            drop(end);
            sleep(Duration::from_secs(1)).await;
            assert_eq!(soon(session.request(Echo { bytes: vec![1] })).await, Ok(vec![1]));
            assert_eq!(soon(numbers.next()).await.unwrap().unwrap().n, 1);
        }
        assert!(numbers.try_next().is_none());
        let (silence, end) = lines.lock().unwrap().pop().unwrap();
        silence.send(()).unwrap();
        old = Some(end);
        silenced.push(session.connection().id());
        session.network_changed();
        let back = fresh(&mut events).await;
        assert!(matches!(back, SessionEvent::Fresh { .. } | SessionEvent::Resumed));
    }
    drop(old);
    drop(lines);
    until("one connection is left", || site.server().connection_count() <= 1).await;
    session.close().await;
    until("all are gone", || site.server().connection_count() == 0).await;
    until("all hooks have run", || {
        hooked.connected.lock().unwrap().len() == hooked.disconnected.lock().unwrap().len()
    })
    .await;
    let (mut connected, mut disconnected) =
        (hooked.connected.lock().unwrap().clone(), hooked.disconnected.lock().unwrap().clone());
    connected.sort_unstable();
    disconnected.sort_unstable();
    assert_eq!(connected, disconnected, "one pair of hooks for each");
    connected.dedup();
    assert_eq!(connected.len(), disconnected.len());
}
