//! What groups are named by: values of any type, without their types.

use std::{
    any::{Any, TypeId},
    borrow::Cow,
    hash::{Hash, Hasher},
    ptr,
    sync::Arc,
};

/// A key whose type is not known.
pub(super) trait Key: Send + Sync {
    fn hash_into(&self, state: &mut dyn Hasher);
    fn equals(&self, other: &dyn Key) -> bool;
    fn value(&self) -> &dyn Any;
    /// The text, if it is one: keys that are text are equal if the texts are, whatever type holds them.
    fn text(&self) -> Option<&str>;
}

/// A key whose type is known.
pub(super) struct Typed<K>(pub(super) K);

impl<K: Hash + Eq + Send + Sync + 'static> Key for Typed<K> {
    fn hash_into(&self, mut state: &mut dyn Hasher) {
        match self.text() {
            Some(text) => text.hash(&mut state),
            None => {
                TypeId::of::<K>().hash(&mut state);
                self.0.hash(&mut state);
            }
        }
    }

    fn equals(&self, other: &dyn Key) -> bool {
        match (self.text(), other.text()) {
            (Some(a), Some(b)) => a == b,
            _ => other.value().downcast_ref::<K>().is_some_and(|other| *other == self.0),
        }
    }

    fn value(&self) -> &dyn Any {
        &self.0
    }

    fn text(&self) -> Option<&str> {
        let key: &dyn Any = &self.0;
        None.or_else(|| key.downcast_ref::<&'static str>().copied())
            .or_else(|| key.downcast_ref::<String>().map(String::as_str))
            .or_else(|| key.downcast_ref::<Cow<'static, str>>().map(AsRef::as_ref))
            .or_else(|| key.downcast_ref::<Arc<str>>().map(AsRef::as_ref))
            .or_else(|| key.downcast_ref::<Box<str>>().map(AsRef::as_ref))
    }
}

impl Hash for dyn Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash_into(state);
    }
}

impl PartialEq for dyn Key {
    fn eq(&self, other: &Self) -> bool {
        // A group that goes finds itself, whatever its key says of equality.
        ptr::addr_eq(self, other) || self.equals(other)
    }
}

impl Eq for dyn Key {}
