//! What calls and items of streams cost the server in heap allocations, counted: nothing, or one for a call whose handler is
//! async. What a packet to a group costs is in `fan_out.rs`.

use std::process::Command;

/// Allocations per operation of each peer, in each case that was run.
fn count(case: &str) -> Vec<(String, f64)> {
    let dir = tempfile(case);
    let output = Command::new(env!("CARGO_BIN_EXE_compare"))
        .args([
            "--case",
            case,
            "--peer",
            "nalix,nalix-async,nalix-sealed,nalix-fleeting,nalix-guarded",
            "--secs",
            "0.6",
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

fn tempfile(case: &str) -> std::path::PathBuf {
    // Tests run beside each other.
    let name: String = case.chars().filter(char::is_ascii_alphanumeric).collect();
    std::env::temp_dir().join(format!("nalix-allocations-{}-{name}.jsonl", std::process::id()))
}

#[test]
fn a_call_allocates_nothing_or_once_if_its_handler_is_async() {
    let mut counted = 0;
    for case in ["16 conn, ct", "64 conn, mt", "sum, 4 conn x 100 in flight, ct"] {
        for (peer, allocations) in count(case) {
            // Some thousand calls: a buffer that grows once in the window does not count as one per call.
            let most = if peer == "nalix-async" { 1.0 } else { 0.0 };
            assert!(allocations <= most + 0.02, "{case}, {peer}: {allocations} allocations per call");
            counted += 1;
        }
    }
    assert!(counted >= 15, "only {counted} cases were run");
}

#[test]
fn items_of_streams_allocate_nothing() {
    let counted = count("stream 20000 x 100 B, 4 conn x 4 streams, ct");
    assert_eq!(counted.len(), 2, "{counted:?}");
    for (peer, allocations) in counted {
        // Opening a stream does, once in 20,000 items.
        assert!(allocations <= 0.01, "{peer}: {allocations} allocations per item");
    }
}
