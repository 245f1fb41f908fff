//! What single operations cost: `cargo bench -p nalix-benches --bench micro`.

#![allow(missing_docs, reason = "benches are for `cargo bench` alone")]
#![allow(clippy::unwrap_used, reason = "a bench fails by panicking")]

mod guard;
mod hub;
mod limits;
mod lookup;
mod store;

fn main() {
    divan::main();
}
