//! The examples are in folders beside this file; run them with `cargo run --example NAME`.
