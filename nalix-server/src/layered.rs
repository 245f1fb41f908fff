//! Tower layers around the router, with their types erased.

use std::sync::{Mutex, PoisonError};

use nalix_core::{
    Code, Status,
    connection::{Layered, Serving},
    controller::{Call, Reply, Router},
};
use tower::{BoxError, load_shed::error::Overloaded, timeout::error::Elapsed};
use tower_layer::Layer;
use tower_service::Service;

/// Makes what each connection serves. Called once a connection.
pub(crate) type MakeServing = Box<dyn Fn() -> Serving + Send + Sync>;

/// Every connection calls the router directly: a handler that is done at once costs no allocation.
pub(crate) fn bare(router: Router) -> MakeServing {
    Box::new(move || Serving::from(router.clone()))
}

/// Every connection calls its own clone of one service, so that layers which share a limit among their clones share it
/// among all connections.
pub(crate) fn layered<L>(router: Router, layer: &L) -> MakeServing
where
    L: Layer<Router>,
    L::Service: Service<Call, Response = Reply> + Clone + Send + 'static,
    <L::Service as Service<Call>>::Future: Send + 'static,
    <L::Service as Service<Call>>::Error: Into<BoxError> + 'static,
{
    // A service need not be `Sync`, and this one is only ever cloned.
    let service = Mutex::new(layer.layer(router.clone()));
    Box::new(move || {
        let service = service.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let layered =
            Layered::new(service, |error: <L::Service as Service<Call>>::Error| status_of(error.into()));
        Serving::new(router.clone(), Box::new(layered))
    })
}

/// What a caller is told of a layer's error.
fn status_of(error: BoxError) -> Status {
    let error = match error.downcast::<Status>() {
        Ok(status) => return *status,
        Err(error) => error,
    };
    if error.is::<Elapsed>() {
        Status::new(Code::DeadlineExceeded, "the server's time limit has passed")
    } else if error.is::<Overloaded>() {
        Status::resource_exhausted("the server is overloaded", None)
    } else {
        // The text may name internals: it stays here.
        tracing::error!(%error, "a layer failed");
        Status::internal("the server failed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_layers_become_statuses() {
        assert_eq!(status_of(Box::new(Elapsed::new())).code, Code::DeadlineExceeded);
        assert_eq!(status_of(Box::new(Overloaded::new())).code, Code::ResourceExhausted);
        assert_eq!(status_of(Box::new(Status::not_found("x"))), Status::not_found("x"));
        let hidden = status_of("secret".into());
        assert_eq!(hidden.code, Code::Internal);
        assert!(!hidden.message.contains("secret"));
    }
}
