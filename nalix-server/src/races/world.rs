//! A hub and its connections, what threads do with them, and whether what came of it is right.

use std::{
    cell::RefCell,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard},
    task::{Context, Poll, Waker},
    time::Duration,
};

use nalix_core::{CloseCode, CloseReason, Connection, ConnectionId};
use tokio::runtime::{Builder, Handle, Runtime};

use super::{
    ends::{ANSWER, Ends, Note, Question},
    history::{Act, Change, Record, adds_up},
};
use crate::{
    Ask, Group, Hub, Join, Presence, PresenceEvent, WhenFull,
    links::Links,
    sync::schedule::{self, Scenario, Task},
};

/// What a thread does. Connections and groups are numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    Join(usize, usize),
    Leave(usize, usize),
    LeaveAll(usize),
    Send(usize),
    Ask(usize),
    Watch(usize),
    Look(usize),
    /// The server closes the connection, which goes on until its driver is polled.
    Close(usize),
    /// The connection is lost.
    End(usize),
}

pub(super) struct World {
    runtime: Runtime,
    hub: Hub,
    links: Arc<Links>,
    /// Connections that have not ended.
    free: RefCell<Vec<Ends>>,
}

/// One run of a scenario.
struct Run {
    hub: Hub,
    ends: Vec<Ends>,
    groups: Vec<Group>,
    /// One for each group, from before anything happens.
    watches: Vec<Presence>,
    inside: Vec<(usize, usize)>,
    log: Mutex<Log>,
}

#[derive(Default)]
struct Log {
    clock: usize,
    sends: u32,
    /// Of each group.
    records: Vec<(usize, Record)>,
    /// Whom each note was sent to, in order.
    attempts: Vec<(u32, usize)>,
    asks: Vec<Asking>,
    watches: Vec<(usize, Vec<usize>, Presence)>,
    /// How many groups somebody was taken out of by hand.
    taken_out: Vec<(usize, usize)>,
}

struct Asking {
    group: usize,
    begin: usize,
    end: usize,
    ask: Ask<Question>,
    answers: Option<<Ask<Question> as Future>::Output>,
}

impl World {
    pub(super) fn new() -> Self {
        let hub = Hub::new(100);
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        let links = Arc::new(Links::new(hub.clone(), 100, WhenFull::Refuse));
        Self { runtime: runtime.expect("a runtime"), hub, links, free: RefCell::default() }
    }

    /// Runs the threads in every schedule, with some connections in some groups at first.
    pub(super) fn explore(&self, preemptions: usize, inside: &[(usize, usize)], threads: &[&[Op]]) -> usize {
        let handle = self.runtime.handle();
        let _entered = handle.enter();
        schedule::explore(preemptions, || {
            let run = Arc::new(Run::new(&self.hub, self.take(3), inside));
            let task = |ops: &&[Op]| -> Task<'_> {
                let (run, handle, ops) = (Arc::clone(&run), handle.clone(), ops.to_vec());
                Box::new(move || run.all(&handle, &ops))
            };
            let tasks = threads.iter().map(task).collect();
            let check = Box::new(move || self.check(Arc::into_inner(run).expect("all threads are done")));
            Scenario { tasks, check }
        })
    }

    /// Lets so many threads join, look at and leave a group that nobody else holds.
    pub(super) fn explore_brief(&self, preemptions: usize, threads: usize) -> usize {
        schedule::explore(preemptions, || {
            let ends = self.take(threads);
            let task = |ends: &Ends| -> Task<'_> {
                let (hub, connection) = (self.hub.clone(), ends.connection.clone());
                Box::new(move || {
                    assert_eq!(hub.group("brief").join(&connection), Join::Joined);
                    assert!(hub.group("brief").contains(&connection), "it is another group");
                    assert!(hub.group("brief").leave(&connection));
                })
            };
            let tasks = ends.iter().map(task).collect();
            let check = Box::new(move || {
                assert_eq!(self.hub.group_count(), 0);
                self.free.borrow_mut().extend(ends);
            });
            Scenario { tasks, check }
        })
    }

    fn take(&self, n: usize) -> Vec<Ends> {
        let mut free = self.free.borrow_mut();
        while free.len() < n {
            free.push(self.runtime.block_on(Ends::new(&self.links)));
        }
        let rest = free.len() - n;
        free.split_off(rest)
    }

    fn check(&self, run: Run) {
        let Run { hub, ends, groups, mut watches, inside, log } = run;
        let number = |id: ConnectionId| number(&ends, id);
        let ids =
            |group: &Group| group.members().iter().map(|member| number(member.id())).collect::<Vec<_>>();
        let Log { mut records, attempts, asks, watches: later, taken_out, .. } =
            log.into_inner().expect("whole");
        let alive: Vec<bool> = ends.iter().map(|ends| !ends.has_ended()).collect();
        let last: Vec<_> = groups.iter().map(ids).collect();
        let changes: Vec<_> = watches.iter_mut().map(|watch| drain(watch, number)).collect();
        let is_in = |who: usize, group: usize| last[group].contains(&who);
        for (who, ends) in ends.iter().enumerate() {
            let of = hub.groups_of(&ends.connection);
            for (n, group) in groups.iter().enumerate() {
                assert_eq!(of.contains(group), is_in(who, n), "one knows and the other does not");
                assert_eq!(group.contains(&ends.connection), is_in(who, n));
                assert_eq!(group.count(), last[n].len());
                assert!(alive[who] || !is_in(who, n), "it has ended and is still in a group");
            }
            assert_eq!(hub.contains(ends.connection.id()), alive[who]);
            if alive[who] {
                let went = changes.iter().flatten().filter(|change| **change == Change::Went(who)).count();
                let taken =
                    taken_out.iter().filter(|(taken, _)| *taken == who).map(|(_, n)| n).sum::<usize>();
                assert_eq!(went, taken);
            }
        }
        for (group, mut members, mut watch) in later {
            for change in drain(&mut watch, number) {
                match change {
                    Change::Came(who) => {
                        assert!(!members.contains(&who), "{who} came twice");
                        members.push(who);
                    }
                    Change::Went(who) => {
                        let place = members.iter().position(|member| *member == who).expect("it was in");
                        members.swap_remove(place);
                    }
                }
            }
            assert_eq!(sorted(&members), sorted(&last[group]));
        }

        // A question and its answer take some turns; whoever was closed ends meanwhile.
        for _ in 0..6 {
            ends.iter().for_each(Ends::poll);
        }
        let stayed: Vec<bool> = ends.iter().map(|ends| !ends.has_ended()).collect();
        let mut questions = vec![0; ends.len()];
        for Asking { group, begin, end, mut ask, answers } in asks {
            let answers = answers.or_else(|| poll_once(&mut ask)).expect("all have answered or ended");
            let answers = answers.expect("it can be encoded");
            let asked: Vec<usize> = answers.iter().map(|answer| number(answer.member.id())).collect();
            for (who, answer) in asked.iter().zip(&answers) {
                questions[*who] += 1;
                match &answer.result {
                    Ok(answer) => assert_eq!(*answer, ANSWER),
                    Err(error) => assert!(!stayed[*who], "{who} did not answer: {error}"),
                }
            }
            records.push((group, Record { begin, end, act: Act::Saw(asked) }));
        }
        for (who, ends) in ends.iter().enumerate().filter(|(who, _)| stayed[*who]) {
            let sent = attempts.iter().filter(|(_, to)| *to == who).map(|(n, _)| *n);
            assert_eq!(ends.received(), (sent.collect(), questions[who]), "what {who} got");
        }
        for group in 0..groups.len() {
            let of = |list: &[(usize, usize)]| -> Vec<usize> {
                list.iter().filter(|(_, in_group)| *in_group == group).map(|(who, _)| *who).collect()
            };
            let records: Vec<_> =
                records.iter().filter(|(of, _)| *of == group).map(|(_, record)| record.clone()).collect();
            let (first, changes, last) = (of(&inside), &changes[group], &last[group]);
            assert!(
                adds_up(&first, &records, changes, last),
                "no order explains this: {first:?} {records:?} {changes:?} {last:?}"
            );
        }

        // Nothing is left behind.
        drop((groups, watches));
        let mut free = self.free.borrow_mut();
        for ends in ends {
            if ends.has_ended() {
                assert!(!hub.contains(ends.connection.id()) && hub.groups_of(&ends.connection).is_empty());
            } else {
                hub.leave_all(&ends.connection);
                free.push(ends);
            }
        }
        assert_eq!((hub.group_count(), hub.count()), (0, free.len()));
    }
}

impl Run {
    fn new(hub: &Hub, ends: Vec<Ends>, inside: &[(usize, usize)]) -> Self {
        let groups: Vec<_> = (0..2).map(|n| hub.group(n)).collect();
        for (who, group) in inside {
            assert_eq!(groups[*group].join(&ends[*who].connection), Join::Joined);
        }
        let watches = groups.iter().map(|group| group.watch(100).1).collect();
        let (hub, inside) = (hub.clone(), inside.to_vec());
        Self { hub, ends, groups, watches, inside, log: Mutex::default() }
    }

    fn all(&self, handle: &Handle, ops: &[Op]) {
        let _entered = handle.enter();
        for op in ops {
            schedule::point();
            self.act(*op);
        }
    }

    fn act(&self, op: Op) {
        let begin = self.tick();
        match op {
            Op::Join(who, group) => {
                let outcome = self.groups[group].join(self.connection(who));
                self.note(group, begin, Act::Join(who, outcome));
            }
            Op::Leave(who, group) => {
                let was_in = self.groups[group].leave(self.connection(who));
                self.log().taken_out.push((who, usize::from(was_in)));
                self.note(group, begin, Act::Leave(who, Some(was_in)));
            }
            Op::LeaveAll(who) => {
                let groups = self.hub.leave_all(self.connection(who));
                self.log().taken_out.push((who, groups));
                self.left_all(who, begin);
            }
            Op::Send(group) => self.send(group, begin),
            Op::Ask(group) => {
                let mut ask = self.groups[group].ask(&Question, Duration::from_secs(60));
                let answers = poll_once(&mut ask);
                let end = self.tick();
                self.log().asks.push(Asking { group, begin, end, ask, answers });
            }
            Op::Watch(group) => {
                let (members, watch) = self.groups[group].watch(100);
                let members: Vec<_> = members.iter().map(|member| number(&self.ends, member.id())).collect();
                self.note(group, begin, Act::Saw(members.clone()));
                self.log().watches.push((group, members, watch));
            }
            Op::Look(group) => {
                let members = self.groups[group].members();
                let members = members.iter().map(|member| number(&self.ends, member.id())).collect();
                self.note(group, begin, Act::Saw(members));
            }
            Op::Close(who) => {
                let reason = CloseReason::new(CloseCode::Normal, "");
                let found = self.hub.close(self.connection(who).id(), reason);
                assert!(found || self.ends[who].has_ended());
            }
            Op::End(who) => {
                let mut lost = begin;
                self.ends[who].end(|| {
                    (0..self.groups.len()).for_each(|group| self.note(group, begin, Act::Ended(who)));
                    schedule::point();
                    lost = self.tick();
                });
                self.left_all(who, lost);
            }
        }
    }

    fn send(&self, group: usize, begin: usize) {
        let mut log = self.log();
        let n = log.sends;
        log.sends += 1;
        drop(log);
        let mut to = Vec::new();
        let sent = self.groups[group].send_where(&Note { n }, |member| {
            schedule::point();
            let who = number(&self.ends, member.id());
            self.log().attempts.push((n, who));
            to.push(who);
            true
        });
        assert_eq!((sent.queued + sent.failed, sent.skipped, sent.slow), (to.len(), 0, 0));
        self.note(group, begin, Act::Saw(to));
    }

    fn left_all(&self, who: usize, begin: usize) {
        (0..self.groups.len()).for_each(|group| self.note(group, begin, Act::Leave(who, None)));
    }

    fn note(&self, group: usize, begin: usize, act: Act) {
        let end = self.tick();
        self.log().records.push((group, Record { begin, end, act }));
    }

    fn tick(&self) -> usize {
        let mut log = self.log();
        log.clock += 1;
        log.clock
    }

    fn connection(&self, who: usize) -> &Connection {
        &self.ends[who].connection
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().expect("whole")
    }
}

fn number(ends: &[Ends], id: ConnectionId) -> usize {
    ends.iter().position(|ends| ends.connection.id() == id).expect("one of ours")
}

fn drain(watch: &mut Presence, number: impl Fn(ConnectionId) -> usize) -> Vec<Change> {
    let next = || watch.try_next();
    let change = |event| match event {
        PresenceEvent::Joined(member) => Change::Came(number(member.id())),
        PresenceEvent::Left(member) => Change::Went(number(member.id())),
        PresenceEvent::Away(_) | PresenceEvent::Back(_) => panic!("nobody loses a link here"),
        PresenceEvent::Missed(n) => panic!("{n} missed"),
    };
    std::iter::from_fn(next).map(change).collect()
}

fn poll_once(ask: &mut Ask<Question>) -> Option<<Ask<Question> as Future>::Output> {
    match Pin::new(ask).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answers) => Some(answers),
        Poll::Pending => None,
    }
}

fn sorted(members: &[usize]) -> Vec<usize> {
    let mut members = members.to_vec();
    members.sort_unstable();
    members
}
