//! Those who wait for room in the outbox or a free call slot, first come first served. One-way packets need no slot, and
//! do not wait behind calls that do: the answer which would free a slot may depend on them. Nor do small messages wait behind
//! large ones, which need room of their own, nor any behind those of other priorities, which have.

use std::{collections::VecDeque, task::Waker};

use tokio::time::Instant;

use crate::packet::Priority;

/// Names a place in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket(u64);

/// A queue of wakers. Whoever is woken leaves the queue, and must pass the wake-up on if it cannot use it.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    queue: VecDeque<Waiter>,
    /// How many of them there are of each priority.
    counts: [Counts; 4],
    issued: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    all: u32,
    /// How many of them need no slot.
    senders: u32,
    /// How many of them want to send what goes in fragments, and how many of those need no slot.
    large: u32,
    large_senders: u32,
}

#[derive(Debug)]
struct Waiter {
    ticket: Ticket,
    /// About how many bytes it wants to send in fragments; zero if none.
    large: usize,
    priority: Priority,
    waker: Waker,
    needs_slot: bool,
    deadline: Option<Instant>,
}

impl Waiters {
    /// Queues up for room. `again` is for one who was woken and found nothing, and goes to the front.
    pub(super) fn push_sender(&mut self, waker: &Waker, what: (Priority, usize), again: bool) -> Ticket {
        self.push(waker, what, false, None, again)
    }

    /// Queues up for room and a slot.
    pub(super) fn push_caller(
        &mut self,
        waker: &Waker,
        what: (Priority, usize),
        deadline: Option<Instant>,
        again: bool,
    ) -> Ticket {
        self.push(waker, what, true, deadline, again)
    }

    fn push(
        &mut self,
        waker: &Waker,
        (priority, large): (Priority, usize),
        needs_slot: bool,
        deadline: Option<Instant>,
        again: bool,
    ) -> Ticket {
        let ticket = Ticket(self.issued);
        self.issued += 1;
        let waiter = Waiter { ticket, large, priority, waker: waker.clone(), needs_slot, deadline };
        count(&mut self.counts, &waiter, u32::wrapping_add);
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

    /// Takes the first out who can go on, to be woken. `room` says which priorities have room, and `large_room` whether there
    /// is some for a large message.
    pub(super) fn next(
        &mut self,
        slot_free: bool,
        room: [bool; 4],
        large_room: impl Fn(usize) -> bool,
    ) -> Option<Waker> {
        let able = |(counts, room): (&Counts, bool)| {
            room && if slot_free { counts.all > 0 } else { counts.senders > 0 }
        };
        if !self.counts.iter().zip(room).any(able) {
            return None;
        }
        // The larger ones of the large would wait for ever if the smaller ones could go first.
        let mut passed = false;
        let place = self.queue.iter().position(|waiter| {
            (slot_free || !waiter.needs_slot)
                && room[waiter.priority.index()]
                && (waiter.large == 0 || (!std::mem::replace(&mut passed, true) && large_room(waiter.large)))
        })?;
        self.take(place)
    }

    fn take(&mut self, place: usize) -> Option<Waker> {
        let waiter = self.queue.remove(place)?;
        count(&mut self.counts, &waiter, u32::wrapping_sub);
        Some(waiter.waker)
    }

    /// Takes everyone out, to be woken.
    pub(super) fn all(&mut self, wakers: &mut Vec<Waker>) {
        self.counts = Default::default();
        wakers.extend(self.queue.drain(..).map(|waiter| waiter.waker));
    }

    /// Takes out the callers whose deadline has passed, and returns the earliest of the others'.
    pub(super) fn expire(&mut self, now: Instant, wakers: &mut Vec<Waker>) -> Option<Instant> {
        let mut next = None;
        self.queue.retain_mut(|waiter| match waiter.deadline {
            Some(deadline) if deadline <= now => {
                wakers.push(waiter.waker.clone());
                count(&mut self.counts, waiter, u32::wrapping_sub);
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

    /// Whether nobody waits whom a call has to let go first. `large` is zero for one that fits a frame.
    #[inline]
    pub(super) fn is_first_caller(&self, priority: Priority, large: usize) -> bool {
        let counts = &self.counts[priority.index()];
        counts.all == if large > 0 { 0 } else { counts.large }
    }

    /// Whether nobody waits whom a one-way packet has to let go first.
    #[inline]
    pub(super) fn is_first_sender(&self, priority: Priority, large: usize) -> bool {
        let counts = &self.counts[priority.index()];
        counts.senders == if large > 0 { 0 } else { counts.large_senders }
    }
}

/// Changes the counts by one who comes or goes.
fn count(counts: &mut [Counts; 4], waiter: &Waiter, change: impl Fn(u32, u32) -> u32) {
    let counts = &mut counts[waiter.priority.index()];
    let (large, sender) = (u32::from(waiter.large > 0), u32::from(!waiter.needs_slot));
    counts.all = change(counts.all, 1);
    counts.senders = change(counts.senders, sender);
    counts.large = change(counts.large, large);
    counts.large_senders = change(counts.large_senders, large & sender);
}
