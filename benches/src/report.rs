//! Medians over the runs, as a table to read and as JSON lines to keep.

use std::fmt::Write;

use crate::{
    case::{Case, Work},
    load::Sample,
};

/// One peer in one case.
#[derive(Debug)]
pub(crate) struct Row {
    peer: &'static str,
    /// The median of every column by itself.
    median: Sample,
    /// Half of what lies between the best and the worst throughput, as a fraction of the median.
    spread: f64,
    runs: usize,
}

impl Row {
    /// Nothing if there are no samples.
    pub(crate) fn of(peer: &'static str, samples: &[Sample]) -> Option<Self> {
        let column = |of: fn(&Sample) -> f64| {
            let mut values: Vec<f64> = samples.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let throughput = column(|sample| sample.ops_per_sec);
        let (worst, best) = (throughput.first()?, throughput.last()?);
        let median = Sample {
            ops_per_sec: median(&throughput),
            p50: median(&column(|sample| sample.p50)),
            p99: median(&column(|sample| sample.p99)),
            p999: median(&column(|sample| sample.p999)),
            server_cpu: median(&column(|sample| sample.server_cpu)),
            client_cpu: median(&column(|sample| sample.client_cpu)),
            allocations: median(&column(|sample| sample.allocations)),
            allocated_bytes: median(&column(|sample| sample.allocated_bytes)),
        };
        let spread = (best - worst) / 2.0 / median.ops_per_sec;
        Some(Self { peer, median, spread, runs: samples.len() })
    }
}

/// The case as text: a line per peer, with ratios to raw and to tonic where those took part.
pub(crate) fn table(case: &Case, rows: &[Row]) -> String {
    let ratio_to = |peer: &str, row: &Row| {
        let base = rows.iter().find(|row| row.peer == peer);
        base.map_or("-".into(), |base| ratio(row.median.ops_per_sec / base.median.ops_per_sec))
    };
    let mut text = format!("{case}\n");
    let _ = writeln!(
        text,
        "{:<13}{:>10}{:>6}{:>8}{:>8}{:>10}{:>10}{:>10}{:>9}{:>9}{:>10}{:>9}",
        "peer",
        "ops/s",
        "+-%",
        "/raw",
        "/tonic",
        "p50 us",
        "p99 us",
        "p99.9 us",
        "srv us",
        "cli us",
        "allocs/op",
        "B/op"
    );
    for row in rows {
        let Sample { ops_per_sec, p50, p99, p999, server_cpu, client_cpu, allocations, allocated_bytes } =
            row.median;
        let _ = writeln!(
            text,
            "{:<13}{:>10.0}{:>6.1}{:>8}{:>8}{:>10.1}{:>10.1}{:>10.1}{:>9.2}{:>9.2}{:>10.3}{:>9.1}",
            row.peer,
            ops_per_sec,
            row.spread * 100.0,
            ratio_to("raw", row),
            ratio_to("tonic", row),
            p50,
            p99,
            p999,
            server_cpu,
            client_cpu,
            allocations,
            allocated_bytes,
        );
    }
    text
}

/// The row as one JSON object. All values are numbers, booleans and plain names: nothing needs escaping.
pub(crate) fn json(case: &Case, row: &Row) -> String {
    let Sample { ops_per_sec, p50, p99, p999, server_cpu, client_cpu, allocations, allocated_bytes } =
        row.median;
    let (suite, payload, in_flight) = match case.work {
        Work::Echo { payload } => ("echo", payload, 1),
        Work::Sum { in_flight } => ("sum", 8, in_flight),
    };
    let (flavour, pinned, connections) = (case.flavour.name(), case.pinned, case.connections);
    let Row { peer, spread, runs, .. } = row;
    format!(
        "{{\"suite\":\"{suite}\",\"payload\":{payload},\"connections\":{connections},\"in_flight\":{in_flight},\
         \"flavour\":\"{flavour}\",\"pinned\":{pinned},\"peer\":\"{peer}\",\"runs\":{runs},\
         \"ops_per_sec\":{ops_per_sec:.1},\"spread\":{spread:.4},\
         \"p50_us\":{p50:.2},\"p99_us\":{p99:.2},\"p999_us\":{p999:.2},\
         \"server_cpu_us\":{server_cpu:.3},\"client_cpu_us\":{client_cpu:.3},\
         \"allocations\":{allocations:.4},\"allocated_bytes\":{allocated_bytes:.1}}}"
    )
}

/// Two decimals, or what is needed to tell small ratios apart.
fn ratio(value: f64) -> String {
    if value < 0.1 { format!("{value:.4}") } else { format!("{value:.2}") }
}

/// Of values in order; between the middle two if there are two.
fn median(sorted: &[f64]) -> f64 {
    let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_spread() {
        let sample = |ops_per_sec| Sample {
            ops_per_sec,
            p50: 1.0,
            p99: 2.0,
            p999: 3.0,
            server_cpu: 4.0,
            client_cpu: 5.0,
            allocations: 0.0,
            allocated_bytes: 0.0,
        };
        let row = Row::of("raw", &[sample(110.0), sample(90.0), sample(100.0)]).unwrap();
        assert_eq!((row.median.ops_per_sec, row.spread), (100.0, 0.1));
        assert_eq!(median(&[1.0, 2.0]), 1.5);
        assert!(Row::of("raw", &[]).is_none());
    }
}
