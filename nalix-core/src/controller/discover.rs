//! Controllers found at link time.

use std::marker::PhantomData;

use super::{Controller, RouterBuilder};
use crate::registry::Location;

/// An entry that `#[packet_controller]` submits.
#[derive(Debug)]
#[non_exhaustive]
pub struct ControllerInfo {
    /// Full path of the type.
    pub path: &'static str,
    /// Where its `impl` block is.
    pub location: Location,
    add: fn(&mut RouterBuilder) -> bool,
}

impl ControllerInfo {
    /// Made by `#[packet_controller]`; `add` adds the controller if it can be made from nothing.
    pub const fn new(path: &'static str, location: Location, add: fn(&mut RouterBuilder) -> bool) -> Self {
        Self { path, location, add }
    }

    /// Makes the controller with `Default` and adds it. Returns whether its type has a `Default`.
    pub fn add_to(&self, builder: &mut RouterBuilder) -> bool {
        (self.add)(builder)
    }
}

inventory::collect!(ControllerInfo);

/// All controllers linked into the program, by path.
pub fn discovered() -> Vec<&'static ControllerInfo> {
    let mut all: Vec<_> = inventory::iter::<ControllerInfo>.into_iter().collect();
    all.sort_by_key(|info| (info.path, info.location));
    all
}

/// Asks whether a concrete type has a `Default`, without requiring it: the inherent method is chosen where its bound
/// holds, the trait's method otherwise. Its name starts with `__` so that no trait of the user's is in the way.
#[derive(Debug)]
pub struct Probe<T>(PhantomData<T>);

impl<T> Probe<T> {
    /// A probe for `T`.
    #[allow(clippy::new_without_default)] // a default would have to be documented, and nobody needs one
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T: Controller + Default> Probe<T> {
    /// Adds `T::default()`.
    pub fn __discover(&self, builder: &mut RouterBuilder) -> bool {
        builder.add(T::default());
        true
    }
}

/// The fallback of [`Probe`] for types without a `Default`.
pub trait NoDefault {
    /// Adds nothing.
    fn __discover(&self, _builder: &mut RouterBuilder) -> bool {
        false
    }
}

impl<T> NoDefault for Probe<T> {}
