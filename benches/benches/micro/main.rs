//! What single operations cost: `cargo bench -p nalix-benches --bench micro`.

#![allow(missing_docs, reason = "benches are for `cargo bench` alone")]
#![allow(clippy::unwrap_used, reason = "a bench fails by panicking")]

mod guard;
mod hub;

fn main() {
    divan::main();
}
