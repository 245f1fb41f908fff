//! What is known of who the peer is.

use std::{
    hash::{BuildHasher, Hash, RandomState},
    sync::{
        OnceLock,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
};

use super::Connection;
use crate::{handshake::PublicKey, permission::Permission};

/// Read by every call of a handler that asks for a permission, so not behind a lock.
#[derive(Debug, Default)]
pub(super) struct Standing {
    permission: AtomicU8,
    /// 0 where nothing is known.
    identity: AtomicU64,
}

impl Standing {
    pub(super) fn new(key: Option<&PublicKey>) -> Self {
        let standing = Self::default();
        if let Some(key) = key {
            standing.set_identity(&("key", key.as_bytes()));
        }
        standing
    }

    fn set_identity(&self, identity: &impl Hash) {
        // Of a keyed hash, so that no client can choose its name to be somebody else's. None becomes 0 in earnest.
        static HASHER: OnceLock<RandomState> = OnceLock::new();
        let number = HASHER.get_or_init(RandomState::new).hash_one(identity).max(1);
        self.identity.store(number, Ordering::Release);
    }
}

impl Connection {
    /// What the peer may do; [`Permission::NONE`] until somebody has said otherwise.
    #[inline]
    pub fn permission(&self) -> Permission {
        Permission::new(self.shared.standing.permission.load(Ordering::Acquire))
    }

    /// Says what the peer may do, from the next call that starts: handlers marked `permission` compare it with theirs when
    /// their turn comes. So a packet that follows a login on the same connection finds what the login's handler has set,
    /// unless one of them is `concurrent` or in another lane.
    ///
    /// It belongs to this connection. One that resumes a session starts with none again; what the session keeps
    /// ([`Connection::resumption`]) can say who its client is.
    pub fn set_permission(&self, permission: Permission) {
        self.shared.standing.permission.store(permission.get(), Ordering::Release);
    }

    /// Says who the peer is, for rates with `key = identity`: all connections with an equal identity have one bucket. Give
    /// what names the user, such as the number of an account. Without it, that is the key that the peer has proven to have,
    /// or its address.
    pub fn set_identity(&self, identity: impl Hash) {
        self.shared.standing.set_identity(&("said", identity));
    }

    /// The hash of who the peer is, if that is known.
    pub(crate) fn identity(&self) -> Option<u64> {
        match self.shared.standing.identity.load(Ordering::Acquire) {
            0 => None,
            known => Some(known),
        }
    }

    /// What kind of link carries it.
    pub fn transport(&self) -> crate::link::Transport {
        self.shared.setup.transport
    }
}
