//! Realtime servers with typed packets.
//!
//! ```
//! use nalix_server::{Identity, Server, packet, packet_controller};
//!
//! #[packet(opcode = 0x1002, reply = u32)]
//! struct Sum {
//!     a: u32,
//!     b: u32,
//! }
//!
//! struct Calculator;
//!
//! #[packet_controller]
//! impl Calculator {
//!     #[packet]
//!     fn sum(&self, sum: Sum) -> u32 {
//!         sum.a + sum.b
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let identity = Identity::generate()?; // or `Identity::load_or_generate("server.key")`
//! println!("clients pin {}", identity.public_key());
//! let server = Server::builder().identity(identity).tcp("127.0.0.1:0").controller(Calculator).build().await?;
//! let handle = server.handle();
//! handle.shutdown(); // or later, from anywhere
//! server.run().await?;
//! # Ok(())
//! # }
//! ```
//!
//! A server is put together by [`ServerBuilder`], which binds its sockets and checks everything that can be checked
//! before the first client comes. [`Server::run_until`] serves until a future resolves, then drains: clients are
//! told, running calls finish, and the rest is cut off when the time is up.
//!
//! Connections are encrypted, to clients that know the server's key beforehand; who wants none of that says
//! [`plaintext`](ServerBuilder::plaintext). What encryption protects from, and what not, is in `docs/security.md`. A server
//! may also learn who its clients are ([`client_keys`](ServerBuilder::client_keys)), and keep sessions for them to come back
//! to ([`sessions`](ServerBuilder::sessions)).

mod accept;
mod builder;
mod cores;
mod descriptors;
mod drain;
mod error;
mod event_queue;
mod group;
mod guard;
mod handle;
mod handshakes;
mod hub;
mod inner;
pub mod layer;
mod layered;
mod links;
mod options;
mod places;
#[cfg(test)]
mod races;
mod registry;
mod security;
mod server;
mod sessions;
pub mod store;
mod sync;

pub use nalix_core::{
    Advice, CloseCode, CloseReason, Code, Connection, ConnectionId, Context, Controller, Delivery, Duplex,
    DuplexRequest, Encoded, Failure, Incoming, Lag, Lagged, Listener, NoError, OneWay, Opcode, OpenBuilder,
    OpenFuture, Outgoing, Packet, Permission, Push, Queue, Request, RequestBuilder, RequestError,
    RequestFuture, Response, ResponseBuilder, ResponseFuture, Resumption, SendError, SendFuture, Side, State,
    Status, StreamError, StreamRequest, Streams, Subscription, Upload, UploadRequest, Uploads, Wire,
    connection::Options,
    controller::{Call, CallKind, Check, Extract, RateKey, Reply, ReplyKind, Require, Router, RouterError},
    error::{DecodeError, DuplicateError, EncodeError},
    handshake::{
        ClientKeys, Identity, IdentityError, IdentityFault, ParseKeyError, PublicKey, Sealing, SessionId,
    },
    limit, link,
    link::tcp::ListenOptions,
    packet, packet_controller, wire,
};

#[cfg(feature = "serde")]
pub use nalix_core::config;
pub use nalix_core::{Bytes, Stream, stream};

pub use self::{
    builder::ServerBuilder,
    drain::DrainReport,
    error::BuildError,
    group::{Answer, Ask, Group, Join, Member, Members, Presence, PresenceEvent, Sent},
    guard::{Admission, Ban, BanCause, Cidr, Guard, GuardOptions, ParseCidrError, Refusal, RefusalCause},
    handle::ServerHandle,
    hub::{ConnectionInfo, Hub, HubEvent, HubEvents, HubExt},
    options::{Cores, SecurityOptions, ServerOptions},
    places::WhenFull,
    server::Server,
};

/// The crate that macros expand to when a user depends on this one alone.
#[doc(hidden)]
pub use nalix_core as __core;

/// The example on the repository's front page, so that it is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
#[derive(Debug)]
pub struct Readme;
