//! What the tests of servers share: ends over in-memory links, a peer made by hand, and ways to wait and to look.

#![allow(dead_code, unused_imports, reason = "every test takes what it needs")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bad;
mod blob;
mod frames;
mod live;
mod members;
mod pair;
mod raw;
mod recorder;
mod sources;
mod wait;

pub(crate) use self::{
    bad::bad_bodies,
    blob::Blob,
    frames::{cancel, frame, large_request, notify, packet_with, record, request, status},
    live::{Guard, Live},
    members::{Inbox, deaf, member},
    pair::{Both, server, session},
    raw::RawPeer,
    recorder::{Line, Recorder},
    sources::{Source, from_fn},
    wait::{eventually, soon, until, within},
};
