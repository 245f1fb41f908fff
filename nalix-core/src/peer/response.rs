//! What a call ends with, and the metadata that travels along.

use std::{error::Error as StdError, fmt, ops::Deref};

use super::attached::Attached;
use crate::frame::Entries;

/// A reply, or a failure, with keys and values beside it: what a handler returns to attach some, and what
/// [`RequestBuilder::response`](crate::RequestBuilder::response) resolves to.
///
/// Where a handler may return a `T`, it may return a `Response<T>`: a reply, a `Result` as a whole, or a stream, whose
/// metadata travels with its end. In a `Result`, either side may be one. They are not part of the packet's contract, and
/// callers that do not ask for them do not see them.
///
/// A key of over [`MAX_KEY`](crate::frame::MAX_KEY) bytes or an empty one, and more than
/// [`MAX_ENTRIES`](crate::frame::MAX_ENTRIES) bytes together, fail the call with status `Internal`.
///
/// It derefs to what it holds. `Debug` shows no values: they may be secrets.
///
/// ```
/// use nalix_core::{Code, Response, Status, packet, packet_controller};
///
/// #[packet(opcode = 0x1f05, reply = u64)]
/// struct Find {
///     name: String,
/// }
///
/// struct Index;
///
/// #[packet_controller]
/// impl Index {
///     #[packet]
///     fn find(&self, find: Find) -> Result<Response<u64>, Response<Status>> {
///         match find.name.as_str() {
///             "answer" => Ok(Response::new(42).with_metadata("cache", "hit")),
///             _ => Err(Response::new(Status::new(Code::NotFound, "no such name")).with_metadata("shard", "7")),
///         }
///     }
/// }
/// ```
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Response<T> {
    inner: T,
    attached: Attached,
}

impl<T> Response<T> {
    /// Without metadata.
    pub fn new(inner: T) -> Self {
        Self { inner, attached: Attached::default() }
    }

    pub(crate) fn received(inner: T, entries: Option<Entries>) -> Self {
        Self { inner, attached: entries.into() }
    }

    /// Adds a key and a value. A key may be there more than once.
    #[must_use]
    pub fn with_metadata(mut self, key: &str, value: impl AsRef<[u8]>) -> Self {
        self.attached.push(key, value.as_ref());
        self
    }

    /// The value of the first pair with this key.
    pub fn metadata(&self, key: &str) -> Option<&[u8]> {
        self.attached.good()?.get(key)
    }

    /// All keys and values, in order.
    pub fn all_metadata(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.attached.good().into_iter().flat_map(Entries::iter)
    }

    /// What it holds, without the metadata.
    pub fn into_inner(self) -> T {
        self.inner
    }

    /// The same metadata with something else.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Response<U> {
        Response { inner: f(self.inner), attached: self.attached }
    }

    pub(crate) fn into_parts(self) -> (T, Attached) {
        (self.inner, self.attached)
    }
}

impl<T> From<T> for Response<T> {
    fn from(inner: T) -> Self {
        Self::new(inner)
    }
}

impl<T> Deref for Response<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: fmt::Debug> fmt::Debug for Response<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response")
            .field("inner", &self.inner)
            .field("metadata", &self.attached.good())
            .finish()
    }
}

/// As what it holds.
impl<T: fmt::Display> fmt::Display for Response<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<T: StdError> StdError for Response<T> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.inner.source()
    }
}
