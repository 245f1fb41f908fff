//! Typed clients for nalix servers.
//!
//! ```no_run
//! use nalix_client::{Client, packet};
//!
//! #[packet(opcode = 0x1001, reply = u32)]
//! struct Sum {
//!     a: u32,
//!     b: u32,
//! }
//!
//! # async fn f() -> Result<(), Box<dyn std::error::Error>> {
//! // What the server prints when it starts, built in or from a configuration.
//! let key = "nalix1s5s0qzvfxzn4gayt0hwtg0hhtgxm7wsdycup4a8t5j5ca25mfe4qvecvq2".parse()?;
//! let session = Client::builder("tcp://127.0.0.1:7777").server_key(key).connect().await?;
//! assert_eq!(session.request(Sum { a: 1, b: 2 }).await?, 3);
//! session.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! Connections are encrypted, to a server that proves to have the key that is pinned; who wants none of that says
//! [`plaintext`](ClientBuilder::plaintext). A client may prove who it is ([`identity`](ClientBuilder::identity)), and come
//! back to its session ([`resume`](ClientBuilder::resume)).

mod address;
mod builder;
mod clock;
mod dial;
mod dialer;
mod listeners;
mod open;
mod options;
mod reconnect;
mod reconnect_options;
mod request;
mod retry;
mod security;
mod send;
mod session;
mod while_offline;

pub use nalix_core::{
    Advice, CloseCode, CloseReason, Code, Connection, ConnectionId, Context, Controller, Duplex,
    DuplexRequest, Failure, Incoming, Lag, Lagged, Listener, NoError, Offline, OneWay, Opcode, Outgoing,
    Packet, Push, Queue, Request, RequestError, Response, Rtt, SendError, Side, State, Status, StreamError,
    StreamRequest, Streams, Subscription, Upload, UploadRequest, Uploads, Wire,
    connection::{ConnectError, Options},
    controller::{Extract, RouterError},
    error::{DecodeError, EncodeError, ProtocolError},
    handshake::{
        Identity, IdentityError, IdentityFault, Mismatch, ParseKeyError, PublicKey, Sealing, SessionTicket,
    },
    link, packet, packet_controller, wire,
};

#[cfg(feature = "serde")]
pub use nalix_core::config;
pub use nalix_core::{Bytes, Stream, stream};

pub use self::{
    builder::{Client, ClientBuilder},
    clock::{ClockError, ServerTime},
    dial::{Dial, Tcp},
    open::{OpenBuilder, OpenFuture},
    options::ClientOptions,
    reconnect::{Cause, Events, SessionEvent, SessionState},
    reconnect_options::ReconnectOptions,
    request::{RequestBuilder, RequestFuture, ResponseBuilder, ResponseFuture},
    retry::Retry,
    send::SendFuture,
    session::Session,
    while_offline::WhileOffline,
};

/// The crate that macros expand to when a user depends on this one alone.
#[doc(hidden)]
pub use nalix_core as __core;
