//! Members of a group that is sent to: what arrives where and when, and the pace at which more is sent. Every message is a
//! round of its own, and rounds are numbered.

use std::{
    array, fmt,
    sync::{
        Mutex, PoisonError,
        atomic::{
            AtomicU64, AtomicUsize,
            Ordering::{AcqRel, Acquire, Relaxed, Release},
        },
    },
    time::{Duration, Instant},
};

use tokio::sync::Notify;

use crate::{
    Error,
    case::Fanout,
    load::{Stop, Tally},
};

/// What has arrived at the members of a group, counted by all of them together.
pub(crate) struct Gathering {
    fanout: Fanout,
    epoch: Instant,
    rounds: [Round; RING],
    /// Told when a round has come to its end.
    ended: Notify,
    /// Members count in different ones, so that they don't wait for each other.
    tallies: Vec<Mutex<Tally>>,
    /// The number of the next round.
    next: AtomicU64,
}

/// A round that is on its way, and later another that has its number but for multiples of [`RING`].
#[derive(Debug, Default)]
struct Round {
    /// When it began, in nanoseconds.
    begun: AtomicU64,
    /// How many members do not have it yet.
    left: AtomicUsize,
}

/// Has the server send to the group.
pub(crate) trait Sender {
    /// So many rounds, one right after the other, from `first` on.
    fn push(&mut self, first: u64, burst: usize) -> impl Future<Output = Result<(), Error>> + Send;
}

impl fmt::Debug for Gathering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gathering").field("fanout", &self.fanout).finish_non_exhaustive()
    }
}

impl Gathering {
    pub(crate) fn new(fanout: Fanout) -> Result<Self, Error> {
        if fanout.burst > RING {
            return Err(format!("a burst has at most {RING} messages").into());
        }
        Ok(Self {
            fanout,
            epoch: Instant::now(),
            rounds: array::from_fn(|_| Round::default()),
            ended: Notify::new(),
            tallies: (0..TALLIES).map(|_| Tally::new().map(Mutex::new)).collect::<Result<_, _>>()?,
            next: AtomicU64::new(0),
        })
    }

    /// A message has arrived at a member.
    pub(crate) fn arrived(&self, member: usize, round: u64) {
        let round = self.round(round);
        let begun = Duration::from_nanos(round.begun.load(Relaxed));
        let took = self.epoch.elapsed().saturating_sub(begun);
        self.tallies[member % TALLIES].lock().unwrap_or_else(PoisonError::into_inner).timed(took);
        if round.left.fetch_sub(1, AcqRel) == 1 {
            self.ended.notify_one();
        }
    }

    /// Sends burst after burst until told to stop, and waits after each until all members have all of it.
    pub(crate) async fn run(&self, sender: &mut impl Sender, stop: &Stop) -> Result<Tally, Error> {
        let Fanout { members, burst, .. } = self.fanout;
        let mut ops = 0;
        while !stop.stopped() {
            let first = self.next.fetch_add(burst as u64, Relaxed);
            let rounds = first..first + burst as u64;
            let now = u64::try_from(self.epoch.elapsed().as_nanos())?;
            for round in rounds.clone().map(|round| self.round(round)) {
                round.begun.store(now, Relaxed);
                round.left.store(members, Release);
            }
            sender.push(first, burst).await?;
            for round in rounds.map(|round| self.round(round)) {
                while round.left.load(Acquire) > 0 {
                    self.ended.notified().await;
                }
            }
            ops += (members * burst) as u64;
        }
        let mut sum = Tally::new()?;
        for tally in &self.tallies {
            let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
            sum.add(&std::mem::replace(&mut *tally, Tally::new()?))?;
        }
        sum.ops = ops;
        Ok(sum)
    }

    fn round(&self, round: u64) -> &Round {
        &self.rounds[round as usize % RING]
    }
}

/// For as many rounds as any burst has.
const RING: usize = 64;
const TALLIES: usize = 16;

#[cfg(test)]
mod tests {
    use std::sync::{Arc, atomic::Ordering::SeqCst};

    use tokio::sync::mpsc;

    use super::*;

    /// Delivers to every member at once, and stops when it has sent so many rounds.
    struct Prompt<'a>(&'a Gathering, &'a Stop, u64);

    impl Sender for Prompt<'_> {
        async fn push(&mut self, first: u64, burst: usize) -> Result<(), Error> {
            for round in first..first + burst as u64 {
                (0..3).for_each(|member| self.0.arrived(member, round));
                if round == self.2 {
                    self.1.stop();
                }
            }
            Ok(())
        }
    }

    /// Leaves the delivery to another task.
    struct Slow(mpsc::UnboundedSender<u64>, Arc<AtomicU64>);

    impl Sender for Slow {
        async fn push(&mut self, first: u64, burst: usize) -> Result<(), Error> {
            self.1.fetch_add(burst as u64, SeqCst);
            Ok((first..first + burst as u64).try_for_each(|round| self.0.send(round))?)
        }
    }

    #[tokio::test]
    async fn what_arrives_is_counted_and_the_next_stretch_goes_on_from_there() {
        for burst in [1, 8, RING] {
            let gathering = Gathering::new(Fanout { members: 3, payload: 8, burst }).unwrap();
            for bursts in [10, 90, 1] {
                let stop = Stop::default();
                let rounds = (bursts * burst) as u64;
                let last = gathering.next.load(Relaxed) + rounds - 1;
                let tally = gathering.run(&mut Prompt(&gathering, &stop, last), &stop).await.unwrap();
                assert_eq!((tally.ops, tally.timed_ops()), (rounds * 3, rounds * 3));
            }
        }
        assert!(Gathering::new(Fanout { members: 3, payload: 8, burst: RING + 1 }).is_err());
    }

    #[tokio::test]
    async fn the_next_burst_waits_until_the_member_that_lags_has_the_last() {
        for burst in [1, 2, 8] {
            let gathering = Gathering::new(Fanout { members: 2, payload: 8, burst }).unwrap();
            let (rounds, mut to_deliver) = mpsc::unbounded_channel();
            let sent = Arc::new(AtomicU64::new(0));
            let stop = Stop::default();
            let delivering = async {
                let mut most = 0;
                while let Some(round) = to_deliver.recv().await {
                    gathering.arrived(0, round);
                    // The sender sends all that it may while the other member waits.
                    for _ in 0..2 * burst {
                        tokio::task::yield_now().await;
                    }
                    most = most.max(sent.load(SeqCst) - round);
                    gathering.arrived(1, round);
                    if round == 100 {
                        stop.stop();
                    }
                }
                most
            };
            let sending = async {
                let mut sender = Slow(rounds, Arc::clone(&sent));
                gathering.run(&mut sender, &stop).await.unwrap()
            };
            let (tally, most) = tokio::join!(sending, delivering);
            assert_eq!(most, burst as u64);
            assert_eq!(tally.ops, sent.load(SeqCst) * 2);
        }
    }
}
