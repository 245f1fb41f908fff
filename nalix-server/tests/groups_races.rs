//! Groups whose members, handles and connections come and go at once: whatever the order, it adds up.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    collections::HashMap,
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
};

use nalix_server::{
    Connection, ConnectionId, Delivery, Hub, Join, Member, Options, Presence, PresenceEvent, ServerHandle,
    packet, packet_controller,
};
use support::{deaf, eventually, server};

#[packet(opcode = 0x3001)]
struct Number {
    n: u32,
}

#[packet(opcode = 0x1001, reply = ())]
struct Nothings;

struct Nothing;

#[packet_controller]
impl Nothing {
    #[packet]
    fn nothing(&self, _: Nothings) {}
}

async fn nothing() -> ServerHandle {
    server(Nothing, Options::default()).await
}

/// Numbers that look random, the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }
}

/// Which connections are in by the events so far. Each comes and goes in turns.
fn follow(presence: &mut Presence) -> Vec<ConnectionId> {
    let mut inside: HashMap<ConnectionId, bool> = HashMap::new();
    while let Some(event) = presence.try_next() {
        let (id, now) = match &event {
            PresenceEvent::Joined(member) => (member.id(), true),
            PresenceEvent::Left(member) => (member.id(), false),
            other => panic!("{other:?}"),
        };
        let before = inside.insert(id, now).unwrap_or(false);
        assert_ne!(before, now, "{event:?}");
    }
    inside.into_iter().filter(|(_, inside)| *inside).map(|(id, _)| id).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joining_leaving_sending_and_disconnecting_at_once_leaves_nothing_behind() {
    const GROUPS: usize = 3;
    let server = nothing().await;
    let hub = server.hub();
    for round in 0..10 {
        let mut members = Vec::new();
        for _ in 0..8 {
            members.push(deaf(&server, 1 << 20).await);
        }
        let connections: Vec<Connection> = members.iter().map(|(_, connection)| connection.clone()).collect();
        let mut watches: Vec<_> = (0..GROUPS).map(|group| hub.group(group).watch(100_000).1).collect();
        let start = Arc::new(Barrier::new(4));
        let threads: Vec<_> = (0..4)
            .map(|who| {
                let (hub, connections, start) = (hub.clone(), connections.clone(), Arc::clone(&start));
                thread::spawn(move || {
                    start.wait();
                    churn(&hub, &connections, who, round);
                })
            })
            .collect();
        for thread in threads {
            tokio::task::spawn_blocking(|| thread.join().unwrap()).await.unwrap();
        }
        // Half of them have been cut off; those have left, and the others are where the events say.
        eventually("the dead are gone", || hub.count() == 4).await;
        for (group, watch) in watches.iter_mut().enumerate() {
            let mut inside = follow(watch);
            let mut members: Vec<_> = hub.group(group).members().iter().map(Member::id).collect();
            inside.sort();
            members.sort();
            assert_eq!(members, inside);
            assert!(members.iter().all(|id| hub.contains(*id)));
        }
        drop(watches);
        drop(members);
        eventually("all are gone", || hub.count() == 0).await;
        assert_eq!(hub.group_count(), 0);
        assert!(connections.iter().all(|connection| hub.groups_of(connection).is_empty()));
    }
}

/// One of four threads: three join, leave and send, one cuts off half of the connections.
fn churn(hub: &Hub, connections: &[Connection], who: u64, round: u64) {
    let mut dice = Dice(round * 4 + who);
    for turn in 0..400 {
        let group = hub.group(dice.roll(3));
        let connection = &connections[dice.roll(connections.len())];
        match dice.roll(5) {
            0 => drop(group.join_with(connection, who)),
            1 => drop(group.leave(connection)),
            2 => drop(hub.leave_all(connection)),
            3 => drop(group.with(Delivery::Droppable).send(&Number { n: turn })),
            _ => drop(group.join(connection)),
        }
        if who == 3 && turn % 100 == 50 {
            connections[turn as usize / 100].abort();
        }
    }
}

/// Two groups of one name would each have some of the members.
#[test]
fn a_group_that_vanishes_and_comes_again_is_never_two() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (server, members) = runtime.block_on(async {
        let server = nothing().await;
        let mut members = Vec::new();
        for _ in 0..3 {
            members.push(deaf(&server, 1 << 20).await);
        }
        (server, members)
    });
    let hub = server.hub();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let others: Vec<_> = members[1..]
            .iter()
            .map(|(_, connection)| {
                scope.spawn(|| {
                    while !stop.load(SeqCst) {
                        assert_eq!(hub.group("x").join(connection), Join::Joined);
                        assert!(hub.group("x").contains(connection));
                        assert!(hub.group("x").leave(connection));
                    }
                })
            })
            .collect();
        for _ in 0..20_000 {
            let connection = &members[0].1;
            assert_eq!(hub.group("x").join(connection), Join::Joined);
            assert!(hub.group("x").contains(connection));
            assert!(hub.group("x").leave(connection));
        }
        stop.store(true, SeqCst);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
    assert_eq!(hub.group_count(), 0);
}

/// What can happen to a connection and a group.
#[derive(Debug, Clone, Copy)]
enum Step {
    Join,
    JoinOther,
    Leave,
    LeaveAll,
    End,
}

/// Under the locks that they take, these happen one after the other; so these are all the ways in which they can.
#[tokio::test]
async fn every_order_of_joining_leaving_and_ending_adds_up() {
    const STEPS: [Step; 5] = [Step::Join, Step::JoinOther, Step::Leave, Step::LeaveAll, Step::End];
    const LENGTH: u32 = 4;
    let server = nothing().await;
    let hub = server.hub();
    for order in 0..STEPS.len().pow(LENGTH) {
        let (peer, connection) = deaf(&server, 1 << 10).await;
        let (group, other) = (hub.group("one"), hub.group("other"));
        let (_, mut watch) = group.watch(100);
        let (mut inside, mut in_other, mut ended) = (false, false, false);
        for n in 0..LENGTH {
            let step = STEPS[order / STEPS.len().pow(n) % STEPS.len()];
            match step {
                Step::Join | Step::JoinOther => {
                    let (group, inside) = if matches!(step, Step::Join) {
                        (&group, &mut inside)
                    } else {
                        (&other, &mut in_other)
                    };
                    let expected = match (ended, *inside) {
                        (true, _) => Join::Closed,
                        (false, true) => Join::Already,
                        (false, false) => Join::Joined,
                    };
                    assert_eq!(group.join(&connection), expected, "{order} {n}");
                    *inside = !ended;
                }
                Step::Leave => {
                    assert_eq!(group.leave(&connection), inside, "{order} {n}");
                    inside = false;
                }
                Step::LeaveAll => {
                    let expected = usize::from(inside) + usize::from(in_other);
                    assert_eq!(hub.leave_all(&connection), expected, "{order} {n}");
                    (inside, in_other) = (false, false);
                }
                Step::End => {
                    connection.abort();
                    eventually("it has ended", || !hub.contains(connection.id())).await;
                    (inside, in_other, ended) = (false, false, true);
                }
            }
            let are = (group.contains(&connection), other.contains(&connection));
            assert_eq!(are, (inside, in_other), "{order} {n}");
            assert_eq!((group.count(), other.count()), (usize::from(inside), usize::from(in_other)));
            assert_eq!(hub.groups_of(&connection).len(), usize::from(inside) + usize::from(in_other));
        }
        drop(peer);
        eventually("it is gone", || hub.count() == 0).await;
        assert!(follow(&mut watch).is_empty());
    }
    assert_eq!(hub.group_count(), 0);
}
