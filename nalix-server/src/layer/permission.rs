//! All calls need a permission.

use nalix_core::{
    Status,
    controller::{Call, denied},
};
use tower_layer::Layer;

use super::{Admit, Admitting};

/// Answers `PermissionDenied` to the calls of peers that may not do as much. As `permission = ...` on every handler.
///
/// No login handler can stand behind it: whoever may not do as much reaches none.
#[derive(Debug, Clone, Copy)]
pub struct Permission {
    required: nalix_core::Permission,
}

impl Permission {
    /// At least this one is needed.
    pub fn new(required: nalix_core::Permission) -> Self {
        Self { required }
    }
}

impl<S> Layer<S> for Permission {
    type Service = Admitting<S, Self>;

    fn layer(&self, inner: S) -> Self::Service {
        Admitting::new(inner, *self)
    }
}

impl Admit for Permission {
    fn admit(&self, call: &Call) -> Result<(), Status> {
        let connection = call.context().connection();
        if connection.permission() < self.required { Err(denied(connection)) } else { Ok(()) }
    }
}
