//! The table of handlers, and calling through it.

use std::{
    convert::Infallible,
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context as TaskContext, Poll},
};

use super::{
    Call, Context, Controller, HandlerSpec, Handlers, HookFuture, Order, Outcome, Reply, ReplyFuture,
    RouterError, Run, StateMap, caught, discovered,
    guard::{Guard, Way},
    handlers::{Entry, Handler},
};
use crate::{Opcode, error::DuplicateError, packet::Priority, status::CloseReason, wire::Limits};

/// Where a packet goes: its handler, the lane it waits in, whether it must have come sealed, how urgent its answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    handler: u16,
    /// `u16::MAX` where there is none.
    lane: u16,
    /// Of the bits below. Routes are small, since a call has one and is moved around.
    traits: u8,
    priority: Option<Priority>,
}

const SEALED: u8 = 1;
const STREAMS: u8 = 2;
const UPLOADS: u8 = 4;
const COMPRESSED: u8 = 8;
const GUARDED: u8 = 16;

impl Route {
    /// The lane whose packets run one after the other, if it has one. Lanes are numbered from 0.
    pub fn lane(self) -> Option<usize> {
        (self.lane != NONE).then_some(usize::from(self.lane))
    }

    /// Whether its packet is answered with a stream.
    #[inline]
    pub(crate) fn streams(self) -> bool {
        self.traits & STREAMS != 0
    }

    /// Whether there is any stream.
    #[inline]
    pub(crate) fn is_streaming(self) -> bool {
        self.traits & (STREAMS | UPLOADS) != 0
    }

    /// Whether an upload follows its packet.
    #[inline]
    pub(crate) fn uploads(self) -> bool {
        self.traits & UPLOADS != 0
    }

    /// Whether its packet is taken from sealed records only; see [`HandlerSpec::encrypt`]. Whoever receives the packet
    /// checks it, before a [`Call`] is made: [`Router::dispatch`] does not.
    #[inline]
    pub fn needs_sealing(self) -> bool {
        self.traits & SEALED != 0
    }

    /// Whether its handler has a [`Policy`](super::Policy).
    #[inline]
    pub fn is_guarded(self) -> bool {
        self.traits & GUARDED != 0
    }

    /// How urgent the packet's answer is; see [`Packet::PRIORITY`](crate::Packet::PRIORITY).
    #[inline]
    pub fn priority(self) -> Option<Priority> {
        self.priority
    }

    /// Whether the packet's answer is compressed, from some length on; see [`Router::compress`].
    #[inline]
    pub fn is_compressed(self) -> bool {
        self.traits & COMPRESSED != 0
    }
}

const NONE: u16 = u16::MAX;
const NOWHERE: Route = Route { handler: NONE, lane: NONE, traits: 0, priority: None };

/// Every handler of a server or client, found by opcode. Cheap to clone.
#[derive(Clone)]
pub struct Router {
    table: Arc<Table>,
}

struct Table {
    /// By opcode, up to the highest that is served.
    routes: Box<[Route]>,
    handlers: Vec<Entry>,
    /// The number of each handler's bucket among those of a connection.
    buckets: Box<[u16]>,
    hooks: Vec<Arc<dyn Hooks>>,
    lanes: usize,
    states: Arc<StateMap>,
    limits: Limits,
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.handlers()).finish()
    }
}

impl Router {
    /// A router without handlers: every packet is answered with `Unimplemented`.
    pub fn empty() -> Self {
        Self::assemble(Vec::new(), Vec::new(), Arc::default(), Limits::DEFAULT)
            .unwrap_or_else(|_| unreachable!("nothing to clash"))
    }

    /// Starts a table.
    pub fn builder() -> RouterBuilder {
        RouterBuilder::default()
    }

    /// Where packets with this opcode go.
    #[inline]
    pub fn route(&self, opcode: Opcode) -> Option<Route> {
        let route = *self.table.routes.get(usize::from(opcode.get()))?;
        (route.handler != NONE).then_some(route)
    }

    /// From how many bytes on the answer to a packet is compressed that goes this way; see
    /// [`Packet::COMPRESS`](crate::Packet::COMPRESS).
    pub fn compress(&self, route: Route) -> Option<usize> {
        self.table.handlers.get(usize::from(route.handler))?.spec.compress
    }

    /// What stands before a handler with a policy, and the number of its bucket among those of a connection.
    #[inline]
    pub(crate) fn guard(&self, route: Route) -> Option<(&Guard, usize)> {
        let at = usize::from(route.handler);
        let guard = self.table.handlers.get(at)?.guard.as_deref()?;
        Some((guard, usize::from(self.table.buckets[at])))
    }

    /// Runs the handler of a call. A handler that is not async has finished when this returns.
    ///
    /// Of its policy, this obeys what is due at the call's turn: permission, check, concurrency and breaker. Whoever receives
    /// the packet sees to the others.
    ///
    /// # Panics
    /// If the call's route is not of this router, and if the handler panics.
    #[inline]
    pub fn dispatch(&self, call: Call) -> Outcome {
        let entry = &self.table.handlers[usize::from(call.route().handler)];
        if let Some(guard) = &entry.guard {
            return pass(guard, entry, call);
        }
        run(entry.spec.run, &entry.handler, call)
    }

    /// How many lanes the handlers declare; [`Route::lane`] is below.
    pub fn lanes(&self) -> usize {
        self.table.lanes
    }

    /// All handlers, in the order in which they were added.
    pub fn handlers(&self) -> impl ExactSizeIterator<Item = &HandlerSpec> {
        self.table.handlers.iter().map(|entry| &entry.spec)
    }

    /// The shared state that handlers extract.
    pub fn states(&self) -> &Arc<StateMap> {
        &self.table.states
    }

    /// What the packets of its handlers are decoded within.
    pub fn limits(&self) -> &Limits {
        &self.table.limits
    }

    /// The hooks that run when a connection is ready, in the order in which their controllers were added, without
    /// those of the first `from` controllers.
    pub fn connected_from(&self, from: usize, ctx: &Context) -> Vec<HookFuture> {
        self.table.hooks.iter().skip(from).filter_map(|hooks| hooks.connected(ctx)).collect()
    }

    /// How many controllers there are.
    pub fn hook_count(&self) -> usize {
        self.table.hooks.len()
    }

    /// The hooks of all controllers that run when a session has lost its link, last added first.
    pub fn detached(&self, ctx: &Context, why: &CloseReason) -> Vec<HookFuture> {
        self.table.hooks.iter().rev().filter_map(|hooks| hooks.detached(ctx, why)).collect()
    }

    /// The hooks of all controllers that run when a session goes on over another link, in the order in which they were added.
    pub fn resumed(&self, ctx: &Context) -> Vec<HookFuture> {
        self.table.hooks.iter().filter_map(|hooks| hooks.resumed(ctx)).collect()
    }

    /// The hooks of all controllers that run when a connection has ended, last added first.
    pub fn disconnected(&self, ctx: &Context, why: &CloseReason) -> Vec<HookFuture> {
        self.table.hooks.iter().rev().filter_map(|hooks| hooks.disconnected(ctx, why)).collect()
    }

    /// This router with one more controller.
    ///
    /// # Errors
    /// [`RouterError`] if it serves an opcode that is served already, or needs a state that is not there.
    pub fn with<C: Controller>(&self, controller: C) -> Result<Router, RouterError> {
        let mut builder = RouterBuilder::default();
        builder.add(controller);
        let mut handlers: Vec<_> =
            Vec::with_capacity(self.table.handlers.len() + builder.handlers.list.len());
        handlers.extend(self.table.handlers.iter().cloned());
        handlers.append(&mut builder.handlers.list);
        let mut hooks = self.table.hooks.clone();
        hooks.append(&mut builder.hooks);
        Self::assemble(handlers, hooks, Arc::clone(&self.table.states), self.table.limits.clone())
    }

    fn assemble(
        handlers: Vec<Entry>,
        hooks: Vec<Arc<dyn Hooks>>,
        states: Arc<StateMap>,
        limits: Limits,
    ) -> Result<Self, RouterError> {
        let len = handlers.iter().map(|entry| usize::from(entry.spec.opcode.get()) + 1).max().unwrap_or(0);
        let mut routes = vec![NOWHERE; len].into_boxed_slice();
        let mut lanes: Vec<Order> = Vec::new();
        let mut buckets = Vec::with_capacity(handlers.len());
        let mut rated = 0u16;
        for (i, Entry { spec, guard, .. }) in handlers.iter().enumerate() {
            buckets.push(rated);
            rated += u16::from(guard.as_ref().is_some_and(|guard| guard.is_rated()));
            let slot = &mut routes[usize::from(spec.opcode.get())];
            if slot.handler != NONE {
                return Err(duplicate(&handlers[usize::from(slot.handler)].spec, spec).into());
            }
            if let Some(state) = spec.required.missing(&states) {
                return Err(RouterError::MissingState { handler: spec.name, state });
            }
            let lane = match spec.order {
                Order::Concurrent => NONE,
                order => {
                    let at = lanes.iter().position(|&lane| lane == order).unwrap_or_else(|| {
                        lanes.push(order);
                        lanes.len() - 1
                    });
                    u16::try_from(at).unwrap_or(NONE)
                }
            };
            let handler = u16::try_from(i).unwrap_or(NONE);
            *slot = Route { handler, lane, traits: traits_of(spec), priority: spec.priority };
        }
        let (buckets, lanes) = (buckets.into(), lanes.len());
        Ok(Router { table: Arc::new(Table { routes, handlers, buckets, hooks, lanes, states, limits }) })
    }
}

#[inline]
fn run(run: Run, handler: &Arc<dyn Handler>, call: Call) -> Outcome {
    match run {
        Run::Inline => handler.call(call),
        Run::Spawn | Run::Blocking => super::offload::offload(run, Arc::clone(handler), call),
    }
}

/// Runs the handler of a call if its policy lets it.
#[inline(never)]
fn pass(guard: &Arc<Guard>, entry: &Entry, mut call: Call) -> Outcome {
    if let Err(status) = guard.permit(call.context()) {
        return call.refuse(status).into();
    }
    match guard.enter() {
        Way::Free(held) => {
            if let Some(held) = held {
                call.hold(held);
            }
            run(entry.spec.run, &entry.handler, call)
        }
        Way::Refused(status) => call.refuse(status).into(),
        Way::Taken => {
            let (guard, how, handler) = (Arc::clone(guard), entry.spec.run, Arc::clone(&entry.handler));
            Outcome::Pending(Box::pin(async move {
                match guard.wait().await {
                    Ok(Some(held)) => call.hold(held),
                    Ok(None) => {}
                    Err(status) => return call.refuse(status),
                }
                run(how, &handler, call).settle().await
            }))
        }
    }
}

/// Both handlers, ordered by name so that the message does not depend on the order of registration.
fn duplicate(a: &HandlerSpec, b: &HandlerSpec) -> DuplicateError {
    let (first, second) = if (a.name, a.location) <= (b.name, b.location) { (a, b) } else { (b, a) };
    DuplicateError {
        what: format!("opcode {}", a.opcode).into(),
        opcode: Some(a.opcode),
        first: first.name.into(),
        first_at: first.location.to_string().into(),
        second: second.name.into(),
        second_at: second.location.to_string().into(),
    }
}

impl tower_service::Service<Call> for Router {
    type Response = Reply;
    type Error = Infallible;
    type Future = RouterFuture;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: Call) -> RouterFuture {
        // A layer may call from a task that serves everybody, as that of tower's `Buffer`, which must outlive a panic.
        match caught(|| self.dispatch(call)) {
            Ok(Outcome::Ready(reply)) => RouterFuture { ready: Some(reply), pending: None },
            Ok(Outcome::Pending(future)) => RouterFuture { ready: None, pending: Some(future) },
            Err(panicked) => RouterFuture { ready: Some(panicked.reply()), pending: None },
        }
    }
}

/// The future of [`Router`] as a tower service.
pub struct RouterFuture {
    ready: Option<Reply>,
    pending: Option<ReplyFuture>,
}

impl fmt::Debug for RouterFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RouterFuture").field("ready", &self.ready).finish_non_exhaustive()
    }
}

impl Future for RouterFuture {
    type Output = Result<Reply, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        if let Some(reply) = self.ready.take() {
            return Poll::Ready(Ok(reply));
        }
        match &mut self.pending {
            Some(future) => future.as_mut().poll(cx).map(Ok),
            None => Poll::Pending,
        }
    }
}

fn traits_of(spec: &HandlerSpec) -> u8 {
    let bit = |set: bool, bit: u8| if set { bit } else { 0 };
    bit(spec.encrypt, SEALED)
        | bit(spec.streams, STREAMS)
        | bit(spec.uploads, UPLOADS)
        | bit(spec.compress.is_some(), COMPRESSED)
        | bit(!spec.policy.is_empty(), GUARDED)
}

trait Hooks: Send + Sync {
    fn connected(&self, ctx: &Context) -> Option<HookFuture>;
    fn detached(&self, ctx: &Context, why: &CloseReason) -> Option<HookFuture>;
    fn resumed(&self, ctx: &Context) -> Option<HookFuture>;
    fn disconnected(&self, ctx: &Context, why: &CloseReason) -> Option<HookFuture>;
}

struct HooksOf<C>(Arc<C>);

impl<C: Controller> Hooks for HooksOf<C> {
    fn connected(&self, ctx: &Context) -> Option<HookFuture> {
        self.0.connected(ctx)
    }

    fn detached(&self, ctx: &Context, why: &CloseReason) -> Option<HookFuture> {
        self.0.detached(ctx, why)
    }

    fn resumed(&self, ctx: &Context) -> Option<HookFuture> {
        self.0.resumed(ctx)
    }

    fn disconnected(&self, ctx: &Context, why: &CloseReason) -> Option<HookFuture> {
        self.0.disconnected(ctx, why)
    }
}

/// Puts a [`Router`] together.
#[derive(Default)]
pub struct RouterBuilder {
    handlers: Handlers,
    hooks: Vec<Arc<dyn Hooks>>,
    states: StateMap,
    limits: Limits,
    twice: Option<&'static str>,
}

impl fmt::Debug for RouterBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RouterBuilder").field("handlers", &self.handlers).finish_non_exhaustive()
    }
}

impl RouterBuilder {
    /// Adds a controller.
    pub fn add<C: Controller>(&mut self, controller: C) {
        let controller = Arc::new(controller);
        controller.register(&mut self.handlers);
        self.hooks.push(Arc::new(HooksOf(controller)));
    }

    /// Adds every controller linked into the program whose type has a `Default`.
    pub fn discover(&mut self) {
        for info in discovered() {
            info.add_to(self);
        }
    }

    /// Adds shared state.
    pub fn state<T: Send + Sync + 'static>(&mut self, value: T) {
        if !self.states.insert(value) {
            self.twice = Some(std::any::type_name::<T>());
        }
    }

    /// Sets what the packets of the handlers are decoded within. Default [`Limits::DEFAULT`].
    pub fn limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Checks everything and builds the table.
    ///
    /// # Errors
    /// [`RouterError`] if two handlers serve one opcode, there is no handler, or a state is missing or given twice.
    pub fn build(self) -> Result<Router, RouterError> {
        if let Some(state) = self.twice {
            return Err(RouterError::DuplicateState { state });
        }
        if self.handlers.list.is_empty() {
            return Err(RouterError::Empty);
        }
        Router::assemble(self.handlers.list, self.hooks, Arc::new(self.states), self.limits)
    }
}
