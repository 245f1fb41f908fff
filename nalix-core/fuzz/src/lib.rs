//! Fuzz targets: functions that take any bytes and panic if something is wrong.
//!
//! `tests/targets.rs` hands them to an engine. Panics are the point of these functions, so they assert freely.

mod connection;
mod exchange;
mod frames;
mod handshake;
mod hello;
mod keys;
mod offer;
mod proxy;
mod script;
mod sealed;
mod secured;
mod types;
mod values;

pub use self::{
    connection::connection, exchange::exchange, frames::frames, handshake::handshake, hello::hello,
    proxy::proxy, sealed::sealed, values::values,
};
