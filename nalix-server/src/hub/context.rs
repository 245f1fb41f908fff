//! The hub in handlers.

use std::hash::Hash;

use nalix_core::{
    Context, Status,
    controller::{Extract, Require},
};

use super::Hub;
use crate::Group;

/// The server's connections and groups, from a handler's [`Context`].
///
/// ```
/// use nalix_server::{Context, HubExt, packet, packet_controller};
///
/// #[packet(opcode = 0x3f09)]
/// struct Moved {
///     x: f32,
///     y: f32,
/// }
///
/// struct World;
///
/// #[packet_controller]
/// impl World {
///     #[packet]
///     fn moved(&self, ctx: &Context, moved: Moved) {
///         ctx.group("world").send(&moved);
///     }
/// }
/// ```
pub trait HubExt {
    /// The server's hub.
    ///
    /// # Panics
    /// In a handler that a client serves: it has no hub.
    fn hub(&self) -> Hub;

    /// As [`Hub::group`].
    ///
    /// # Panics
    /// As [`HubExt::hub`].
    fn group<K>(&self, key: K) -> Group
    where
        K: Hash + Eq + Send + Sync + 'static;
}

impl HubExt for Context {
    fn hub(&self) -> Hub {
        let hub = self.states().get::<Hub>().expect("only the handlers of a server have a hub");
        Hub::clone(&hub)
    }

    fn group<K>(&self, key: K) -> Group
    where
        K: Hash + Eq + Send + Sync + 'static,
    {
        let hub = self.states().get::<Hub>().expect("only the handlers of a server have groups");
        hub.group(key)
    }
}

impl Extract for Hub {
    fn extract(ctx: &Context) -> Result<Self, Status> {
        let hub = ctx.states().get::<Hub>().ok_or_else(|| Status::internal("there is no hub"))?;
        Ok(Hub::clone(&hub))
    }

    fn require(required: &mut Require) {
        required.state::<Hub>();
    }
}
