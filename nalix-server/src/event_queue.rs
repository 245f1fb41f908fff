//! Events that wait for whoever watches, up to a number.

use std::{
    collections::VecDeque,
    task::{Context, Poll, Waker},
};

use crate::sync::{Guard, Mutex};

/// What a watcher has not taken yet. When it is full, the oldest event goes for each that comes, and is counted.
pub(crate) struct EventQueue<E> {
    capacity: usize,
    inner: Mutex<Inner<E>>,
}

struct Inner<E> {
    events: VecDeque<E>,
    missed: u64,
    waker: Option<Waker>,
}

/// What comes next.
pub(crate) enum Next<E> {
    Event(E),
    /// So many events were dropped at this place.
    Missed(u64),
}

impl<E> EventQueue<E> {
    pub(crate) fn new(capacity: usize) -> Self {
        let inner = Inner { events: VecDeque::new(), missed: 0, waker: None };
        Self { capacity: capacity.max(1), inner: Mutex::new(inner) }
    }

    /// Adds an event, and puts the one that is dropped for it into `dropped`. Returns whom to wake.
    pub(crate) fn push(&self, event: E, dropped: &mut Vec<E>) -> Option<Waker> {
        let mut inner = self.lock();
        if inner.events.len() >= self.capacity {
            inner.missed += 1;
            dropped.extend(inner.events.pop_front());
        }
        inner.events.push_back(event);
        inner.waker.take()
    }

    pub(crate) fn take(&self) -> Option<Next<E>> {
        self.lock().take()
    }

    /// Only the last who has polled is woken.
    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<Next<E>> {
        let mut inner = self.lock();
        if let Some(next) = inner.take() {
            return Poll::Ready(next);
        }
        let old = inner.waker.replace(cx.waker().clone());
        drop(inner);
        drop(old);
        Poll::Pending
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().events.len()
    }

    fn lock(&self) -> Guard<'_, Inner<E>> {
        self.inner.lock()
    }
}

impl<E> Inner<E> {
    fn take(&mut self) -> Option<Next<E>> {
        match std::mem::take(&mut self.missed) {
            0 => self.events.pop_front().map(Next::Event),
            missed => Some(Next::Missed(missed)),
        }
    }
}
