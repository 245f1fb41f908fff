//! Which number a connection has.

use std::sync::{Mutex, PoisonError};

use crate::ConnectionId;

/// The number of a connection, until nobody holds it any more.
#[derive(Debug)]
pub(crate) struct Number(ConnectionId);

impl Number {
    /// Takes a free slot, for the first time or once more.
    pub(crate) fn take() -> Self {
        Self(lock().take())
    }

    /// The number itself.
    pub(crate) fn id(&self) -> ConnectionId {
        self.0
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        lock().give_back(self.0);
    }
}

/// The slots of a process. Connections last longer than a look at this.
static SLOTS: Mutex<Slots> = Mutex::new(Slots::new());

fn lock() -> std::sync::MutexGuard<'static, Slots> {
    SLOTS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
struct Slots {
    free: Vec<u32>,
    /// How many slots there have ever been.
    slots: u32,
    /// How many numbers have been given out.
    issued: u64,
}

impl Slots {
    const fn new() -> Self {
        Self { free: Vec::new(), slots: 0, issued: 0 }
    }

    fn take(&mut self) -> ConnectionId {
        self.issued += 1;
        let slot = self.free.pop().unwrap_or_else(|| {
            // More would take more memory than machines have.
            self.slots = (self.slots + 1).min(ConnectionId::MAX_SLOT);
            self.slots
        });
        ConnectionId::from_parts(self.issued, slot)
    }

    fn give_back(&mut self, id: ConnectionId) {
        self.free.push(id.slot());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_used_again_under_a_higher_number() {
        let mut slots = Slots::new();
        let (a, b) = (slots.take(), slots.take());
        assert_eq!((a.slot(), b.slot()), (1, 2));
        slots.give_back(a);
        let c = slots.take();
        assert_eq!(c.slot(), a.slot());
        assert!(a < b && b < c);
        assert_eq!(slots.take().slot(), 3);
    }
}
