//! The crates in `tests/crates`, which use the macros from outside: under another name, through a facade, with every
//! lint denied, and linked without being used.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    path::Path,
    process::{Command, Output},
    sync::{Mutex, PoisonError},
};

const CRATES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/crates");
const TARGET: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/crates");

/// What the registry holds when `contracts` is linked.
const LINKED: &str = "\
0x1001 contracts::unused::Ping
0x1002 contracts::unused::deeper::Moved
0x1003 contracts::Public
contracts::unused::Game
";

fn cargo(args: &[&str]) -> Output {
    // One at a time: all write the lock file.
    static BUSY: Mutex<()> = Mutex::new(());
    let _busy = BUSY.lock().unwrap_or_else(PoisonError::into_inner);
    // The versions that the workspace uses, so that nothing has to be downloaded.
    let lock = Path::new(CRATES).join("../../../Cargo.lock");
    if lock.exists() {
        std::fs::copy(lock, Path::new(CRATES).join("Cargo.lock")).unwrap();
    }
    Command::new(env!("CARGO"))
        .args(args)
        .args(["--offline", "--quiet", "--color", "never"])
        .current_dir(CRATES)
        .env("CARGO_TARGET_DIR", TARGET)
        .env_remove("RUSTFLAGS")
        .output()
        .unwrap()
}

fn passes(args: &[&str]) -> String {
    let output = cargo(args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo {args:?}\n{stderr}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn renamed_and_facades() {
    passes(&["check", "-p", "renamed", "-p", "through-facade", "-p", "server-user"]);
}

#[test]
fn a_crate_that_is_not_found() {
    let output = cargo(&["check", "-p", "through-facade", "--features", "mistake"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(stderr.contains("`nalix-core`, `nalix-server` and `nalix-client`"), "{stderr}");
    assert!(stderr.contains("crate = path::to::nalix_core"), "{stderr}");
    assert!(stderr.contains("due to 3 previous errors"), "one for each macro, and nothing else: {stderr}");
}

#[test]
fn lints() {
    passes(&["clippy", "-p", "strict"]);
    passes(&["doc", "-p", "strict", "--no-deps"]);
}

#[test]
fn packets_of_a_crate_that_is_only_linked() {
    assert_eq!(passes(&["run", "-p", "linking"]), LINKED);
}

/// Slow: builds everything with full link-time optimization.
#[test]
#[ignore = "takes a minute"]
fn packets_of_a_crate_that_is_only_linked_optimized() {
    assert_eq!(passes(&["run", "--release", "-p", "linking"]), LINKED);
}
