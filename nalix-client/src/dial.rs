//! From a builder's settings to a running session.

use std::{sync::Arc, time::Duration};

use nalix_core::{
    CloseCode, CloseReason, Connection,
    connection::{self, ConnectError, Driver, Established, Options, RouterCell, Serving, run_disconnected},
    controller::{Context, Router},
    handshake::{ClientSecurity, Contracts},
    link::{Link, tcp, tcp::TcpLink},
    wire::Limits,
};
use tokio::time::timeout;
use tracing::{Instrument, Span};

use crate::Session;

/// Settings that have been checked.
#[derive(Debug)]
pub(crate) struct Dialer {
    pub(crate) security: ClientSecurity,
    pub(crate) contracts: Contracts,
    pub(crate) router: Router,
    pub(crate) options: Options,
    pub(crate) connect_timeout: Duration,
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
}

impl Dialer {
    /// Connects to the server at `host`, a `host:port`. If it does not know the ticket any more, connects without.
    pub(crate) async fn connect(
        &mut self,
        host: &str,
        early: &[u8],
    ) -> Result<Opened<TcpLink>, ConnectError> {
        match self.shake_hands(self.dial(host).await?, early).await {
            Err(ConnectError::Refused(reason))
                if reason.code == CloseCode::TicketRefused && self.forget_ticket() =>
            {
                tracing::debug!(%reason, "the session is not resumed");
                let opened = self.shake_hands(self.dial(host).await?, &[]).await?;
                Ok(Opened { early_lost: (!early.is_empty()).then_some(reason), ..opened })
            }
            done => done,
        }
    }

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

    /// Starts the driver on a task of its own. `first` is run before, when nobody else has asked anything yet.
    pub(crate) fn start<L: Link + Unpin, T>(
        self,
        opened: Opened<L>,
        first: impl FnOnce(&Connection) -> T,
    ) -> (Session, T) {
        let Opened { established, span, .. } = opened;
        let cell = Arc::new(RouterCell::new(self.router.clone()));
        let (ticket, resumed) = (established.ticket().cloned(), established.is_resumed());
        let (connection, driver) = Driver::new(established, Serving::from(self.router), &self.options);
        let driver = driver.replaceable(Arc::clone(&cell));
        let first = first(&connection);
        let session = Session::new(connection.clone(), cell, ticket, resumed);
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
        (session, first)
    }

    async fn dial(&self, host: &str) -> Result<TcpLink, ConnectError> {
        let dial = async {
            let addrs: Vec<_> = tokio::net::lookup_host(host).await?.collect();
            tcp::connect(&addrs).await
        };
        let link = match timeout(self.connect_timeout, dial).await {
            Ok(link) => link,
            Err(_) => Err(std::io::ErrorKind::TimedOut.into()),
        };
        link.map_err(|source| ConnectError::Dial { address: format!("tcp://{host}"), source })
    }

    /// Returns whether there was one.
    fn forget_ticket(&mut self) -> bool {
        match &mut self.security {
            ClientSecurity::Secured(pinned) => pinned.ticket.take().is_some(),
            _ => false,
        }
    }
}
