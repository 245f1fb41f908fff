//! Where sessions are kept that clients may resume.
//!
//! [`MemoryStore`] keeps them in the server's own memory. Servers that are to share them, or to restart
//! without losing them, keep them in Redis (`RedisStore`, with the feature `redis`) or bring a [`SessionStore`] of their own.

mod hash;
mod memory;
mod moment;
#[cfg(feature = "redis")]
mod redis;
mod revoked;
mod slab;
mod table;

pub use nalix_core::{
    handshake::{
        SessionData, SessionId, SessionRecord, SessionStore, StoreError, StoreFuture, Taken, TicketId,
    },
    record::Key,
};

pub use self::memory::MemoryStore;
#[cfg(feature = "redis")]
pub use self::redis::RedisStore;
