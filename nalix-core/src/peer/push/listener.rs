//! Packets given to a closure.

use std::{
    fmt,
    marker::PhantomData,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use super::table::{AnyPacket, Place, Pushes, Taker};
use crate::packet::Push;

/// Keeps a closure listening until it is dropped. Made by [`Connection::on`](crate::Connection::on).
///
/// After the drop no call of the closure begins; one that runs on the connection's task at that moment comes to its end.
#[must_use = "the closure stops listening when this is dropped; `keep` lets it listen until the connection ends"]
pub struct Listener {
    listening: Arc<AtomicBool>,
    /// `None` if the connection had ended before.
    place: Option<Place>,
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").finish_non_exhaustive()
    }
}

impl Listener {
    pub(in crate::peer) fn new<T: Push>(
        pushes: &Arc<Pushes>,
        f: impl FnMut(Arc<T>) + Send + 'static,
    ) -> Self {
        let listening = Arc::new(AtomicBool::new(true));
        let closure =
            Closure { listening: Arc::clone(&listening), f: Mutex::new(f), packet: PhantomData::<fn(T)> };
        Self { listening, place: pushes.add::<T>(Arc::new(closure)) }
    }

    /// Lets the closure listen until the connection ends.
    pub fn keep(mut self) {
        if let Some(place) = self.place.take() {
            place.keep();
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if self.place.is_some() {
            self.listening.store(false, Ordering::Release);
        }
    }
}

struct Closure<T, F> {
    listening: Arc<AtomicBool>,
    /// Never waited for: only the connection's task calls it.
    f: Mutex<F>,
    packet: PhantomData<fn(T)>,
}

impl<T: Push, F: FnMut(Arc<T>) + Send> Taker for Closure<T, F> {
    fn take(&self, packet: &AnyPacket) {
        if !self.listening.load(Ordering::Acquire) {
            return;
        }
        if let Ok(packet) = Arc::clone(packet).downcast() {
            // One that has panicked is called again, as a handler is.
            (self.f.lock().unwrap_or_else(PoisonError::into_inner))(packet);
        }
    }

    fn end(&self) {}
}
