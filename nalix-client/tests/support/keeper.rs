//! A server's end that keeps sessions whose links are lost, made of the core's parts.

use std::{
    future::ready,
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll},
};

use bytes::BytesMut;
use nalix_client::{
    Client, ClientBuilder, Connection, Controller, Dial, Options,
    link::{Link, memory::MemoryLink},
};
use nalix_core::{
    connection::{Anchor, Driver, Serving, accept},
    controller::Router,
    handshake::{Contracts, ServerSecurity},
    link::memory,
    registry::Registry,
};

/// A link that loses what is on its way to the client when it is cut. What is on its way to the server is lost with its end.
#[derive(Debug)]
pub(crate) struct Breakable {
    link: MemoryLink,
    cut: Arc<AtomicBool>,
}

impl Breakable {
    fn check(&self) -> io::Result<()> {
        if self.cut.load(SeqCst) { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(()) }
    }
}

impl Link for Breakable {
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<usize>> {
        self.check()?;
        self.link.poll_read(cx, buf)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check()?;
        self.link.poll_write(cx, bytes)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check()?;
        self.link.poll_close(cx)
    }
}

#[derive(Clone)]
pub(crate) struct Keeper {
    router: Router,
    options: Options,
    anchors: Arc<Mutex<Vec<Anchor<MemoryLink>>>>,
    /// How many sessions have been opened, and how often one has gone on.
    pub(crate) opened: Arc<AtomicUsize>,
    pub(crate) gone_on: Arc<AtomicUsize>,
    away: Arc<AtomicBool>,
    /// Of the links that have been made, to cut them.
    links: Arc<Mutex<Vec<Arc<AtomicBool>>>>,
}

impl Keeper {
    pub(crate) fn new(controller: impl Controller, options: Options) -> Self {
        let mut router = Router::builder();
        router.add(controller);
        Self {
            router: router.build().unwrap(),
            options,
            anchors: Arc::default(),
            opened: Arc::default(),
            gone_on: Arc::default(),
            away: Arc::default(),
            links: Arc::default(),
        }
    }

    pub(crate) fn builder(&self) -> ClientBuilder<impl Dial<Link = Breakable> + use<>> {
        let keeper = self.clone();
        let dial = move |_: &str| {
            let (ours, theirs) = memory::pair(4096);
            if keeper.away.load(SeqCst) {
                return ready(Err(io::ErrorKind::ConnectionRefused.into()));
            }
            tokio::spawn(keeper.clone().serve(theirs));
            let cut = Arc::new(AtomicBool::new(false));
            keeper.links.lock().unwrap().push(Arc::clone(&cut));
            ready(Ok(Breakable { link: ours, cut }))
        };
        Client::builder("memory").plaintext().dialer(dial).options(Options::default().keep_alive(None))
    }

    /// Its ends of the sessions.
    pub(crate) fn connections(&self) -> Vec<Connection> {
        self.lock().iter().map(|anchor| anchor.connection().clone()).collect()
    }

    /// Cuts every link, and what is on its way is lost.
    pub(crate) fn cut(&self) {
        self.links.lock().unwrap().drain(..).for_each(|cut| cut.store(true, SeqCst));
        self.connections().iter().for_each(Connection::detach);
    }

    /// From now on nobody can connect, or can again.
    pub(crate) fn set_away(&self, away: bool) {
        self.away.store(away, SeqCst);
    }

    /// Ends every session without a word, as a server that starts anew.
    pub(crate) fn forget(&self) {
        self.connections().iter().for_each(Connection::abort);
        self.lock().clear();
    }

    async fn serve(self, link: MemoryLink) {
        let contracts = Contracts::of(Registry::global().unwrap());
        let Ok(mut established) = accept(link, contracts, &ServerSecurity::Plaintext, &self.options).await
        else {
            return;
        };
        if let Some(attach) = established.attach() {
            let anchor = self.lock().iter().find(|anchor| anchor.admits(&attach.token, None)).cloned();
            if let Some(anchor) = anchor {
                match anchor.attach(established).await {
                    Ok(()) => {
                        self.gone_on.fetch_add(1, SeqCst);
                        return;
                    }
                    Err(refused) => established = *refused.established,
                }
            }
        }
        self.opened.fetch_add(1, SeqCst);
        let (_, mut driver) = Driver::new(established, Serving::from(self.router.clone()), &self.options);
        self.lock().push(driver.anchor());
        driver.await;
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Anchor<MemoryLink>>> {
        self.anchors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
