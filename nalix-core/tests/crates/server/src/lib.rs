//! Stands for the real `nalix-server`, which cannot be a dependency of a test of its own dependency.

#[doc(hidden)]
pub use nalix_core as __core;
pub use nalix_core::{Context, Wire, packet, packet_controller};
