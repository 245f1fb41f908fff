//! What a call costs the server in heap allocations, counted: nothing for handlers that are functions, one for those that
//! are async.

use std::process::Command;

/// Allocations per call of each peer, in each case that was run.
fn count(case: &str) -> Vec<(String, f64)> {
    let dir = tempfile();
    let output = Command::new(env!("CARGO_BIN_EXE_compare"))
        .args([
            "--case",
            case,
            "--peer",
            "nalix,nalix-async,nalix-sealed",
            "--secs",
            "0.2",
            "--runs",
            "1",
            "--json",
        ])
        .arg(&dir)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = std::fs::read_to_string(&dir).unwrap();
    std::fs::remove_file(&dir).unwrap();
    let field = |line: &str, name: &str| {
        let (_, rest) = line.split_once(&format!("\"{name}\":")).unwrap();
        rest.split([',', '}']).next().unwrap().trim_matches('"').to_owned()
    };
    lines.lines().map(|line| (field(line, "peer"), field(line, "allocations").parse().unwrap())).collect()
}

fn tempfile() -> std::path::PathBuf {
    std::env::temp_dir().join(format!("nalix-allocations-{}.jsonl", std::process::id()))
}

#[test]
fn a_call_allocates_nothing_or_once_if_its_handler_is_async() {
    let mut counted = 0;
    for case in ["16 conn, ct", "64 conn, mt", "x 100 in flight, ct"] {
        for (peer, allocations) in count(case) {
            // Some thousand calls: a buffer that grows once in the window does not count as one per call.
            let most = if peer == "nalix-async" { 1.0 } else { 0.0 };
            assert!(allocations <= most + 0.02, "{case}, {peer}: {allocations} allocations per call");
            counted += 1;
        }
    }
    assert!(counted >= 15, "only {counted} cases were run");
}
