//! Where servers keep sessions that can be resumed.

use std::{
    error::Error as StdError,
    fmt,
    future::{self, Future},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use thiserror::Error;

use super::{SessionId, SessionRecord, TicketId};

/// Where a server keeps the sessions that its clients may resume: in its own memory, or outside where several
/// servers share them.
///
/// What makes tickets good for one use is [`take`](SessionStore::take), and what makes revoking final is
/// [`revoke`](SessionStore::revoke), so an implementation keeps these promises or the security of resumption
/// is gone:
///
/// * **Each method is one atomic step**, seen from every task, thread and server that shares the store. In a
///   store outside the process this takes a transaction or a script on its side (`EVAL` in Redis, a single
///   statement or a transaction that locks the row in SQL). Looking first and then writing in a second round
///   trip is wrong, however short the gap. Replicas that lag behind must not be asked.
/// * **A record that has expired is as good as absent**, whether it has been removed or not.
/// * **A ticket that has been taken or revoked never comes back**, neither by an `update` that was under way
///   nor by a `take`; and a session that has been revoked gets no ticket by a `put` that comes late.
/// * **No clock that is set back gives a ticket a longer life.** How long a record has to live is counted from when
///   it was put in, by a clock that is never set, or the store's own; [`SessionRecord::expires`] is an upper bound.
/// * Tickets are found again by session, for `revoke`; the index changes in the same step as the tickets.
/// * Losing sessions is allowed (when space is short, or after a restart): a client then makes a whole
///   handshake. Keeping one for longer than promised is not.
/// * An error means that the step may or may not have been taken, but not half of it. A new connection then
///   goes on without a ticket; one that is to resume a session is refused, with the advice to try again.
///
/// The step may be taken when the method is called or while its future is polled. A future that is dropped
/// early leaves it done or not done.
///
/// Records hold secrets ([`SessionRecord::to_bytes`] does as well): whoever can read the store can take its
/// sessions over.
pub trait SessionStore: Send + Sync + 'static {
    /// Puts in the first ticket of a session, in place of what is under this name. Nothing is put in for a session
    /// that has been revoked.
    fn put(&self, ticket: TicketId, record: SessionRecord) -> StoreFuture<'_, ()>;

    /// Looks a ticket up, and changes nothing.
    ///
    /// The ticket comes from a client that has proved nothing yet, so this should be cheap for tickets that
    /// are not there.
    fn get(&self, ticket: TicketId) -> StoreFuture<'_, Option<SessionRecord>>;

    /// Consumes a ticket and puts its successor, of the same session, in its place, if its record is still as it was
    /// `seen`. Of all who try with one ticket, on whatever server, exactly one is told [`Taken::Yes`]. Otherwise
    /// nothing has changed: the successor has not been put in.
    ///
    /// It is called once the client has proved that it knows the record's secret. The successor is made from what
    /// `get` gave, so that an `update` between the two steps would be undone if nobody compared.
    fn take(
        &self,
        ticket: TicketId,
        seen: &SessionRecord,
        next: (TicketId, SessionRecord),
    ) -> StoreFuture<'_, Taken>;

    /// Replaces the record of a ticket that is there, and says whether it was: when a session's data changes
    /// while the client holds the ticket. It never brings one back that has been taken or revoked, and gives none a
    /// longer life.
    fn update(&self, ticket: TicketId, record: SessionRecord) -> StoreFuture<'_, bool>;

    /// Removes all tickets of a session, and says how many there were. For `lifetime`, which is as long as tickets
    /// live, nothing is put in for it.
    ///
    /// A `take` that runs at the same time comes either before, and its successor is removed with the others,
    /// or after, and finds nothing. Either way none is left when this is done.
    fn revoke(&self, session: SessionId, lifetime: Duration) -> StoreFuture<'_, usize>;
}

/// What has become of a [`SessionStore::take`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    /// The ticket is consumed, and its successor in its place.
    Yes,
    /// The ticket is not there: it has been used, has expired or was revoked.
    No,
    /// The ticket is there with this record, which is another than the one that was seen. It can be taken still.
    Changed(SessionRecord),
}

/// What the methods of a [`SessionStore`] return. Without an allocation where the result is there at once.
///
/// ```
/// use nalix_core::handshake::{StoreError, StoreFuture};
///
/// fn in_memory() -> StoreFuture<'static, bool> {
///     StoreFuture::ready(Ok(true))
/// }
///
/// fn far_away(name: &str) -> StoreFuture<'_, usize> {
///     StoreFuture::new(async move { name.parse().map_err(StoreError::new) })
/// }
/// ```
#[must_use = "futures do nothing unless polled"]
pub struct StoreFuture<'a, T>(Inner<'a, T>);

enum Inner<'a, T> {
    Ready(future::Ready<Result<T, StoreError>>),
    Boxed(Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>),
}

impl<'a, T> StoreFuture<'a, T> {
    /// A result that takes time.
    pub fn new(future: impl Future<Output = Result<T, StoreError>> + Send + 'a) -> Self {
        Self(Inner::Boxed(Box::pin(future)))
    }

    /// A result that is there already.
    pub fn ready(result: Result<T, StoreError>) -> Self {
        Self(Inner::Ready(future::ready(result)))
    }
}

impl<T> Future for StoreFuture<'_, T> {
    type Output = Result<T, StoreError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.get_mut().0 {
            Inner::Ready(ready) => Pin::new(ready).poll(cx),
            Inner::Boxed(future) => future.as_mut().poll(cx),
        }
    }
}

impl<T> fmt::Debug for StoreFuture<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreFuture").finish_non_exhaustive()
    }
}

/// A session store that cannot do what it is asked: it cannot be reached, or holds what it should not.
///
/// Peers are not told of it; their sessions just cannot be resumed for the time being.
#[derive(Debug, Error)]
#[error("session store: {0}")]
pub struct StoreError(#[source] Box<dyn StdError + Send + Sync>);

impl StoreError {
    /// Wraps what went wrong: another error, or a message.
    pub fn new(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self(error.into())
    }
}
