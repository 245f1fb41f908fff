//! One stream: what has arrived and may still arrive, what may still be sent. No I/O, and nobody is woken here.

use std::{collections::VecDeque, fmt, task::Waker};

use bytes::{Bytes, BytesMut};
use tokio::time::Instant;

use super::calls::{Answer, Key as CallKey};
use crate::{CallId, packet::Priority, session::Cover};

/// A conversation with a stream in it: in, out, or both ways.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) call: Owner,
    /// How the request has gone, and how items go.
    pub(super) cover: Cover,
    /// That of the request, if the call is ours.
    pub(super) priority: Option<Priority>,
    pub(super) incoming: Option<Receiving>,
    pub(super) outgoing: Option<Sending>,
    /// How it has ended. Items that have arrived before are still there.
    pub(super) end: Option<Ending>,
    /// How many handles there are.
    pub(super) handles: u8,
    /// Who waits for items or for the end.
    pub(super) reader: Option<Waker>,
    /// Who waits for credit.
    pub(super) writer: Option<Waker>,
    pub(super) deadline: Option<Instant>,
    /// Where the request's frame starts in the stream of bytes sent.
    pub(super) position: u64,
}

/// Whose call it belongs to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Owner {
    /// Ours, so we get its stream and send its upload.
    Ours(CallKey),
    /// The peer's, of which we get the upload.
    Peers(CallId),
}

/// How a flow has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ending {
    /// The peer has answered the call for good, or has ended its upload.
    Answered(Answer),
    /// The call is over on our side.
    Over,
}

/// The receiving half of a stream.
pub(super) struct Receiving {
    /// Whole frames, each with items in it.
    queue: VecDeque<Bytes>,
    /// Small frames behind the queue, put together: a slice of the receive buffer would keep all of it.
    small: BytesMut,
    window: usize,
    /// How many bytes the peer may still send. Below zero when its last item has gone beyond it.
    credit: i64,
    /// What has been consumed and not been granted again.
    consumed: usize,
}

impl fmt::Debug for Receiving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Items may hold secrets.
        f.debug_struct("Receiving")
            .field("window", &self.window)
            .field("credit", &self.credit)
            .finish_non_exhaustive()
    }
}

/// The peer has sent items without credit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Overdrawn;

impl Receiving {
    /// A stream whose sender has been granted `window` bytes.
    pub(super) fn new(window: usize) -> Self {
        Self { queue: VecDeque::new(), small: BytesMut::new(), window, credit: window as i64, consumed: 0 }
    }

    /// Takes the items of a frame in.
    ///
    /// # Errors
    /// [`Overdrawn`] if there was no credit left for its first byte.
    pub(super) fn push(&mut self, items: Bytes) -> Result<(), Overdrawn> {
        if self.credit <= 0 {
            return Err(Overdrawn);
        }
        self.credit -= items.len() as i64;
        if items.len() < SMALL {
            self.small.extend_from_slice(&items);
        } else {
            self.close_small();
            self.queue.push_back(items);
        }
        Ok(())
    }

    /// Hands out what has arrived. Returns whether there was anything.
    pub(super) fn take(&mut self, into: &mut VecDeque<Bytes>) -> bool {
        self.close_small();
        if into.is_empty() {
            std::mem::swap(into, &mut self.queue);
        } else {
            into.append(&mut self.queue);
        }
        !into.is_empty()
    }

    /// Notes that `n` bytes have been consumed. Returns how many to grant to the sender, if it is worth a frame.
    pub(super) fn consume(&mut self, n: usize) -> Option<u64> {
        self.consumed += n;
        // A sender that has used up what it had waits, however little that was.
        if self.consumed < self.window.div_ceil(2) || self.consumed == 0 {
            return None;
        }
        let grant = std::mem::take(&mut self.consumed);
        self.credit += grant as i64;
        Some(grant as u64)
    }

    /// Drops what nobody will consume.
    pub(super) fn clear(&mut self) {
        self.queue = VecDeque::new();
        self.small = BytesMut::new();
    }

    fn close_small(&mut self) {
        if !self.small.is_empty() {
            self.queue.push_back(self.small.split().freeze());
        }
    }
}

/// The sending half of an upload.
pub(super) struct Sending {
    /// How many bytes may still be sent. The last item may go beyond it.
    credit: i64,
    /// From how many bytes on the items of a frame are compressed.
    pub(super) compress: Option<usize>,
    /// Items that wait to become a frame.
    pub(super) pending: Vec<u8>,
    /// Whether the peer wants no more.
    pub(super) stopped: bool,
    /// Whether its end has been sent.
    pub(super) finished: bool,
}

impl fmt::Debug for Sending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sending").field("credit", &self.credit).finish_non_exhaustive()
    }
}

/// The peer has granted more than can be counted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooMuchCredit;

impl Sending {
    pub(super) fn new(window: usize, compress: Option<usize>) -> Self {
        Self { credit: window as i64, compress, pending: Vec::new(), stopped: false, finished: false }
    }

    /// Whether an item may be sent.
    pub(super) fn may_send(&self) -> bool {
        self.credit > 0
    }

    /// Notes that so many bytes of items are on their way.
    pub(super) fn spend(&mut self, n: usize) {
        self.credit -= n as i64;
    }

    /// The peer has granted more.
    ///
    /// # Errors
    /// [`TooMuchCredit`] if it would be more than [`MAX_CREDIT`].
    pub(super) fn grant(&mut self, n: u64) -> Result<(), TooMuchCredit> {
        self.credit = granted(self.credit, n).ok_or(TooMuchCredit)?;
        Ok(())
    }
}

/// `credit` and `n` more; `None` if that is more than [`MAX_CREDIT`].
pub(crate) fn granted(credit: i64, n: u64) -> Option<i64> {
    let sum = credit.checked_add(i64::try_from(n).ok()?)?;
    (sum <= MAX_CREDIT).then_some(sum)
}

/// Frames below this are copied, so that they do not keep the receive buffer.
const SMALL: usize = 4 * 1024;
/// The most that may be granted and not used, in bytes.
const MAX_CREDIT: i64 = u32::MAX as i64;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Both ends of a stream and what is on the way between them.
    #[derive(Debug, Clone, PartialEq, Eq, Hash)]
    struct Model {
        credit_out: i64,
        items_left: u8,
        /// Frames on the way, by their length.
        items: VecDeque<usize>,
        grants: VecDeque<u64>,
        credit_in: i64,
        /// Arrived and not consumed.
        held: VecDeque<usize>,
        consumed: usize,
    }

    impl Model {
        fn sending(&self) -> Sending {
            Sending { credit: self.credit_out, ..Sending::new(0, None) }
        }

        fn receiving(&self, window: usize) -> Receiving {
            Receiving { credit: self.credit_in, consumed: self.consumed, ..Receiving::new(window) }
        }

        /// Every state that one step leads to.
        fn steps(&self, window: usize, sizes: &[usize]) -> Vec<Model> {
            let mut next = Vec::new();
            for &size in sizes {
                let mut sending = self.sending();
                if self.items_left > 0 && sending.may_send() {
                    sending.spend(size);
                    let mut model = Model { credit_out: sending.credit, ..self.clone() };
                    model.items_left -= 1;
                    model.items.push_back(size);
                    next.push(model);
                }
            }
            let mut model = self.clone();
            if let Some(size) = model.items.pop_front() {
                let mut receiving = self.receiving(window);
                receiving.push(vec![0; size].into()).expect("the sender keeps to its credit");
                model.credit_in = receiving.credit;
                model.held.push_back(size);
                next.push(model);
            }
            let mut model = self.clone();
            if let Some(size) = model.held.pop_front() {
                let mut receiving = self.receiving(window);
                model.grants.extend(receiving.consume(size));
                (model.credit_in, model.consumed) = (receiving.credit, receiving.consumed);
                next.push(model);
            }
            let mut model = self.clone();
            if let Some(n) = model.grants.pop_front() {
                let mut sending = self.sending();
                sending.grant(n).expect("little credit");
                model.credit_out = sending.credit;
                next.push(model);
            }
            next
        }
    }

    /// Every order in which items, their consumption and credit can meet, for small windows and items of several sizes.
    #[test]
    fn no_order_of_events_overdraws_starves_or_keeps_more_than_the_window() {
        for window in 1..=6 {
            for sizes in [&[1][..], &[2], &[3], &[1, 3], &[2, 7]] {
                let largest = sizes.iter().max().copied().unwrap_or_default();
                let start = Model {
                    credit_out: window as i64,
                    items_left: 7,
                    items: VecDeque::new(),
                    grants: VecDeque::new(),
                    credit_in: window as i64,
                    held: VecDeque::new(),
                    consumed: 0,
                };
                let mut seen = HashSet::from([start.clone()]);
                let mut todo = vec![start];
                while let Some(model) = todo.pop() {
                    let kept: usize = model.held.iter().chain(&model.items).sum();
                    assert!(kept < window + largest, "{model:?}");
                    let next = model.steps(window, sizes);
                    // Nothing can happen any more only when all has been sent and consumed.
                    assert!(!next.is_empty() || model.items_left == 0, "{model:?} is stuck");
                    todo.extend(next.into_iter().filter(|model| seen.insert(model.clone())));
                }
                assert!(seen.len() > 10);
            }
        }
    }

    #[test]
    fn small_frames_are_put_together_and_stay_in_order() {
        let mut receiving = Receiving::new(1 << 20);
        let large = Bytes::from(vec![7; SMALL]);
        for items in [&b"ab"[..], b"c"] {
            receiving.push(Bytes::copy_from_slice(items)).unwrap();
        }
        receiving.push(large.clone()).unwrap();
        receiving.push(Bytes::from_static(b"d")).unwrap();
        let mut taken = VecDeque::new();
        assert!(receiving.take(&mut taken));
        assert_eq!(taken, [Bytes::from_static(b"abc"), large, Bytes::from_static(b"d")]);
        taken.clear();
        assert!(!receiving.take(&mut taken));
    }

    #[test]
    fn credit_cannot_be_granted_beyond_all_bounds() {
        let mut sending = Sending::new(0, None);
        assert_eq!(sending.grant(u64::MAX), Err(TooMuchCredit));
        assert_eq!(sending.grant(u32::MAX.into()), Ok(()));
        assert_eq!(sending.grant(1), Err(TooMuchCredit));
        sending.spend(5);
        assert_eq!(sending.grant(5), Ok(()));
    }
}
