//! What can be done to the two messages that open a connection.

use nalix_client::{ConnectError, Session};
use nalix_core::{
    Sealing,
    error::ProtocolError,
    handshake,
    record::{self, RecordKind},
};
use nalix_server::{CloseCode, CloseReason, Server};

use crate::{
    middle::{Middle, Party},
    support::{RawPeer, within},
    world::{Connecting, Double, Game, How, World},
};

/// Where the content begins in a hello's record: behind the header, `nalix`, two versions and the way.
const CONTENT: usize = 4 + 5 + 2 + 1;

/// Behind the header and the version.
const ANSWER: usize = 4 + 1;

#[tokio::test(start_paused = true)]
async fn every_byte_of_a_hello_counts() {
    for how in How::ALL {
        // The one place is free again each time, or the next client would be turned away.
        let world = World::with(Sealing::All, |server| server.max_handshakes(1)).await;
        let ticket = if how == How::Resumed { 16 } else { 0 };
        let mut at = 0;
        loop {
            for change in CHANGES {
                let (mut middle, connecting) = world.begin(world.client(how).await);
                let hooks = world.game.connected.entered();
                let mut hello = middle.take_kind(Party::Client, RecordKind::Hello).await;
                let changed = change(hello[at]);
                if changed == hello[at] {
                    connecting.abort();
                    drop(connecting.await);
                    middle.step_aside().await;
                    continue;
                }
                let name = format!("{how:?}, byte {at}: {:#04x} to {changed:#04x}", hello[at]);
                hello[at] = changed;
                middle.give(Party::Server, &hello).await;
                let result = connected(middle, connecting, &name).await;
                use CloseCode::*;
                let allowed: &[CloseCode] = match at {
                    // A longer body is waited for, on both sides for as long.
                    1..4 if matches!(result, Err(ConnectError::Timeout(_))) => continue,
                    1..4 => &[ProtocolError, HandshakeFailed, HandshakeTimeout],
                    0 | 4..9 => &[ProtocolError],
                    // Versions that still hold ours are part of what is verified.
                    9 | 10 => &[Incompatible, HandshakeFailed],
                    // Another way may be none, plaintext, or one for which the rest does not fit.
                    11 => &[ProtocolError, EncryptionRequired, HandshakeFailed, TicketRefused],
                    _ if at < CONTENT + ticket => &[TicketRefused],
                    _ => &[HandshakeFailed],
                };
                let reason = refusal(result, &name);
                assert!(allowed.contains(&reason.code), "{name}: {reason}");
                assert_eq!(world.game.connected.entered(), hooks, "{name}");
                assert_eq!(world.server.connection_count(), 0, "{name}");
            }
            at += 1;
            if at == hello_len(&world, how).await {
                break;
            }
        }
        assert_eq!(world.game.runs.entered(), 0);
        world.serves().await;
    }
}

#[tokio::test(start_paused = true)]
async fn every_byte_of_the_answer_counts() {
    for how in How::ALL {
        let world = World::with(Sealing::All, |server| server.max_handshakes(1)).await;
        let mut at = 0;
        let mut len = usize::MAX;
        while at < len {
            for change in CHANGES {
                let client = world.client(how).await;
                let hooks = world.game.connected.entered();
                let (mut middle, connecting) = world.begin(client);
                middle.pass(Party::Client).await;
                let mut answer = middle.take_kind(Party::Server, RecordKind::HelloReply).await;
                len = answer.len();
                let changed = change(answer[at]);
                let name = format!("{how:?}, byte {at}: {:#04x} to {changed:#04x}", answer[at]);
                if changed == answer[at] {
                    continue;
                }
                answer[at] = changed;
                middle.give(Party::Client, &answer).await;
                let error = connected(middle, connecting, &name).await.expect_err(&name);
                let allowed = match at {
                    0 => matches!(error, ConnectError::Protocol(_)),
                    // A longer body is waited for.
                    1..4 => matches!(
                        error,
                        ConnectError::Protocol(_) | ConnectError::Unverified | ConnectError::Timeout(_)
                    ),
                    4 => matches!(error, ConnectError::Version),
                    _ => matches!(error, ConnectError::Unverified),
                };
                assert!(allowed, "{name}: {error:?}");
                world.is_empty().await;
                // The ticket has proven who sent the hello, so a resumed connection is open before the client has the answer.
                let expected = usize::from(how == How::Resumed);
                assert_eq!(world.game.connected.entered() - hooks, expected, "{name}");
            }
            at += 1;
        }
        assert_eq!(world.game.runs.entered(), 0);
        world.serves().await;
    }
}

/// The low-order points of the curve in every spelling, and numbers that are not below 2^255 - 19. As the ephemeral key of
/// either side.
#[tokio::test(start_paused = true)]
async fn points_that_are_no_keys_are_refused_as_everything_else_is() {
    let world = World::new().await;
    for how in How::ALL {
        let mut messages = Vec::new();
        for point in bad_points() {
            let (mut middle, connecting) = world.begin(world.client(how).await);
            let mut hello = middle.take(Party::Client).await.unwrap();
            let at = if how == How::Resumed { CONTENT + 16 } else { CONTENT };
            hello[at..at + 32].copy_from_slice(&point);
            middle.give(Party::Server, &hello).await;
            let reason = refusal(connected(middle, connecting, "a bad point").await, "a bad point");
            assert_eq!(reason.code, CloseCode::HandshakeFailed, "{how:?}, {point:02x?}: {reason}");
            messages.push(reason.message);

            let (mut middle, connecting) = world.begin(world.client(how).await);
            middle.pass(Party::Client).await;
            let mut answer = middle.take(Party::Server).await.unwrap();
            answer[ANSWER..ANSWER + 32].copy_from_slice(&point);
            middle.give(Party::Client, &answer).await;
            let error = connected(middle, connecting, "a bad point").await.unwrap_err();
            assert!(matches!(error, ConnectError::Unverified), "{how:?}, {point:02x?}: {error:?}");
        }
        // What a byte changed anywhere else comes to.
        let (mut middle, connecting) = world.begin(world.client(how).await);
        let mut hello = middle.take(Party::Client).await.unwrap();
        *hello.last_mut().unwrap() ^= 1;
        middle.give(Party::Server, &hello).await;
        let reason = refusal(connected(middle, connecting, "a changed byte").await, "a changed byte");
        assert!(messages.iter().all(|message| *message == reason.message), "{messages:?}, {reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hello_cannot_be_turned_into_one_of_another_kind() {
    let world = World::new().await;
    for how in How::ALL {
        for way in 0..=255 {
            let (mut middle, connecting) = world.begin(world.client(how).await);
            let mut hello = middle.take(Party::Client).await.unwrap();
            if std::mem::replace(&mut hello[11], way) == way {
                continue;
            }
            middle.give(Party::Server, &hello).await;
            let reason = refusal(connected(middle, connecting, "another way").await, "another way");
            let code = match way {
                0 => CloseCode::EncryptionRequired,
                1 | 2 => CloseCode::HandshakeFailed,
                // The first bytes of the message are taken for a ticket.
                3 => CloseCode::TicketRefused,
                _ => CloseCode::ProtocolError,
            };
            assert_eq!(reason.code, code, "{how:?} to {way}: {reason}");
        }
        for (min, max) in [(0, 1), (1, 2), (0, 255)] {
            let (mut middle, connecting) = world.begin(world.client(how).await);
            let mut hello = middle.take(Party::Client).await.unwrap();
            hello[9..11].copy_from_slice(&[min, max]);
            middle.give(Party::Server, &hello).await;
            let reason = refusal(connected(middle, connecting, "versions").await, "versions");
            assert_eq!(reason.code, CloseCode::HandshakeFailed, "{how:?}, versions {min} to {max}");
        }
    }
    assert_eq!(world.game.runs.entered(), 0);
}

/// The ticket is part of the prologue, so that nobody's hello can be spent on the ticket of another.
#[tokio::test(start_paused = true)]
async fn the_ticket_of_another_session_does_not_fit() {
    let world = World::new().await;
    let (mut first, connecting) = world.begin(world.client(How::Resumed).await);
    let mut hello = first.take(Party::Client).await.unwrap();
    let (mut second, other) = world.begin(world.client(How::Resumed).await);
    let others = second.take(Party::Client).await.unwrap();
    hello[CONTENT..CONTENT + 16].copy_from_slice(&others[CONTENT..CONTENT + 16]);
    first.give(Party::Server, &hello).await;
    let reason = refusal(connected(first, connecting, "another ticket").await, "another ticket");
    assert_eq!(reason.code, CloseCode::HandshakeFailed);
    // Nor does the attempt use up the ticket.
    second.give(Party::Server, &others).await;
    let helper = tokio::spawn(second.step_aside());
    let session = within("resumed", other).await.unwrap().expect("the ticket is good");
    assert!(session.is_resumed());
    session.close().await;
    helper.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_encrypt_cannot_answer_for_one_that_does() {
    let world = World::new().await;
    let game = Game::default();
    let plain = Server::builder().plaintext().no_listener().controller(game.clone());
    let plain = plain.build().await.unwrap().handle();
    for how in How::ALL {
        // As it is.
        let (mut middle, link) = Middle::new(&plain);
        let connecting = tokio::spawn(world.client(how).await.connect_over(link));
        middle.pass(Party::Client).await;
        let reason = refusal(connected(middle, connecting, "plaintext").await, "plaintext");
        assert_eq!(reason.code, CloseCode::Incompatible, "{how:?}: {reason}");

        // With a hello that the one in the middle has made.
        let (mut middle, link) = Middle::new(&plain);
        let connecting = tokio::spawn(world.client(how).await.connect_over(link));
        middle.take_kind(Party::Client, RecordKind::Hello).await;
        middle.give(Party::Server, &RawPeer::hello()).await;
        middle.pass(Party::Server).await;
        let error = connected(middle, connecting, "plaintext").await.unwrap_err();
        assert!(matches!(error, ConnectError::Unverified), "{how:?}: {error:?}");
    }
    assert_eq!(game.runs.entered(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_another_connection_does_not_fit() {
    let world = World::new().await;
    for how in How::ALL {
        let (mut before, connecting) = world.begin(world.client(how).await);
        before.pass(Party::Client).await;
        let old = before.pass(Party::Server).await;
        let session = connecting.await.unwrap().unwrap();
        let helper = tokio::spawn(before.step_aside());
        assert_eq!(session.request(Double(1)).await.unwrap(), 2);
        session.close().await;
        helper.await.unwrap();

        let (mut middle, connecting) = world.begin(world.client(how).await);
        middle.pass(Party::Client).await;
        middle.take_kind(Party::Server, RecordKind::HelloReply).await;
        middle.give(Party::Client, &old).await;
        let error = connected(middle, connecting, "an old answer").await.unwrap_err();
        assert!(matches!(error, ConnectError::Unverified), "{how:?}: {error:?}");
        world.is_empty().await;
    }
}

/// Anyone can refuse a client in the server's name, and that is all they can do.
#[tokio::test(start_paused = true)]
async fn instead_of_an_answer_only_a_refusal_is_taken() {
    let world = World::new().await;
    for how in How::ALL {
        let refused = CloseReason::new(CloseCode::Other(4_000), "go away");
        let abort = record::build(RecordKind::Abort, &handshake::abort_body(&refused));
        let (mut middle, connecting) = world.begin(world.client(how).await);
        middle.give(Party::Client, &abort).await;
        let reason = refusal(connected(middle, connecting, "refused").await, "refused");
        assert_eq!((reason.code, &*reason.message), (refused.code, "go away"));

        for kind in [RecordKind::Hello, RecordKind::Plain, RecordKind::Sealed] {
            let (mut middle, connecting) = world.begin(world.client(how).await);
            middle.give(Party::Client, &record::build(kind, &[1; 80])).await;
            let error = connected(middle, connecting, "another record").await.unwrap_err();
            let unexpected = ProtocolError::UnexpectedRecord { found: kind.name() };
            assert!(matches!(&error, ConnectError::Protocol(e) if *e == unexpected), "{how:?}: {error:?}");
        }
    }
}

const CHANGES: [fn(u8) -> u8; 4] = [|byte| byte ^ 0x01, |byte| byte ^ 0x80, |_| 0, |_| 0xff];

/// Waits for the client to have done with it, the one in the middle being honest from now on.
async fn connected(middle: Middle, connecting: Connecting, what: &str) -> Result<Session, ConnectError> {
    let helper = tokio::spawn(middle.step_aside());
    let result = within(what, connecting).await.unwrap();
    if result.is_err() {
        within(what, helper).await.unwrap();
    }
    result
}

fn refusal(result: Result<Session, ConnectError>, what: &str) -> CloseReason {
    match result {
        Err(ConnectError::Refused(reason)) => reason,
        other => panic!("{what}: {other:?}"),
    }
}

async fn hello_len(world: &World, how: How) -> usize {
    let (mut middle, connecting) = world.begin(world.client(how).await);
    let len = middle.take(Party::Client).await.unwrap().len();
    connecting.abort();
    drop(connecting.await);
    middle.step_aside().await;
    len
}

fn bad_points() -> Vec<[u8; 32]> {
    let order_8 = [
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    ];
    let mut points: Vec<[u8; 32]> = order_8.iter().map(|hex| bytes(hex)).collect();
    points.extend([0, 1].map(|low| {
        let mut point = [0; 32];
        point[0] = low;
        point
    }));
    // From 2^255 - 20 (which is -1) to 2^255 - 1.
    points.extend((0xec..=0xff).map(|low| {
        let mut point = [0xff; 32];
        (point[0], point[31]) = (low, 0x7f);
        point
    }));
    let with_high_bit = points.clone().into_iter().map(|mut point| {
        point[31] |= 0x80;
        point
    });
    points.extend(with_high_bit);
    points
}

fn bytes(hex: &str) -> [u8; 32] {
    let mut out = [0; 32];
    for (n, byte) in out.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&hex[2 * n..2 * n + 2], 16).unwrap();
    }
    out
}
