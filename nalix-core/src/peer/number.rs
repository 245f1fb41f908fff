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

/// The slots of a process. Few are free at any time: connections last longer than a look at this.
static SLOTS: Mutex<Slots> = Mutex::new(Slots { free: Vec::new(), issued: 0 });

fn lock() -> std::sync::MutexGuard<'static, Slots> {
    SLOTS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
struct Slots {
    /// The ids that the free slots will have next.
    free: Vec<ConnectionId>,
    issued: u32,
}

impl Slots {
    fn take(&mut self) -> ConnectionId {
        self.free.pop().unwrap_or_else(|| {
            // The first connection is number 1, which people find more natural than 0.
            self.issued += 1;
            ConnectionId::from_slot(self.issued, 0)
        })
    }

    fn give_back(&mut self, id: ConnectionId) {
        // A slot that has been used as often as can be counted is used no more: no number ever comes twice.
        if let Some(generation) = id.generation().checked_add(1) {
            self.free.push(ConnectionId::from_slot(id.slot(), generation));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_used_again_under_another_number() {
        let mut slots = Slots { free: Vec::new(), issued: 0 };
        let (a, b) = (slots.take(), slots.take());
        assert_eq!((a.get(), b.get()), (1, 2));
        slots.give_back(a);
        let c = slots.take();
        assert_eq!(c.slot(), a.slot());
        assert_ne!(c, a);
        assert_eq!(slots.take().get(), 3);
    }

    #[test]
    fn a_slot_that_is_used_up_never_comes_again() {
        let mut slots = Slots { free: Vec::new(), issued: 1 };
        slots.give_back(ConnectionId::from_slot(1, u32::MAX));
        assert_eq!(slots.take().slot(), 2);
    }
}
