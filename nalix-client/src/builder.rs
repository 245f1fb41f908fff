//! Puts a client together and connects it.

use std::{sync::Arc, time::Duration};

use nalix_core::{
    connection::{self, ConnectError, Driver, Options, RouterCell, Serving, run_disconnected},
    controller::{Context, Controller, Router, RouterBuilder, RouterError},
    handshake::Contracts,
    link::{Link, tcp},
    registry::Registry,
    wire::Limits,
};
use tokio::time::timeout;
use tracing::Instrument;

use crate::{Session, address::Address};

/// The way to a [`Session`].
#[derive(Debug)]
pub struct Client(());

impl Client {
    /// Starts with the server's address: `tcp://host:port`.
    pub fn builder(address: impl Into<String>) -> ClientBuilder {
        ClientBuilder {
            address: address.into(),
            plaintext: false,
            connect_timeout: Duration::from_secs(10),
            options: Options::default(),
            router: Router::builder(),
            serves: false,
        }
    }
}

/// Collects what a session is made of. Made by [`Client::builder`].
#[derive(Debug)]
#[must_use = "nothing happens until `connect` is awaited"]
pub struct ClientBuilder {
    address: String,
    plaintext: bool,
    connect_timeout: Duration,
    options: Options,
    router: RouterBuilder,
    serves: bool,
}

impl ClientBuilder {
    /// The connection is not encrypted: anyone on the way can read and change what it carries.
    pub fn plaintext(mut self) -> Self {
        self.plaintext = true;
        self
    }

    /// How long making the link may take, name resolution included and the handshake not. Default 10 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets the limits and times of the connection.
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

    /// Adds shared state, for handlers that take `State<T>`.
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.router.state(value);
        self
    }

    /// Connects, with the connection's driver on a task of the ambient runtime.
    ///
    /// Cancel safe: dropped before it is done, it leaves no connection behind.
    ///
    /// # Errors
    /// [`ConnectError`] says what kept it from connecting, and whether trying again makes sense.
    pub async fn connect(self) -> Result<Session, ConnectError> {
        let Address::Tcp(host) = Address::parse(&self.address)?;
        self.check()?;
        let dial = async {
            let addrs: Vec<_> = tokio::net::lookup_host(host).await?.collect();
            tcp::connect(&addrs).await
        };
        let link = match timeout(self.connect_timeout, dial).await {
            Ok(link) => link,
            Err(_) => Err(std::io::ErrorKind::TimedOut.into()),
        };
        match link {
            Ok(link) => self.connect_over(link).await,
            Err(source) => Err(ConnectError::Dial { address: self.address, source }),
        }
    }

    /// Connects over a link that was made by hand, such as one end of
    /// [`link::memory::pair`](nalix_core::link::memory::pair). The address is not used.
    ///
    /// Cancel safe: dropped before it is done, it leaves no connection behind.
    ///
    /// # Errors
    /// As [`ClientBuilder::connect`].
    pub async fn connect_over(self, link: impl Link + Unpin) -> Result<Session, ConnectError> {
        self.check()?;
        let registry = Registry::global().map_err(|error| ConnectError::Configuration(error.to_string()))?;
        let router = match self.router.build() {
            Ok(router) => router,
            // Most clients only ask.
            Err(RouterError::Empty) if !self.serves => Router::empty(),
            Err(error) => return Err(ConnectError::Configuration(error.to_string())),
        };
        let span = tracing::info_span!("session", peer = link.peer_addr().map(tracing::field::display));
        let contracts = Contracts::of(registry);
        let established =
            connection::connect(link, contracts, &self.options).instrument(span.clone()).await?;
        let cell = Arc::new(RouterCell::new(router.clone()));
        let (connection, driver) = Driver::new(established, Serving::from(router), &self.options);
        let driver = driver.replaceable(Arc::clone(&cell));
        let session = Session::new(connection.clone(), cell);
        let task = async move {
            let mut driver = driver;
            let reason = (&mut driver).await;
            tracing::debug!(%reason, "session ended");
            // Controllers that came too late to see the connection do not see its end either.
            let router = driver.router().clone();
            drop(driver);
            let context = Context::new(connection, Arc::clone(router.states()), Limits::DEFAULT);
            run_disconnected(&router, &context, &reason).await;
        };
        // Entering a span at every poll costs a little even when nobody listens.
        drop(if span.is_disabled() { tokio::spawn(task) } else { tokio::spawn(task.instrument(span)) });
        Ok(session)
    }

    fn check(&self) -> Result<(), ConnectError> {
        if self.plaintext {
            return Ok(());
        }
        let what = "say how the connection is secured: call `.plaintext()` on the builder";
        Err(ConnectError::Configuration(what.to_owned()))
    }
}
