//! The table that controllers put their handlers into.

use std::sync::Arc;

use thiserror::Error;

use super::{Call, Controller, Extract, Outcome, Policy, Require, guard::Guard};
use crate::{
    Opcode,
    error::DuplicateError,
    packet::{Packet, Priority},
    registry::Location,
};

/// In what order a handler runs in relation to others of the same connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Order {
    /// After all earlier packets of the connection that are in order too. The default.
    #[default]
    Connection,
    /// After the earlier packets of this lane.
    Lane(&'static str),
    /// At once, whatever else runs.
    Concurrent,
}

/// Where a handler runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Run {
    /// On the connection's own task. The default, and the fastest for handlers that do little.
    #[default]
    Inline,
    /// On a task of its own, for handlers that compute for long between awaits.
    Spawn,
    /// On the runtime's threads for blocking work; only for handlers that are not async.
    Blocking,
}

/// What the table knows of a handler.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HandlerSpec {
    /// The opcode it serves.
    pub opcode: Opcode,
    /// The name of its packet.
    pub packet: &'static str,
    /// Its full name, as `Controller::method`.
    pub name: &'static str,
    /// Where it is defined.
    pub location: Location,
    /// In what order it runs.
    pub order: Order,
    /// Where it runs.
    pub run: Run,
    /// Whether it takes its packet from sealed records only: because the packet is marked, or the handler itself.
    pub encrypt: bool,
    /// Whether its packet is answered with a stream.
    pub streams: bool,
    /// Whether an upload follows its packet.
    pub uploads: bool,
    /// How urgent its answers are: as its packet says.
    pub priority: Option<Priority>,
    /// From how many bytes on its answer is compressed: as its packet says.
    pub compress: Option<usize>,
    /// What its calls must meet.
    pub policy: Policy,
    pub(crate) required: Require,
}

impl HandlerSpec {
    /// A handler of `P` with the defaults.
    pub fn new<P: Packet>(name: &'static str, location: Location) -> Self {
        Self {
            opcode: P::OPCODE,
            packet: P::NAME,
            name,
            location,
            order: Order::default(),
            run: Run::default(),
            encrypt: P::ENCRYPT,
            streams: P::STREAMS,
            uploads: P::UPLOADS,
            priority: P::PRIORITY,
            compress: P::COMPRESS,
            policy: Policy { permission: P::PERMISSION, max_size: P::MAX_SIZE, ..Policy::default() },
            required: Require::default(),
        }
    }

    /// Sets its order.
    #[must_use]
    pub fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// Sets where it runs.
    #[must_use]
    pub fn run(mut self, run: Run) -> Self {
        self.run = run;
        self
    }

    /// Lets it take its packet from sealed records only, whatever the packet says.
    #[must_use]
    pub fn encrypt(mut self) -> Self {
        self.encrypt = true;
        self
    }

    /// Adds to what its calls must meet.
    #[must_use]
    pub fn policy(mut self, add: impl FnOnce(Policy) -> Policy) -> Self {
        self.policy = add(self.policy);
        self
    }

    /// Notes what an argument of type `T` needs.
    #[must_use]
    pub fn require<T: Extract>(mut self) -> Self {
        T::require(&mut self.required);
        self
    }
}

/// A handler without its types.
pub(crate) trait Handler: Send + Sync {
    fn call(&self, call: Call) -> Outcome;
}

/// A handler with what is known of it, and what stands before it.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(super) spec: HandlerSpec,
    /// Where it has a policy. Tables that are made of this one share it.
    pub(super) guard: Option<Arc<Guard>>,
    pub(super) handler: Arc<dyn Handler>,
}

struct Typed<C, F> {
    controller: Arc<C>,
    f: F,
}

impl<C: Send + Sync, F: Fn(&Arc<C>, Call) -> Outcome + Send + Sync> Handler for Typed<C, F> {
    #[inline]
    fn call(&self, call: Call) -> Outcome {
        (self.f)(&self.controller, call)
    }
}

/// Collects the handlers of controllers.
#[derive(Default)]
pub struct Handlers {
    pub(crate) list: Vec<Entry>,
}

impl std::fmt::Debug for Handlers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.list.iter().map(|entry| &entry.spec)).finish()
    }
}

impl Handlers {
    /// Adds a handler: `f` is given the controller and the call, and decodes, runs and encodes.
    ///
    /// This is the one place where the types of controllers and packets are erased.
    pub fn add<C: Controller>(
        &mut self,
        controller: &Arc<C>,
        spec: HandlerSpec,
        f: impl Fn(&Arc<C>, Call) -> Outcome + Send + Sync + 'static,
    ) {
        let guard = Guard::of(&spec);
        self.list.push(Entry {
            spec,
            guard,
            handler: Arc::new(Typed { controller: Arc::clone(controller), f }),
        });
    }
}

/// Why a table of handlers cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RouterError {
    /// Two handlers serve one opcode.
    #[error(transparent)]
    Duplicate(#[from] DuplicateError),
    /// There is no handler at all.
    #[error(
        "no handlers: give the builder a controller, or call `discover()` and link the crates that hold them"
    )]
    Empty,
    /// A handler takes `State<T>` and no such state was given.
    #[error("handler `{handler}` needs state of type `{state}`: give it to the builder with `.state(value)`")]
    MissingState {
        /// The handler.
        handler: &'static str,
        /// The type of the state.
        state: &'static str,
    },
    /// State of one type was given twice.
    #[error("state of type `{state}` was given twice")]
    DuplicateState {
        /// The type of the state.
        state: &'static str,
    },
}
