//! Our calls in flight: a slab of slots whose index is the call's id on the wire.

use std::{
    fmt,
    task::{Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use tokio::time::Instant;

use super::flows;
use crate::{CallId, error::ProtocolError, frame::Entries, session::Cover};

/// How a call of ours has ended, still encoded.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A Reply frame's payload.
    Reply(Bytes),
    /// An Error frame's payload.
    Error(Bytes),
    /// An End frame's payload.
    End(Bytes),
    /// One of those, with metadata. Boxed, since there is none nearly always.
    Attached(Box<(Answer, Entries)>),
    /// The connection ended first.
    Lost {
        /// Whether any byte of the request may have reached the peer.
        maybe_executed: bool,
    },
}

impl Answer {
    /// With the metadata that has come along, if there was any.
    #[inline]
    pub(crate) fn with(self, entries: Option<Entries>) -> Self {
        match entries {
            None => self,
            Some(entries) => Answer::Attached(Box::new((self, entries))),
        }
    }

    /// The answer itself, and the metadata that has come along.
    #[inline]
    pub(super) fn split(self) -> (Self, Option<Entries>) {
        match self {
            Answer::Attached(both) => (both.0, Some(both.1)),
            answer => (answer, None),
        }
    }
}

/// Without the content, which may be secret.
impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Reply(payload) => write!(f, "Reply({} bytes)", payload.len()),
            Answer::Error(payload) => write!(f, "Error({} bytes)", payload.len()),
            Answer::End(payload) => write!(f, "End({} bytes)", payload.len()),
            Answer::Attached(both) => write!(f, "{:?} with {:?}", both.0, both.1),
            Answer::Lost { maybe_executed } => {
                f.debug_struct("Lost").field("maybe_executed", maybe_executed).finish()
            }
        }
    }
}

/// Names one use of a slot, so that a stale holder can never see its next use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    index: u32,
    generation: u32,
}

impl Key {
    pub(super) fn id(self) -> CallId {
        CallId::new(self.index)
    }
}

/// The slots. A slot is free again when the peer has answered and the caller has taken the answer or is gone.
#[derive(Debug)]
pub(super) struct Calls {
    slots: Vec<Slot>,
    free: Vec<u32>,
    max: usize,
    /// Calls whose time runs from when the clock is next read: one reading for all that were made since the last.
    undated: Vec<(Key, Duration)>,
    /// Answers that nobody waited for any more.
    pub(super) late: u64,
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    /// How the request has gone and its answer must come. It stays when the caller goes: an answer in the clear, which
    /// anyone can forge, must not free the id for the next call to get the true one.
    cover: Cover,
    /// Until when the caller waits, if that is known yet. It stays when the call is over, for the caller to look at.
    deadline: Option<Instant>,
    state: State,
}

/// Whom an answer has gone to.
#[derive(Debug)]
pub(super) enum Answered {
    /// Nobody waits for it any more.
    Nobody,
    /// A caller, to be woken.
    Caller(Waker),
    /// A call with a stream, which the answer ends.
    Stream(flows::Key, Answer),
}

/// An answer came in the clear and must not.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unsealed;

#[derive(Debug)]
enum State {
    Free,
    Waiting {
        /// `None` until the caller has been polled after the request was appended.
        waker: Waker,
        /// Where the request's frame starts in the stream of bytes sent.
        position: u64,
    },
    Done(Answer),
    /// A call with a stream, whose handles look into the flow.
    Streaming(flows::Key),
    /// The caller is gone; the peer has not answered yet, so the id must not be used again.
    Abandoned,
}

impl Calls {
    pub(super) fn new(max: usize) -> Self {
        Self { slots: Vec::new(), free: Vec::new(), max, undated: Vec::new(), late: 0 }
    }

    /// How many slots are taken.
    pub(super) fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// How many wait for the peer's answer.
    pub(super) fn unanswered(&self) -> usize {
        let open = |slot: &&Slot| matches!(slot.state, State::Waiting { .. } | State::Streaming(_));
        self.slots.iter().filter(open).count()
    }

    pub(super) fn is_full(&self) -> bool {
        self.in_flight() >= self.max
    }

    /// Takes a slot. Must not be called when full.
    pub(super) fn insert(&mut self, waker: Waker, deadline: Option<Instant>, cover: Cover) -> Key {
        let state = State::Waiting { waker, position: u64::MAX };
        match self.free.pop() {
            Some(index) => {
                let slot = &mut self.slots[index as usize];
                slot.state = state;
                slot.cover = cover;
                slot.deadline = deadline;
                Key { index, generation: slot.generation }
            }
            None => {
                // The maximum is a u32 on the wire, so the index is one too.
                let index = self.slots.len() as u32;
                self.slots.push(Slot { generation: 0, cover, deadline, state });
                Key { index, generation: 0 }
            }
        }
    }

    /// Lets a call wait for so long from when [`Calls::date`] is next called.
    #[inline]
    pub(super) fn set_timeout(&mut self, key: Key, timeout: Duration) {
        self.undated.push((key, timeout));
    }

    /// Whether a call waits whose deadline is not known yet.
    #[inline]
    pub(super) fn has_undated(&self) -> bool {
        !self.undated.is_empty()
    }

    /// Gives the calls that have a timeout their deadlines, and returns the earliest.
    pub(super) fn date(&mut self, now: Instant) -> Option<Instant> {
        let mut earliest: Option<Instant> = None;
        for (key, timeout) in self.undated.drain(..) {
            let Some(slot) = self.slots.get_mut(key.index as usize) else { continue };
            // What cannot be represented is as good as for ever.
            if let Some(deadline) = now.checked_add(timeout)
                && slot.generation == key.generation
            {
                slot.deadline = Some(deadline);
                earliest = Some(earliest.map_or(deadline, |known| known.min(deadline)));
            }
        }
        earliest
    }

    /// Until when the caller waits; also for a call that is over, before anything else happens to the table.
    pub(super) fn deadline(&self, key: Key) -> Option<Instant> {
        self.slots.get(key.index as usize).and_then(|slot| slot.deadline)
    }

    /// Notes where the request's frame starts.
    pub(super) fn set_position(&mut self, key: Key, at: u64) {
        if let Some(State::Waiting { position, .. }) = self.state(key) {
            *position = at;
        }
    }

    /// Makes it a call with a stream.
    pub(super) fn set_stream(&mut self, key: Key, flow: flows::Key) {
        if let Some(state) = self.state(key) {
            *state = State::Streaming(flow);
        }
    }

    /// The flow of the call with this id, to which a part of a stream has come.
    ///
    /// # Errors
    /// [`ProtocolError`] if the call has no stream, or is sealed and the part is not.
    pub(super) fn stream(&self, id: CallId, sealed: bool) -> Result<Option<flows::Key>, ProtocolError> {
        let Some(slot) = self.slots.get(id.get() as usize) else { return Ok(None) };
        match slot.state {
            State::Streaming(_) | State::Abandoned if slot.cover.is_sealed() && !sealed => {
                Err(ProtocolError::Unsealed { what: "stream of a sealed request" })
            }
            State::Streaming(flow) => Ok(Some(flow)),
            State::Waiting { .. } => Err(ProtocolError::BadFrame { what: "stream of a call that has none" }),
            State::Free | State::Done(_) | State::Abandoned => Ok(None),
        }
    }

    /// Notes where the last frame of a request starts. Returns the flow that has to know, if the call has one.
    pub(super) fn completed(&mut self, id: CallId, at: u64) -> Option<flows::Key> {
        match &mut self.slots.get_mut(id.get() as usize)?.state {
            State::Waiting { position, .. } => *position = at,
            State::Streaming(flow) => return Some(*flow),
            State::Free | State::Done(_) | State::Abandoned => {}
        }
        None
    }

    /// Frees the slot of an abandoned call that the peer has never heard of.
    pub(super) fn forget(&mut self, id: CallId) {
        if self.slots.get(id.get() as usize).is_some_and(|slot| matches!(slot.state, State::Abandoned)) {
            self.release(id.get());
        }
    }

    /// Gives a slot back whose request has never been appended.
    pub(super) fn take_back(&mut self, key: Key) {
        if self.state(key).is_some() {
            self.release(key.index);
        }
    }

    /// The answer, if it has come; the slot is free then.
    pub(super) fn poll(&mut self, key: Key, waker: &Waker) -> Poll<Option<Answer>> {
        match self.state(key) {
            Some(State::Waiting { waker: stored, .. }) => {
                stored.clone_from(waker);
                Poll::Pending
            }
            Some(state @ State::Done(_)) => {
                let State::Done(answer) = std::mem::replace(state, State::Free) else {
                    return Poll::Ready(None);
                };
                self.release(key.index);
                Poll::Ready(Some(answer))
            }
            _ => Poll::Ready(None),
        }
    }

    /// The caller goes. Returns whether the peer is still busy with the call and should be told.
    pub(super) fn abandon(&mut self, key: Key) -> bool {
        match self.state(key) {
            Some(state @ (State::Waiting { .. } | State::Streaming(_))) => {
                *state = State::Abandoned;
                true
            }
            Some(State::Done(_)) => {
                self.release(key.index);
                false
            }
            _ => false,
        }
    }

    /// An answer has come from the peer. Returns whom it has gone to.
    ///
    /// An answer to no call is counted and dropped: it may be late, and is no reason to harm the others.
    ///
    /// # Errors
    /// [`Unsealed`] if the answer must be sealed and is not; the call still waits then.
    pub(super) fn answer(&mut self, id: CallId, cover: Cover, answer: Answer) -> Result<Answered, Unsealed> {
        let Some(slot) = self.slots.get_mut(id.get() as usize) else {
            self.late += 1;
            return Ok(Answered::Nobody);
        };
        let open = matches!(slot.state, State::Waiting { .. } | State::Streaming(_) | State::Abandoned);
        if slot.cover.is_sealed() && open && !cover.is_sealed() {
            return Err(Unsealed);
        }
        match slot.state {
            State::Waiting { .. } => {
                let old = std::mem::replace(&mut slot.state, State::Done(answer));
                let State::Waiting { waker, .. } = old else { return Ok(Answered::Nobody) };
                return Ok(Answered::Caller(waker));
            }
            State::Streaming(flow) => {
                self.release(id.get());
                return Ok(Answered::Stream(flow, answer));
            }
            State::Abandoned => self.release(id.get()),
            State::Free | State::Done(_) => {}
        }
        self.late += 1;
        Ok(Answered::Nobody)
    }

    /// The connection has ended with `written` bytes handed to the link.
    pub(super) fn fail_all(&mut self, written: u64, wakers: &mut Vec<Waker>) {
        for index in 0..self.slots.len() {
            let slot = &mut self.slots[index];
            match slot.state {
                State::Waiting { position, .. } => {
                    let answer = Answer::Lost { maybe_executed: position < written };
                    if let State::Waiting { waker, .. } =
                        std::mem::replace(&mut slot.state, State::Done(answer))
                    {
                        wakers.push(waker);
                    }
                }
                State::Abandoned | State::Streaming(_) => self.release(index as u32),
                State::Free | State::Done(_) => {}
            }
        }
    }

    /// Wakes the callers whose deadline has passed, and returns the earliest of the others'.
    pub(super) fn expire(&mut self, now: Instant, wakers: &mut Vec<Waker>) -> Option<Instant> {
        let mut next: Option<Instant> = None;
        for slot in &mut self.slots {
            if let (State::Waiting { waker, .. }, Some(deadline)) = (&slot.state, slot.deadline) {
                if deadline <= now {
                    wakers.push(waker.clone());
                } else {
                    next = Some(next.map_or(deadline, |n| n.min(deadline)));
                }
            }
        }
        next
    }

    fn state(&mut self, key: Key) -> Option<&mut State> {
        self.slots
            .get_mut(key.index as usize)
            .filter(|slot| slot.generation == key.generation)
            .map(|slot| &mut slot.state)
    }

    fn release(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.state = State::Free;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(n: u8) -> Answer {
        Answer::Reply(Bytes::copy_from_slice(&[n]))
    }

    fn answer(calls: &mut Calls, id: CallId, n: u8) -> Option<Waker> {
        caller(calls.answer(id, Cover::Plain, reply(n)).unwrap())
    }

    fn caller(answered: Answered) -> Option<Waker> {
        match answered {
            Answered::Caller(waker) => Some(waker),
            _ => None,
        }
    }

    #[test]
    fn an_answer_goes_to_its_call_and_frees_the_slot() {
        let mut calls = Calls::new(4);
        let a = calls.insert(Waker::noop().clone(), None, Cover::Plain);
        let b = calls.insert(Waker::noop().clone(), None, Cover::Plain);
        assert!(answer(&mut calls, b.id(), 2).is_some());
        assert_eq!(calls.poll(a, Waker::noop()), Poll::Pending);
        assert_eq!(calls.poll(b, Waker::noop()), Poll::Ready(Some(reply(2))));
        assert_eq!(calls.in_flight(), 1);
    }

    #[test]
    fn the_id_of_a_dropped_call_is_not_used_until_its_answer_has_come() {
        let mut calls = Calls::new(2);
        let a = calls.insert(Waker::noop().clone(), None, Cover::Plain);
        assert!(calls.abandon(a));
        let b = calls.insert(Waker::noop().clone(), None, Cover::Plain);
        assert_ne!(a.id(), b.id());
        assert!(calls.is_full());
        // The late answer of the first does not reach the second.
        assert!(answer(&mut calls, a.id(), 1).is_none());
        assert_eq!(calls.late, 1);
        let c = calls.insert(Waker::noop().clone(), None, Cover::Plain);
        assert_eq!(c.id(), a.id());
        assert_ne!(c, a);
        assert_eq!(calls.poll(a, Waker::noop()), Poll::Ready(None), "a stale key sees nothing");
        assert_eq!(calls.poll(b, Waker::noop()), Poll::Pending);
    }

    /// Its true answer would go to whoever got the id next.
    #[test]
    fn a_forged_answer_does_not_free_the_id_of_a_sealed_call_that_was_dropped() {
        let mut calls = Calls::new(2);
        let a = calls.insert(Waker::noop().clone(), None, Cover::Sealed);
        assert!(calls.abandon(a));
        assert_eq!(calls.answer(a.id(), Cover::Plain, reply(1)).unwrap_err(), Unsealed);
        let b = calls.insert(Waker::noop().clone(), None, Cover::Sealed);
        assert_ne!(a.id(), b.id());
        assert!(caller(calls.answer(a.id(), Cover::Sealed, reply(1)).unwrap()).is_none());
        assert_eq!(calls.poll(b, Waker::noop()), Poll::Pending);
    }

    #[test]
    fn an_answer_in_the_clear_does_not_reach_a_sealed_call() {
        let mut calls = Calls::new(2);
        let a = calls.insert(Waker::noop().clone(), None, Cover::Sealed);
        assert_eq!(calls.answer(a.id(), Cover::Plain, reply(1)).unwrap_err(), Unsealed);
        assert_eq!(calls.poll(a, Waker::noop()), Poll::Pending);
        assert!(caller(calls.answer(a.id(), Cover::Sealed, reply(2)).unwrap()).is_some());
        // It has been answered, so what comes now belongs to no call.
        assert!(caller(calls.answer(a.id(), Cover::Plain, reply(1)).unwrap()).is_none());
        assert_eq!(calls.poll(a, Waker::noop()), Poll::Ready(Some(reply(2))));
        // The next use of the slot is not bound to what the last one was.
        let b = calls.insert(Waker::noop().clone(), None, Cover::Plain);
        assert_eq!(b.id(), a.id());
        assert!(answer(&mut calls, b.id(), 3).is_some());
        let c = calls.insert(Waker::noop().clone(), None, Cover::Plain);
        assert!(caller(calls.answer(c.id(), Cover::Sealed, reply(4)).unwrap()).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_timeout_counts_from_the_next_look_at_the_clock_and_not_for_the_next_user_of_the_slot() {
        let mut calls = Calls::new(4);
        let mut wakers = Vec::new();
        let now = Instant::now();
        let [second, hour] = [1, 3600].map(Duration::from_secs);
        let a = calls.insert(Waker::noop().clone(), None, Cover::Plain);
        calls.set_timeout(a, second);
        let b = calls.insert(Waker::noop().clone(), None, Cover::Plain);
        calls.set_timeout(b, Duration::MAX);
        assert!(calls.has_undated());
        assert_eq!(calls.deadline(a), None);
        assert_eq!(calls.expire(now + hour, &mut wakers), None);
        assert_eq!(calls.date(now), Some(now + second));
        assert_eq!((calls.deadline(a), calls.deadline(b)), (Some(now + second), None));
        assert!(!calls.has_undated());
        assert_eq!(calls.expire(now, &mut wakers), Some(now + second));
        assert!(wakers.is_empty());
        assert_eq!(calls.expire(now + second, &mut wakers), None);
        assert_eq!(wakers.len(), 1);
        // Answered, read and used again before the clock is read.
        let c = calls.insert(Waker::noop().clone(), None, Cover::Plain);
        calls.set_timeout(c, second);
        answer(&mut calls, c.id(), 0);
        assert!(calls.poll(c, Waker::noop()).is_ready());
        let d = calls.insert(Waker::noop().clone(), None, Cover::Plain);
        assert_eq!(c.id(), d.id());
        assert_eq!(calls.date(now), None);
        assert_eq!(calls.deadline(d), None);
    }

    #[test]
    fn answers_to_no_call_are_counted_and_harm_nobody() {
        let mut calls = Calls::new(2);
        let a = calls.insert(Waker::noop().clone(), None, Cover::Plain);
        for id in [1, 2, 1_000, u32::MAX] {
            assert!(answer(&mut calls, CallId::new(id), 0).is_none());
        }
        answer(&mut calls, a.id(), 1);
        assert!(answer(&mut calls, a.id(), 2).is_none(), "answered twice");
        assert_eq!(calls.late, 5);
        assert_eq!(calls.poll(a, Waker::noop()), Poll::Ready(Some(reply(1))));
        assert_eq!(calls.in_flight(), 0);
    }

    #[test]
    fn a_lost_connection_ends_every_call_and_says_which_may_have_run() {
        let mut calls = Calls::new(8);
        let keys: Vec<_> = (0..4)
            .map(|i| {
                let key = calls.insert(Waker::noop().clone(), None, Cover::Plain);
                calls.set_position(key, i * 10);
                key
            })
            .collect();
        calls.abandon(keys[3]);
        let mut wakers = Vec::new();
        calls.fail_all(15, &mut wakers);
        assert_eq!(wakers.len(), 3);
        for (key, maybe_executed) in keys.iter().zip([true, true, false]) {
            assert_eq!(calls.poll(*key, Waker::noop()), Poll::Ready(Some(Answer::Lost { maybe_executed })));
        }
        assert_eq!(calls.in_flight(), 0);
    }
}
