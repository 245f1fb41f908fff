//! Where user code is kept from taking a connection down.

use std::panic::AssertUnwindSafe;

/// User code panicked; the panic has been reported.
#[derive(Debug)]
pub(crate) struct Panicked;

/// Runs user code and turns a panic into a value.
pub(crate) fn caught<T>(f: impl FnOnce() -> T) -> Result<T, Panicked> {
    std::panic::catch_unwind(AssertUnwindSafe(f)).map_err(|payload| {
        // Dropping the payload may panic as well; leaking it is the lesser evil.
        std::mem::forget(payload);
        // Where and why, the process's panic hook has said; it may hold secrets, so the log does not repeat it.
        tracing::error!("a handler panicked");
        Panicked
    })
}
