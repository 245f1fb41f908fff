//! The harness itself works: every case against the baseline and nalix, in windows too short to say anything.

use std::process::Command;

#[test]
fn every_quick_case_runs() {
    let output = Command::new(env!("CARGO_BIN_EXE_compare"))
        .args([
            "--quick",
            "--suite",
            "all",
            "--peer",
            "raw,nalix,nalix-async,nalix-sealed,nalix-fleeting,nalix-guarded,nalix-stuck",
            "--secs",
            "0.05",
            "--runs",
            "1",
        ])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    // A table is what stands between empty lines: the case, the titles, a line per peer.
    let mut tables = Vec::new();
    for table in text.split("\n\n").skip(1) {
        let mut lines = table.lines();
        let case = lines.next().unwrap();
        let peers: Vec<_> = lines.skip(1).filter_map(|line| line.split_whitespace().next()).collect();
        tables.push((case, peers));
    }
    let every = ["nalix", "nalix-sealed"];
    let calls = ["raw", "nalix", "nalix-async", "nalix-sealed", "nalix-fleeting", "nalix-guarded"];
    let pushes = ["raw", "nalix", "nalix-sealed", "nalix-stuck"];
    for (suite, peers) in [
        ("echo ", &calls[..]),
        ("sum, ", &calls),
        ("get user, ", &every),
        ("say hello, ", &every),
        ("stream ", &every),
        ("fan-out ", &pushes),
        ("large ", &every),
    ] {
        let of_suite: Vec<_> = tables.iter().filter(|(case, _)| case.starts_with(suite)).collect();
        assert!(!of_suite.is_empty(), "no case of `{suite}`: {text}");
        for (case, found) in of_suite {
            assert_eq!(found, peers, "{case}: {text}");
        }
    }
}
