//! Every lint that a careful user may deny, on public items.

#![forbid(unsafe_code)]
#![deny(warnings, missing_docs, missing_debug_implementations, unused, unreachable_pub, rust_2018_idioms)]
#![deny(
    elided_lifetimes_in_paths,
    unused_lifetimes,
    unused_qualifications,
    unused_results,
    let_underscore_drop
)]
#![deny(clippy::all, clippy::pedantic, clippy::nursery, clippy::cargo)]
#![deny(
    clippy::absolute_paths,
    clippy::std_instead_of_core,
    clippy::exhaustive_structs,
    clippy::exhaustive_enums
)]
#![deny(clippy::shadow_reuse, clippy::shadow_same, clippy::shadow_unrelated, clippy::arithmetic_side_effects)]
#![deny(clippy::missing_inline_in_public_items, clippy::pattern_type_mismatch, clippy::question_mark_used)]
#![deny(
    clippy::implicit_return,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used
)]
#![deny(clippy::min_ident_chars, clippy::single_char_lifetime_names, clippy::impl_trait_in_params)]
#![deny(
    clippy::let_underscore_untyped,
    clippy::let_underscore_must_use,
    clippy::ref_patterns,
    clippy::print_stdout
)]
#![allow(clippy::cargo_common_metadata, clippy::multiple_crate_versions)] // not about code
#![allow(clippy::missing_inline_in_public_items, clippy::implicit_return)] // about the code below, not the macros'

use core::{
    future::ready,
    sync::atomic::{AtomicU64, Ordering},
};

use nalix_core::{CloseReason, Context, Failure, State, Status, Wire, packet, packet_controller};

/// A request.
#[packet(opcode = OPCODE, reply = Pong, error = Refused)]
#[derive(Debug)]
#[non_exhaustive]
pub struct Ping<'input> {
    /// Text.
    #[wire(max_len = 16)]
    pub text: &'input str,
    /// A number.
    #[wire(varint)]
    pub number: u32,
    /// Later.
    #[wire(since = 2, default = seven)]
    pub later: u8,
}

const OPCODE: u16 = 0x1001;

const fn seven() -> u8 {
    7
}

/// A reply.
#[derive(Debug, Clone, PartialEq, Wire)]
#[wire(extensible, max_depth = 3)]
#[non_exhaustive]
pub struct Pong<Payload = u8> {
    /// Payload.
    pub payload: Payload,
    /// Not sent.
    #[wire(skip)]
    pub cache: Option<u8>,
}

/// An error.
#[derive(Debug, Clone, PartialEq, Eq, Wire)]
#[non_exhaustive]
pub enum Refused {
    /// No text.
    Empty,
    /// Too long.
    Long {
        /// The limit.
        limit: u32,
    },
}

/// One-way.
#[packet(opcode = 0x1002, exact)]
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Moved(pub f32, pub f32);

/// Deprecated.
#[deprecated = "use Moved"]
#[packet(opcode = 0x1003)]
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Walked;

/// A controller.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Game {
    /// How often something happened.
    pub count: AtomicU64,
}

#[packet_controller]
impl Game {
    /// Answers.
    ///
    /// # Errors
    /// If there is no text.
    #[packet(concurrent)]
    pub async fn ping(&self, _: State<u8>, ping: Ping<'_>) -> Result<Pong, Failure<Refused>> {
        ready(()).await;
        if ping.text.is_empty() {
            return Err(Refused::Empty.into());
        }
        if ping.number > 3 {
            return Err(Status::not_found("number").into());
        }
        Ok(Pong { payload: ping.later, cache: None })
    }

    /// Moves.
    #[packet(lane = "moves")]
    #[allow(clippy::needless_pass_by_value)] // extractors are passed by value
    pub fn moved(&self, _: &Context, _: State<u16>, _: Moved) {
        let _: u64 = self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Walks.
    #[packet]
    #[allow(deprecated)]
    pub fn walked(&self, _: Walked) {
        let _: u64 = self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Begins.
    #[connected]
    pub async fn hello(&self, _: &Context) {
        ready(()).await;
    }

    /// Ends.
    #[disconnected]
    pub fn bye(&self, _: &Context, _: &CloseReason) {
        let _: u64 = self.count.fetch_add(1, Ordering::Relaxed);
    }
}
