//! Those who wait for room in the outbox or a free call slot, first come first served.

use std::{collections::VecDeque, task::Waker};

use tokio::time::Instant;

/// Names a place in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket(u64);

/// A queue of wakers. Whoever is woken leaves the queue, and must pass the wake-up on if it cannot use it.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    queue: VecDeque<Waiter>,
    issued: u64,
}

#[derive(Debug)]
struct Waiter {
    ticket: Ticket,
    waker: Waker,
    deadline: Option<Instant>,
}

impl Waiters {
    /// Queues up; `again` is for one who was woken and found nothing, and goes to the front.
    pub(super) fn push(&mut self, waker: &Waker, deadline: Option<Instant>, again: bool) -> Ticket {
        let ticket = Ticket(self.issued);
        self.issued += 1;
        let waiter = Waiter { ticket, waker: waker.clone(), deadline };
        if again {
            self.queue.push_front(waiter);
        } else {
            self.queue.push_back(waiter);
        }
        ticket
    }

    /// Replaces the waker of one who still waits. Returns whether it does.
    pub(super) fn update(&mut self, ticket: Ticket, waker: &Waker) -> bool {
        match self.queue.iter_mut().find(|waiter| waiter.ticket == ticket) {
            Some(waiter) => {
                waiter.waker.clone_from(waker);
                true
            }
            None => false,
        }
    }

    /// Leaves the queue. Returns whether it was still in it.
    pub(super) fn remove(&mut self, ticket: Ticket) -> bool {
        let before = self.queue.len();
        self.queue.retain(|waiter| waiter.ticket != ticket);
        self.queue.len() < before
    }

    /// Takes the first out, to be woken.
    pub(super) fn next(&mut self) -> Option<Waker> {
        self.queue.pop_front().map(|waiter| waiter.waker)
    }

    /// Takes everyone out, to be woken.
    pub(super) fn all(&mut self, wakers: &mut Vec<Waker>) {
        wakers.extend(self.queue.drain(..).map(|waiter| waiter.waker));
    }

    /// Takes out those whose deadline has passed, and returns the earliest of the others'.
    pub(super) fn expire(&mut self, now: Instant, wakers: &mut Vec<Waker>) -> Option<Instant> {
        let mut next = None;
        self.queue.retain_mut(|waiter| match waiter.deadline {
            Some(deadline) if deadline <= now => {
                wakers.push(waiter.waker.clone());
                false
            }
            Some(deadline) => {
                next = Some(next.map_or(deadline, |n: Instant| n.min(deadline)));
                true
            }
            None => true,
        });
        next
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}
