//! Handlers that have not finished at their first poll: a slab of futures, each with a waker of its own.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use super::inbox::Ticket;
use crate::controller::{Panicked, Reply, ReplyFuture, caught};

/// The running handlers of one connection. Only those that were woken are polled.
#[derive(Debug, Default)]
pub(super) struct Running {
    slots: Vec<Slot>,
    free: Vec<usize>,
    woken: Arc<Woken>,
    /// The other half of the list of woken slots, kept for its memory.
    batch: Vec<usize>,
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
}

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Task").field("ticket", &self.ticket).finish_non_exhaustive()
    }
}

/// A handler that has come to its end.
pub(super) type Finished = (Ticket, Result<Reply, Panicked>);

impl Running {
    /// Takes a handler in and polls it for the first time.
    pub(super) fn start(&mut self, future: ReplyFuture, ticket: Ticket) -> Result<usize, Finished> {
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
        self.slots[index].task = Some(Task { future, ticket });
        match self.poll_slot(index) {
            Some(finished) => Err(finished),
            None => Ok(index),
        }
    }

    /// Sets whom to wake when a handler has been woken. Must be called before the first starts.
    pub(super) fn set_driver(&self, driver: &Waker) {
        self.woken.lock().1 = Some(driver.clone());
    }

    /// Polls the handlers that have been woken since, and gives those that have finished to `done`.
    pub(super) fn poll(&mut self, mut done: impl FnMut(Finished)) {
        if !self.woken.any.load(Ordering::Acquire) {
            return;
        }
        let mut batch = std::mem::take(&mut self.batch);
        self.woken.take(&mut batch);
        for index in batch.drain(..) {
            if let Some(slot) = self.slots.get(index) {
                slot.waker.queued.store(false, Ordering::Release);
            }
            if let Some(finished) = self.poll_slot(index) {
                done(finished);
            }
        }
        self.batch = batch;
    }

    /// Stops a handler.
    pub(super) fn stop(&mut self, index: usize) -> Option<Ticket> {
        let task = self.slots.get_mut(index)?.task.take()?;
        self.free.push(index);
        let Task { future, ticket } = task;
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
