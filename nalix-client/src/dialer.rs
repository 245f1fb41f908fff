//! From a builder's settings to connections.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use nalix_core::{
    CloseCode, CloseReason, Connection,
    connection::{
        self, Anchor, Audience, ConnectError, Driver, Established, Options, RouterCell, Serving,
        run_disconnected,
    },
    controller::Context,
    handshake::{Attach, ClientSecurity, Contracts, SessionTicket},
    link::Link,
    wire::Limits,
};
use tokio::time::timeout;
use tracing::{Instrument, Span};

use crate::{Dial, reconnect_options::ReconnectOptions};

/// Settings that have been checked, and the addresses.
#[derive(Debug)]
pub(crate) struct Dialer<D> {
    pub(crate) dial: D,
    pub(crate) addresses: Addresses,
    pub(crate) security: ClientSecurity,
    pub(crate) contracts: Contracts,
    pub(crate) router: Arc<RouterCell>,
    pub(crate) audience: Audience,
    pub(crate) options: Options,
    pub(crate) reconnect: ReconnectOptions,
    pub(crate) connect_timeout: Duration,
}

/// Where servers are.
#[derive(Debug)]
pub(crate) struct Addresses {
    pub(crate) all: Vec<String>,
    /// Which is tried first.
    pub(crate) first: usize,
}

/// A connection that nothing has been asked on yet.
#[derive(Debug)]
pub(crate) struct Opened<L> {
    established: Established<L>,
    span: Span,
    /// Why a hello was refused that frames went along with.
    pub(crate) early_lost: Option<CloseReason>,
}

impl<L: Link + Unpin> Opened<L> {
    /// Whether the frames went along with the hello.
    pub(crate) fn early_sent(&self) -> bool {
        self.established.early_sent()
    }

    /// Whether the server goes on with the session that was asked for.
    pub(crate) fn is_attached(&self) -> bool {
        self.established.is_attached()
    }

    pub(crate) fn into_established(self) -> Established<L> {
        self.established
    }

    pub(crate) fn ticket(&self) -> Option<&SessionTicket> {
        self.established.ticket()
    }

    pub(crate) fn is_resumed(&self) -> bool {
        self.established.is_resumed()
    }
}

impl<D: Dial> Dialer<D> {
    /// Connects to the first server that lets itself be connected to, to go on with the session of `anchor` if there is one. The next time, that one comes first; if there is none,
    /// the one behind the one that came first this time.
    ///
    /// # Errors
    /// The first error after which it makes sense to try again, else the first of all.
    pub(crate) async fn connect(
        &mut self,
        anchor: Option<&Anchor<D::Link>>,
    ) -> Result<Opened<D::Link>, ConnectError> {
        let (count, first) = (self.addresses.all.len(), self.addresses.first);
        let mut worst: Option<ConnectError> = None;
        for n in 0..count {
            let at = (first + n) % count;
            match self.connect_to(at, &[], anchor).await {
                Ok(opened) => {
                    self.addresses.first = at;
                    return Ok(opened);
                }
                Err(error) => {
                    tracing::debug!(address = self.addresses.all[at], %error, "no connection");
                    let better =
                        worst.as_ref().is_none_or(|worst| !worst.is_retryable() && error.is_retryable());
                    if better {
                        worst = Some(error);
                    }
                }
            }
        }
        self.addresses.first = (first + 1) % count;
        Err(worst.unwrap_or_else(|| ConnectError::Configuration("there is no address".to_owned())))
    }

    /// Connects to one server, and sends frames along if a session is resumed. If it does not know the ticket any more, connects
    /// without.
    pub(crate) async fn connect_to(
        &mut self,
        at: usize,
        early: &[u8],
        anchor: Option<&Anchor<D::Link>>,
    ) -> Result<Opened<D::Link>, ConnectError> {
        self.forget_expired_ticket();
        let opened = match self.attempt(at, early, anchor).await {
            Err(ConnectError::Refused(reason))
                if reason.code == CloseCode::TicketRefused && self.forget_ticket() =>
            {
                tracing::debug!(%reason, "the ticket is not taken");
                let opened = self.attempt(at, &[], anchor).await?;
                Opened { early_lost: (!early.is_empty()).then_some(reason), ..opened }
            }
            done => done?,
        };
        self.keep_ticket(opened.ticket().cloned());
        Ok(opened)
    }

    async fn attempt(
        &self,
        at: usize,
        early: &[u8],
        anchor: Option<&Anchor<D::Link>>,
    ) -> Result<Opened<D::Link>, ConnectError> {
        let link = self.dial(at).await?;
        // Each one that is asked for makes those before it stale, so one for each link.
        let over = |anchor: &&Anchor<D::Link>| anchor.connection().close_reason().is_none();
        match anchor.filter(over).and_then(Anchor::offer) {
            Some(attach) => self.shake_hands_again(link, attach).await,
            None => self.shake_hands(link, early).await,
        }
    }

    async fn dial(&self, at: usize) -> Result<D::Link, ConnectError> {
        let address = &self.addresses.all[at];
        let link = match timeout(self.connect_timeout, self.dial.dial(address)).await {
            Ok(link) => link,
            Err(_) => Err(std::io::ErrorKind::TimedOut.into()),
        };
        link.map_err(|source| ConnectError::Dial { address: address.clone(), source })
    }

    fn forget_expired_ticket(&mut self) {
        if let ClientSecurity::Secured(pinned) = &mut self.security {
            pinned.ticket.take_if(|ticket| ticket.is_expired(SystemTime::now()));
        }
    }

    /// Returns whether there was one.
    fn forget_ticket(&mut self) -> bool {
        match &mut self.security {
            ClientSecurity::Secured(pinned) => pinned.ticket.take().is_some(),
            _ => false,
        }
    }

    /// Each ticket can be used once, and a new one comes with each connection.
    fn keep_ticket(&mut self, ticket: Option<SessionTicket>) {
        if let ClientSecurity::Secured(pinned) = &mut self.security {
            pinned.ticket = ticket;
        }
    }
}

impl<D> Dialer<D> {
    /// Connects over a link that is there already.
    pub(crate) async fn shake_hands<L: Link + Unpin>(
        &self,
        link: L,
        early: &[u8],
    ) -> Result<Opened<L>, ConnectError> {
        let span = tracing::info_span!("session", peer = link.peer_addr().map(tracing::field::display));
        let established =
            connection::connect_early(link, self.contracts.clone(), &self.security, early, &self.options)
                .instrument(span.clone())
                .await?;
        Ok(Opened { established, span, early_lost: None })
    }

    /// Connects over a link, and asks to go on with a session.
    async fn shake_hands_again<L: Link + Unpin>(
        &self,
        link: L,
        attach: Attach,
    ) -> Result<Opened<L>, ConnectError> {
        let span = tracing::info_span!("session", peer = link.peer_addr().map(tracing::field::display));
        let contracts = self.contracts.clone();
        let established =
            connection::connect_attached(link, contracts, &self.security, attach, &self.options)
                .instrument(span.clone())
                .await?;
        Ok(Opened { established, span, early_lost: None })
    }

    /// Makes the connection, whose driver runs when [`Started::run`] says so: nothing can come from it, or be lost with it,
    /// before whoever is to see that is in place.
    pub(crate) fn start<L: Link + Unpin>(&self, opened: Opened<L>) -> Started<L> {
        let Opened { mut established, span, .. } = opened;
        established.set_audience(&self.audience, !self.reconnect.enabled);
        let (connection, driver) =
            Driver::new(established, Serving::from(self.router.current()), &self.options);
        Started { connection, driver: driver.replaceable(Arc::clone(&self.router)), span }
    }
}

/// A connection whose driver does not run yet.
#[derive(Debug)]
pub(crate) struct Started<L: Link> {
    pub(crate) connection: Connection,
    driver: Driver<L>,
    span: Span,
}

impl<L: Link + Unpin> Started<L> {
    /// Lets the session outlive its link.
    pub(crate) fn anchor(&mut self) -> Anchor<L> {
        self.driver.anchor()
    }

    /// Lets the driver run on a task of its own.
    pub(crate) fn run(self) {
        let Self { connection, driver, span } = self;
        let task = async move {
            let mut driver = driver;
            let reason = (&mut driver).await;
            tracing::debug!(%reason, "connection ended");
            // Controllers that came too late to see the connection do not see its end either.
            let router = driver.router().clone();
            drop(driver);
            let context = Context::new(connection, Arc::clone(router.states()), Limits::DEFAULT);
            run_disconnected(&router, &context, &reason).await;
        };
        // Entering a span at every poll costs a little even when nobody listens.
        drop(if span.is_disabled() { tokio::spawn(task) } else { tokio::spawn(task.instrument(span)) });
    }
}
