//! What the tests of whole connections share: ends over in-memory links, a peer made by hand, counters to wait for.

// Every test binary takes what it needs.
#![allow(dead_code, unused_imports)]

mod bad;
mod blob;
mod live;
mod pair;
mod raw;

pub(crate) use self::{
    bad::bad_bodies,
    blob::Blob,
    live::{Guard, Live},
    pair::{Both, server, soon},
    raw::{RawPeer, cancel, frame, notify, packet_with, record, request},
};
