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
            "raw,nalix,nalix-async,nalix-sealed",
            "--secs",
            "0.05",
            "--runs",
            "1",
        ])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    let lines = |start| text.lines().filter(|line| line.starts_with(start)).count();
    let cases = lines("echo ") + lines("sum, ");
    assert!(cases > 0, "{text}");
    for peer in ["raw ", "nalix ", "nalix-async ", "nalix-sealed "] {
        assert_eq!(lines(peer), cases, "{text}");
    }
}
