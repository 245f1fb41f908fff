//! Values that handlers keep with a connection, by type.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

#[derive(Debug, Default)]
pub(super) struct Attributes {
    map: RwLock<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

impl Attributes {
    pub(super) fn set<T: Send + Sync + 'static>(&self, value: T) -> Option<Arc<T>> {
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        map.insert(TypeId::of::<T>(), Arc::new(value)).and_then(|old| old.downcast().ok())
    }

    pub(super) fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        map.get(&TypeId::of::<T>()).and_then(|any| Arc::clone(any).downcast().ok())
    }

    pub(super) fn get_or_set<T: Send + Sync + 'static>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        if let Some(value) = self.get() {
            return value;
        }
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        match map.get(&TypeId::of::<T>()).and_then(|any| Arc::clone(any).downcast().ok()) {
            Some(value) => value,
            None => {
                let value = Arc::new(make());
                map.insert(TypeId::of::<T>(), Arc::<T>::clone(&value));
                value
            }
        }
    }

    pub(super) fn remove<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        map.remove(&TypeId::of::<T>()).and_then(|old| old.downcast().ok())
    }
}
