//! What both ends of a nalix connection share.
//!
//! A contracts crate, shared by a server and its clients, depends on this crate alone: it declares packets with
//! [`macro@packet`] and values with [`derive@Wire`]. Servers use `nalix-server`, clients `nalix-client`; both re-export what
//! their users need from here.

// The macros name the crate by its full path, also when they are used in here.
#[allow(unused_extern_crates)]
extern crate self as nalix_core;

pub mod borrowed;
mod caught;
#[cfg(feature = "serde")]
pub mod config;
pub mod connection;
pub mod controller;
pub mod error;
pub mod frame;
pub mod handshake;
mod id;
pub mod limit;
pub mod link;
pub mod packet;
mod peer;
mod permission;
pub mod record;
pub mod registry;
pub mod schema;
pub mod session;
mod setters;
mod status;
pub mod stream;
pub mod wire;

/// Makes a type a value that can travel: what it is made of, in the order in which it is written.
///
/// ```
/// use nalix_core::{Wire, wire::{from_slice, to_vec}};
///
/// #[derive(Debug, PartialEq, Wire)]
/// struct Player {
///     #[wire(max_len = 32)]
///     name: String,
///     #[wire(varint)]
///     score: u32,
///     #[wire(since = 2)]
///     team: Option<u8>,
/// }
///
/// let player = Player { name: "Ada".into(), score: 300, team: None };
/// let bytes = to_vec(&player)?;
/// assert_eq!(bytes, [3, b'A', b'd', b'a', 0xac, 0x02, 0]);
/// assert_eq!(from_slice::<Player>(&bytes)?, player);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub use nalix_macros::Wire;
/// Makes a struct or enum a packet: a value with an opcode, and with a reply if it is a request.
///
/// ```
/// use nalix_core::{Packet, Wire, packet};
///
/// /// A request: it is answered with a `Pong`.
/// #[packet(opcode = 0x1001, reply = Pong)]
/// struct Ping {
///     #[wire(max_len = 256)]
///     message: String,
/// }
///
/// #[derive(Wire)]
/// struct Pong {
///     message: String,
/// }
///
/// /// One-way, and read in place.
/// #[packet(opcode = 0x3001)]
/// struct Said<'a> {
///     text: &'a str,
/// }
///
/// assert_eq!(Ping::OPCODE.get(), 0x1001);
/// assert_eq!(Said::NAME, "Said");
/// ```
pub use nalix_macros::packet;
/// Makes the methods of a type that are marked `#[packet]` the handlers of packets.
///
/// ```
/// use nalix_core::{CloseReason, Context, Status, controller::Router, packet, packet_controller};
///
/// #[packet(opcode = 0x1002, reply = i32)]
/// struct Sum {
///     a: i32,
///     b: i32,
/// }
///
/// #[packet(opcode = 0x1003, reply = u64)]
/// struct Checksum<'a> {
///     data: &'a [u8],
/// }
///
/// struct Game;
///
/// #[packet_controller]
/// impl Game {
///     #[packet]
///     fn sum(&self, sum: Sum) -> i32 {
///         sum.a + sum.b
///     }
///
///     #[packet(concurrent)]
///     async fn checksum(&self, _ctx: &Context, packet: Checksum<'_>) -> Result<u64, Status> {
///         Ok(packet.data.iter().map(|&byte| u64::from(byte)).sum())
///     }
///
///     #[disconnected]
///     fn bye(&self, _ctx: &Context, why: &CloseReason) {
///         println!("{why}");
///     }
/// }
///
/// let mut router = Router::builder();
/// router.add(Game);
/// assert_eq!(router.build()?.handlers().len(), 2);
/// # Ok::<(), nalix_core::controller::RouterError>(())
/// ```
pub use nalix_macros::packet_controller;

pub use self::{
    controller::{Context, Controller, State},
    handshake::{Identity, PublicKey, Sealing},
    id::{CallId, ConnectionId, Opcode},
    packet::{
        Delivery, DuplexRequest, Encoded, NoError, OneWay, Packet, Push, Request, StreamRequest, Streams,
        UploadRequest, Uploads, Wire,
    },
    peer::{
        ClockSample, Connection, Detached, Duplex, Finish, Incoming, Lag, Lagged, Listener, Offline,
        OpenBuilder, OpenFuture, Opens, Outgoing, Queue, RequestBuilder, RequestError, RequestFuture,
        Response, ResponseBuilder, ResponseFuture, Resumption, Rtt, SendChunk, SendError, SendFuture,
        StreamError, Subscription, Upload,
    },
    permission::Permission,
    status::{Advice, CloseCode, CloseReason, Code, Failure, Side, Status},
};

/// Bytes that are shared and not copied: as a field or an item, a slice of what was received.
pub use bytes::Bytes;
/// What handlers of packets with a `stream` return, and what subscriptions and [`Incoming`] are.
pub use futures_core::Stream;

#[doc(hidden)]
pub mod __private;
