//! A router that can get more controllers while its connection lives.

use std::sync::{Mutex, PoisonError};

use crate::{
    Connection, Controller,
    controller::{Router, RouterError},
};

/// What a client serves to its server, now.
#[derive(Debug)]
pub struct RouterCell {
    current: Mutex<Router>,
}

impl RouterCell {
    /// Starts with `router`.
    pub fn new(router: Router) -> Self {
        Self { current: Mutex::new(router) }
    }

    /// Adds a controller and tells the connection's driver. A connection that has ended takes no notice; the next one whose
    /// driver is given this cell begins with the controller.
    ///
    /// # Errors
    /// [`RouterError`] if the controller serves an opcode that is served already, or needs a state that is not there.
    pub fn add<C: Controller>(&self, controller: C, connection: &Connection) -> Result<(), RouterError> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        *current = current.with(controller)?;
        drop(current);
        connection.router_changed();
        Ok(())
    }

    /// Tells a connection's driver to look here: for one that was begun with what was here before.
    pub fn apply(&self, connection: &Connection) {
        connection.router_changed();
    }

    /// The router as it is now. Cheap.
    pub fn current(&self) -> Router {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
