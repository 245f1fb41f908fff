//! What one measured window showed.

use super::Tally;
use crate::{
    case::{Fanout, Work},
    measure::Usage,
};

/// What one measured window showed. Times are in microseconds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sample {
    pub(crate) ops_per_sec: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    /// CPU time per operation, user and system.
    pub(crate) server_cpu: f64,
    pub(crate) client_cpu: f64,
    /// Heap allocations of the server per operation.
    pub(crate) allocations: f64,
    pub(crate) allocated_bytes: f64,
    /// What only some suites have; the same for every sample of a case.
    pub(crate) extras: Vec<Extra>,
}

/// A column that only some suites have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Extra {
    /// The key in JSON.
    pub(crate) key: &'static str,
    pub(crate) title: &'static str,
    pub(crate) value: f64,
}

impl Sample {
    /// From what `secs` of `work` have brought and cost.
    pub(super) fn of(work: Work, secs: f64, tally: &Tally, server: &Usage, client: &Usage) -> Self {
        let ops_per_sec = tally.ops as f64 / secs;
        let per_op = |amount: f64| amount / tally.ops as f64;
        let mut extras = Vec::new();
        if let Some(moved) = work.moved() {
            let value = ops_per_sec * moved as f64 / 1e6;
            extras.push(Extra { key: "mb_per_sec", title: "MB/s", value });
        }
        if let Work::Fanout(Fanout { members, .. }) = work {
            let per_push = |n: u64| n as f64 * members as f64 / tally.ops as f64;
            let counted = &server.counted;
            extras.extend([
                Extra { key: ENCODES, title: "encodes/push", value: per_push(counted.encodes) },
                Extra { key: WRITES, title: "writes/op", value: per_op(counted.writes as f64) },
                Extra { key: SKIPPED, title: "skipped/push", value: per_push(counted.skipped) },
                Extra { key: GROWN, title: "grown KiB", value: server.resident as f64 / 1024.0 },
            ]);
        }
        Self {
            ops_per_sec,
            p50: tally.micros(0.5),
            p99: tally.micros(0.99),
            p999: tally.micros(0.999),
            server_cpu: per_op(server.cpu.as_micros() as f64),
            client_cpu: per_op(client.cpu.as_micros() as f64),
            allocations: per_op(server.allocated.count as f64),
            allocated_bytes: per_op(server.allocated.bytes as f64),
            extras,
        }
    }

    /// The extra column of that key.
    pub(crate) fn extra(&self, key: &str) -> Option<f64> {
        self.extras.iter().find(|extra| extra.key == key).map(|extra| extra.value)
    }
}

/// How often a message was encoded.
pub(crate) const ENCODES: &str = "encodes_per_push";
/// How often bytes were handed to a socket, for each message to each member.
pub(crate) const WRITES: &str = "writes_per_delivery";
/// For how many members a message was left out.
pub(crate) const SKIPPED: &str = "skipped_per_push";
/// By how much the server's memory has grown in the window.
pub(crate) const GROWN: &str = "grown_kib";
