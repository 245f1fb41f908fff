//! Re-exports all of `nalix-core`.

pub use nalix_core as realtime;
