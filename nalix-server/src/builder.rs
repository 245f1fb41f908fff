//! Puts a server together.

use std::{
    num::NonZeroUsize,
    sync::{Arc, OnceLock},
    time::Duration,
};

use nalix_core::{
    connection::Options,
    controller::{Call, Controller, Reply, Router, RouterBuilder},
    handshake::{ClientKeys, Contracts, Identity, Sealing, SessionStore},
    link::tcp::{self, ListenOptions},
    registry::Registry,
    session::MemoryBudget,
    wire::Limits,
};
use tokio::sync::watch;
use tower::BoxError;
use tower_layer::{Identity as NoLayer, Layer, Stack};
use tower_service::Service;

use crate::{
    BuildError, Cores, Guard, GuardOptions, Hub, Server, ServerOptions, WhenFull,
    handshakes::Handshakes,
    inner::{Inner, Stage},
    layered::{MakeServing, bare, layered},
    links::Links,
    security::Security,
    sessions::Sessions,
};

impl Server {
    /// Starts to put a server together.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::new()
    }
}

/// Collects what a server is made of. Made by [`Server::builder`].
#[derive(Debug)]
#[must_use = "a server is bound by `build`"]
pub struct ServerBuilder<L = NoLayer> {
    settings: Settings,
    layer: L,
    has_layer: bool,
}

/// Everything but the layers, which have types of their own.
#[derive(Debug)]
struct Settings {
    router: RouterBuilder,
    security: Security,
    no_listener: bool,
    addresses: Vec<String>,
    listen: ListenOptions,
    options: Options,
    cores: Cores,
    guard: GuardOptions,
    max_connections: usize,
    when_full: WhenFull,
    max_handshakes: usize,
    max_handshakes_per_address: usize,
    max_detached: usize,
    max_groups_per_connection: usize,
    max_reassembly: usize,
    max_unread: usize,
    drain_timeout: Duration,
}

impl ServerBuilder {
    pub(crate) fn new() -> Self {
        let settings = Settings {
            router: Router::builder(),
            security: Security::default(),
            no_listener: false,
            addresses: Vec::new(),
            listen: ListenOptions::default(),
            options: Options::default(),
            cores: Cores::default(),
            guard: GuardOptions::default(),
            when_full: WhenFull::default(),
            max_connections: 0,
            max_handshakes: 0,
            max_handshakes_per_address: 0,
            max_detached: 0,
            max_groups_per_connection: 0,
            max_reassembly: 0,
            max_unread: 0,
            drain_timeout: Duration::ZERO,
        };
        Self { settings, layer: NoLayer::new(), has_layer: false }.configure(ServerOptions::default())
    }
}

impl<L> ServerBuilder<L> {
    /// Sets all limits and times at once, in place of what has been set of them before; and addresses and security, as far as
    /// the options speak of them. What they and other methods say of security must not contradict each other.
    pub fn configure(mut self, options: ServerOptions) -> Self {
        let settings = &mut self.settings;
        if !options.tcp.is_empty() {
            settings.addresses = options.tcp;
        }
        settings.security.configure(options.security);
        settings.router.limits(options.limits);
        (settings.cores, settings.when_full, settings.guard) =
            (options.cores, options.when_full, options.guard);
        settings.max_connections = options.max_connections;
        settings.max_handshakes = options.max_handshakes;
        settings.max_handshakes_per_address = options.max_handshakes_per_address;
        settings.max_detached = options.max_detached;
        settings.max_groups_per_connection = options.max_groups_per_connection;
        settings.max_reassembly = options.max_reassembly;
        settings.max_unread = options.max_unread;
        settings.drain_timeout = options.drain_timeout;
        (settings.options, settings.listen) = (options.connection, options.listen);
        self
    }

    /// Connections are encrypted, and the server proves to clients that it has this key pair. Clients pin its
    /// [`public_key`](Identity::public_key). Either this or [`ServerBuilder::plaintext`] must be said.
    ///
    /// ```no_run
    /// # use nalix_server::{Identity, Server};
    /// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
    /// let identity = Identity::load_or_generate("server.key")?;
    /// println!("clients pin {}", identity.public_key());
    /// let builder = Server::builder().identity(identity).tcp("0.0.0.0:7777");
    /// # Ok(()) }
    /// ```
    pub fn identity(mut self, identity: Identity) -> Self {
        self.settings.security.identity = Some(identity);
        self
    }

    /// Connections are not encrypted: anyone on the way can read and change what they carry.
    pub fn plaintext(mut self) -> Self {
        self.settings.security.plaintext = true;
        self
    }

    /// Which clients are let in, by the keys that they prove to have. Default: all, with or without a key. A handler
    /// sees the key as [`Connection::peer_key`](nalix_core::Connection::peer_key).
    pub fn client_keys(mut self, keys: ClientKeys) -> Self {
        self.settings.security.client_keys = Some(keys);
        self
    }

    /// What is sealed on secured connections. Default [`Sealing::All`]; [`Sealing::Marked`] counts only for clients that
    /// ask for it too, and says what it gives up.
    pub fn sealing(mut self, sealing: Sealing) -> Self {
        self.settings.security.sealing = Some(sealing);
        self
    }

    /// Keeps sessions in `store`, so that clients that come back resume them:
    /// [`Connection::resumption`](nalix_core::Connection::resumption). Default: none are kept.
    pub fn sessions(mut self, store: impl SessionStore) -> Self {
        self.settings.security.store = Some(Arc::new(store));
        self
    }

    /// How long a client may wait before it comes back. Default 1 h, at most ten years; less than a second turns
    /// resumption off. Too short makes clients start anew; too long keeps secrets and memory for those who stay away.
    pub fn ticket_lifetime(mut self, lifetime: Duration) -> Self {
        self.settings.security.ticket_lifetime = Some(lifetime);
        self
    }

    /// Listens on `address`, a `host:port`. Port 0 takes a free one, see [`Server::local_addr`]. `[::]` takes IPv4 too.
    /// May be called several times.
    pub fn tcp(mut self, address: impl Into<String>) -> Self {
        self.settings.addresses.push(address.into());
        self
    }

    /// Allows a server that listens nowhere and is handed its links with
    /// [`ServerHandle::serve_link`](crate::ServerHandle::serve_link).
    pub fn no_listener(mut self) -> Self {
        self.settings.no_listener = true;
        self
    }

    /// Adds the handlers of a controller.
    pub fn controller<C: Controller>(mut self, controller: C) -> Self {
        self.settings.router.add(controller);
        self
    }

    /// Adds every controller linked into the program whose type has a `Default`. A crate that nothing else names
    /// is only linked if it is mentioned: `use my_controllers as _;`.
    pub fn discover(mut self) -> Self {
        self.settings.router.discover();
        self
    }

    /// Adds shared state, for handlers that take [`State<T>`](nalix_core::State). One value of each type; it is put into
    /// an `Arc` here.
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.settings.router.state(value);
        self
    }

    /// Puts a layer around all handlers. A layer that is added first sees a call first.
    ///
    /// What a caller is told of a layer's error: a [`Status`](nalix_core::Status) as it is, tower's `Elapsed` as
    /// `DeadlineExceeded`, its `Overloaded` as `ResourceExhausted`, anything else as `Internal`. The service must be
    /// `Clone`; one that is not, such as tower's `RateLimit`, goes behind a `BufferLayer`.
    ///
    /// ```
    /// # use nalix_server::{Server, packet, packet_controller};
    /// # #[packet(opcode = 0x1f01, reply = u32)]
    /// # struct Answer;
    /// # struct Oracle;
    /// # #[packet_controller]
    /// # impl Oracle {
    /// #     #[packet]
    /// #     fn answer(&self, _: Answer) -> u32 { 42 }
    /// # }
    /// # async fn f() -> Result<(), nalix_server::BuildError> {
    /// use std::time::Duration;
    /// use tower::{limit::ConcurrencyLimitLayer, timeout::TimeoutLayer};
    ///
    /// let server = Server::builder()
    ///     .plaintext()
    ///     .tcp("127.0.0.1:0")
    ///     .controller(Oracle)
    ///     .layer(TimeoutLayer::new(Duration::from_secs(5)))
    ///     .layer(ConcurrencyLimitLayer::new(10_000))
    ///     .build()
    ///     .await?;
    /// # Ok(()) }
    /// ```
    ///
    /// The service is made once and cloned for each connection, so a `ConcurrencyLimitLayer` limits the whole server.
    /// Every call through a layer costs one allocation; without layers, handlers that are not async cost none.
    pub fn layer<N>(self, layer: N) -> ServerBuilder<Stack<N, L>> {
        ServerBuilder { settings: self.settings, layer: Stack::new(layer, self.layer), has_layer: true }
    }

    /// Sets the limits and times of every connection.
    ///
    /// ```
    /// # use nalix_server::{Options, Server};
    /// let options = Options::default().max_calls(64).stream_window(1 << 20);
    /// let builder = Server::builder().options(options);
    /// ```
    pub fn options(mut self, options: Options) -> Self {
        self.settings.options = options;
        self
    }

    /// Sets how sockets listen.
    pub fn listen_options(mut self, listen: ListenOptions) -> Self {
        self.settings.listen = listen;
        self
    }

    /// Sets what the bytes of a packet may make its decoder do before a handler sees it. Items of streams, answers and
    /// packets for subscribers are decoded within the defaults.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.settings.router.limits(limits);
        self
    }

    /// Sets how many runtimes serve connections.
    pub fn cores(mut self, cores: Cores) -> Self {
        self.settings.cores = cores;
        self
    }

    /// How many links may be there at once, those in the handshake included. Default 65,536. One more is told
    /// [`CloseCode::LimitExceeded`](crate::CloseCode) and to try again later.
    ///
    /// Each takes a descriptor. When a server starts that may have more links than the process may have descriptors, it traces a
    /// warning with both numbers.
    pub fn max_connections(mut self, max: usize) -> Self {
        self.settings.max_connections = max;
        self
    }

    /// What happens when there are that many. Default [`WhenFull::Refuse`].
    pub fn when_full(mut self, when_full: WhenFull) -> Self {
        self.settings.when_full = when_full;
        self
    }

    /// Whom the server lets in, by address: lists, limits, bans, and proxies that name their clients.
    pub fn guard(mut self, guard: GuardOptions) -> Self {
        self.settings.guard = guard;
        self
    }

    /// How many handshakes may go on at once. Default 4,096, at least 1. One more is told
    /// [`CloseCode::LimitExceeded`](crate::CloseCode) and to try again in a second.
    ///
    /// Too low turns clients away that come all at once; too high lets silent peers hold that many places for
    /// [`Options::handshake_timeout`](field@Options::handshake_timeout).
    pub fn max_handshakes(mut self, max: usize) -> Self {
        self.settings.max_handshakes = max;
        self
    }

    /// How many of them may come from one IPv4 address or one /64 of IPv6. Default 256, at least 1.
    ///
    /// Too low turns clients away that share an address; too high lets one address hold all places.
    pub fn max_handshakes_per_address(mut self, max: usize) -> Self {
        self.settings.max_handshakes_per_address = max;
        self
    }

    /// How many sessions may be kept that have lost their links, each for
    /// [`resume_grace`](field@nalix_core::connection::Options::resume_grace). Default 10,000. If there is one more, the one that has
    /// been without a link for longest ends; of one IPv4 address or one /64 of IPv6 there may be an eighth of that. They count as connections, too, but let as many links in beyond
    /// [`ServerBuilder::max_connections`], so that their clients can come back.
    ///
    /// Too low ends sessions whose clients would have come back; too high lets clients that never do take that much memory.
    /// Zero ends each at once.
    pub fn max_detached(mut self, max: usize) -> Self {
        self.settings.max_detached = max;
        self
    }

    /// How many groups one connection may be in at once. Default 1,024.
    ///
    /// Too low refuses honest members with [`Join::TooMany`](crate::Join::TooMany); too high lets a client whose wishes are
    /// granted take memory for that many groups. Zero lets nobody join.
    pub fn max_groups_per_connection(mut self, max: usize) -> Self {
        self.settings.max_groups_per_connection = max;
        self
    }

    /// How many bytes of memory the messages of over 16 KiB may take that are not whole yet, or whose handlers have not
    /// finished, over all connections. Default 512 MiB. It comes on top of [`Options::reassembly`](field@Options::reassembly), which bounds each of them.
    ///
    /// What is beyond is refused, also when a part of it has come: a request with
    /// [`Code::ResourceExhausted`](crate::Code) and the advice to try again, a one-way packet silently; an answer fails its
    /// call here. The connection lives. Too low refuses large messages at busy times, and those beyond it always; too high lets
    /// clients together take that much memory. Zero refuses whatever does not fit a frame.
    pub fn max_reassembly(mut self, bytes: usize) -> Self {
        self.settings.max_reassembly = bytes;
        self
    }

    /// How many bytes of memory peers may make the server keep that read nothing, or whose session waits for another link, over
    /// all connections: what waits to be written or acknowledged, and calls that wait for room there. Default 256 MiB. 16 KiB of
    /// each connection do not count, and nothing counts of a peer that has read anything within the last second.
    ///
    /// A connection for which there is no room is closed with [`CloseCode::SlowConsumer`](crate::CloseCode). Too low closes
    /// connections whose clients were held up for a second; too high lets clients that do not read take that much memory, each
    /// until its [`stall_timeout`](field@Options::stall_timeout).
    pub fn max_unread(mut self, bytes: usize) -> Self {
        self.settings.max_unread = bytes;
        self
    }

    /// How long a drain may take, from the moment that the server is told to stop. Default 10 s. Zero cuts every call
    /// off at once.
    pub fn drain_timeout(mut self, timeout: Duration) -> Self {
        self.settings.drain_timeout = timeout;
        self
    }

    /// Checks everything and binds. Must be awaited on a tokio runtime with I/O and time enabled.
    ///
    /// Cancel safe: dropped before it is done, it leaves nothing bound.
    ///
    /// # Errors
    /// [`BuildError`] says what is missing, contradictory or taken.
    pub async fn build(self) -> Result<Server, BuildError>
    where
        L: Layer<Router>,
        L::Service: Service<Call, Response = Reply> + Clone + Send + 'static,
        <L::Service as Service<Call>>::Future: Send + 'static,
        <L::Service as Service<Call>>::Error: Into<BoxError> + 'static,
    {
        let mut settings = self.settings;
        let security = settings.security.load().await?.resolve()?;
        for (option, value) in [
            ("max_handshakes", settings.max_handshakes),
            ("max_handshakes_per_address", settings.max_handshakes_per_address),
        ] {
            if value == 0 {
                return Err(BuildError::Zero { option });
            }
        }
        if settings.addresses.is_empty() && !settings.no_listener {
            return Err(BuildError::NoListener);
        }
        let contracts = Contracts::of(Registry::global()?);
        let hub = Hub::new(settings.max_groups_per_connection);
        settings.router.state(hub.clone());
        let guard = Guard::new(settings.guard);
        settings.router.state(guard.clone());
        let router = settings.router.build()?;
        let make: MakeServing =
            if self.has_layer { layered(router.clone(), &self.layer) } else { bare(router.clone()) };

        let cores = match settings.cores {
            Cores::Ambient => None,
            Cores::Each(n) => Some(n),
            Cores::All => Some(std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)),
        };
        let sockets = cores.map_or(1, NonZeroUsize::get);
        let mut listen = settings.listen;
        listen.shared_port |= sockets > 1;
        let mut listeners = Vec::new();
        for address in &settings.addresses {
            listeners.push(bind(address, sockets, &listen).await?);
        }
        let inner = Inner {
            router,
            make_serving: make,
            contracts,
            security,
            options: settings.options.in_range(),
            links: Arc::new(Links::new(hub.clone(), settings.max_connections, settings.when_full)),
            hub,
            guard,
            handshakes: Arc::new(Handshakes::new(
                settings.max_handshakes,
                settings.max_handshakes_per_address,
            )),
            reassembly: Arc::new(MemoryBudget::new(settings.max_reassembly)),
            unread: Arc::new(MemoryBudget::new(settings.max_unread)),
            sessions: Arc::new(Sessions::new(settings.max_detached)),
            drain_timeout: settings.drain_timeout,
            stage: watch::Sender::new(Stage::Running),
            local_addrs: OnceLock::new(),
        };
        Ok(Server::new(inner, listeners, cores))
    }
}

/// `count` sockets on the first address that the name stands for and that can be listened on.
async fn bind(
    address: &str,
    count: usize,
    options: &ListenOptions,
) -> Result<Vec<std::net::TcpListener>, BuildError> {
    let unknown = |source| BuildError::Address { address: address.to_owned(), source };
    let candidates: Vec<_> = tokio::net::lookup_host(address).await.map_err(unknown)?.collect();
    let mut last = std::io::Error::new(std::io::ErrorKind::NotFound, "the name stands for no address");
    for candidate in candidates {
        let bound = (|| {
            let first = tcp::bind(candidate, options)?;
            // With port 0 the first socket decides on the port for all.
            let actual = first.local_addr()?;
            let mut all = vec![first];
            for _ in 1..count {
                all.push(tcp::bind(actual, options)?);
            }
            Ok(all)
        })();
        match bound {
            Ok(all) => return Ok(all),
            Err(error) => last = error,
        }
    }
    Err(BuildError::Listen { address: address.to_owned(), source: last })
}
