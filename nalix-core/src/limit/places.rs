//! So many at once, and so many more who wait.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use thiserror::Error;
use tokio::sync::Semaphore;

/// So many places, and a bounded queue for those who find none, first come first served.
pub struct Places {
    count: usize,
    semaphore: Semaphore,
    queue: usize,
    waiting: AtomicUsize,
}

/// All places are taken, and so are those in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("all places are taken, and so are those in the queue")]
pub struct Full;

impl fmt::Debug for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Places")
            .field("count", &self.count)
            .field("taken", &self.taken())
            .field("queue", &self.queue)
            .field("waiting", &self.waiting())
            .finish()
    }
}

impl Places {
    /// `count` places, at least one, and as many who may wait as `queue`.
    pub fn new(count: usize, queue: usize) -> Self {
        let count = count.clamp(1, Semaphore::MAX_PERMITS);
        Self { count, semaphore: Semaphore::new(count), queue, waiting: AtomicUsize::new(0) }
    }

    /// Takes a place, if there is one and nobody waits for it.
    pub fn try_enter(self: &Arc<Self>) -> Option<Place> {
        self.try_take().then(|| Place { places: Arc::clone(self) })
    }

    /// Takes a place, and waits for it if there is room in the queue. Cancel safe: dropping the future leaves the queue.
    ///
    /// # Errors
    /// [`Full`] if there is none.
    pub async fn enter(self: &Arc<Self>) -> Result<Place, Full> {
        self.take().await.map(|()| Place { places: Arc::clone(self) })
    }

    /// How many places are taken.
    pub fn taken(&self) -> usize {
        self.count.saturating_sub(self.semaphore.available_permits())
    }

    /// How many wait for one.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Relaxed)
    }

    /// Whether nobody more may wait.
    pub(crate) fn is_queue_full(&self) -> bool {
        self.waiting() >= self.queue
    }

    /// As [`Places::try_enter`], to be followed by [`Places::give_back`].
    #[inline]
    pub(crate) fn try_take(&self) -> bool {
        match self.semaphore.try_acquire() {
            Ok(permit) => {
                permit.forget();
                true
            }
            Err(_) => false,
        }
    }

    /// As [`Places::enter`], to be followed by [`Places::give_back`].
    pub(crate) async fn take(&self) -> Result<(), Full> {
        if self.try_take() {
            return Ok(());
        }
        let _waits = self.queue_up()?;
        match self.semaphore.acquire().await {
            Ok(permit) => {
                permit.forget();
                Ok(())
            }
            Err(_) => Err(Full),
        }
    }

    /// Goes to who has waited longest, if anybody does.
    #[inline]
    pub(crate) fn give_back(&self) {
        self.semaphore.add_permits(1);
    }

    fn queue_up(&self) -> Result<Waits<'_>, Full> {
        let more = |waiting| (waiting < self.queue).then_some(waiting + 1);
        match self.waiting.fetch_update(Relaxed, Relaxed, more) {
            Ok(_) => Ok(Waits(&self.waiting)),
            Err(_) => Err(Full),
        }
    }
}

/// A place that is taken until this is dropped.
#[derive(Debug)]
#[must_use = "the place is given back when this is dropped"]
pub struct Place {
    places: Arc<Places>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.give_back();
    }
}

struct Waits<'a>(&'a AtomicUsize);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::{future::Future, pin::pin, task::Poll};

    use super::*;

    fn poll<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Poll<T> {
        future.poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
    }

    #[test]
    fn those_who_wait_come_in_their_order() {
        let places = Arc::new(Places::new(1, 2));
        let inside = places.try_enter().unwrap();
        let (mut second, mut third) = (pin!(places.enter()), pin!(places.enter()));
        assert!(poll(second.as_mut()).is_pending() && poll(third.as_mut()).is_pending());
        assert!(matches!(poll(pin!(places.enter())), Poll::Ready(Err(Full))));
        drop(inside);
        // It is promised to who waits, so that nobody else can take it.
        assert!(places.try_enter().is_none());
        assert!(poll(third.as_mut()).is_pending());
        let Poll::Ready(Ok(inside)) = poll(second.as_mut()) else { panic!("the second is next") };
        drop(inside);
        assert!(matches!(poll(third.as_mut()), Poll::Ready(Ok(_))));
        assert_eq!((places.taken(), places.waiting()), (0, 0));
    }

    #[test]
    fn who_gives_up_leaves_nothing_behind() {
        let places = Arc::new(Places::new(1, 1));
        let inside = places.try_enter().unwrap();
        {
            let mut waits = pin!(places.enter());
            assert!(poll(waits.as_mut()).is_pending());
            assert_eq!(places.waiting(), 1);
            drop(inside);
            // Its place has come, and it is gone before it has seen that.
        }
        assert_eq!((places.taken(), places.waiting()), (0, 0));
        assert!(places.try_enter().is_some());
    }

    #[test]
    fn absurd_numbers() {
        let places = Arc::new(Places::new(0, usize::MAX));
        let _inside = places.try_enter().unwrap();
        assert!(places.try_enter().is_none());
        assert!(Arc::new(Places::new(usize::MAX, 0)).try_enter().is_some());
    }
}
