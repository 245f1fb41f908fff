//! What peers may do before their handshake is done, and what they may not.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::time::Duration;

use nalix_client::Client;
use nalix_core::{
    CloseCode, CloseReason,
    connection::ConnectError,
    frame::{FrameKind, Head},
    handshake::{self, Contracts, Hello, Params, Responder, ServerSecurity},
    link::StreamLink,
    record::{self, RecordKind},
    wire::to_vec,
};
use nalix_server::{Options, packet, packet_controller};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    time::Instant,
};

use support::{Both, Live, RawPeer, frame, record, request, soon};

#[packet(opcode = 0x1001, reply = u32)]
struct Double(u32);

#[packet(opcode = 0x1002)]
struct News(u32);

#[derive(Default, Clone)]
struct Game {
    run: Live,
    hooks: Live,
}

#[packet_controller]
impl Game {
    #[packet]
    fn double(&self, Double(n): Double) -> u32 {
        drop(self.run.enter());
        n * 2
    }

    #[packet]
    fn news(&self, _: News) {
        drop(self.run.enter());
    }

    #[connected]
    fn connected(&self, _ctx: &nalix_server::Context) {
        drop(self.hooks.enter());
    }
}

fn double(id: u32) -> Vec<u8> {
    request(id, 0x1001, &to_vec(&Double(4)).unwrap())
}

/// Every first record that is no hello, with what must come of it.
#[tokio::test(start_paused = true)]
async fn nothing_but_a_hello_opens_a_connection() {
    let game = Game::default();
    let both = Both::new(game.clone()).await;
    let abort = record::build(
        RecordKind::Abort,
        &handshake::abort_body(&CloseReason::new(CloseCode::Normal, "changed my mind")),
    );
    let hello = RawPeer::hello();
    let openings: Vec<(&str, Vec<u8>)> = vec![
        ("a request", record(&[double(0)])),
        ("a ping", record(&[frame(Head::plain(FrameKind::Ping), b"")])),
        ("a sealed record", record::build(RecordKind::Sealed, &[0; 40])),
        ("a reply to a hello", record::build(RecordKind::HelloReply, &hello[4..])),
        ("another protocol", b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n".to_vec()),
        ("a TLS client hello", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec()),
        ("zeros", vec![0; 64]),
        ("an empty hello", record::build(RecordKind::Hello, b"")),
        ("no magic", record::build(RecordKind::Hello, b"nalyx\x01\x01\0\0\0\0\0\0\0\0\0")),
        ("a cut hello", record::build(RecordKind::Hello, &hello[4..hello.len() - 1])),
        ("a hello of 16 MiB", b"\x01\xff\xff\xff".to_vec()),
        ("a hello a byte too long", record::header(RecordKind::Hello, handshake::MAX_HELLO + 1).to_vec()),
        ("fingerprints without end", {
            let mut body = hello[4..hello.len() - 1].to_vec();
            body.extend([0xff, 0xff, 0xff, 0xff, 0x0f]);
            record::build(RecordKind::Hello, &body)
        }),
    ];
    for (what, bytes) in openings {
        let mut peer = RawPeer::silent(&both.server);
        peer.write(&bytes).await;
        peer.write_some(&record(&[double(0)])).await;
        let reason = peer.refusal().await;
        assert_eq!(reason.code, CloseCode::ProtocolError, "{what}: {reason}");
    }
    // Whoever changes its mind is owed no answer.
    let mut peer = RawPeer::silent(&both.server);
    peer.write(&abort).await;
    assert_eq!(peer.record().await, None);
    both.server_is_empty().await;
    assert_eq!((game.run.entered(), game.hooks.entered()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn another_version_is_refused_and_named() {
    let both = Both::new(Game::default()).await;
    for (min, max, fits) in [(0, 0, false), (2, 9, false), (1, 1, true), (0, 255, true), (3, 1, false)] {
        let mut peer = RawPeer::silent(&both.server);
        let mut hello = RawPeer::hello();
        // Behind the header and the magic.
        (hello[9], hello[10]) = (min, max);
        peer.write(&hello).await;
        if fits {
            peer.finish_handshake().await;
            peer.ping().await;
        } else {
            let reason = peer.refusal().await;
            assert_eq!(reason.code, CloseCode::Incompatible, "{reason}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_hello_may_come_byte_by_byte_and_bring_more_than_this_version_knows() {
    let both = Both::new(Game::default()).await;
    let mut peer = RawPeer::silent_over(&both.server, 1);
    let mut body = RawPeer::hello()[4..].to_vec();
    body.extend_from_slice(b"what a later version adds");
    for byte in record::build(RecordKind::Hello, &body) {
        peer.write(&[byte]).await;
    }
    peer.finish_handshake().await;
    peer.ping().await;
}

/// What comes in one write with the hello waits for the handshake and is then handled, without a further byte.
#[tokio::test(start_paused = true)]
async fn requests_in_one_write_with_the_hello_are_answered() {
    let both = Both::new(Game::default()).await;
    let mut peer = RawPeer::silent(&both.server);
    let mut bytes = RawPeer::hello();
    bytes.extend(record(&[double(0), double(1)]));
    peer.write(&bytes).await;
    peer.finish_handshake().await;
    for id in 0..2 {
        assert_eq!(peer.reply(id).await, to_vec(&8u32).unwrap());
    }
}

/// The same for a client: a server may push in one write with its answer to the hello.
#[tokio::test(start_paused = true)]
async fn a_push_in_one_write_with_the_end_of_the_handshake_arrives() {
    let game = Game::default();
    let (mut ours, theirs) = duplex(1 << 16);
    let client = Client::builder("").plaintext().controller(game.clone());
    let connecting = tokio::spawn(client.connect_over(StreamLink::new(theirs)));
    let mut bytes = hello_reply(&mut ours).await;
    bytes.extend(record(&[support::notify(&News(1)), double(7)]));
    ours.write_all(&bytes).await.unwrap();
    let session = soon(connecting).await.unwrap().unwrap();
    game.run.has_entered(2).await;
    drop(session);
}

#[tokio::test(start_paused = true)]
async fn a_second_hello_is_a_fault() {
    let game = Game::default();
    let both = Both::new(game.clone()).await;
    let again = RawPeer::hello();
    let abort = record::build(RecordKind::Abort, b"\0\0\0");
    let sealed = record::build(RecordKind::Sealed, &[1; 20]);
    for late in [&again, &record::build(RecordKind::HelloReply, &again[4..]), &abort, &sealed] {
        let mut peer = RawPeer::connect(&both.server).await;
        peer.ping().await;
        let mut bytes = late.clone();
        bytes.extend(record(&[double(0)]));
        peer.write(&bytes).await;
        let reason = peer.goodbye().await;
        assert_eq!(reason.code, CloseCode::ProtocolError);
        assert!(reason.message.contains("unexpected"), "{reason}");
    }
    // The same in one write with the first one.
    let mut peer = RawPeer::silent(&both.server);
    peer.write(&[again.clone(), again].concat()).await;
    peer.finish_handshake().await;
    assert_eq!(peer.goodbye().await.code, CloseCode::ProtocolError);
    assert_eq!(game.run.entered(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_silent_peer_is_cut_off_in_time_and_told() {
    let game = Game::default();
    let both = Both::new(game.clone()).await;
    let hello = RawPeer::hello();
    for said in [0, 1, 4, hello.len() - 1] {
        let start = Instant::now();
        let mut peer = RawPeer::silent(&both.server);
        peer.write(&hello[..said]).await;
        assert_eq!(peer.refusal().await.code, CloseCode::HandshakeTimeout);
        assert_eq!(start.elapsed().as_secs(), 10);
    }
    // One byte now and then does not buy more time.
    let start = Instant::now();
    let mut peer = RawPeer::silent(&both.server);
    for byte in &hello[..12] {
        peer.write_some(&[*byte]).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(peer.refusal().await.code, CloseCode::HandshakeTimeout);
    assert_eq!(start.elapsed().as_secs(), 12, "it was cut off while it still talked");
    assert_eq!(game.hooks.entered(), 0);
}

#[tokio::test(start_paused = true)]
async fn silent_peers_hold_nobody_up() {
    let both = Both::new(Game::default()).await;
    let silent: Vec<_> = (0..500).map(|_| RawPeer::silent(&both.server)).collect();
    let start = Instant::now();
    for _ in 0..20 {
        assert_eq!(both.client().await.request(Double(2)).await.unwrap(), 4);
    }
    assert!(start.elapsed() < Duration::from_secs(1));
    drop(silent);
}

#[tokio::test(start_paused = true)]
async fn a_link_that_ends_during_the_handshake_leaves_nothing_behind() {
    let game = Game::default();
    let both = Both::new(game.clone()).await;
    let hello = RawPeer::hello();
    for said in 0..hello.len() {
        let mut peer = RawPeer::silent(&both.server);
        peer.write(&hello[..said]).await;
        drop(peer);
    }
    // It does not read the answer either.
    let mut peer = RawPeer::silent_over(&both.server, hello.len());
    peer.write(&hello).await;
    drop(peer);
    both.server_is_empty().await;
    assert_eq!(both.client().await.request(Double(2)).await.unwrap(), 4);
}

// The client's side.

/// Reads the client's hello and makes the answer to it.
async fn hello_reply(ours: &mut DuplexStream) -> Vec<u8> {
    let mut header = [0; 4];
    soon(ours.read_exact(&mut header)).await.unwrap();
    let (kind, len) = record::parse(header).unwrap();
    assert_eq!(kind, RecordKind::Hello);
    let mut body = vec![0; len];
    soon(ours.read_exact(&mut body)).await.unwrap();
    let hello = Hello::parse(&body.into()).unwrap();
    let params = Params::new(1 << 20, 100, Contracts::default());
    let responder = Responder::read(&hello, params, &ServerSecurity::Plaintext, None).unwrap();
    responder.accept(None, None).unwrap().reply
}

async fn connect_to(answer: impl AsyncFnOnce(DuplexStream)) -> ConnectError {
    let (ours, theirs) = duplex(1 << 16);
    let client = Client::builder("").plaintext().connect_over(StreamLink::new(theirs));
    let (result, ()) = soon(async { tokio::join!(client, answer(ours)) }).await;
    result.expect_err("it must not connect")
}

#[tokio::test(start_paused = true)]
async fn a_client_says_what_is_wrong_with_its_server() {
    let garbage = connect_to(async |mut ours| {
        ours.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
    });
    let garbage = garbage.await;
    assert!(matches!(garbage, ConnectError::Protocol(_)) && !garbage.is_retryable(), "{garbage:?}");

    let early = connect_to(async |mut ours| ours.write_all(&record(&[double(0)])).await.unwrap()).await;
    assert!(matches!(early, ConnectError::Protocol(_)), "{early:?}");

    let ended = connect_to(async |ours| drop(ours)).await;
    assert!(matches!(ended, ConnectError::Io(_)) && ended.is_retryable(), "{ended:?}");

    let cut = connect_to(async |mut ours| ours.write_all(&[2, 20, 0, 0, 1]).await.unwrap()).await;
    assert!(matches!(cut, ConnectError::Protocol(_)), "{cut:?}");

    let silent = connect_to(async |ours| {
        tokio::time::sleep(Duration::from_secs(30)).await;
        drop(ours);
    });
    let silent = silent.await;
    assert!(matches!(silent, ConnectError::Timeout(_)) && silent.is_retryable(), "{silent:?}");

    let version = connect_to(async |mut ours| {
        let mut reply = hello_reply(&mut ours).await;
        reply[4] = 9;
        ours.write_all(&reply).await.unwrap();
    });
    let version = version.await;
    assert!(matches!(version, ConnectError::Version) && !version.is_retryable(), "{version:?}");

    let refused = connect_to(async |mut ours| {
        let reason = CloseReason::new(CloseCode::LimitExceeded, "full");
        let abort = record::build(RecordKind::Abort, &handshake::abort_body(&reason));
        ours.write_all(&abort).await.unwrap();
    });
    match refused.await {
        ConnectError::Refused(reason) => {
            assert_eq!((reason.code, &*reason.message), (CloseCode::LimitExceeded, "full"));
        }
        other => panic!("{other:?}"),
    }

    for unreadable in [&b"\xff"[..], b"\0\0\x02\xff\xff", b"\0\0\x05abc", b"\x07"] {
        let refused = connect_to(async |mut ours| {
            ours.write_all(&record::build(RecordKind::Abort, unreadable)).await.unwrap();
        });
        let refused = refused.await;
        assert!(matches!(refused, ConnectError::Refused(_)), "{refused:?}");
    }
}

/// A client in which all is well, but for the limits: the smaller count.
#[tokio::test(start_paused = true)]
async fn absurd_limits_in_a_hello_are_only_limits() {
    let both = Both::with(Game::default(), Options::default()).await;
    for (max_message, max_calls) in
        [(0, 0), (0, usize::MAX), (usize::MAX, 0), (usize::MAX, usize::MAX), (1, 1)]
    {
        let mut peer = RawPeer::silent(&both.server);
        let hello = Hello::plaintext(&Params::new(max_message, max_calls, Contracts::default()));
        peer.write(&record::build(RecordKind::Hello, &hello.body())).await;
        peer.finish_handshake().await;
        let end = both.server_end().await;
        assert_eq!(end.max_message(), max_message.min(16 << 20));
        assert_eq!(end.max_received(), 16 << 20);
        if max_message >= 4 {
            peer.send(&[double(0)]).await;
            assert_eq!(peer.reply(0).await, to_vec(&8u32).unwrap());
        }
        drop(peer);
        both.server_is_empty().await;
    }
}
