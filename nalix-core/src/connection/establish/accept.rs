//! The handshake of the side that accepts.

use std::{
    future::Future,
    sync::Arc,
    time::{Duration, SystemTime},
};

use super::{
    ConnectError, Established, Lasting, establish, farewell,
    io::{abort, fill, goodbye, read, unless, within, write},
    settle, unexpected,
};
use crate::{
    Advice,
    connection::Options,
    handshake::{
        self, Accepted, Contracts, Grant, Hello, Kept, MAX_HELLO, Params, Responder, Secured, ServerSecurity,
        SessionId, SessionRecord, SessionStore, StoreError, Taken, TicketId, Unsaved, Upkeep, Way,
    },
    link::Link,
    peer::Resumption,
    record::{Key, RecordKind},
    session::{Inbound, Outbound, Record},
    status::{CloseCode, CloseReason},
};

/// Opens a connection as the side that accepts.
///
/// Not cancel safe: a handshake that is dropped half-way leaves the link unusable.
///
/// # Errors
/// [`ConnectError`]; the peer is told why before the link is closed.
pub async fn accept<L: Link>(
    link: L,
    contracts: Contracts,
    security: &ServerSecurity,
    options: &Options,
) -> Result<Established<L>, ConnectError> {
    accept_unless(link, contracts, security, options, std::future::pending()).await
}

/// As [`accept`], but refuses the peer for the reason that `stop` resolves to if the handshake is not done by then.
///
/// # Errors
/// As [`accept`].
pub async fn accept_unless<L: Link>(
    mut link: L,
    contracts: Contracts,
    security: &ServerSecurity,
    options: &Options,
    stop: impl Future<Output = CloseReason>,
) -> Result<Established<L>, ConnectError> {
    let options = options.clone().in_range();
    let params = options.params(contracts);
    let mut inbound = Inbound::new(MAX_HELLO);
    // What stands for it until there is an answer says nothing.
    let mut outbound = Outbound::new(0);
    let mut answered = false;
    let shake = async {
        let body = match read(&mut link, &mut inbound).await? {
            Record { kind: RecordKind::Hello, body } => body,
            Record { kind: RecordKind::Abort, body } => {
                return Err(ConnectError::Refused(handshake::read_abort(&body)));
            }
            Record { kind, .. } => return Err(unexpected(kind)),
        };
        let hello = Hello::parse(&body).map_err(ConnectError::Protocol)?;
        let Answered { accepted, peer_key, resumption } =
            answer(&hello, params, security, options.resume_grace).await.map_err(ConnectError::Refused)?;
        let Accepted { terms, secrets, early, kept, attach, reply, .. } = accepted;
        write(&mut link, &reply).await?;
        let secured = secrets.is_some();
        outbound = establish(&mut inbound, &terms, secrets.map(|(secrets, _)| secrets));
        answered = true;
        match hello.way {
            // The ticket is taken, so this was no recording.
            Way::Resume(_) => inbound.early(early),
            _ if secured => confirm(&mut link, &mut inbound).await?,
            _ => {}
        }
        Ok((terms, peer_key, resumption, kept.map(|kept| Lasting::of(kept, attach))))
    };
    match unless(stop, within(options.handshake_timeout, shake)).await {
        Ok((terms, peer_key, resumption, lasting)) => {
            let mut established = settle(link, (inbound, outbound), terms, peer_key, resumption, &options);
            established.lasting = lasting;
            Ok(established)
        }
        Err(error) => {
            match farewell(&error) {
                // The peer takes the connection for established. It would not believe what anyone can have said.
                Some(reason) if answered => {
                    goodbye(&mut link, &mut inbound, &mut outbound, reason, options.close_timeout).await;
                }
                Some(reason) => abort(&mut link, &mut inbound, &reason, options.close_timeout).await,
                None => {}
            }
            Err(error)
        }
    }
}

/// Waits until the peer has shown that it is there: a hello can be a recording of an old one.
async fn confirm<L: Link>(link: &mut L, inbound: &mut Inbound) -> Result<(), ConnectError> {
    loop {
        if inbound.next_kind() == Some(RecordKind::Abort) {
            // Anyone can have said this, but nobody gains anything by it.
            let Record { body, .. } = read(link, inbound).await?;
            return Err(ConnectError::Refused(handshake::read_abort(&body)));
        }
        if inbound.confirm().map_err(ConnectError::Protocol)? {
            return Ok(());
        }
        fill(link, inbound).await?;
    }
}

/// Turns a link away before its handshake.
pub async fn refuse<L: Link>(mut link: L, reason: CloseReason, options: &Options) {
    abort(&mut link, &mut Inbound::new(MAX_HELLO), &reason, options.close_timeout).await;
}

struct Answered {
    accepted: Accepted,
    peer_key: Option<handshake::PublicKey>,
    resumption: Option<Resumption>,
}

/// The order matters: look the ticket up, verify the hello under its secret, take the ticket, and only then let anything
/// happen to the session. Whoever cannot prove the secret leaves everything as it was.
async fn answer(
    hello: &Hello,
    params: Params,
    security: &ServerSecurity,
    grace: Duration,
) -> Result<Answered, CloseReason> {
    // Before a store is asked for anything.
    hello.check_version()?;
    let sessions = match security {
        ServerSecurity::Secured(secured) => Sessions::of(secured),
        ServerSecurity::Plaintext => None,
    };
    let resumed = match (hello.way, security) {
        (Way::Resume(ticket), ServerSecurity::Secured(_)) => {
            let sessions = sessions.as_ref().ok_or_else(ticket_refused)?;
            Some((ticket, sessions.find(ticket).await?))
        }
        _ => None,
    };
    let responder = Responder::read(hello, params, security, resumed.as_ref().map(|(_, record)| record))?;
    let peer_key = responder.client_key();
    let Some(sessions) = sessions else {
        let kept = SessionId::generate().ok().and_then(|session| Kept::generate(session, grace));
        return Ok(Answered { accepted: responder.accept(None, kept)?, peer_key, resumption: None });
    };
    let next = TicketId::generate().map_err(|_| no_randomness())?;
    let session = match &resumed {
        Some((_, record)) => record.session,
        None => SessionId::generate().map_err(|_| no_randomness())?,
    };
    let kept = Kept::generate(session, grace);
    let accepted = responder.accept(Some(Grant::new(next, sessions.lifetime)), kept)?;
    let secret = accepted.secrets.as_ref().map(|(_, secret)| secret.clone());
    let secret = secret.ok_or_else(no_randomness)?;
    let resumption = sessions.keep(session, resumed, next, secret, peer_key).await?;
    Ok(Answered { accepted, peer_key, resumption })
}

/// Where sessions are kept, and for how long.
struct Sessions<'a> {
    store: &'a Arc<dyn SessionStore>,
    unsaved: &'a Arc<Unsaved>,
    lifetime: Duration,
}

impl<'a> Sessions<'a> {
    fn of(secured: &'a Secured) -> Option<Self> {
        let (unsaved, lifetime) = (&secured.unsaved, secured.longest_lifetime());
        secured.issues_tickets().map(|store| Self { store, unsaved, lifetime })
    }

    /// What a ticket stands for. One that is unknown, used, expired or revoked gets one and the same answer.
    async fn find(&self, ticket: TicketId) -> Result<SessionRecord, CloseReason> {
        if let Some(upkeep) = self.unsaved.get(ticket) {
            upkeep.saved().await;
            if self.unsaved.get(ticket).is_some() {
                return Err(unavailable(&StoreError::new("it does not have the session as it is")));
            }
        }
        let record = self.store.get(ticket).await.map_err(|error| unavailable(&error))?;
        record.filter(|record| !record.is_expired(SystemTime::now())).ok_or_else(ticket_refused)
    }

    /// Takes the old ticket, if there is one, and keeps the session under the new one.
    async fn keep(
        &self,
        session: SessionId,
        resumed: Option<(TicketId, SessionRecord)>,
        ticket: TicketId,
        secret: Key,
        peer_key: Option<handshake::PublicKey>,
    ) -> Result<Option<Resumption>, CloseReason> {
        let mut record = SessionRecord::new(session, secret, SystemTime::now() + self.lifetime);
        record.peer_key = peer_key;
        let Some((old, seen)) = resumed else {
            return Ok(match self.store.put(ticket, record.clone()).await {
                Ok(()) => Some(Resumption::new(self.upkeep(ticket, record), false)),
                Err(error) => {
                    tracing::warn!(%error, "a session cannot be kept and will not be resumable");
                    None
                }
            });
        };
        let record = self.take(old, seen, ticket, record).await?;
        let resumption = Resumption::new(self.upkeep(ticket, record), true);
        // What the earlier connection has changed since, the store will not take any more.
        if let Some(earlier) = self.unsaved.get(old) {
            resumption.replace(&earlier);
        }
        Ok(Some(resumption))
    }

    /// Takes a ticket, and puts in the next with what was kept at that moment. Returns what is in the store now.
    async fn take(
        &self,
        old: TicketId,
        mut seen: SessionRecord,
        ticket: TicketId,
        mut record: SessionRecord,
    ) -> Result<SessionRecord, CloseReason> {
        for _ in 0..MAX_TAKES {
            record.data = seen.data.clone();
            match self.store.take(old, &seen, (ticket, record.clone())).await {
                Ok(Taken::Yes) => return Ok(record),
                // The handshake was made with what has been seen first.
                Ok(Taken::Changed(now)) if is_same(&now, &seen) => seen = now,
                // Another connection was faster.
                Ok(Taken::No | Taken::Changed(_)) => return Err(ticket_refused()),
                Err(error) => return Err(unavailable(&error)),
            }
        }
        Err(unavailable(&StoreError::new("the session changes all the time")))
    }

    fn upkeep(&self, ticket: TicketId, record: SessionRecord) -> Arc<Upkeep> {
        Upkeep::new(Arc::clone(self.store), Arc::clone(self.unsaved), ticket, record, self.lifetime)
    }
}

/// Whether only what is kept with the session can have changed, and not who may resume it.
fn is_same(now: &SessionRecord, seen: &SessionRecord) -> bool {
    now.session == seen.session && now.secret == seen.secret && now.peer_key == seen.peer_key
}

fn ticket_refused() -> CloseReason {
    let message = "the ticket is not known here: it has been used, has expired or was revoked";
    CloseReason::new(CloseCode::TicketRefused, message).with_advice(Advice::Reconnect)
}

fn unavailable(error: &StoreError) -> CloseReason {
    tracing::warn!(%error, "sessions cannot be looked up");
    CloseReason::new(CloseCode::Internal, "sessions cannot be resumed now")
        .with_advice(Advice::Retry { after: None })
}

fn no_randomness() -> CloseReason {
    CloseReason::new(CloseCode::Internal, "the system has no randomness")
}

/// How often a session may change while its ticket is being taken.
const MAX_TAKES: usize = 16;
