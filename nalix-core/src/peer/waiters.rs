//! Those who wait for room in the outbox or a free call slot, first come first served. One-way packets need no slot, and
//! do not wait behind calls that do: the answer which would free a slot may depend on them.

use std::{collections::VecDeque, task::Waker};

use tokio::time::Instant;

/// Names a place in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket(u64);

/// A queue of wakers. Whoever is woken leaves the queue, and must pass the wake-up on if it cannot use it.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    queue: VecDeque<Waiter>,
    /// How many of them need no slot.
    senders: usize,
    issued: u64,
}

#[derive(Debug)]
struct Waiter {
    ticket: Ticket,
    waker: Waker,
    needs_slot: bool,
    deadline: Option<Instant>,
}

impl Waiters {
    /// Queues up for room. `again` is for one who was woken and found nothing, and goes to the front.
    pub(super) fn push_sender(&mut self, waker: &Waker, again: bool) -> Ticket {
        self.senders += 1;
        self.push(waker, false, None, again)
    }

    /// Queues up for room and a slot.
    pub(super) fn push_caller(&mut self, waker: &Waker, deadline: Option<Instant>, again: bool) -> Ticket {
        self.push(waker, true, deadline, again)
    }

    fn push(&mut self, waker: &Waker, needs_slot: bool, deadline: Option<Instant>, again: bool) -> Ticket {
        let ticket = Ticket(self.issued);
        self.issued += 1;
        let waiter = Waiter { ticket, waker: waker.clone(), needs_slot, deadline };
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
        let place = self.queue.iter().position(|waiter| waiter.ticket == ticket);
        place.and_then(|place| self.take(place)).is_some()
    }

    /// Takes the first out who can go on, to be woken.
    pub(super) fn next(&mut self, slot_free: bool) -> Option<Waker> {
        if !slot_free && self.senders == 0 {
            return None;
        }
        let place = self.queue.iter().position(|waiter| slot_free || !waiter.needs_slot)?;
        self.take(place)
    }

    fn take(&mut self, place: usize) -> Option<Waker> {
        let waiter = self.queue.remove(place)?;
        self.senders -= usize::from(!waiter.needs_slot);
        Some(waiter.waker)
    }

    /// Takes everyone out, to be woken.
    pub(super) fn all(&mut self, wakers: &mut Vec<Waker>) {
        self.senders = 0;
        wakers.extend(self.queue.drain(..).map(|waiter| waiter.waker));
    }

    /// Takes out the callers whose deadline has passed, and returns the earliest of the others'.
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

    /// Whether one waits who needs no slot.
    pub(super) fn has_senders(&self) -> bool {
        self.senders > 0
    }
}
