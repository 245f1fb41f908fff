//! What is known of who the peer is.

use std::{
    hash::{BuildHasher, Hash, RandomState},
    sync::{
        OnceLock,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
};

use super::{Connection, Resumption};
use crate::{handshake::PublicKey, permission::Permission};

/// Read by every call of a handler that asks for a permission, so not behind a lock.
#[derive(Debug, Default)]
pub(super) struct Standing {
    permission: AtomicU8,
    /// 0 where nothing is known.
    identity: AtomicU64,
}

impl Standing {
    /// Of a peer with this key, whose session remembers what it may do if it was resumed.
    pub(super) fn new(key: Option<&PublicKey>, session: Option<&Resumption>) -> Self {
        let standing = Self::default();
        if let Some(permission) =
            session.filter(|session| session.is_resumed()).and_then(Resumption::permission)
        {
            standing.permission.store(permission, Ordering::Release);
        }
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
    /// It is kept with a session that can be resumed ([`Connection::resumption`]), and is there again when it is, also on another
    /// server that shares the store. Whoever may do less from now on must be told so on each of its connections, or have its
    /// session revoked. Without such a session it belongs to this connection.
    pub fn set_permission(&self, permission: Permission) {
        self.shared.standing.permission.store(permission.get(), Ordering::Release);
        if let Some(session) = self.resumption() {
            session.keep_permission(permission.get());
        }
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
