//! Closures that listen from the first packet on.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use nalix_core::{Push, connection::Audience};

/// What to do with the audience before anything has been read from a connection.
///
/// The lock is never waited for. It lets closures be shared that are not made for it, and with them the builder.
#[derive(Default)]
pub(crate) struct Listeners(Mutex<Vec<Install>>);

type Install = Box<dyn FnOnce(&Audience) + Send>;

impl Listeners {
    pub(crate) fn install(self, audience: &Audience) {
        for install in self.0.into_inner().unwrap_or_else(PoisonError::into_inner) {
            install(audience);
        }
    }

    /// Adds a closure to be called with each packet of a type.
    pub(crate) fn add<T: Push>(&mut self, f: impl FnMut(Arc<T>) + Send + 'static) {
        let install: Install = Box::new(move |audience| audience.on(f).keep());
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner).push(install);
    }
}

impl fmt::Debug for Listeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listeners").finish_non_exhaustive()
    }
}
