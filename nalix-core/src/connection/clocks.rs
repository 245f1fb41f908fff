//! What the driver does about the time at the peer.

use std::{
    collections::VecDeque,
    time::{Instant, SystemTime},
};

use tokio::sync::oneshot;

use super::driver::Driver;
use crate::{frame::Control, link::Link, peer::ClockSample};

/// Questions that are on their way.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    asked: u64,
    waiting: VecDeque<Question>,
}

#[derive(Debug)]
struct Question {
    number: u64,
    left: Instant,
    done: oneshot::Sender<ClockSample>,
}

impl<L: Link> Driver<L> {
    /// Asks for those who want to know.
    #[cold]
    pub(super) fn ask_time(&mut self, asking: Vec<oneshot::Sender<ClockSample>>) {
        if self.phase.is_closing() {
            return;
        }
        for done in asking {
            self.clocks.asked += 1;
            let number = self.clocks.asked;
            // Those who have stopped waiting, or whom the peer does not answer.
            self.clocks.waiting.retain(|question| !question.done.is_closed());
            if self.clocks.waiting.len() == MAX_WAITING {
                self.clocks.waiting.pop_front();
            }
            self.append_control(&Control::AskTime { number });
            self.clocks.waiting.push_back(Question { number, left: Instant::now(), done });
        }
    }

    /// The peer wants to know what time it is here.
    pub(super) fn tell_time(&mut self, number: u64) {
        let now = micros(SystemTime::now());
        // It is put into the outbox at once, and how long it waits there counts as its way.
        self.append_control(&Control::Time { number, received: now, sent: now });
    }

    /// The peer has said what time it is there.
    pub(super) fn take_time(&mut self, number: u64, received: u64, sent: u64) {
        let at = Instant::now();
        let Some(place) = self.clocks.waiting.iter().position(|question| question.number == number) else {
            return;
        };
        if let Some(Question { left, done, .. }) = self.clocks.waiting.remove(place)
            && let Some(sample) = ClockSample::of(left, at, received, sent)
        {
            // Who has stopped waiting wants to know nothing.
            let _ = done.send(sample);
        }
    }
}

impl Clocks {
    /// Nobody waits any more.
    pub(super) fn end(&mut self) {
        self.waiting.clear();
    }
}

/// Since 1970; what is before that is then.
fn micros(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// How many questions may be on their way; the oldest is given up for one more.
const MAX_WAITING: usize = 16;
