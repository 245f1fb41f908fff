//! Those who wait for room in the outbox or a free call slot, first come first served. One-way packets need no slot, and
//! do not wait behind calls that do: the answer which would free a slot may depend on them. Nor do small messages wait behind
//! large ones, which need room of their own.

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
    /// How many of them want to send what goes in fragments, and how many of those need no slot.
    large: usize,
    large_senders: usize,
    issued: u64,
}

#[derive(Debug)]
struct Waiter {
    ticket: Ticket,
    /// About how many bytes it wants to send in fragments; zero if none.
    large: usize,
    waker: Waker,
    needs_slot: bool,
    deadline: Option<Instant>,
}

impl Waiters {
    /// Queues up for room. `again` is for one who was woken and found nothing, and goes to the front.
    pub(super) fn push_sender(&mut self, waker: &Waker, large: usize, again: bool) -> Ticket {
        self.senders += 1;
        self.large_senders += usize::from(large > 0);
        self.push(waker, large, false, None, again)
    }

    /// Queues up for room and a slot.
    pub(super) fn push_caller(
        &mut self,
        waker: &Waker,
        large: usize,
        deadline: Option<Instant>,
        again: bool,
    ) -> Ticket {
        self.push(waker, large, true, deadline, again)
    }

    fn push(
        &mut self,
        waker: &Waker,
        large: usize,
        needs_slot: bool,
        deadline: Option<Instant>,
        again: bool,
    ) -> Ticket {
        let ticket = Ticket(self.issued);
        self.issued += 1;
        self.large += usize::from(large > 0);
        let waiter = Waiter { ticket, large, waker: waker.clone(), needs_slot, deadline };
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

    /// Takes the first out who can go on, to be woken. `large_room` says whether there is room for a large message.
    pub(super) fn next(&mut self, slot_free: bool, large_room: impl Fn(usize) -> bool) -> Option<Waker> {
        if !slot_free && self.senders == 0 {
            return None;
        }
        // The larger ones of the large would wait for ever if the smaller ones could go first.
        let mut passed = false;
        let place = self.queue.iter().position(|waiter| {
            (slot_free || !waiter.needs_slot)
                && (waiter.large == 0 || (!std::mem::replace(&mut passed, true) && large_room(waiter.large)))
        })?;
        self.take(place)
    }

    fn take(&mut self, place: usize) -> Option<Waker> {
        let waiter = self.queue.remove(place)?;
        self.senders -= usize::from(!waiter.needs_slot);
        self.large -= usize::from(waiter.large > 0);
        self.large_senders -= usize::from(waiter.large > 0 && !waiter.needs_slot);
        Some(waiter.waker)
    }

    /// Takes everyone out, to be woken.
    pub(super) fn all(&mut self, wakers: &mut Vec<Waker>) {
        (self.senders, self.large, self.large_senders) = (0, 0, 0);
        wakers.extend(self.queue.drain(..).map(|waiter| waiter.waker));
    }

    /// Takes out the callers whose deadline has passed, and returns the earliest of the others'.
    pub(super) fn expire(&mut self, now: Instant, wakers: &mut Vec<Waker>) -> Option<Instant> {
        let mut next = None;
        self.queue.retain_mut(|waiter| match waiter.deadline {
            Some(deadline) if deadline <= now => {
                wakers.push(waiter.waker.clone());
                // Senders have no deadline.
                self.large -= usize::from(waiter.large > 0);
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
    pub(super) fn is_first_caller(&self, large: usize) -> bool {
        self.queue.len() == if large > 0 { 0 } else { self.large }
    }

    /// Whether nobody waits whom a one-way packet has to let go first.
    #[inline]
    pub(super) fn is_first_sender(&self, large: usize) -> bool {
        self.senders == if large > 0 { 0 } else { self.large_senders }
    }
}
