//! Handler arguments other than the packet.

use std::{
    any::{Any, TypeId, type_name},
    collections::HashMap,
    ops::Deref,
    sync::Arc,
};

use super::Context;
use crate::{Connection, status::Status};

/// An argument that a handler can take before its packet.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a handler argument",
    label = "not an extractor",
    note = "a handler takes `&self`, then extractors (`&Context`, `&Connection`, `State<T>`, ...), then its packet"
)]
pub trait Extract: Sized {
    /// Takes the argument from the call. An error is what the caller is answered; the handler does not run then.
    ///
    /// # Errors
    /// The [`Status`] that the caller gets.
    fn extract(ctx: &Context) -> Result<Self, Status>;

    /// Says what must be there when the server is built.
    fn require(_required: &mut Require) {}
}

/// An argument that a handler can take by reference.
#[diagnostic::on_unimplemented(
    message = "`&{Self}` cannot be a handler argument",
    label = "not an extractor that can be borrowed",
    note = "only `&Context` and `&Connection` are lent to handlers; take other extractors by value, and the packet as the last argument"
)]
pub trait ExtractRef {
    /// Borrows the argument from the call.
    fn extract_ref(ctx: &Context) -> &Self;
}

impl ExtractRef for Context {
    fn extract_ref(ctx: &Context) -> &Self {
        ctx
    }
}

impl ExtractRef for Connection {
    fn extract_ref(ctx: &Context) -> &Self {
        ctx.connection()
    }
}

impl Extract for Connection {
    fn extract(ctx: &Context) -> Result<Self, Status> {
        Ok(ctx.connection().clone())
    }
}

/// What may be missing: the handler runs either way. What the inner extractor requires when the server is built is
/// not required.
impl<T: Extract> Extract for Option<T> {
    fn extract(ctx: &Context) -> Result<Self, Status> {
        Ok(T::extract(ctx).ok())
    }
}

/// What may be missing, with the reason.
impl<T: Extract> Extract for Result<T, Status> {
    fn extract(ctx: &Context) -> Result<Self, Status> {
        Ok(T::extract(ctx))
    }
}

impl Extract for Context {
    fn extract(ctx: &Context) -> Result<Self, Status> {
        Ok(ctx.clone())
    }
}

/// Shared state given to the builder with `.state(value)`, which puts it into an [`Arc`]: no need to bring one.
///
/// ```
/// use nalix_core::{State, packet, packet_controller};
///
/// struct Motd(String);
///
/// #[packet(opcode = 0x1f02, reply = String)]
/// struct Greet;
///
/// struct Lobby;
///
/// #[packet_controller]
/// impl Lobby {
///     #[packet]
///     fn greet(&self, State(motd): State<Motd>, _: Greet) -> String {
///         motd.0.clone()
///     }
/// }
/// ```
#[derive(Debug)]
pub struct State<T>(pub Arc<T>);

impl<T> Clone for State<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Deref for State<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Send + Sync + 'static> Extract for State<T> {
    fn extract(ctx: &Context) -> Result<Self, Status> {
        ctx.states().get::<T>().map(State).ok_or_else(|| Status::internal("state is missing"))
    }

    fn require(required: &mut Require) {
        required.state::<T>();
    }
}

/// What the handlers of a table need to be there, checked when the server is built.
#[derive(Debug, Clone, Default)]
pub struct Require {
    states: Vec<(TypeId, &'static str)>,
}

impl Require {
    /// A state of type `T`.
    pub fn state<T: 'static>(&mut self) {
        self.states.push((TypeId::of::<T>(), type_name::<T>()));
    }

    /// The name of the first state that `map` lacks.
    pub(crate) fn missing(&self, map: &StateMap) -> Option<&'static str> {
        self.states.iter().find(|(id, _)| !map.map.contains_key(id)).map(|(_, name)| *name)
    }
}

/// Shared state by type.
#[derive(Debug, Default)]
pub struct StateMap {
    map: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
}

impl StateMap {
    /// Adds a value. Returns whether its type was new.
    pub fn insert<T: Send + Sync + 'static>(&mut self, value: T) -> bool {
        self.map.insert(TypeId::of::<T>(), Arc::new(value)).is_none()
    }

    /// The value of a type.
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.map.get(&TypeId::of::<T>()).and_then(|any| Arc::clone(any).downcast().ok())
    }
}
