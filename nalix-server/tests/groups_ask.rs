//! Asking all members of a group: whatever some of them do, the answers of the others come, and in time.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::time::Duration;

use nalix_server::{Code, Options, RequestError, ServerHandle, Status, packet, packet_controller};
use support::{Live, deaf, member, server, soon, within};
use tokio::sync::watch;

#[packet(opcode = 0x1001, reply = ())]
struct Nothings;

struct Nothing;

#[packet_controller]
impl Nothing {
    #[packet]
    fn nothing(&self, _: Nothings) {}
}

#[packet(opcode = 0x2001, reply = u32)]
struct Double {
    n: u32,
}

#[packet(opcode = 0x2002, reply = (), encrypt)]
struct Secret;

#[packet(opcode = 0x2003, reply = ())]
struct Bounded {
    #[wire(max_len = 1)]
    text: String,
}

#[derive(Clone, Copy, PartialEq)]
enum Mood {
    Willing,
    Refusing,
    Slow,
}

#[derive(Clone)]
struct Voter {
    mood: Mood,
    thinking: Live,
    gate: watch::Sender<bool>,
}

#[packet_controller]
impl Voter {
    #[packet]
    async fn double(&self, double: Double) -> Result<u32, Status> {
        match self.mood {
            Mood::Willing => Ok(double.n * 2),
            Mood::Refusing => Err(Status::permission_denied("no")),
            Mood::Slow => {
                let _thinking = self.thinking.enter();
                self.gate.subscribe().wait_for(|open| *open).await.unwrap();
                Ok(double.n * 2)
            }
        }
    }
}

fn voter(mood: Mood) -> Voter {
    Voter { mood, thinking: Live::default(), gate: watch::Sender::new(false) }
}

async fn nothing() -> ServerHandle {
    server(Nothing, Options::default()).await
}

#[tokio::test(start_paused = true)]
async fn those_who_are_dead_slow_or_refuse_do_not_hide_the_answers_of_the_others() {
    let server = nothing().await;
    let group = server.hub().group("voters");
    let slow = voter(Mood::Slow);
    let (_a, a) = member(&server, voter(Mood::Willing)).await;
    let (_b, b) = member(&server, voter(Mood::Refusing)).await;
    let (_c, c) = member(&server, slow.clone()).await;
    let (_d, d) = deaf(&server, 1 << 16).await;
    let (_e, e) = member(&server, voter(Mood::Willing)).await;
    let (_f, f) = member(&server, Nothing).await;
    for connection in [&a, &b, &c, &d, &e, &f] {
        group.join(connection);
    }
    // It is told to close, and still a member.
    e.close();
    let answers = soon(group.ask(&Double { n: 21 }, Duration::from_secs(5))).await.unwrap();
    let ids: Vec<_> = answers.iter().map(|answer| answer.member.id()).collect();
    assert_eq!(ids, [&a, &b, &c, &d, &e, &f].map(|connection| connection.id()));
    let results: Vec<_> = answers.into_iter().map(|answer| answer.result).collect();
    assert!(matches!(results[0], Ok(42)), "{results:?}");
    assert!(
        matches!(&results[1], Err(RequestError::Status(s)) if s.code == Code::PermissionDenied),
        "{results:?}"
    );
    assert!(matches!(results[2], Err(RequestError::Timeout)), "{results:?}");
    assert!(matches!(results[3], Err(RequestError::Timeout)), "{results:?}");
    assert!(matches!(results[4], Err(RequestError::Closed(_))), "{results:?}");
    assert!(
        matches!(&results[5], Err(RequestError::Status(s)) if s.code == Code::Unimplemented),
        "{results:?}"
    );
    slow.thinking.is(0).await;
    assert_eq!((a.calls_in_flight(), d.calls_in_flight()), (0, 1), "the deaf one's id waits for its answer");
}

#[tokio::test]
async fn all_answers_end_the_wait_at_once() {
    let server = nothing().await;
    let group = server.hub().group("voters");
    let slow = voter(Mood::Slow);
    let mut sessions = Vec::new();
    for n in 0..200 {
        let mood = if n % 2 == 0 { slow.clone() } else { voter(Mood::Willing) };
        let (session, connection) = member(&server, mood).await;
        group.join(&connection);
        sessions.push(session);
    }
    let asked = tokio::spawn(group.ask(&Double { n: 4 }, Duration::from_secs(3_600)));
    slow.thinking.has_entered(100).await;
    slow.gate.send_replace(true);
    let answers = within("all answer", asked).await.unwrap().unwrap();
    assert_eq!(answers.len(), 200);
    assert!(answers.iter().all(|answer| matches!(answer.result, Ok(8))));
}

#[tokio::test]
async fn nobody_answers_for_a_group_without_members() {
    let group = nothing().await.hub().group("nobody");
    assert!(soon(group.ask(&Double { n: 4 }, Duration::from_secs(3_600))).await.unwrap().is_empty());
    assert!(soon(group.ask(&Double { n: 4 }, Duration::ZERO)).await.unwrap().is_empty());
}

#[tokio::test]
async fn giving_up_stops_those_who_still_work() {
    let server = nothing().await;
    let group = server.hub().group("voters");
    let slow = voter(Mood::Slow);
    let (_session, connection) = member(&server, slow.clone()).await;
    group.join(&connection);
    let asked = tokio::spawn(group.ask(&Double { n: 4 }, Duration::from_secs(3_600)));
    slow.thinking.has_entered(1).await;
    asked.abort();
    slow.thinking.is(0).await;
}

#[tokio::test]
async fn no_time_is_no_answer_and_nothing_is_sent() {
    let server = nothing().await;
    let group = server.hub().group("voters");
    let (mut peer, connection) = deaf(&server, 1 << 16).await;
    group.join(&connection);
    let answers = soon(group.ask(&Double { n: 4 }, Duration::ZERO)).await.unwrap();
    assert!(matches!(answers[0].result, Err(RequestError::Timeout)));
    peer.ping().await;
}

#[tokio::test]
async fn what_must_not_or_cannot_be_sent_is_not() {
    let server = nothing().await;
    let group = server.hub().group("voters");
    let (mut peer, connection) = deaf(&server, 1 << 16).await;
    group.join(&connection);
    let answers = soon(group.ask(&Secret, Duration::from_secs(5))).await.unwrap();
    assert!(matches!(answers[0].result, Err(RequestError::EncryptionRequired)));
    assert!(soon(group.ask(&Bounded { text: "ab".into() }, Duration::from_secs(5))).await.is_err());
    peer.ping().await;
}
