//! A server and a client whose link is cut where a test says, and made again.

use std::{
    io,
    sync::{
        Arc, LazyLock, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::BytesMut;
use nalix_core::{
    Connection,
    connection::{Anchor, Driver, Options, Serving, Why, accept, connect, connect_attached},
    controller::Router,
    handshake::{ClientSecurity, Contracts, Identity, Pinned, Sealing, Secured, ServerSecurity},
    link::{
        Link,
        memory::{self, MemoryLink},
    },
    registry::Registry,
};
use tokio::sync::mpsc;

/// Breaks once it has carried so many bytes in one direction.
pub(crate) struct Fragile {
    link: Option<MemoryLink>,
    read: usize,
    written: usize,
    /// Whether the server does not notice.
    half_open: bool,
}

impl Fragile {
    fn break_down(&mut self) {
        let link = self.link.take();
        if self.half_open {
            std::mem::forget(link);
        }
    }

    fn broken() -> io::Error {
        io::ErrorKind::ConnectionReset.into()
    }
}

impl Link for Fragile {
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<usize>> {
        let Some(link) = &mut self.link else { return Poll::Ready(Err(Self::broken())) };
        let before = buf.len();
        let read = link.poll_read(cx, buf);
        if let Poll::Ready(Ok(n)) = read {
            if n >= self.read {
                buf.truncate(before + self.read);
                let n = self.read;
                self.break_down();
                return Poll::Ready(if n == 0 { Err(Self::broken()) } else { Ok(n) });
            }
            self.read -= n;
        }
        read
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Some(link) = &mut self.link else { return Poll::Ready(Err(Self::broken())) };
        let bytes = &bytes[..bytes.len().min(self.written)];
        if bytes.is_empty() {
            self.break_down();
            return Poll::Ready(Err(Self::broken()));
        }
        let written = link.poll_write(cx, bytes);
        if let Poll::Ready(Ok(n)) = written {
            self.written -= n;
        }
        written
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.link {
            Some(link) => link.poll_close(cx),
            None => Poll::Ready(Err(Self::broken())),
        }
    }
}

/// How many bytes the client writes and reads on a link before it breaks.
pub(crate) type Plan = Box<dyn FnMut() -> (usize, usize) + Send>;

pub(crate) const WHOLE: usize = usize::MAX;

pub(crate) struct Setting {
    pub(crate) capacity: usize,
    pub(crate) half_open: bool,
    /// How long the client waits before it comes back.
    pub(crate) pause: Duration,
    pub(crate) client: Options,
    pub(crate) server: Options,
    pub(crate) client_security: ClientSecurity,
    pub(crate) server_security: ServerSecurity,
}

impl Setting {
    pub(crate) fn new(sealing: Sealing) -> Self {
        let (client_security, server_security) = security(sealing);
        Self {
            capacity: 1 << 16,
            half_open: false,
            pause: Duration::ZERO,
            client: Options::default(),
            server: Options::default(),
            client_security,
            server_security,
        }
    }
}

fn security(sealing: Sealing) -> (ClientSecurity, ServerSecurity) {
    if sealing == Sealing::None {
        return (ClientSecurity::Plaintext, ServerSecurity::Plaintext);
    }
    static IDENTITY: LazyLock<Identity> = LazyLock::new(|| Identity::generate().unwrap());
    let mut pinned = Pinned::new(IDENTITY.public_key());
    let mut secured = Secured::new(IDENTITY.clone());
    (pinned.sealing, secured.sealing) = (sealing, sealing);
    (ClientSecurity::Secured(pinned), ServerSecurity::Secured(Arc::new(secured)))
}

/// The session at both ends.
pub(crate) struct World {
    pub(crate) client: Connection,
    pub(crate) server: mpsc::UnboundedReceiver<Connection>,
    pub(crate) shared: Arc<Shared>,
}

#[derive(Default)]
pub(crate) struct Shared {
    /// How often a link was made.
    pub(crate) links: AtomicUsize,
    /// How often the server went on, and how often it opened a session.
    pub(crate) attached: AtomicUsize,
    pub(crate) opened: AtomicUsize,
    /// The last reason for which the server did not go on.
    pub(crate) refused: Mutex<Option<Why>>,
    /// Set when the client was given a new session.
    pub(crate) fresh: AtomicU64,
}

fn contracts() -> Contracts {
    Contracts::of(Registry::global().unwrap())
}

pub(crate) async fn world(setting: Setting, router: Router, mut plan: Plan) -> World {
    let shared = Arc::new(Shared::default());
    let (links, mut incoming) = mpsc::unbounded_channel::<MemoryLink>();
    let (opened, server) = mpsc::unbounded_channel();
    let Setting {
        capacity,
        half_open,
        pause,
        client,
        server: server_options,
        client_security,
        server_security,
    } = setting;

    let seen = Arc::clone(&shared);
    tokio::spawn(async move {
        let anchors: Arc<Mutex<Vec<Anchor<MemoryLink>>>> = Arc::default();
        while let Some(link) = incoming.recv().await {
            let (anchors, seen, opened) = (Arc::clone(&anchors), Arc::clone(&seen), opened.clone());
            let (router, options, security) =
                (router.clone(), server_options.clone(), server_security.clone());
            tokio::spawn(async move {
                let Ok(mut established) = accept(link, contracts(), &security, &options).await else {
                    return;
                };
                if let Some(attach) = established.attach() {
                    let key = established.peer_key();
                    let admits = |anchor: &&Anchor<MemoryLink>| anchor.admits(&attach.token, key.as_ref());
                    let anchor = anchors.lock().unwrap().iter().find(admits).cloned();
                    if let Some(anchor) = anchor {
                        match anchor.attach(established).await {
                            Ok(()) => {
                                seen.attached.fetch_add(1, Ordering::Relaxed);
                                return;
                            }
                            Err(refused) => {
                                *seen.refused.lock().unwrap() = Some(refused.why);
                                if refused.why == Why::Stale {
                                    return;
                                }
                                established = *refused.established;
                            }
                        }
                    }
                }
                seen.opened.fetch_add(1, Ordering::Relaxed);
                let (connection, mut driver) = Driver::new(established, Serving::from(router), &options);
                anchors.lock().unwrap().push(driver.anchor());
                // The test may not look.
                drop(opened.send(connection));
                driver.await;
            });
        }
    });

    let counted = Arc::clone(&shared);
    let mut dial = move || {
        let (near, far) = memory::pair(capacity);
        let (written, read) = plan();
        counted.links.fetch_add(1, Ordering::Relaxed);
        // The server may be gone at the end of a test.
        drop(links.send(far));
        Fragile { link: Some(near), read, written, half_open }
    };
    let (connection, anchor) = 'open: loop {
        let Ok(established) = connect(dial(), contracts(), &client_security, &client).await else { continue };
        let (connection, mut driver) = Driver::new(established, Serving::from(Router::empty()), &client);
        let anchor = driver.anchor();
        tokio::spawn(driver);
        // A link may break before the server knows that the handshake is done: there is no session then.
        while shared.opened.load(Ordering::Relaxed) == 0 {
            if connection.detached().is_some() || connection.close_reason().is_some() {
                connection.abort();
                continue 'open;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        break (connection, anchor);
    };
    let returning = Arc::clone(&shared);
    tokio::spawn(async move {
        while anchor.connection().until_detached().await.is_some() {
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            let Some(attach) = anchor.offer() else { return };
            let link = dial();
            match connect_attached(link, contracts(), &client_security, attach, &client).await {
                Ok(established) if established.is_attached() => {
                    // It may be over by now.
                    drop(anchor.attach(established).await);
                }
                Ok(_) => {
                    returning.fresh.fetch_add(1, Ordering::Relaxed);
                    anchor.connection().abort();
                    return;
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
    });
    World { client: connection, server, shared }
}

impl Drop for World {
    fn drop(&mut self) {
        self.client.abort();
    }
}
