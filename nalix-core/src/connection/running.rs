//! Handlers that have not finished at their first poll: a slab of futures, each with a waker of its own.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use super::{inbox::Ticket, writing::Short};
use crate::{
    controller::{Items, Panicked, Reply, ReplyFuture, caught},
    frame::FRAGMENT,
    packet::Priority,
    peer::granted,
    status::{Code, Status},
};

/// The running handlers of one connection. Only those that were woken are polled.
#[derive(Debug, Default)]
pub(super) struct Running {
    slots: Vec<Slot>,
    free: Vec<usize>,
    woken: Arc<Woken>,
    /// The other half of the list of woken slots, kept for its memory.
    batch: Vec<usize>,
    /// Streams that may be allowed more when there is room and credit.
    hungry: VecDeque<usize>,
    /// Streams with an item that goes in parts, and with credit for the next.
    parted: VecDeque<usize>,
    /// How many bytes such items still have, and how many they may have.
    rest: usize,
    max_rest: usize,
    /// Buffers for items.
    spare: Vec<Vec<u8>>,
}

#[derive(Debug)]
struct Slot {
    task: Option<Task>,
    /// Kept when the slot is used again. A late wake-up of an earlier user costs one poll too many.
    waker: Arc<SlotWaker>,
}

pub(super) struct Task {
    future: ReplyFuture,
    pub(super) ticket: Ticket,
    /// The stream that it answers with, if its packet has one.
    stream: Option<Stream>,
}

/// A stream of a handler's.
#[derive(Debug)]
struct Stream {
    items: Arc<Items>,
    /// How many bytes of items may still be sent.
    credit: usize,
    /// Whether the handler has returned it.
    begun: bool,
    /// Whether it is in one of the lists.
    listed: bool,
    /// An item for which there was not enough credit, or no room in one frame, behind `at` bytes that have gone. Nothing is
    /// polled meanwhile.
    rest: Vec<u8>,
    at: usize,
}

impl Stream {
    fn rest(&self) -> usize {
        self.rest.len() - self.at
    }
}

/// How many bytes of items there is room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rooms {
    /// In all.
    One(usize),
    /// For each priority.
    Each([usize; 4]),
}

impl Rooms {
    /// With at least so many bytes for each priority.
    pub(super) fn at_least(self, bytes: usize) -> Self {
        match self {
            Rooms::One(room) => Rooms::One(room.max(bytes)),
            Rooms::Each(rooms) => Rooms::Each(rooms.map(|room| room.max(bytes))),
        }
    }

    fn of(&mut self, priority: Priority) -> &mut usize {
        match self {
            Rooms::One(room) => room,
            Rooms::Each(rooms) => &mut rooms[priority.index()],
        }
    }
}

/// What polling a handler has brought.
pub(super) enum Event {
    /// Items of its stream, of which more follow.
    Items(Ticket, Vec<u8>),
    /// It has returned its stream, so that those behind it may start.
    Begun(Ticket),
    /// It has come to its end.
    Finished(Finished),
}

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Task").field("ticket", &self.ticket).finish_non_exhaustive()
    }
}

/// A handler that has come to its end.
pub(super) type Finished = (Ticket, Result<Reply, Panicked>);

impl Running {
    /// Handlers whose streams may have so many bytes of items that go in parts, all together.
    pub(super) fn new(max_rest: usize) -> Self {
        Self { max_rest, ..Self::default() }
    }

    /// Takes a handler in and polls it for the first time.
    ///
    /// A handler with a stream, given where its items go and how many bytes may be sent at first, is polled with the others.
    pub(super) fn start(
        &mut self,
        future: ReplyFuture,
        ticket: Ticket,
        stream: Option<(Arc<Items>, usize)>,
    ) -> Result<usize, Finished> {
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                let index = self.slots.len();
                let waker =
                    SlotWaker { index, queued: AtomicBool::new(false), woken: Arc::clone(&self.woken) };
                self.slots.push(Slot { task: None, waker: Arc::new(waker) });
                index
            }
        };
        if let Some((items, credit)) = stream {
            let waker = &self.slots[index].waker;
            items.set_collector(&Waker::from(Arc::clone(waker)));
            waker.wake_by_ref();
            self.hungry.push_back(index);
            let stream = Stream { items, credit, begun: false, listed: true, rest: Vec::new(), at: 0 };
            self.slots[index].task = Some(Task { future, ticket, stream: Some(stream) });
            return Ok(index);
        }
        self.slots[index].task = Some(Task { future, ticket, stream: None });
        match self.poll_slot(index) {
            Some(finished) => Err(finished),
            None => Ok(index),
        }
    }

    /// Sets whom to wake when a handler has been woken. Must be called before the first starts.
    pub(super) fn set_driver(&self, driver: &Waker) {
        self.woken.lock().1 = Some(driver.clone());
    }

    /// Polls the handlers that have been woken since, and gives what comes of it to `event`.
    pub(super) fn poll(&mut self, mut event: impl FnMut(Event)) {
        if !self.woken.any.load(Ordering::Acquire) {
            return;
        }
        let mut batch = std::mem::take(&mut self.batch);
        self.woken.take(&mut batch);
        for index in batch.drain(..) {
            if let Some(slot) = self.slots.get(index) {
                slot.waker.queued.store(false, Ordering::Release);
            }
            let ticket = self.slots.get(index).and_then(|slot| slot.task.as_ref()).map(|task| task.ticket);
            let stream = self.stream(index).map(|stream| Arc::clone(&stream.items));
            let finished = self.poll_slot(index);
            if let (Some(items), Some(ticket)) = (stream, ticket) {
                self.collect(index, &items, ticket, finished.is_some(), &mut event);
            }
            if let Some(finished) = finished {
                event(Event::Finished(finished));
            }
        }
        self.batch = batch;
    }

    /// Takes the items that a poll has brought.
    fn collect(
        &mut self,
        index: usize,
        items: &Items,
        ticket: Ticket,
        finished: bool,
        event: &mut impl FnMut(Event),
    ) {
        let (batch, begun) = items.take(self.spare.pop().unwrap_or_default());
        let first = match self.stream(index).filter(|_| !finished) {
            Some(stream) => begun && !std::mem::replace(&mut stream.begun, begun),
            None => false,
        };
        if first {
            event(Event::Begun(ticket));
            if let Some(task) = &mut self.slots[index].task {
                task.ticket.lane = None;
            }
        }
        if batch.is_empty() {
            self.recycle(batch);
            return;
        }
        let (rest, max_rest) = (self.rest, self.max_rest);
        let Some(stream) = self.stream(index).filter(|_| !finished) else {
            // A stream does not end before there is credit for all that it has.
            return event(Event::Items(ticket, batch));
        };
        if batch.len() <= stream.credit.min(FRAGMENT) {
            stream.credit -= batch.len();
            self.list(index);
            return event(Event::Items(ticket, batch));
        }
        if batch.len() > FRAGMENT && rest > 0 && rest.saturating_add(batch.len()) > max_rest {
            if let Some(ticket) = self.stop(index) {
                event(Event::Finished((ticket, Ok(Reply::from_status(too_much())))));
            }
            return;
        }
        (stream.rest, stream.at) = (batch, 0);
        self.rest += self.stream(index).map_or(0, |stream| stream.rest());
        self.list(index);
    }

    /// Puts a stream into the list where it belongs, unless it is in one.
    fn list(&mut self, index: usize) {
        let Some(stream) = self.stream(index) else { return };
        let parted = stream.rest() > 0;
        if parted && stream.credit == 0 {
            return;
        }
        if !std::mem::replace(&mut stream.listed, true) {
            if parted { &mut self.parted } else { &mut self.hungry }.push_back(index);
        }
    }

    /// Gives the next parts of items that go in parts to `send`, which says whether there is room for more, or `None` if there
    /// was none for this one. Each stream has its turn; some parts may be left for the next time.
    pub(super) fn send_parts(&mut self, mut send: impl FnMut(&Ticket, &[u8]) -> Option<bool>) {
        // Those for which there was no room are the first when there is.
        let mut refused = Vec::new();
        for _ in 0..self.parted.len() {
            let Some(index) = self.parted.pop_front() else { break };
            let Some(Task { ticket, stream: Some(stream), .. }) =
                self.slots.get_mut(index).and_then(|slot| slot.task.as_mut())
            else {
                continue;
            };
            if stream.rest() == 0 {
                // An earlier user of the slot was meant.
                continue;
            }
            let before = stream.at;
            for _ in 0..BURST {
                let n = stream.rest().min(stream.credit).min(FRAGMENT);
                if n == 0 {
                    break;
                }
                let Some(more) = send(ticket, &stream.rest[stream.at..stream.at + n]) else { break };
                stream.at += n;
                stream.credit -= n;
                self.rest -= n;
                if !more {
                    break;
                }
            }
            if stream.at == before {
                refused.push(index);
                continue;
            }
            stream.listed = false;
            if stream.rest() == 0 {
                stream.at = 0;
                let buffer = std::mem::take(&mut stream.rest);
                self.recycle(buffer);
            }
            self.list(index);
        }
        for index in refused.into_iter().rev() {
            self.parted.push_front(index);
        }
    }

    /// Whether an item goes in parts, and has credit for the next.
    pub(super) fn has_parts(&self) -> bool {
        !self.parted.is_empty()
    }

    /// Takes back a buffer that was given out with items.
    pub(super) fn recycle(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        if self.spare.len() < KEEP_SPARE && buffer.capacity() <= 2 * FRAGMENT {
            self.spare.push(buffer);
        }
    }

    /// The peer has granted a stream `n` bytes more. `None` if that is more than it may.
    pub(super) fn grant(&mut self, index: usize, n: u64) -> Option<()> {
        let Some(stream) = self.stream(index) else { return Some(()) };
        stream.credit = granted(stream.credit, n)?;
        self.list(index);
        Some(())
    }

    /// Whether streams wait only for room in the outbox.
    pub(super) fn is_hungry(&self) -> bool {
        !self.hungry.is_empty()
    }

    /// Lets streams go on that have credit, one after the other, while there is room. Returns the priorities that have been
    /// short of it.
    pub(super) fn feed(&mut self, mut rooms: Rooms) -> Short {
        let mut short = Short::default();
        for _ in 0..self.hungry.len() {
            let Some(index) = self.hungry.pop_front() else { break };
            let Some(task) = self.slots.get_mut(index).and_then(|slot| slot.task.as_mut()) else { continue };
            let priority = task.ticket.priority.unwrap_or_default();
            let Some(stream) = &mut task.stream else { continue };
            let room = rooms.of(priority);
            if *room == 0 {
                short.set(priority);
                if matches!(rooms, Rooms::One(_)) {
                    self.hungry.push_front(index);
                    break;
                }
                self.hungry.push_back(index);
                continue;
            }
            stream.listed = false;
            if stream.rest() > 0 {
                // It was here before its last item turned out to be too long.
                self.list(index);
                continue;
            }
            let bytes = stream.credit.min(FRAGMENT);
            stream.items.allow(bytes);
            *room = room.saturating_sub(bytes);
        }
        short
    }

    fn stream(&mut self, index: usize) -> Option<&mut Stream> {
        self.slots.get_mut(index)?.task.as_mut()?.stream.as_mut()
    }

    /// Stops a handler.
    pub(super) fn stop(&mut self, index: usize) -> Option<Ticket> {
        let task = self.slots.get_mut(index)?.task.take()?;
        self.free.push(index);
        let Task { future, ticket, stream } = task;
        self.rest -= stream.as_ref().map_or(0, Stream::rest);
        // Destructors are user code, too.
        drop(caught(move || drop(future)));
        Some(ticket)
    }

    /// Stops every handler. One by one: a destructor that panics must not meet another one while it unwinds.
    pub(super) fn stop_all(&mut self) {
        for index in 0..self.slots.len() {
            self.stop(index);
        }
    }

    /// The handlers, by slot.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &Ticket)> {
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(index, slot)| slot.task.as_ref().map(|task| (index, &task.ticket)))
    }

    /// The slots of handlers that answer with a stream and take none.
    pub(super) fn streaming(&self) -> impl Iterator<Item = usize> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| {
            let task = slot.task.as_ref()?;
            (task.stream.is_some() && !task.ticket.uploads).then_some(index)
        })
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    fn poll_slot(&mut self, index: usize) -> Option<Finished> {
        let slot = self.slots.get_mut(index)?;
        let task = slot.task.as_mut()?;
        let waker = Waker::from(Arc::clone(&slot.waker));
        let mut cx = Context::from_waker(&waker);
        let result = match caught(|| task.future.as_mut().poll(&mut cx)) {
            Ok(Poll::Pending) => return None,
            Ok(Poll::Ready(reply)) => Ok(reply),
            Err(panicked) => Err(panicked),
        };
        self.stop(index).map(|ticket| (ticket, result))
    }
}

/// What the caller of a stream is told whose next item is too much.
#[cold]
fn too_much() -> Status {
    Status::new(Code::ResourceExhausted, "too many large items wait for credit")
}

/// How many parts of an item go before others get their turn.
const BURST: usize = 4;
/// How many buffers for items are kept.
const KEEP_SPARE: usize = 4;

/// The slots that have been woken, and whom to tell.
#[derive(Debug, Default)]
struct Woken {
    list: Mutex<(Vec<usize>, Option<Waker>)>,
    /// Whether there is one in the list; most turns find none, without the lock.
    any: AtomicBool,
}

impl Woken {
    fn lock(&self) -> MutexGuard<'_, (Vec<usize>, Option<Waker>)> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, into: &mut Vec<usize>) {
        let mut list = self.lock();
        self.any.store(false, Ordering::Relaxed);
        std::mem::swap(&mut list.0, into);
    }

    fn push(&self, index: usize) {
        let mut list = self.lock();
        let first = list.0.is_empty();
        list.0.push(index);
        self.any.store(true, Ordering::Release);
        let waker = if first { list.1.clone() } else { None };
        drop(list);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

#[derive(Debug)]
struct SlotWaker {
    index: usize,
    queued: AtomicBool,
    woken: Arc<Woken>,
}

impl Wake for SlotWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.woken.push(self.index);
        }
    }
}
