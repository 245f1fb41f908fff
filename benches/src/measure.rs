//! What a stretch of work cost this process.

use std::{io, time::Duration};

use crate::alloc::Allocated;

/// CPU time and heap allocations, since the process started or between two points.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    /// User and system time of all threads.
    pub(crate) cpu: Duration,
    pub(crate) allocated: Allocated,
}

impl Usage {
    /// Everything since the process started.
    pub(crate) fn now() -> io::Result<Self> {
        // First, so that nothing the rest of this function might do is counted.
        let allocated = Allocated::now();
        Ok(Self { cpu: cpu_time()?, allocated })
    }

    /// What was used after `earlier`.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            cpu: self.cpu.saturating_sub(earlier.cpu),
            allocated: Allocated {
                count: self.allocated.count - earlier.allocated.count,
                bytes: self.allocated.bytes - earlier.allocated.bytes,
            },
        }
    }
}

#[cfg(unix)]
fn cpu_time() -> io::Result<Duration> {
    use nix::sys::{
        resource::{UsageWho, getrusage},
        time::TimeValLike,
    };
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(Duration::from_micros(micros.unsigned_abs()))
}

/// Not known here: the columns show zero.
#[cfg(not(unix))]
fn cpu_time() -> io::Result<Duration> {
    Ok(Duration::ZERO)
}
