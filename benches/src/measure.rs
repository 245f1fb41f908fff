//! What a stretch of work cost this process.

use std::{io, time::Duration};

use crate::{Error, alloc::Allocated, counters::Counted};

/// CPU time, heap allocations and more, since the process started or between two points.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// User and system time of all threads.
    pub(crate) cpu: Duration,
    pub(crate) allocated: Allocated,
    pub(crate) counted: Counted,
    /// Bytes of memory that the process has, or between two points by how many it has grown; 0 where that is not known.
    pub(crate) resident: u64,
}

impl Usage {
    /// Everything since the process started.
    pub(crate) fn now() -> io::Result<Self> {
        // First, so that nothing the rest of this function might do is counted.
        let allocated = Allocated::now();
        Ok(Self { cpu: cpu_time()?, allocated, counted: Counted::now(), resident: resident() })
    }

    /// What was used after `earlier`.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            cpu: self.cpu.saturating_sub(earlier.cpu),
            allocated: Allocated {
                count: self.allocated.count - earlier.allocated.count,
                bytes: self.allocated.bytes - earlier.allocated.bytes,
            },
            counted: self.counted.since(&earlier.counted),
            resident: self.resident.saturating_sub(earlier.resident),
        }
    }

    /// As one line for [`Usage::from_line`]; times are cut to microseconds.
    pub(crate) fn to_line(self) -> String {
        let Self { cpu, allocated, counted, resident } = self;
        let numbers = [
            u64::try_from(cpu.as_micros()).unwrap_or(u64::MAX),
            allocated.count,
            allocated.bytes,
            counted.encodes,
            counted.writes,
            counted.skipped,
            resident,
        ];
        numbers.map(|number| number.to_string()).join(" ")
    }

    pub(crate) fn from_line(line: &str) -> Result<Self, Error> {
        let numbers: Vec<u64> = line.split(' ').map(str::parse).collect::<Result<_, _>>()?;
        let &[cpu, count, bytes, encodes, writes, skipped, resident] = numbers.as_slice() else {
            return Err(format!("`{line}` says not what was used").into());
        };
        Ok(Self {
            cpu: Duration::from_micros(cpu),
            allocated: Allocated { count, bytes },
            counted: Counted { encodes, writes, skipped },
            resident,
        })
    }
}

/// Lets this process have as many sockets as the system allows it.
pub(crate) fn raise_descriptor_limit() {
    #[cfg(unix)]
    {
        use nix::sys::resource::{Resource, getrlimit, setrlimit};
        // Who is refused gets as far as the limit goes, and says then what is missing.
        let _ = getrlimit(Resource::RLIMIT_NOFILE)
            .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
    }
}

/// From the line `VmRSS:   1234 kB`.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).and_then(|rest| {
        let number: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(number)
    });
    kib.unwrap_or(0) * 1024
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_is_read_as_it_was_written() {
        let used = Usage {
            cpu: Duration::from_micros(1),
            allocated: Allocated { count: 2, bytes: 3 },
            counted: Counted { encodes: 4, writes: 5, skipped: 6 },
            resident: 7,
        };
        assert_eq!(Usage::from_line(&used.to_line()).unwrap(), used);
        assert!(Usage::from_line("1 2 3").is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn memory_that_is_used_is_seen() {
        let before = resident();
        let block = std::hint::black_box(vec![1_u8; 64 << 20]);
        assert!(resident() >= before + (32 << 20), "{before} bytes before, {} after", resident());
        drop(block);
    }
}
