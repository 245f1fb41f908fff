//! Tower layers that hold all calls to what the keys of `#[packet(...)]` hold those of one handler to.
//!
//! They go around a whole server ([`ServerBuilder::layer`](crate::ServerBuilder::layer)), or any other service of calls, and
//! see a call when its turn has come: after the policy of its handler has been asked about size, transport and rate, and before
//! it is asked about the rest. A layer makes every call a future on the heap, which handlers without one are spared.
//!
//! ```
//! # use std::time::Duration;
//! use nalix_server::{RateKey, Server, layer::{Concurrency, RateLimit, Timeout}};
//! use tower::ServiceBuilder;
//!
//! let all = ServiceBuilder::new()
//!     .layer(RateLimit::new("1000/s".parse()?).key(RateKey::Address))
//!     .layer(Concurrency::new(256).queue(1_024))
//!     .layer(Timeout::new(Duration::from_secs(10)));
//! let server = Server::builder().layer(all.into_inner());
//! # drop(server);
//! # Ok::<(), nalix_server::limit::ParseRateError>(())
//! ```

mod admit;
mod concurrency;
mod permission;
mod rate_limit;
mod timeout;

use std::{future::Future, pin::Pin};

use nalix_core::controller::Reply;

pub use self::{
    admit::{Admit, Admitted, Admitting},
    concurrency::{Concurrency, ConcurrencyService},
    permission::Permission,
    rate_limit::RateLimit,
    timeout::{Timeout, TimeoutService},
};

/// What becomes of a call.
pub type LayerFuture<E> = Pin<Box<dyn Future<Output = Result<Reply, E>> + Send>>;
