//! Servers that send what they must not, as their clients see it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use nalix_core::{
    CallId, CloseCode, RequestError,
    frame::{FrameKind, Head},
    wire::to_vec,
};
use nalix_server::{Options, packet};

use support::{RawPeer, bad_bodies, frame, record, soon};

#[packet(opcode = 0x1001, reply = u32)]
struct Double(u32);

#[packet(opcode = 0x1002, reply = ())]
struct Never;

/// A malicious server: answers to ids that were never given, twice, and with the wrong types.
#[tokio::test(start_paused = true)]
async fn a_client_survives_answers_to_nothing() {
    let (mut peer, session) = RawPeer::accept(Options::default()).await;
    let call = tokio::spawn({
        let session = session.clone();
        async move { session.request(Double(4)).await }
    });
    let asked = peer.frame().await.unwrap();
    assert_eq!(asked.kind, FrameKind::Request);
    let reply = |id: u32, payload: &[u8]| frame(Head::of_call(FrameKind::Reply, CallId::new(id)), payload);
    let others: Vec<_> = [1, 2, 1_000, u32::MAX].iter().map(|&id| reply(id, b"????")).collect();
    peer.send(&others).await;
    peer.ping().await;
    assert!(!call.is_finished());
    let id = asked.id.get();
    peer.send(&[reply(id, &to_vec(&8u32).unwrap()), reply(id, b"again"), reply(id, b"and again")]).await;
    assert_eq!(soon(call).await.unwrap(), Ok(8));
    peer.ping().await;
    assert_eq!(session.connection().late_answers(), 6);
    assert_eq!(session.connection().calls_in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_bad_answer_fails_its_call_alone() {
    let (mut peer, session) = RawPeer::accept(Options::default()).await;
    for (kind, payload) in [
        (FrameKind::Reply, &b""[..]),
        (FrameKind::Reply, b"abc"),
        (FrameKind::Error, b""),
        (FrameKind::Error, b"\x07"),
        (FrameKind::Error, b"\0"),
        (FrameKind::Error, b"\0\x0d\0\x02\xff\xff"),
        (FrameKind::Error, b"\0\xff\xff\xff\x7f\0\0"),
        // An application error where the packet declares none.
        (FrameKind::Error, b"\x01abc"),
    ] {
        let call = tokio::spawn({
            let session = session.clone();
            async move { session.request(Double(4)).await }
        });
        let asked = peer.frame().await.unwrap();
        peer.send(&[frame(Head::of_call(kind, asked.id), payload)]).await;
        match soon(call).await.unwrap() {
            Err(RequestError::Decode(_)) => {}
            other => panic!("{kind:?} {payload:?}: {other:?}"),
        }
        peer.ping().await;
    }
    assert_eq!(session.connection().calls_in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_client_closes_once_on_bad_bytes_of_its_server() {
    for (what, body) in bad_bodies() {
        let (mut peer, session) = RawPeer::accept(Options::default()).await;
        let call = tokio::spawn({
            let session = session.clone();
            async move { session.request(Never).await }
        });
        assert_eq!(peer.frame().await.unwrap().kind, FrameKind::Request);
        let ping = frame(Head::plain(FrameKind::Ping), b"");
        peer.write(&[record(&[body]), record(&[ping])].concat()).await;
        // `goodbye` sees that the ping behind the fault has no answer.
        let reason = peer.goodbye().await;
        assert_eq!(reason.code, CloseCode::ProtocolError, "{what}: {reason}");
        drop(peer);
        match soon(call).await.unwrap() {
            Err(RequestError::Disconnected { maybe_executed: true, reason: found }) => {
                assert_eq!(found.message, reason.message, "{what}");
            }
            other => panic!("{what}: {other:?}"),
        }
    }
}
