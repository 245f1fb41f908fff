//! One stream by itself, and all orders of events of several that share a budget.

use std::collections::HashSet;

use super::*;
use crate::peer::budget::StreamLimits;

/// Both ends of a stream and what is on the way between them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Model {
    credit_out: usize,
    /// Bytes that are not sent yet.
    left: usize,
    /// Frames on the way, by their length.
    frames: VecDeque<usize>,
    grants: VecDeque<u64>,
    credit_in: usize,
    window: usize,
    /// Arrived and not consumed.
    held: usize,
    consumed: usize,
    /// Whether somebody consumes.
    read: bool,
}

/// Streams that share a budget, and what is left of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    streams: Vec<Model>,
    free: usize,
}

struct Rules {
    first: usize,
    limits: StreamLimits,
    /// The lengths of frames that a sender makes, as far as its credit allows.
    frames: &'static [usize],
}

impl Model {
    fn new(first: usize, left: usize, read: bool) -> Self {
        Self {
            credit_out: first,
            left,
            frames: VecDeque::new(),
            grants: VecDeque::new(),
            credit_in: first,
            window: first,
            held: 0,
            consumed: 0,
            read,
        }
    }

    fn sending(&self) -> Sending {
        Sending { pending: vec![0; self.left], ..Sending::new(self.credit_out, None, false) }
    }

    fn receiving(&self, now: Instant) -> Receiving {
        let fresh = Receiving::new(self.window, now);
        Receiving { credit: self.credit_in, consumed: self.consumed, ..fresh }
    }

    /// What has been sent and not been consumed.
    fn kept(&self) -> usize {
        self.held + self.frames.iter().sum::<usize>()
    }

    fn is_done(&self) -> bool {
        !self.read || self.left + self.kept() == 0
    }
}

impl World {
    fn budget(&self, rules: &Rules) -> Budget {
        let mut budget = Budget::new(rules.limits, rules.first, self.streams.len());
        budget.set_free(self.free);
        budget
    }

    /// Every state that one step leads to.
    fn steps(&self, rules: &Rules, now: Instant) -> Vec<World> {
        let mut next = Vec::new();
        for at in 0..self.streams.len() {
            let stream = &self.streams[at];
            let mut with = |change: &mut dyn FnMut(&mut Model), free: usize| {
                let mut world = World { free, ..self.clone() };
                change(&mut world.streams[at]);
                next.push(world);
            };
            for &most in rules.frames {
                let mut sending = stream.sending();
                let n = sending.send(most, <[u8]>::len);
                if n > 0 {
                    let change = &mut |model: &mut Model| {
                        (model.credit_out, model.left) = (sending.credit, model.left - n);
                        model.frames.push_back(n);
                    };
                    with(change, self.free);
                }
            }
            if let Some(&n) = stream.frames.front() {
                let mut receiving = stream.receiving(now);
                receiving.push(vec![0; n].into()).expect("the sender keeps to its credit");
                let change = &mut |model: &mut Model| {
                    model.frames.pop_front();
                    (model.credit_in, model.held) = (receiving.credit, model.held + n);
                };
                with(change, self.free);
            }
            for (n, later) in [(1, false), (1, true), (stream.held, false), (stream.held, true)] {
                if n > stream.held || n == 0 || !stream.read {
                    continue;
                }
                let (mut receiving, mut budget) = (stream.receiving(now), self.budget(rules));
                let grant = receiving.consume(n, &mut budget, || if later { now + 2 * QUICK } else { now });
                let change = &mut |model: &mut Model| {
                    model.held -= n;
                    model.grants.extend(grant);
                    (model.credit_in, model.consumed) = (receiving.credit, receiving.consumed);
                    model.window = receiving.window;
                };
                with(change, budget.free());
            }
            if let Some(&n) = stream.grants.front() {
                let mut sending = stream.sending();
                sending.grant(n).expect("little credit");
                let change = &mut |model: &mut Model| {
                    model.grants.pop_front();
                    model.credit_out = sending.credit;
                };
                with(change, self.free);
            }
        }
        next
    }

    fn check(&self, rules: &Rules) {
        let mut windows = 0;
        for model in &self.streams {
            assert!(model.kept() <= model.window && model.window <= rules.limits.window, "{self:?}");
            assert!(model.window >= rules.first, "{self:?}");
            // Every byte of the window is somewhere.
            let granted: u64 = model.grants.iter().sum();
            let all = model.credit_out + model.kept() + model.consumed + granted as usize;
            assert_eq!(all, model.window, "{self:?}");
            windows += model.window;
        }
        let first = rules.first * self.streams.len();
        assert_eq!(windows + self.free, first + rules.limits.budget / 2, "{self:?}");
    }
}

/// Visits every order of events from `start` on, and returns how many states there are.
fn explore(start: World, rules: &Rules) -> usize {
    let now = Instant::now();
    let mut seen = HashSet::from([start.clone()]);
    let mut todo = vec![start];
    while let Some(world) = todo.pop() {
        world.check(rules);
        let next = world.steps(rules, now);
        // Nothing can happen any more only when all has been sent and consumed, also where others are not read.
        let done = world.streams.iter().all(Model::is_done);
        assert!(!next.is_empty() || done, "{world:?} is stuck");
        todo.extend(next.into_iter().filter(|world| seen.insert(world.clone())));
    }
    seen.len()
}

fn limits(window: usize, budget: usize) -> StreamLimits {
    StreamLimits { window, budget, assembly: 0 }
}

#[test]
fn no_order_of_events_overdraws_starves_or_keeps_more_than_the_window() {
    for first in 1..=4 {
        for window in first..=5 {
            for pool in [0, 1, 8] {
                let rules = Rules { first, limits: limits(window, 2 * pool), frames: &[1, 3, 100] };
                let start = World { streams: vec![Model::new(first, 9, true)], free: pool };
                assert!(explore(start, &rules) > 10);
            }
        }
    }
}

/// Streams that nobody reads keep what they have and stop none of the others; nor do those that are read slowly.
#[test]
fn no_order_of_events_lets_a_stream_starve_another() {
    let mut states = 0;
    for (read, left) in [([true, true], 4), ([true, false], 6), ([false, true], 6)] {
        for first in 1..=2 {
            for pool in [0, 1, 2] {
                let rules = Rules { first, limits: limits(4, 2 * pool), frames: &[1, 100] };
                let streams = read.map(|read| Model::new(first, left, read)).to_vec();
                states += explore(World { streams, free: pool }, &rules);
            }
        }
    }
    assert!(states > 10_000, "{states}");
}

#[test]
fn small_frames_are_put_together_and_stay_in_order() {
    let mut receiving = Receiving::new(1 << 20, Instant::now());
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
    let mut sending = Sending::new(0, None, false);
    assert_eq!(sending.grant(u64::MAX), Err(TooMuchCredit));
    assert_eq!(sending.grant(u32::MAX.into()), Ok(()));
    assert_eq!(sending.grant(1), Err(TooMuchCredit));
    sending.put(&mut vec![1; 5]);
    assert_eq!(sending.send(5, <[u8]>::len), 5);
    assert_eq!(sending.grant(5), Ok(()));
}

#[test]
fn what_waits_for_credit_goes_in_order_and_in_parts() {
    let mut sending = Sending::new(10, None, false);
    let mut sent = Vec::new();
    let mut expected = Vec::new();
    for n in 0..100u8 {
        assert!(sending.may_put());
        let mut item = vec![n; 1 + usize::from(n % 30)];
        expected.extend_from_slice(&item);
        sending.put(&mut item);
        while !sending.may_put() {
            while sending.sendable() > 0 {
                sending.send(7, |bytes| sent.extend_from_slice(bytes));
            }
            sending.grant(4).unwrap();
        }
        assert!(sending.pending.len() <= 2 * sending.waiting() + 60, "what has gone is not kept");
    }
    sending.grant(1_000).unwrap();
    sending.send(1_000, |bytes| sent.extend_from_slice(bytes));
    assert_eq!(sent, expected);
    assert_eq!((sending.waiting(), sending.sendable()), (0, 0));
}
