//! Puts a client together and connects it.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use nalix_core::{
    Push, Request, RequestError,
    connection::{Anchor, Audience, ConnectError, EarlyRequest, Options, RouterCell},
    controller::{Controller, Router, RouterBuilder, RouterError},
    handshake::{ClientSecurity, Contracts, Identity, PublicKey, Sealing, SessionTicket},
    link::Link,
    registry::Registry,
};

use crate::{
    ClientOptions, Dial, ReconnectOptions, RequestFuture, Session, Tcp,
    address::Address,
    dialer::{Addresses, Dialer, Opened},
    listeners::Listeners,
    reconnect::{Line, first_connect, supervise},
    security::Security,
};

/// The way to a [`Session`].
#[derive(Debug)]
pub struct Client(());

impl Client {
    /// Starts with the server's address: `tcp://host:port`.
    pub fn builder(address: impl Into<String>) -> ClientBuilder {
        ClientBuilder {
            dial: Tcp,
            addresses: vec![address.into()],
            security: Security::default(),
            connect_timeout: Duration::from_secs(10),
            options: Options::default(),
            reconnect: ReconnectOptions::default(),
            router: Router::builder(),
            serves: false,
            listeners: Listeners::default(),
        }
    }
}

/// Collects what a session is made of. Made by [`Client::builder`].
#[must_use = "nothing happens until `connect` is awaited"]
pub struct ClientBuilder<D = Tcp> {
    dial: D,
    addresses: Vec<String>,
    security: Security,
    connect_timeout: Duration,
    options: Options,
    reconnect: ReconnectOptions,
    router: RouterBuilder,
    serves: bool,
    listeners: Listeners,
}

impl<D> fmt::Debug for ClientBuilder<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("addresses", &self.addresses)
            .field("security", &self.security)
            .field("connect_timeout", &self.connect_timeout)
            .field("options", &self.options)
            .field("reconnect", &self.reconnect)
            .field("router", &self.router)
            .finish_non_exhaustive()
    }
}

impl<D> ClientBuilder<D> {
    /// Adds the address of another server, which is tried when those before it let nobody connect. A session that comes back
    /// tries the one first that it was connected to. All of them must have the key that is pinned.
    pub fn address(mut self, address: impl Into<String>) -> Self {
        self.addresses.push(address.into());
        self
    }

    /// Makes links in another way than over TCP. Addresses are what it takes them for.
    pub fn dialer<E: Dial>(self, dial: E) -> ClientBuilder<E> {
        let Self {
            addresses, security, connect_timeout, options, reconnect, router, serves, listeners, ..
        } = self;
        ClientBuilder {
            dial,
            addresses,
            security,
            connect_timeout,
            options,
            reconnect,
            router,
            serves,
            listeners,
        }
    }

    /// Sets how the session comes back when it loses its connection, and what waits meanwhile.
    pub fn reconnect(mut self, options: ReconnectOptions) -> Self {
        self.reconnect = options;
        self
    }

    /// The session is over when its connection ends.
    pub fn no_reconnect(mut self) -> Self {
        self.reconnect.enabled = false;
        self
    }

    /// The connection is encrypted, and only with a server that proves to have this key. Either this or
    /// [`ClientBuilder::plaintext`] must be said.
    ///
    /// ```no_run
    /// # use nalix_client::{Client, PublicKey};
    /// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
    /// let key: PublicKey = std::env::var("SERVER_KEY")?.parse()?;
    /// let session = Client::builder("tcp://game.example.org:7777").server_key(key).connect().await?;
    /// # Ok(()) }
    /// ```
    pub fn server_key(mut self, key: PublicKey) -> Self {
        self.security.server_key = Some(key);
        self
    }

    /// The connection is not encrypted: anyone on the way can read and change what it carries.
    pub fn plaintext(mut self) -> Self {
        self.security.plaintext = true;
        self
    }

    /// Proves to the server that this client has a key pair, so that the server knows who connects. Nobody but the server
    /// learns the key.
    pub fn identity(mut self, identity: Identity) -> Self {
        self.security.identity = Some(identity);
        self
    }

    /// What is sealed. Default [`Sealing::All`]; [`Sealing::Marked`] counts only with servers that ask for it too, and says
    /// what it gives up.
    pub fn sealing(mut self, sealing: Sealing) -> Self {
        self.security.sealing = Some(sealing);
        self
    }

    /// Goes on with an earlier session, from which [`Session::ticket`] was taken. A server that does not know the ticket any
    /// more is connected to anew; [`Session::is_resumed`] tells. A ticket can be used once.
    pub fn resume(mut self, ticket: SessionTicket) -> Self {
        self.security.ticket = Some(ticket);
        self
    }

    /// Sets all limits and times at once, in place of what has been set of them before.
    pub fn configure(mut self, options: ClientOptions) -> Self {
        (self.connect_timeout, self.options) = (options.connect_timeout, options.connection);
        self.reconnect = options.reconnect;
        self
    }

    /// How long making the link may take, name resolution included and the handshake not. Default 10 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets the limits and times of the connection.
    ///
    /// ```
    /// # use nalix_client::{Client, Options};
    /// let options = Options::default().max_calls(64).stream_window(1 << 20);
    /// let builder = Client::builder("tcp://127.0.0.1:7777").options(options);
    /// ```
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Answers the server's requests, and takes its one-way packets, with the handlers of a controller.
    pub fn controller<C: Controller>(mut self, controller: C) -> Self {
        self.router.add(controller);
        self.serves = true;
        self
    }

    /// Calls a closure with each one-way packet of this type, as [`Session::on`] does, from the very first that the server
    /// sends until the session is over.
    ///
    /// ```no_run
    /// # use nalix_client::{Client, packet};
    /// #[packet(opcode = 0x3002)]
    /// struct Motd(String);
    ///
    /// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
    /// let session = Client::builder("tcp://127.0.0.1:7777")
    ///     .plaintext()
    ///     .on::<Motd>(|motd| println!("{}", motd.0))
    ///     .connect()
    ///     .await?;
    /// # Ok(()) }
    /// ```
    pub fn on<T: Push>(mut self, f: impl FnMut(Arc<T>) + Send + 'static) -> Self {
        self.listeners.add(f);
        self
    }

    /// Adds shared state, for handlers that take `State<T>`.
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.router.state(value);
        self
    }

    /// Connects over a link that was made by hand, such as one end of
    /// [`link::memory::pair`](nalix_core::link::memory::pair). Addresses are not used. A server that refuses the ticket is an
    /// error here, since there is only one link, and the session is over when that ends.
    ///
    /// Cancel safe: dropped before it is done, it leaves no connection behind.
    ///
    /// # Errors
    /// As [`ClientBuilder::connect`].
    pub async fn connect_over(mut self, link: impl Link + Unpin) -> Result<Session, ConnectError> {
        self.reconnect = ReconnectOptions::off();
        let dialer = self.prepare()?;
        let opened = dialer.shake_hands(link, &[]).await?;
        Ok(begin(&dialer, opened, |_| ()).0)
    }

    /// Checks what can be checked before there is a link.
    fn prepare(self) -> Result<Dialer<D>, ConnectError> {
        let security = self.security.resolve(SystemTime::now())?;
        let registry = Registry::global().map_err(|error| ConnectError::Configuration(error.to_string()))?;
        let router = match self.router.build() {
            Ok(router) => router,
            // Most clients only ask.
            Err(RouterError::Empty) if !self.serves => Router::empty(),
            Err(error) => return Err(ConnectError::Configuration(error.to_string())),
        };
        let mut options = self.options.in_range();
        if !self.reconnect.enabled {
            // Nobody dials again: what would be kept would be of no use.
            options.resume_log = 0;
        }
        let audience = Audience::new();
        self.listeners.install(&audience);
        Ok(Dialer {
            dial: self.dial,
            addresses: Addresses { all: self.addresses, first: 0 },
            security,
            contracts: Contracts::of(registry),
            router: Arc::new(RouterCell::new(router)),
            audience,
            options,
            reconnect: self.reconnect.in_range(),
            connect_timeout: self.connect_timeout,
        })
    }
}

impl<D: Dial> ClientBuilder<D> {
    /// Connects, with the connection's driver on a task of the ambient runtime, and the session's on another.
    ///
    /// Cancel safe: dropped before it is done, it leaves no connection behind.
    ///
    /// # Errors
    /// [`ConnectError`] says what kept it from connecting, and whether trying again makes sense. With
    /// [`first_connect`](field@ReconnectOptions::first_connect) it has tried for as long as it makes sense.
    pub async fn connect(self) -> Result<Session, ConnectError> {
        let mut dialer = self.checked()?;
        let opened = first_connect(&mut dialer).await?;
        let (session, anchor, ()) = begin(&dialer, opened, |_| ());
        session.watch(dialer, anchor);
        Ok(session)
    }

    /// Connects and makes a first request, which goes along with the first bytes if a session is resumed
    /// ([`ClientBuilder::resume`]): its answer comes after one round trip. Otherwise it is sent when the connection is there.
    ///
    /// The request never runs twice. If the server does not resume the session, a request that went along may have run
    /// nevertheless, since whoever is on the way can fake that refusal: it ends with [`RequestError::Disconnected`], and it
    /// is for the caller to ask again on the new session.
    ///
    /// Cancel safe: dropped before it is done, it leaves no connection behind; the request may have run.
    ///
    /// # Errors
    /// [`ConnectError`] if there is no connection. What becomes of the request is beside the session.
    pub async fn connect_with<P: Request>(
        self,
        request: P,
    ) -> Result<(Session, Result<P::Reply, RequestError<P::Error>>), ConnectError> {
        let mut dialer = self.checked()?;
        let early = early(&dialer, &request);
        let frames = early.as_ref().map_or(&[][..], EarlyRequest::frames);
        let opened = match frames.is_empty() {
            true => first_connect(&mut dialer).await?,
            // Whoever has sent the request along must learn what became of it, so this is tried once.
            false => dialer.connect_to(0, frames, None).await?,
        };
        let (sent, lost) = (opened.early_sent(), opened.early_lost.clone());
        let (session, anchor, answer) = begin(&dialer, opened, |connection| {
            early.as_ref().filter(|_| sent).and_then(|early| early.on(connection))
        });
        session.watch(dialer, anchor);
        let result = match (answer, lost) {
            (Some(answer), _) => RequestFuture::first(answer).await,
            (None, Some(reason)) => Err(RequestError::Disconnected { maybe_executed: true, reason }),
            (None, None) => session.request(request).await,
        };
        Ok((session, result))
    }

    /// Checks what can be checked before anything is dialed, addresses included.
    fn checked(self) -> Result<Dialer<D>, ConnectError> {
        if D::NEEDS_ADDRESS {
            self.addresses.iter().try_for_each(|address| Address::parse(address).map(drop))?;
        }
        self.prepare()
    }
}

/// Begins a session over its first connection. `first` is run before anything comes from it.
fn begin<D, L: Link + Unpin, T>(
    dialer: &Dialer<D>,
    opened: Opened<L>,
    first: impl FnOnce(&nalix_core::Connection) -> T,
) -> (Session, Option<Anchor<L>>, T) {
    let (ticket, resumed) = (opened.ticket().cloned(), opened.is_resumed());
    let mut started = dialer.start(opened);
    let anchor = dialer.reconnect.enabled.then(|| started.anchor());
    let shared = (dialer.audience.clone(), Arc::clone(&dialer.router));
    let push_queue = dialer.options.push_queue;
    let line = Line::new(started.connection.clone(), shared, dialer.reconnect.clone(), push_queue);
    line.set_standing(ticket, resumed);
    let first = first(&started.connection);
    started.run();
    (Session::new(line), anchor, first)
}

impl Session {
    /// Lets the session find another connection when it loses this one.
    fn watch<D: Dial>(&self, dialer: Dialer<D>, anchor: Option<Anchor<D::Link>>) {
        if let Some(anchor) = anchor {
            tokio::spawn(supervise(self.line(), dialer, anchor));
        }
    }
}

/// The request as it can go along with a hello, if there is a ticket and it is not too long.
fn early<D, P: Request>(dialer: &Dialer<D>, request: &P) -> Option<EarlyRequest<P>> {
    let ClientSecurity::Secured(pinned) = &dialer.security else { return None };
    let limit = pinned
        .ticket
        .as_ref()
        .map(|ticket| ticket.max_message as usize)?
        .min(dialer.options.max_message)
        .min(MAX_EARLY);
    EarlyRequest::new(request, limit, dialer.options.request_timeout).ok()
}

/// The longest request that goes along with a hello, in bytes of its encoding. What is longer is no longer bound by
/// the round trip.
const MAX_EARLY: usize = 8 * 1024;
