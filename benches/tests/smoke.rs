//! The harness itself works: every case against the baseline, in windows too short to say anything.

use std::process::Command;

#[test]
fn every_quick_case_runs() {
    let output = Command::new(env!("CARGO_BIN_EXE_compare"))
        .args(["--quick", "--suite", "all", "--peer", "raw", "--secs", "0.05", "--runs", "1"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    let rows = text.lines().filter(|line| line.starts_with("raw ")).count();
    let cases = text.lines().filter(|line| line.starts_with("echo ") || line.starts_with("sum, ")).count();
    assert_eq!(rows, cases, "{text}");
    assert!(cases > 0, "{text}");
}
