//! Who is in a group.

use std::{any::Any, fmt, ops::Deref, slice, sync::Arc};

use nalix_core::{Connection, ConnectionId};

/// A connection in a group, and what the group knows of it. Cheap to clone.
#[derive(Clone)]
pub struct Member {
    connection: Connection,
    metadata: Option<Arc<dyn Any + Send + Sync>>,
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member").field("connection", &self.connection).finish_non_exhaustive()
    }
}

impl Member {
    pub(super) fn new(connection: Connection, metadata: Option<Arc<dyn Any + Send + Sync>>) -> Self {
        Self { connection, metadata }
    }

    /// Its connection.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Its connection's id.
    pub fn id(&self) -> ConnectionId {
        self.connection.id()
    }

    /// What it was given when it joined, or later, if that is a `T`.
    pub fn metadata<T: 'static>(&self) -> Option<&T> {
        self.metadata.as_deref()?.downcast_ref()
    }

    /// Replaces what it was given, and returns that.
    pub(super) fn replace(
        &mut self,
        metadata: Arc<dyn Any + Send + Sync>,
    ) -> Option<Arc<dyn Any + Send + Sync>> {
        self.metadata.replace(metadata)
    }
}

/// The members of a group at one moment, in no order. It does not change when they do.
#[derive(Debug, Clone)]
pub struct Members(pub(super) Arc<Vec<Member>>);

impl Deref for Members {
    type Target = [Member];

    fn deref(&self) -> &[Member] {
        &self.0
    }
}

impl<'a> IntoIterator for &'a Members {
    type Item = &'a Member;
    type IntoIter = slice::Iter<'a, Member>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}
