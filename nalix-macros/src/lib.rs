//! The macros of nalix. Use them through `nalix-core`, `nalix-server` or `nalix-client`, which document them.
//!
//! Each macro goes through the same stages: `attr` reads keys, `model` turns tokens into plain structs, `check` knows the
//! rules, `expand` writes code. Errors are collected in a `Ctxt` on the way and reported together.

use proc_macro::TokenStream;

mod attr;
mod controller;
mod ctxt;
mod packet;
mod path;
mod span;
mod values;
mod wire;

/// Makes a struct or enum a value that can travel: a reply, an error, a field of a packet.
///
/// Keys of `#[wire(...)]` on the type: `extensible` (written with its length in front, so that it can grow when nested),
/// `max_depth = N` (levels that values inside may nest), `rename = "..."` (its name in schemas), `crate = path` (where
/// `nalix_core` is).
///
/// On fields: `max_len = N` (bytes of a string, items of a collection; checked on both sides before anything is
/// allocated), `varint`, `since = N` (added in version N; becomes its default when an older peer leaves it out),
/// `default` or `default = path` (what a field with `since` or `skip` becomes; plain means `Default::default()`), `skip`
/// (not on the wire), `with = module` (that module's `encode`, `decode` and `describe`), `max_depth = N`,
/// `rename = "..."`. On variants: `rename = "..."`.
///
/// Variants are numbered by their order, from 0; discriminants written in the source play no role. What `cfg` removes is
/// not on the wire and not counted, so peers that are compiled under other conditions have other layouts; they learn it
/// when they connect.
#[proc_macro_derive(Wire, attributes(wire))]
pub fn derive_wire(input: TokenStream) -> TokenStream {
    wire::derive(input.into()).into()
}

/// Makes a struct or enum a packet: a value with an opcode, which can be sent.
///
/// Keys: `opcode = 0x1001` (required; from `0x0100` up), `reply = Type` (makes it a request), `error = Type` (what a
/// request or a stream may fail with besides a `Status`), `stream = Type` (it is answered with a stream of such items),
/// `upload = Type` (a stream of such chunks follows it; with `reply` or `stream`), `exact` (bytes behind the last field are
/// an error), `encrypt` (it and its answer travel in sealed records only), `idempotent` (running a request twice does what
/// running it once does, so a client may send it again when the answer is lost), `compress` or `compress = N` (it and its answer
/// are compressed from N bytes on, see below), `priority = "..."` (`"control"`, `"high"`, `"normal"` or `"bulk"`: how
/// urgent it and its answer are when more waits than the link takes; if nothing is said, what is over 1 MiB is bulk, and
/// all else normal), `delivery = "..."` (`"reliable"`, `"droppable"`, `"drop_oldest"` or `"latest"`: what becomes of a one-way
/// packet that is pushed to a receiver which reads too slowly, unless the call says otherwise; if nothing is said, it is reliable.
/// `"latest"` is that of the type: calls that know keys say `Delivery::Latest(key)`), `permission = Permission::USER` and `max_size = N` (what its handler asks for at least, whatever the
/// handler itself says), `rename = "..."`, `crate = path` (where `nalix_core` is). Fields take the
/// `#[wire(...)]` attributes of `derive(Wire)`, which this macro includes.
///
/// What is marked `encrypt` never leaves on a connection that is not secured: the sender gets an `EncryptionRequired`
/// error before a byte is written. A receiver that gets it unsealed all the same answers with the status of that name, or
/// drops it if it is one-way, without decoding it. The mark is not part of the contract that peers compare: each side
/// keeps to its own.
///
/// What is marked `compress` is compressed if it has at least so many bytes (1,024, unless it says another number), becomes
/// shorter by it, and the peer can read it: the packet, its reply, its error, and the items of its stream and the chunks of
/// its upload, as many as go together in one frame. Statuses are not, nor a request that goes along with a hello. Limits count the bytes before compression. The
/// mark is not part of the contract either: receivers take both forms, and each side says for itself what it compresses.
///
/// Compress text, snapshots, tables: what repeats itself. It costs some microseconds for every few KiB on either
/// side, so it is of no use where bandwidth is plenty, nor for what is compressed already (images, archives). **Do not
/// compress what holds a secret beside something that others can choose**, also not with `encrypt`, which may stand beside it:
/// whoever sees the lengths of records can guess the secret byte by byte (`docs/security.md`, "Compression").
///
/// Every packet that is linked into a program is in its registry, used or not. A crate that is named in `Cargo.toml` but
/// nowhere in the source is not linked: write `use that_crate as _;`.
///
/// Inside an impl block with `#[packet_controller]`, `#[packet]` marks a handler.
#[proc_macro_attribute]
pub fn packet(args: TokenStream, item: TokenStream) -> TokenStream {
    packet::attribute(args.into(), item.into()).into()
}

/// The second half of `#[packet]`: as a derive it sees fields and variants after `cfg` has been applied.
#[doc(hidden)]
#[proc_macro_derive(__Packet, attributes(wire, __packet))]
pub fn derive_packet(input: TokenStream) -> TokenStream {
    packet::derive(input.into()).into()
}

/// Makes a type a controller: its methods marked with `#[packet]` handle packets.
///
/// A handler takes `&self` (or `self: Arc<Self>`, `self: &Arc<Self>`), then extractors (`&Context`, `State<T>`, ...),
/// then its packet, and returns the packet's reply, or a `Result` of it. Async or not: one that is not async runs to its
/// end at once and is the fastest.
///
/// The handler of a packet with `stream` returns a `Stream` of the items, or of results of them, or a `Result` of such a
/// stream; as `impl Stream` it may borrow from the controller. It is polled as a part of the handler, one batch at a time, as
/// far as the peer takes items. The module `stream` has ways to make one. Once it has been returned, the packets behind it may start. The handler of a packet with
/// `upload` takes the chunks as an argument of type `Incoming<_>` behind the packet; one that waits for them keeps those
/// behind it waiting, unless it is `concurrent`, and one that computes much with each keeps the whole connection waiting,
/// unless it is `spawn`, too.
///
/// Keys of `#[packet(...)]` on handlers: `concurrent` (does not wait for earlier packets of the connection),
/// `lane = "..."` (waits for earlier packets of that lane only), `spawn` (runs on a task of its own), `blocking` (runs on
/// a thread for blocking work), `encrypt` (takes its packet from sealed records only, whatever the packet says; one that
/// comes in the clear is refused before it is decoded). `#[connected]` and `#[disconnected]` mark what runs when a connection is ready and when
/// it has ended; `#[detached]` and `#[resumed]` what runs when its session has lost its link, and when it goes on over another.
///
/// More keys say what a call must meet, and the connection sees to it before the packet is decoded; `docs/policies.md` says more
/// of each:
///
/// - `permission = Permission::USER` (or a level from 0 to 255): the least that `Connection::set_permission` must have given
///   to the peer, else `PermissionDenied`.
/// - `check = function`: any other condition, a `fn(&Context) -> Result<(), Status>` or a value of a type that implements
///   `controller::Check`.
/// - `rate = "10/s"`, with `burst = N` (how many at once; as many as come in a period, unless it says another number),
///   `cost = N` (how many a call counts for) and `key = session`, `identity` or `address` (who shares a rate), else
///   `ResourceExhausted` with the time to wait.
/// - `concurrency = N` (so many calls at once, on all connections together), with `queue = N` (so many more may wait; 64) and
///   `wait = "1s"` (for so long; as long as the caller does), else `ResourceExhausted`.
/// - `timeout = "2s"`: how long a call may take from its turn on, else its handler is dropped, with `DeadlineExceeded`.
/// - `transport = "tcp"` or a list of `"tcp"`, `"websocket"`, `"udp"`, `"memory"`: over which links the packet is taken, else
///   `FailedPrecondition`.
/// - `max_size = N`: how many bytes the packet may have, else `ResourceExhausted`.
/// - `breaker = N`, with `cool_down = "5s"`: after so many failures in a row the handler is left alone for a while, and
///   `Unavailable` is answered.
///
/// A type has one such block; it may have others for methods that are not handlers. A type with a `Default` is found by
/// `discover()` in every program that links it, unless it is generic.
#[proc_macro_attribute]
pub fn packet_controller(args: TokenStream, item: TokenStream) -> TokenStream {
    controller::attribute(args.into(), item.into()).into()
}
