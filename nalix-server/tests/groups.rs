//! Groups: who is in them, who is told, what is sent once and arrives once.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

use nalix_core::{
    error::DecodeError,
    schema::{Describe, SchemaBuilder, Type},
    wire::{Decode, Encode, Reader, Writer},
};
use nalix_server::{
    CloseReason, Code, Connection, Context, Group, Hub, HubExt, Join, Options, PresenceEvent, Server,
    ServerHandle, packet, packet_controller,
};
use support::{Inbox, eventually, member, server, within};

/// A number that counts how often it is encoded.
#[derive(Debug, Clone, Copy)]
struct Counted(u32);

static ENCODED: AtomicUsize = AtomicUsize::new(0);

impl Encode for Counted {
    fn encode(&self, w: &mut Writer<'_>) {
        ENCODED.fetch_add(1, SeqCst);
        self.0.encode(w);
    }
}

impl Decode<'_> for Counted {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        u32::decode(r).map(Self)
    }
}

impl Describe for Counted {
    fn describe(builder: &mut SchemaBuilder) -> Type {
        u32::describe(builder)
    }
}

#[packet(opcode = 0x3001)]
struct Count {
    n: Counted,
}

#[packet(opcode = 0x3002)]
struct Number {
    n: u32,
}

#[packet(opcode = 0x3003)]
struct Bounded {
    #[wire(max_len = 3)]
    text: String,
}

#[packet(opcode = 0x1001, reply = u32)]
struct Enter {
    room: u32,
}

#[packet(opcode = 0x1002, reply = u64)]
struct HowMany;

/// What a client does with what it is sent.
#[derive(Clone, Default)]
struct Ear(Inbox<u32>);

#[packet_controller]
impl Ear {
    #[packet]
    fn count(&self, count: Count) {
        self.0.put(count.n.0);
    }

    #[packet]
    fn number(&self, number: Number) {
        self.0.put(number.n);
    }
}

/// What the server does with what it is asked.
#[derive(Clone, Default)]
struct Rooms {
    /// What each connection that has gone was still in.
    left: Inbox<(usize, usize, Join)>,
}

#[packet_controller]
impl Rooms {
    #[packet]
    fn enter(&self, ctx: &Context, enter: Enter) -> u32 {
        let room = ctx.group(enter.room);
        assert_eq!(room.join(ctx), Join::Joined);
        room.send_except(&Number { n: enter.room }, ctx);
        room.count() as u32
    }

    #[packet]
    fn how_many(&self, hub: Hub, _: HowMany) -> u64 {
        hub.count() as u64
    }

    #[disconnected]
    async fn bye(&self, ctx: &Context, _: &CloseReason) {
        let joined = ctx.group("after the end").join(ctx);
        self.left.put((ctx.hub().groups_of(ctx).len(), ctx.group(1_u32).count(), joined));
    }
}

async fn rooms() -> ServerHandle {
    server(Rooms::default(), Options::default()).await
}

#[tokio::test]
async fn a_packet_is_encoded_once_for_a_thousand_members_and_reaches_each_once() {
    let server = rooms().await;
    let ear = Ear::default();
    let group = server.hub().group("all");
    let mut sessions = Vec::new();
    for _ in 0..1_000 {
        let (session, connection) = member(&server, ear.clone()).await;
        assert_eq!(group.join(&connection), Join::Joined);
        sessions.push(session);
    }
    let sent = group.send(&Count { n: Counted(7) });
    assert_eq!((sent.queued, sent.skipped, sent.slow, sent.failed), (1_000, 0, 0, 0));
    assert_eq!(ENCODED.load(SeqCst), 1);
    let sent = server.hub().send_all(&Count { n: Counted(8) });
    assert_eq!((sent.queued, ENCODED.load(SeqCst)), (1_000, 2));
    ear.0.has(2_000).await;
    let mut got = ear.0.all();
    got.sort_unstable();
    assert_eq!(got, [[7; 1_000], [8; 1_000]].concat());
}

#[tokio::test]
async fn equal_keys_of_different_types_do_not_name_one_group() {
    let server = rooms().await;
    let hub = server.hub();
    let (_session, connection) = member(&server, Ear::default()).await;
    let groups = [hub.group(1_u32), hub.group(1_u64), hub.group("1"), hub.group((1_u32, "1")), hub.group(())];
    groups[0].join(&connection);
    assert_eq!(groups.each_ref().map(Group::count), [1, 0, 0, 0, 0]);
    assert_eq!((hub.group(1_u32).count(), hub.group(2_u32).count()), (1, 0));
    assert_eq!((groups[1].key::<u64>(), groups[1].key::<u32>()), (Some(&1), None));
    assert_eq!(hub.group_count(), groups.len());
}

/// Whoever writes `group("lobby")` in one place and `group(name.clone())` in the other means one group.
#[tokio::test]
async fn a_text_is_the_same_key_whatever_holds_it() {
    let hub = rooms().await.hub();
    let text = hub.group("lobby");
    assert_eq!(text, hub.group(String::from("lobby")));
    assert_eq!(text, hub.group(Cow::Borrowed("lobby")));
    assert_eq!(text, hub.group(Arc::<str>::from("lobby")));
    assert_eq!(text, hub.group(Box::<str>::from("lobby")));
    assert_ne!(text, hub.group("hall"));
    assert_eq!(hub.group_count(), 1, "the hall is gone again");
    assert_eq!(text.text(), Some("lobby"));
}

#[tokio::test]
async fn a_group_that_nobody_holds_is_gone() {
    let server = rooms().await;
    let hub = server.hub();
    let (_session, connection) = member(&server, Ear::default()).await;
    for n in 0..1_000_u32 {
        hub.group(n).send(&Number { n });
    }
    assert_eq!(hub.group_count(), 0);
    // Members, handles and subscriptions hold it, in any order of their end.
    let handle = hub.group("held");
    handle.join(&connection);
    drop(handle);
    assert_eq!((hub.group_count(), hub.group("held").count()), (1, 1));
    let (members, presence) = hub.group("held").watch(1);
    assert_eq!(hub.leave_all(&connection), 1);
    assert_eq!((hub.group_count(), hub.group("held").count()), (1, 0));
    drop(presence);
    assert_eq!((hub.group_count(), members.len()), (0, 1));
}

#[tokio::test]
async fn a_connection_that_ends_leaves_all_groups_before_its_hooks_run() {
    let controller = Rooms::default();
    let server = server(controller.clone(), Options::default()).await;
    let hub = server.hub();
    let (session, connection) = member(&server, Ear::default()).await;
    let (staying, other) = member(&server, Ear::default()).await;
    for n in 0..10_u32 {
        hub.group(n).join(&connection);
        hub.group(n).join(&other);
    }
    assert_eq!(hub.groups_of(&connection).len(), 10);
    session.close().await;
    eventually("it is gone", || server.connection_count() == 1).await;
    assert_eq!(controller.left.all(), [(0, 1, Join::Closed)]);
    for n in 0..10_u32 {
        assert_eq!(hub.group(n).members().iter().map(|member| member.id()).collect::<Vec<_>>(), [other.id()]);
    }
    assert_eq!(hub.group("late").join(&connection), Join::Closed);
    drop(staying);
    eventually("no group is left", || hub.group_count() == 0).await;
}

#[tokio::test]
async fn each_membership_is_seen_to_begin_and_to_end_once() {
    let server = rooms().await;
    let group = server.hub().group("watched");
    let (before, mut presence) = group.watch(100);
    assert!(before.is_empty());
    let (first, a) = member(&server, Ear::default()).await;
    let (second, b) = member(&server, Ear::default()).await;
    assert_eq!(group.join_with(&a, "Ada"), Join::Joined);
    assert_eq!(group.join(&a), Join::Already, "nobody hears of it twice");
    group.join(&b);
    assert!(group.leave(&b));
    assert!(!group.leave(&b));
    group.join(&b);
    drop(first);
    eventually("a is gone", || group.count() == 1).await;
    second.close().await;
    let mut seen = Vec::new();
    for _ in 0..6 {
        seen.push(match within("the events come", presence.next()).await {
            PresenceEvent::Joined(member) => ("joined", member.id()),
            PresenceEvent::Left(member) => {
                assert_eq!(member.metadata::<&str>().copied(), (member.id() == a.id()).then_some("Ada"));
                ("left", member.id())
            }
            other => panic!("{other:?}"),
        });
    }
    let (a, b) = (a.id(), b.id());
    assert_eq!(seen, [("joined", a), ("joined", b), ("left", b), ("joined", b), ("left", a), ("left", b)]);
    assert!(presence.try_next().is_none());
}

#[tokio::test]
async fn a_subscriber_who_is_too_slow_learns_how_much_it_has_missed() {
    let server = rooms().await;
    let group = server.hub().group("watched");
    let (_session, connection) = member(&server, Ear::default()).await;
    let (_, mut presence) = group.watch(3);
    let (_, mut smallest) = group.watch(0);
    for _ in 0..5 {
        group.join(&connection);
        group.leave(&connection);
    }
    assert!(matches!(presence.try_next(), Some(PresenceEvent::Missed(7))));
    assert!(matches!(presence.try_next(), Some(PresenceEvent::Left(_))));
    assert!(matches!(presence.try_next(), Some(PresenceEvent::Joined(_))));
    assert!(matches!(presence.try_next(), Some(PresenceEvent::Left(_))));
    assert!(presence.try_next().is_none());
    assert!(matches!(smallest.try_next(), Some(PresenceEvent::Missed(9))));
    assert!(matches!(smallest.try_next(), Some(PresenceEvent::Left(_))));
    group.join(&connection);
    assert!(matches!(presence.try_next(), Some(PresenceEvent::Joined(_))), "nothing more was missed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_sends_arrives_in_order_at_every_member() {
    const SENDERS: u32 = 3;
    const EACH: u32 = 500;
    let server = rooms().await;
    let group = server.hub().group("ordered");
    let mut members = Vec::new();
    for _ in 0..10 {
        let ear = Ear::default();
        let (session, connection) = member(&server, ear.clone()).await;
        group.join(&connection);
        members.push((session, ear.0));
    }
    let senders = (0..SENDERS).map(|sender| {
        let group = group.clone();
        tokio::task::spawn_blocking(move || {
            for n in 0..EACH {
                assert_eq!(group.send(&Number { n: sender * EACH + n }).queued, 10);
            }
        })
    });
    for sender in senders.collect::<Vec<_>>() {
        sender.await.unwrap();
    }
    for (_session, inbox) in members {
        inbox.has((SENDERS * EACH) as usize).await;
        let got = inbox.all();
        for sender in 0..SENDERS {
            let of_one = sender * EACH..(sender + 1) * EACH;
            let arrived: Vec<u32> = got.iter().copied().filter(|n| of_one.contains(n)).collect();
            assert_eq!(arrived, of_one.collect::<Vec<_>>());
        }
    }
}

#[tokio::test]
async fn those_who_are_not_meant_get_nothing() {
    struct Team(u8);
    let server = rooms().await;
    let group = server.hub().group("teams");
    let mut members = Vec::new();
    for team in 0..3 {
        let ear = Ear::default();
        let (session, connection) = member(&server, ear.clone()).await;
        group.join_with(&connection, Team(team));
        members.push((session, connection, ear.0));
    }
    let is_of = |wanted: u8| {
        move |member: &nalix_server::Member| member.metadata::<Team>().is_some_and(|team| team.0 == wanted)
    };
    assert_eq!(group.send_except(&Number { n: 10 }, &members[0].1).queued, 2);
    assert_eq!(group.send_where(&Number { n: 20 }, is_of(1)).queued, 1);
    assert!(group.set_metadata(&members[0].1, Team(2)));
    assert_eq!(group.send_where(&Number { n: 30 }, is_of(2)).queued, 2);
    assert_eq!(group.send_where(&Number { n: 40 }, is_of(0)).queued, 0);
    assert!(group.member(&members[0].1).unwrap().metadata::<u8>().is_none(), "of another type");
    assert_eq!(server.hub().send_where(&Number { n: 50 }, |c| *c == members[1].1).queued, 1);
    assert_eq!(group.send(&Number { n: 99 }).queued, 3);
    for ((_, _, inbox), expected) in
        members.iter().zip([vec![30, 99], vec![10, 20, 50, 99], vec![10, 30, 99]])
    {
        inbox.has(expected.len()).await;
        assert_eq!(inbox.all(), expected);
    }
}

/// A lock that is held while a predicate runs would never be free again.
#[tokio::test]
async fn members_may_change_while_they_are_gone_through() {
    let server = rooms().await;
    let hub = server.hub();
    let group = hub.group("changing");
    let (_first, a) = member(&server, Ear::default()).await;
    let (_second, b) = member(&server, Ear::default()).await;
    let (_third, c) = member(&server, Ear::default()).await;
    group.join(&a);
    group.join(&b);
    let mut asked = 0;
    let sent = group.send_where(&Number { n: 1 }, |member| {
        asked += 1;
        group.leave(member.connection());
        group.join(&c);
        group.send(&Number { n: 2 });
        hub.close(member.id(), CloseReason::new(nalix_server::CloseCode::Normal, "")) && hub.count() == 0
    });
    assert_eq!((asked, sent.queued), (2, 0));
    assert_eq!(group.members().iter().map(|member| member.id()).collect::<Vec<_>>(), [c.id()]);
}

#[tokio::test]
async fn a_packet_that_cannot_be_encoded_goes_to_nobody_and_harms_nobody() {
    let server = rooms().await;
    let group = server.hub().group("g");
    let ear = Ear::default();
    let (_session, connection) = member(&server, ear.clone()).await;
    group.join(&connection);
    let sent = group.send(&Bounded { text: "four".into() });
    assert!(sent.error.is_some());
    assert_eq!((sent.queued, sent.slow, sent.failed), (0, 0, 0));
    group.send(&Number { n: 1 });
    ear.0.has(1).await;
}

#[tokio::test]
async fn nobody_is_in_more_groups_than_allowed() {
    let server = Server::builder()
        .plaintext()
        .no_listener()
        .controller(Rooms::default())
        .max_groups_per_connection(2)
        .build()
        .await
        .unwrap()
        .handle();
    let hub = server.hub();
    let (_session, connection) = member(&server, Ear::default()).await;
    assert_eq!(hub.group(1).join(&connection), Join::Joined);
    assert_eq!(hub.group(2).join(&connection), Join::Joined);
    assert_eq!(hub.group(3).join(&connection), Join::TooMany);
    let refused = hub.group(3).join(&connection).ok().unwrap_err();
    assert_eq!(refused.code, Code::ResourceExhausted);
    assert_eq!(hub.group(1).join(&connection).ok(), Ok(()), "it is in there already");
    assert_eq!(hub.group(2).join(&connection), Join::Already);
    assert_eq!((hub.group_count(), hub.group(3).count()), (2, 0));
    hub.group(1).leave(&connection);
    assert_eq!(hub.group(3).join(&connection), Join::Joined);
}

/// Nobody would take it out again.
#[tokio::test]
async fn a_connection_of_another_server_is_not_let_in() {
    let (server, other) = (rooms().await, rooms().await);
    let (session, connection) = member(&other, Ear::default()).await;
    let group = server.hub().group("ours");
    assert_eq!(group.join(&connection), Join::Closed);
    let theirs: &Connection = &session.connection();
    assert_eq!(group.join(theirs), Join::Closed);
    assert_eq!(group.join(theirs).ok().unwrap_err().code, Code::FailedPrecondition);
    assert!(group.is_empty());
}

#[tokio::test]
async fn handlers_reach_the_hub_and_its_groups() {
    let server = rooms().await;
    let ear = Ear::default();
    let (first, _) = member(&server, ear.clone()).await;
    let (second, _) = member(&server, Ear::default()).await;
    assert_eq!(first.request(Enter { room: 4 }).await.unwrap(), 1);
    assert_eq!(second.request(Enter { room: 4 }).await.unwrap(), 2);
    assert_eq!(second.request(HowMany).await.unwrap(), 2);
    ear.0.has(1).await;
    assert_eq!(ear.0.all(), [4]);
}
