//! A server that can be stopped and started again, and clients that dial it in memory.

#![allow(dead_code, unused_imports, reason = "each test binary uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod keeper;

use std::{
    future::{Future, IntoFuture},
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use nalix_client::{
    Client, ClientBuilder, CloseReason, Controller, Options, ReconnectOptions, Session, SessionEvent,
    link::memory::{self, MemoryLink},
};
use nalix_server::{Server, ServerHandle};
use tokio::time::{Instant, timeout};

pub(crate) use self::keeper::Keeper;

/// A place that clients dial, and where a server is or is not.
#[derive(Clone)]
pub(crate) struct Site {
    state: Arc<Mutex<State>>,
}

struct State {
    server: Option<ServerHandle>,
    /// Refuses every link with this reason, in place of the server.
    refusal: Option<CloseReason>,
    /// When it was dialed, and with which address.
    dialed: Vec<(Instant, String)>,
    /// Which addresses nobody is at.
    dead: Vec<String>,
    /// Dials take for ever.
    silent: bool,
}

impl Site {
    /// Without a server.
    pub(crate) fn empty() -> Self {
        let (server, refusal, dialed, dead) = (None, None, Vec::new(), Vec::new());
        let state = State { server, refusal, dialed, dead, silent: false };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    pub(crate) async fn with(controller: impl Controller) -> Self {
        let site = Self::empty();
        site.start(controller).await;
        site
    }

    /// Starts a server.
    pub(crate) async fn start(&self, controller: impl Controller) {
        // Tests wait for long, in time that does not pass by itself.
        let options = Options::default().keep_alive(None);
        let server = Server::builder().plaintext().no_listener().controller(controller).options(options);
        let handle = server.build().await.unwrap().spawn().0;
        self.lock().server = Some(handle);
    }

    pub(crate) fn server(&self) -> ServerHandle {
        self.lock().server.clone().unwrap()
    }

    /// The server is gone from one moment to the next, as if its machine had lost power.
    pub(crate) fn kill(&self) {
        let server = self.lock().server.take().unwrap();
        server.connections().iter().for_each(nalix_client::Connection::abort);
        server.stop_now();
    }

    /// All links are cut, without a word.
    pub(crate) fn cut(&self) {
        self.server().connections().iter().for_each(nalix_client::Connection::abort);
    }

    /// The links of all sessions are lost, and the server keeps the sessions.
    pub(crate) fn detach(&self) {
        self.server().connections().iter().for_each(nalix_client::Connection::detach);
    }

    /// From now on, whoever dials is refused with this reason.
    pub(crate) fn refuse(&self, reason: Option<CloseReason>) {
        self.lock().refusal = reason;
    }

    pub(crate) fn set_silent(&self, silent: bool) {
        self.lock().silent = silent;
    }

    pub(crate) fn set_dead(&self, addresses: &[&str]) {
        self.lock().dead = addresses.iter().map(|&address| address.to_owned()).collect();
    }

    /// When it was dialed.
    pub(crate) fn dialed(&self) -> Vec<Instant> {
        self.lock().dialed.iter().map(|dialed| dialed.0).collect()
    }

    pub(crate) fn addresses(&self) -> Vec<String> {
        self.lock().dialed.iter().map(|dialed| dialed.1.clone()).collect()
    }

    pub(crate) fn builder(&self) -> ClientBuilder<impl nalix_client::Dial<Link = MemoryLink> + use<>> {
        let site = self.clone();
        let dial = move |address: &str| site.dial(address);
        Client::builder("memory").plaintext().dialer(dial).options(Options::default().keep_alive(None))
    }

    pub(crate) async fn connect(&self) -> Session {
        self.builder().connect().await.unwrap()
    }

    pub(crate) async fn connect_with(&self, options: ReconnectOptions) -> Session {
        self.builder().reconnect(options).connect().await.unwrap()
    }

    fn dial(&self, address: &str) -> impl Future<Output = io::Result<MemoryLink>> + Send + use<> {
        let mut state = self.lock();
        state.dialed.push((Instant::now(), address.to_owned()));
        let silent = state.silent;
        let dead = state.dead.iter().any(|dead| dead == address);
        let (ours, theirs) = memory::pair(4096);
        let answered = match (&state.refusal, &state.server) {
            _ if dead => false,
            (Some(reason), _) => {
                let reason = reason.clone();
                tokio::spawn(async move {
                    nalix_core::connection::refuse(theirs, reason, &Options::default()).await;
                });
                true
            }
            (None, Some(server)) => {
                server.serve_link(theirs);
                true
            }
            (None, None) => false,
        };
        async move {
            if silent {
                std::future::pending::<()>().await;
            }
            if answered { Ok(ours) } else { Err(io::ErrorKind::ConnectionRefused.into()) }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Fails the test if `work` hangs, in paused time at once.
pub(crate) async fn soon<T>(work: impl IntoFuture<Output = T>) -> T {
    timeout(Duration::from_secs(3_600), work.into_future()).await.expect("this hangs")
}

/// Lets everything run that can, and looks again, until the condition holds.
pub(crate) async fn until(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..100_000 {
        if condition() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("never came true: {what}");
}

/// Waits for an event that `is` this.
pub(crate) async fn event(
    events: &mut nalix_client::Events,
    is: impl Fn(&SessionEvent) -> bool,
) -> SessionEvent {
    soon(async {
        loop {
            let event = events.next().await.expect("the session is over");
            if is(&event) {
                return event;
            }
        }
    })
    .await
}

/// Waits until the session has a new connection.
pub(crate) async fn fresh(events: &mut nalix_client::Events) -> SessionEvent {
    event(events, |event| matches!(event, SessionEvent::Fresh { .. } | SessionEvent::Resumed)).await
}
