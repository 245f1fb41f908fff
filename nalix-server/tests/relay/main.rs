//! Somebody sits between a client and its server, reads all that passes, and changes it as they like.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../support/mod.rs"]
mod support;

mod first_flights;
mod hellos;
mod marked;
mod middle;
mod records;
mod strangers;
mod world;
