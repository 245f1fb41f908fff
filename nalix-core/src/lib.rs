//! What both ends of a nalix connection share.
//!
//! A contracts crate, shared by a server and its clients, depends on this crate alone: it declares packets with
//! [`packet`] and values with [`derive@Wire`]. Servers use `nalix-server`, clients `nalix-client`; both re-export what
//! their users need from here.

// The macros name the crate by its full path, also when they are used in here.
#[allow(unused_extern_crates)]
extern crate self as nalix_core;

pub mod connection;
pub mod controller;
pub mod error;
pub mod frame;
pub mod handshake;
mod id;
pub mod link;
pub mod packet;
mod peer;
pub mod record;
pub mod registry;
pub mod schema;
pub mod session;
mod status;
pub mod wire;

pub use nalix_macros::{Wire, packet, packet_controller};

pub use self::{
    controller::{Context, Controller, State},
    id::{CallId, ConnectionId, Opcode},
    packet::{OneWay, Packet, Request, Wire},
    peer::{Connection, RequestBuilder, RequestError, RequestFuture, SendError, SendFuture},
    status::{Advice, CloseCode, CloseReason, Code, Failure, Side, Status},
};

#[doc(hidden)]
pub mod __private;
