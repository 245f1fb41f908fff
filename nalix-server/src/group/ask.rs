//! One request to many connections.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use nalix_core::{Encoded, Request, RequestError, RequestFuture, error::EncodeError};
use tokio::time::{Sleep, sleep};

use super::{Member, Members, room::Room};

/// What a member has answered.
pub struct Answer<P: Request> {
    /// Who.
    pub member: Member,
    /// What; a member that has not answered in time is [`RequestError::Timeout`].
    pub result: Result<P::Reply, RequestError<P::Error>>,
}

impl<P: Request> fmt::Debug for Answer<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer")
            .field("member", &self.member)
            .field("answered", &self.result.is_ok())
            .finish_non_exhaustive()
    }
}

/// The future of the answers of many, made by [`Group::ask`](crate::Group::ask): done when all have answered or failed, or
/// when the time is up. The answers are in the order of the members.
///
/// Cancel safe: dropped before it is done, it tells all to stop that have not answered. Polled again after it has
/// resolved, it stays pending.
#[must_use = "futures do nothing unless they are awaited"]
pub struct Ask<P: Request> {
    room: Arc<Room>,
    within: Duration,
    stage: Stage<P>,
}

enum Stage<P: Request> {
    Unsent(Encoded<P>),
    Failed(EncodeError),
    Waiting(Box<Waiting<P>>),
    Done,
}

struct Waiting<P: Request> {
    members: Members,
    calls: Vec<Call<P>>,
    /// How many calls have no result.
    left: usize,
    ready: Arc<Ready>,
    time: Pin<Box<Sleep>>,
}

struct Call<P: Request> {
    /// `None` once it is done.
    future: Option<RequestFuture<Encoded<P>>>,
    waker: Waker,
    result: Option<Result<P::Reply, RequestError<P::Error>>>,
}

impl<P: Request> fmt::Debug for Ask<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask")
            .field("packet", &P::NAME)
            .field("sent", &!matches!(self.stage, Stage::Unsent(_)))
            .finish_non_exhaustive()
    }
}

impl<P: Request> Ask<P> {
    pub(super) fn new(room: Arc<Room>, packet: &P, within: Duration) -> Self {
        let stage = match Encoded::new(packet) {
            Ok(encoded) => Stage::Unsent(encoded),
            Err(error) => Stage::Failed(error),
        };
        Self { room, within, stage }
    }
}

// Nothing in it is pinned: the sleep is in a box of its own.
impl<P: Request> Unpin for Ask<P> {}

impl<P: Request> Future for Ask<P> {
    type Output = Result<Vec<Answer<P>>, EncodeError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let mut waiting = match std::mem::replace(&mut this.stage, Stage::Done) {
            Stage::Unsent(packet) => Box::new(Waiting::new(this.room.members(), &packet, this.within)),
            Stage::Waiting(waiting) => waiting,
            Stage::Failed(error) => return Poll::Ready(Err(error)),
            Stage::Done => return Poll::Pending,
        };
        if waiting.poll(cx).is_pending() {
            this.stage = Stage::Waiting(waiting);
            return Poll::Pending;
        }
        let results = waiting.calls.into_iter().map(|call| call.result.unwrap_or(Err(RequestError::Timeout)));
        let answers = waiting.members.iter().zip(results);
        Poll::Ready(Ok(answers.map(|(member, result)| Answer { member: member.clone(), result }).collect()))
    }
}

impl<P: Request> Waiting<P> {
    fn new(members: Members, packet: &Encoded<P>, within: Duration) -> Self {
        // All of them are polled first.
        let ready = Arc::new(Ready::new(0..members.len()));
        let call = |(index, member): (usize, &Member)| {
            let request = member.connection().request(packet.clone()).timeout(within);
            let waker = Waker::from(Arc::new(One { index, ready: Arc::clone(&ready) }));
            Call { future: Some(request.into_future()), waker, result: None }
        };
        let calls: Vec<_> = members.iter().enumerate().map(call).collect();
        Self { left: calls.len(), members, calls, ready, time: Box::pin(sleep(within)) }
    }

    /// Ready when all are done, or the time is up.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        for index in self.ready.take(cx.waker()) {
            let call = &mut self.calls[index];
            let Some(future) = &mut call.future else { continue };
            if let Poll::Ready(result) = Pin::new(future).poll(&mut Context::from_waker(&call.waker)) {
                call.future = None;
                call.result = Some(result);
                self.left -= 1;
            }
        }
        if self.left == 0 { Poll::Ready(()) } else { self.time.as_mut().poll(cx) }
    }
}

/// Which calls are to be polled: looking at all of them whenever one is answered would take far longer.
struct Ready(Mutex<ReadyState>);

struct ReadyState {
    indexes: Vec<usize>,
    waker: Option<Waker>,
}

impl Ready {
    fn new(indexes: std::ops::Range<usize>) -> Self {
        Self(Mutex::new(ReadyState { indexes: indexes.collect(), waker: None }))
    }

    fn take(&self, waker: &Waker) -> Vec<usize> {
        let mut state = self.lock();
        let old = state.waker.replace(waker.clone());
        let indexes = std::mem::take(&mut state.indexes);
        drop(state);
        drop(old);
        indexes
    }

    fn lock(&self) -> MutexGuard<'_, ReadyState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes the whole for one of its calls.
struct One {
    index: usize,
    ready: Arc<Ready>,
}

impl Wake for One {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut state = self.ready.lock();
        state.indexes.push(self.index);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
