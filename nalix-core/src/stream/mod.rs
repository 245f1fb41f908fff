//! Ways to make a stream: for handlers of packets with a `stream`, and for uploads.
//!
//! | what there is | function |
//! |---|---|
//! | the items, or an iterator | [`iter`] |
//! | async code that makes one item after the other | [`generate`], [`try_generate`] |
//! | a state, and an async function from one to the next | [`unfold`], [`try_unfold`] |
//! | other tasks or threads that have items | [`channel`] |
//! | something to poll | [`poll_fn`] |
//!
//! What is made here is a [`Stream`] like any other, and every other will do as well: those of the crates `futures`,
//! `tokio-stream` and `async-stream` for instance. All of these ask for an item when there is room for it at the reader, so
//! that a slow reader slows its producer down.
//!
//! ```
//! use nalix_core::{Status, Stream, packet, packet_controller, stream};
//!
//! #[packet(opcode = 0x4f10, stream = u64)]
//! struct Count {
//!     to: u64,
//! }
//!
//! #[packet(opcode = 0x4f11, stream = String)]
//! struct Lines {
//!     path: String,
//! }
//!
//! struct Library;
//!
//! #[packet_controller]
//! impl Library {
//!     #[packet]
//!     fn count(&self, count: Count) -> impl Stream<Item = u64> {
//!         stream::iter(1..=count.to)
//!     }
//!
//!     #[packet]
//!     fn lines(&self, lines: Lines) -> impl Stream<Item = Result<String, Status>> {
//!         stream::try_generate(async move |mut items| {
//!             let text = read(&lines.path).await?;
//!             for line in text.lines() {
//!                 items.send(line.to_owned()).await;
//!             }
//!             Ok(())
//!         })
//!     }
//! }
//! # async fn read(_: &str) -> Result<String, Status> { Ok("a\nb".into()) }
//! ```

mod channel;
mod error;
mod generate;
mod iter;
mod slot;
mod unfold;

pub use futures_core::Stream;

pub use self::{
    channel::{Receiver, Sender, channel},
    error::{Closed, TrySendError},
    generate::{Generate, TryGenerate, generate, try_generate},
    iter::{Iter, PollFn, iter, poll_fn},
    slot::{Put, Yielder},
    unfold::{TryUnfold, Unfold, try_unfold, unfold},
};
