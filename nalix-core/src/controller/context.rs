//! What a handler can know and do besides its packet.

use std::{ops::Deref, sync::Arc, time::Instant};

use super::StateMap;
use crate::{Connection, Opcode, wire::Limits};

/// The connection a call came from, and what belongs to the call. Cheap to clone.
///
/// It derefs to its [`Connection`], so a handler can `ctx.request(...)`, `ctx.send(...)` and so on.
#[derive(Debug, Clone)]
pub struct Context {
    scope: Arc<Scope>,
    opcode: Opcode,
    deadline: Option<Instant>,
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
        Self { scope, opcode: Opcode::new(0), deadline: None }
    }

    /// The context of a call on the same connection.
    #[must_use]
    pub fn for_call(&self, opcode: Opcode, deadline: Option<Instant>) -> Self {
        Self { scope: Arc::clone(&self.scope), opcode, deadline }
    }

    /// The connection.
    pub fn connection(&self) -> &Connection {
        &self.scope.connection
    }

    /// The opcode of the call; 0 in hooks.
    pub fn opcode(&self) -> Opcode {
        self.opcode
    }

    /// When the caller stops waiting, if it ever does. The handler is dropped then.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
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
