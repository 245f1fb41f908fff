//! What a handler can know and do besides its packet.

use std::{ops::Deref, sync::Arc, time::Instant};

use super::StateMap;
use crate::{Connection, Opcode, frame::Entries, wire::Limits};

/// The connection a call came from, and what belongs to the call. Cheap to clone.
///
/// It derefs to its [`Connection`], so a handler can `ctx.request(...)`, `ctx.send(...)` and so on.
#[derive(Debug, Clone)]
pub struct Context {
    scope: Arc<Scope>,
    opcode: Opcode,
    deadline: Option<Instant>,
    entries: Option<Entries>,
}

/// What all calls of a connection have in common.
#[derive(Debug)]
struct Scope {
    connection: Connection,
    states: Arc<StateMap>,
    limits: Limits,
}

impl Context {
    /// A context that belongs to no call, for hooks; [`Context::for_call`] makes those for calls.
    pub fn new(connection: Connection, states: Arc<StateMap>, limits: Limits) -> Self {
        let scope = Arc::new(Scope { connection, states, limits });
        Self { scope, opcode: Opcode::new(0), deadline: None, entries: None }
    }

    /// The context of a call on the same connection.
    #[must_use]
    pub fn for_call(&self, opcode: Opcode, deadline: Option<Instant>) -> Self {
        Self { scope: Arc::clone(&self.scope), opcode, deadline, entries: None }
    }

    /// With the metadata that has come with the call.
    #[must_use]
    pub fn with_entries(mut self, entries: Option<Entries>) -> Self {
        self.entries = entries;
        self
    }

    pub(super) fn set_deadline(&mut self, deadline: Instant) {
        self.deadline = Some(deadline);
    }

    /// The connection.
    pub fn connection(&self) -> &Connection {
        &self.scope.connection
    }

    /// The opcode of the call; 0 in hooks.
    pub fn opcode(&self) -> Opcode {
        self.opcode
    }

    /// When the caller stops waiting, or the handler's `timeout` is over, if ever. The handler is dropped then.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// What the caller has sent with the packet under this key, by
    /// [`RequestBuilder::metadata`](crate::RequestBuilder::metadata); the first, if it has sent several. Nobody has
    /// checked it, and it is not part of the packet's contract.
    ///
    /// ```
    /// # use nalix_core::{Context, packet, packet_controller};
    /// # #[packet(opcode = 0x1f03, reply = bool)]
    /// # struct Allowed;
    /// # struct Gate;
    /// # #[packet_controller]
    /// # impl Gate {
    /// #[packet]
    /// fn allowed(&self, ctx: &Context, _: Allowed) -> bool {
    ///     ctx.metadata("tenant") == Some(&b"blue"[..])
    /// }
    /// # }
    /// ```
    pub fn metadata(&self, key: &str) -> Option<&[u8]> {
        self.entries.as_ref()?.get(key)
    }

    /// All keys and values that the caller has sent with the packet, in its order.
    pub fn all_metadata(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.entries.iter().flat_map(Entries::iter)
    }

    /// The bounds that decoding obeys.
    pub fn limits(&self) -> &Limits {
        &self.scope.limits
    }

    /// The shared state given to the builder.
    pub fn states(&self) -> &StateMap {
        &self.scope.states
    }
}

impl Deref for Context {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.scope.connection
    }
}
