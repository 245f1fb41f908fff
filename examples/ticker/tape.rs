//! The last quotes of one symbol, for any number of readers.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    task::Waker,
    task::{Context, Poll},
};

use crate::contracts::{Pace, Quote, Tick};

/// Writers never wait for readers: a quote that is too old is forgotten, whoever has not read it. Where a reader is, it
/// knows itself, so that one more costs nothing.
pub struct Tape {
    capacity: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    quotes: VecDeque<Quote>,
    /// The number of the next quote.
    next: u64,
    waiting: Vec<Waker>,
}

impl Tape {
    /// One that remembers `capacity` quotes, at least 1.
    pub fn new(capacity: usize) -> Self {
        Self { capacity: capacity.max(1), state: Mutex::default() }
    }

    /// Adds what is made of the next number.
    pub fn push(&self, make: impl FnOnce(u64) -> Quote) -> Quote {
        let mut state = self.state();
        let quote = make(state.next);
        state.next += 1;
        if state.quotes.len() == self.capacity {
            state.quotes.pop_front();
        }
        state.quotes.push_back(quote.clone());
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
        quote
    }

    /// The number that the next quote will have.
    pub fn next(&self) -> u64 {
        self.state().next
    }

    /// Reads on from the number `at`, and moves that. Waits if there is nothing new.
    pub fn poll_read(&self, at: &mut u64, pace: Pace, cx: &Context<'_>) -> Poll<Tick> {
        let mut state = self.state();
        let oldest = state.next - state.quotes.len() as u64;
        let wanted = match pace {
            Pace::Every => oldest.max(*at),
            Pace::Latest => state.next.saturating_sub(1).max(*at),
        };
        match state.quotes.get((wanted - oldest) as usize) {
            Some(quote) => {
                let tick = Tick { skipped: wanted - *at, quote: quote.clone() };
                *at = wanted + 1;
                Poll::Ready(tick)
            }
            None => {
                if !state.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                    state.waiting.push(cx.waker().clone());
                }
                Poll::Pending
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        task::Wake,
        time::SystemTime,
    };

    use super::*;
    use crate::contracts::Symbol;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn push(tape: &Tape, count: usize) {
        for _ in 0..count {
            tape.push(|number| Quote { symbol: Symbol::Rye, number, price: 1, at: SystemTime::UNIX_EPOCH });
        }
    }

    /// What was left out, and the number of the quote that was read.
    fn read(tape: &Tape, at: &mut u64, pace: Pace) -> Option<(u64, u64)> {
        match tape.poll_read(at, pace, &Context::from_waker(Waker::noop())) {
            Poll::Ready(tick) => Some((tick.skipped, tick.quote.number)),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_reader_that_keeps_up_gets_every_quote() {
        let tape = Tape::new(3);
        let mut at = tape.next();
        assert_eq!(read(&tape, &mut at, Pace::Every), None);
        for number in 0..10 {
            push(&tape, 1);
            assert_eq!(read(&tape, &mut at, Pace::Every), Some((0, number)));
            assert_eq!(read(&tape, &mut at, Pace::Every), None);
        }
    }

    #[test]
    fn a_reader_that_is_overtaken_learns_how_much_it_has_missed() {
        let tape = Tape::new(3);
        let mut at = 0;
        push(&tape, 4);
        assert_eq!(read(&tape, &mut at, Pace::Every), Some((1, 1)));
        assert_eq!(read(&tape, &mut at, Pace::Every), Some((0, 2)));
        push(&tape, 10);
        assert_eq!(read(&tape, &mut at, Pace::Every), Some((8, 11)));
    }

    #[test]
    fn a_reader_of_the_latest_jumps_there_and_gets_it_once() {
        let tape = Tape::new(3);
        let mut at = 0;
        assert_eq!(read(&tape, &mut at, Pace::Latest), None);
        push(&tape, 5);
        assert_eq!(read(&tape, &mut at, Pace::Latest), Some((4, 4)));
        assert_eq!(read(&tape, &mut at, Pace::Latest), None);
        push(&tape, 1);
        assert_eq!(read(&tape, &mut at, Pace::Latest), Some((0, 5)));
    }

    #[test]
    fn whoever_waits_is_woken_once() {
        let tape = Tape::new(3);
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        for _ in 0..3 {
            assert!(tape.poll_read(&mut 0, Pace::Every, &Context::from_waker(&waker)).is_pending());
        }
        push(&tape, 2);
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    }
}
