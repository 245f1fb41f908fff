//! Locks that outlast a panic under them: what they protect is whole between any two of its steps. In this crate's tests they
//! are also where one thread may be stopped and another go on: see `schedule`.

#[cfg(test)]
pub(crate) mod schedule;

use std::{
    ops::{Deref, DerefMut},
    sync::{self, MutexGuard, PoisonError, RwLockReadGuard, RwLockWriteGuard},
};

/// A mutex.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(sync::Mutex<T>);

/// A lock for one writer or many readers.
#[derive(Debug, Default)]
pub(crate) struct RwLock<T>(sync::RwLock<T>);

/// What a locked mutex protects.
pub(crate) type Guard<'a, T> = Held<MutexGuard<'a, T>>;

/// What a lock protects, until this is dropped.
#[derive(Debug)]
pub(crate) struct Held<G> {
    guard: G,
    // Dropped behind the guard.
    #[cfg(test)]
    _turn: schedule::Turn,
}

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        #[cfg(test)]
        if schedule::is_on() {
            return schedule::acquire(self, || self.0.try_lock());
        }
        Held::new(self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T> RwLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(sync::RwLock::new(value))
    }

    #[inline]
    pub(crate) fn read(&self) -> Held<RwLockReadGuard<'_, T>> {
        #[cfg(test)]
        if schedule::is_on() {
            return schedule::acquire(self, || self.0.try_read());
        }
        Held::new(self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    #[inline]
    pub(crate) fn write(&self) -> Held<RwLockWriteGuard<'_, T>> {
        #[cfg(test)]
        if schedule::is_on() {
            return schedule::acquire(self, || self.0.try_write());
        }
        Held::new(self.0.write().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<G> Held<G> {
    fn new(guard: G) -> Self {
        Self {
            guard,
            #[cfg(test)]
            _turn: schedule::Turn::none(),
        }
    }
}

impl<G: Deref> Deref for Held<G> {
    type Target = G::Target;

    #[inline]
    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut> DerefMut for Held<G> {
    #[inline]
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}
