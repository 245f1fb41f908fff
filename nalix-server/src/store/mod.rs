//! Where sessions are kept that clients may resume.

pub use nalix_core::handshake::{
    SessionData, SessionRecord, SessionStore, StoreError, StoreFuture, TicketId,
};
