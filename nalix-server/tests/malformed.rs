//! Peers that send what they must not. Each case is followed by something valid, to see what has become of the
//! connection: a bad packet fails alone, a bad frame or record ends the connection with one goodbye.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::{BTreeMap, HashMap};

use nalix_core::{
    CallId, CloseCode, Code, Opcode, Wire,
    frame::{FrameKind, Head},
    record::{self, RecordKind},
    wire::to_vec,
};
use nalix_server::{Options, packet, packet_controller};

use support::{Both, Live, RawPeer, bad_bodies, cancel, frame, large_request, record, request, soon};

#[packet(opcode = 0x1001, reply = u32)]
struct Double(u32);

#[packet(opcode = 0x1002, reply = ())]
struct Never;

#[derive(Debug, PartialEq, Wire)]
enum Colour {
    Red,
    Green { shade: u8 },
    Blue(u16),
}

#[packet(opcode = 0x1010, reply = ())]
struct Paint(Colour);
#[packet(opcode = 0x1011, reply = ())]
struct Flag(bool);
#[packet(opcode = 0x1012, reply = ())]
struct Maybe(Option<u32>);
#[packet(opcode = 0x1013, reply = ())]
struct Text(String);
#[packet(opcode = 0x1014, reply = ())]
struct Numbers(Vec<u64>);
#[packet(opcode = 0x1015, reply = ())]
struct Names(HashMap<String, Vec<String>>);
#[packet(opcode = 0x1016, reply = ())]
struct Deep(Tree);
#[packet(opcode = 0x1017, reply = (), exact)]
struct Exact(u32);
#[packet(opcode = 0x1018, reply = ())]
struct Grows(u32);
#[packet(opcode = 0x1019)]
struct Whisper(String);

#[derive(Debug, Wire)]
enum Tree {
    Leaf,
    Boxed(Box<Tree>),
    Maybe(Option<Box<Tree>>),
    Many(Vec<Tree>),
    Named(BTreeMap<u8, Tree>),
}

#[derive(Default, Clone)]
struct Strict {
    run: Live,
    live: Live,
}

#[packet_controller]
impl Strict {
    #[packet]
    fn double(&self, Double(n): Double) -> u32 {
        n * 2
    }
    #[packet(concurrent)]
    async fn never(&self, _: Never) {
        let _guard = self.live.enter();
        std::future::pending::<()>().await;
    }
    #[packet]
    fn paint(&self, _: Paint) {
        drop(self.run.enter());
    }
    #[packet]
    fn flag(&self, _: Flag) {
        drop(self.run.enter());
    }
    #[packet]
    async fn maybe(&self, _: Maybe) {
        drop(self.run.enter());
    }
    #[packet]
    fn text(&self, _: Text) {
        drop(self.run.enter());
    }
    #[packet(concurrent)]
    fn numbers(&self, _: Numbers) {
        drop(self.run.enter());
    }
    #[packet(lane = "names")]
    async fn names(&self, _: Names) {
        drop(self.run.enter());
    }
    #[packet(spawn)]
    async fn deep(&self, _: Deep) {
        drop(self.run.enter());
    }
    #[packet]
    fn exact(&self, _: Exact) {
        drop(self.run.enter());
    }
    #[packet]
    fn grows(&self, _: Grows) {
        drop(self.run.enter());
    }
    #[packet]
    fn whisper(&self, _: Whisper) {
        drop(self.run.enter());
    }
}

fn double(id: u32) -> Vec<u8> {
    request(id, 0x1001, &to_vec(&Double(4)).unwrap())
}

fn varint(n: u64) -> Vec<u8> {
    let mut buf = [0; 10];
    let len = nalix_core::wire::varint::put(n, &mut buf);
    buf[..len].to_vec()
}

/// Payloads that are not what their opcode says, of every kind of fault.
fn bad_payloads() -> Vec<(&'static str, u16, Vec<u8>)> {
    let mut bad = vec![
        ("nothing", 0x1001, vec![]),
        ("a variant of tomorrow", 0x1010, vec![3]),
        ("the last variant there can be", 0x1010, varint(u64::from(u32::MAX))),
        ("a variant without its fields", 0x1010, vec![1]),
        ("a bool of 2", 0x1011, vec![2]),
        ("a bool of 255", 0x1011, vec![255]),
        ("an option of 7", 0x1012, vec![7, 0, 0, 0, 0]),
        ("an option without its value", 0x1012, vec![1]),
        ("a byte that is no text", 0x1013, vec![1, 0xff]),
        ("a cut character", 0x1013, vec![2, 0xe2, 0x82]),
        ("half a surrogate pair", 0x1013, vec![3, 0xed, 0xa0, 0x80]),
        ("an over-long character", 0x1013, vec![2, 0xc0, 0x80]),
        ("a length in too many bytes", 0x1013, vec![0x81, 0x00, b'a']),
        ("trailing bytes of an exact packet", 0x1017, vec![1, 0, 0, 0, 9]),
    ];
    for count in [4, 1 << 31, (1 << 32) - 1, 0x4000_0001, 1 << 40, u64::MAX] {
        for opcode in [0x1013, 0x1014, 0x1015] {
            bad.push(("a length beyond the message", opcode, [varint(count), vec![0; 3]].concat()));
        }
    }
    for depth in [100, 10_000, 200_000] {
        bad.push(("boxes in boxes", 0x1016, vec![1; depth]));
        bad.push(("options of boxes", 0x1016, [2, 1].repeat(depth)));
        bad.push(("lists of lists", 0x1016, [3, 1].repeat(depth)));
        bad.push(("maps of maps", 0x1016, [4, 1, 0].repeat(depth)));
    }
    bad
}

#[tokio::test(start_paused = true)]
async fn a_bad_packet_fails_alone() {
    let strict = Strict::default();
    let both = Both::new(strict.clone()).await;
    for (what, opcode, payload) in bad_payloads() {
        // A connection each: too many bad ones in a row may well end one.
        let mut peer = RawPeer::connect(&both.server).await;
        peer.write(&[large_request(7, opcode, &payload), record(&[double(0)])].concat()).await;
        let mut answers = [peer.frame().await.unwrap(), peer.frame().await.unwrap()];
        // Not all of these run in order.
        answers.sort_by_key(|frame| frame.id);
        assert_eq!(answers[0].payload, to_vec(&8u32).unwrap(), "{what}");
        assert_eq!((answers[1].kind, answers[1].id.get()), (FrameKind::Error, 7), "{what}");
        match nalix_core::frame::decode_failure(&answers[1].payload).unwrap() {
            nalix_core::Failure::Status(status) => {
                assert_eq!(status.code, Code::Malformed, "{what}: {status}");
            }
            other => panic!("{what}: {other:?}"),
        }
        peer.ping().await;
    }
    assert_eq!(strict.run.entered(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_a_later_version_adds_is_no_fault() {
    let strict = Strict::default();
    let both = Both::new(strict.clone()).await;
    let mut peer = RawPeer::connect(&both.server).await;
    peer.send(&[request(0, 0x1018, &[1, 0, 0, 0, 1, 2, 3])]).await;
    assert_eq!(peer.reply(0).await, &b""[..]);
    peer.send(&[request(0, 0x1013, &[4, b'a', 0, b'\n', 0x7f])]).await;
    assert_eq!(peer.reply(0).await, &b""[..]);
    assert_eq!(strict.run.entered(), 2);
}

/// One bad packet is a fault, very many are an attack: the last one is answered as well, and then the peer is told.
#[tokio::test(start_paused = true)]
async fn a_peer_that_sends_too_many_bad_packets_is_closed() {
    let bad = |id| request(id, 0x1011, &[2]);
    let mut options = Options::default();
    options.max_malformed = 5;
    let both = Both::with(Strict::default(), options.clone()).await;
    let mut peer = RawPeer::connect(&both.server).await;
    for _ in 0..5 {
        peer.send(&[bad(0)]).await;
        assert_eq!(peer.status(0).await.code, Code::Malformed);
    }
    // Two seconds forgive two.
    tokio::time::sleep(std::time::Duration::from_millis(2_100)).await;
    let whisper = frame(Head::notify(Opcode::new(0x1019)), &[1, 0xff]);
    peer.send(&[bad(0), whisper, double(1), bad(2), double(3)]).await;
    assert_eq!(peer.status(0).await.code, Code::Malformed);
    assert_eq!(peer.reply(1).await, to_vec(&8u32).unwrap());
    assert_eq!(peer.status(2).await.code, Code::Malformed);
    assert_eq!(peer.goodbye().await.code, CloseCode::LimitExceeded);

    for (max, closes) in [(0, true), (u32::MAX, false)] {
        options.max_malformed = max;
        let both = Both::with(Strict::default(), options.clone()).await;
        let mut peer = RawPeer::connect(&both.server).await;
        peer.send(&(0..1_000).map(bad).collect::<Vec<_>>()).await;
        for id in 0..if closes { 1 } else { 1_000 } {
            assert_eq!(peer.status(id).await.code, Code::Malformed);
        }
        if closes {
            assert_eq!(peer.goodbye().await.code, CloseCode::LimitExceeded);
        } else {
            peer.ping().await;
        }
    }
}

/// A one-way packet has nobody to be told, and does no harm either.
#[tokio::test(start_paused = true)]
async fn bad_one_way_packets_are_dropped() {
    let strict = Strict::default();
    let both = Both::new(strict.clone()).await;
    let mut peer = RawPeer::connect(&both.server).await;
    let notify = |opcode, payload: &[u8]| frame(Head::notify(Opcode::new(opcode)), payload);
    peer.send(&[notify(0x1019, &[1, 0xff]), notify(0x4444, b"no handler"), notify(0x1019, &[1, b'a'])]).await;
    peer.ping().await;
    assert_eq!(strict.run.entered(), 1);
}

#[tokio::test(start_paused = true)]
async fn unknown_opcodes_are_answered() {
    let both = Both::new(Strict::default()).await;
    let mut peer = RawPeer::connect(&both.server).await;
    for opcode in [0, 1, 0xff, 0x100, 0x1000, 0x1fff, 0xffff] {
        peer.send(&[request(3, opcode, b"whatever"), double(4)]).await;
        assert_eq!(peer.status(3).await.code, Code::Unimplemented);
        assert_eq!(peer.reply(4).await, to_vec(&8u32).unwrap());
    }
    peer.ping().await;
}

/// Kinds of frames that are not served here get an answer that names their id, and the ping behind them, too.
#[tokio::test(start_paused = true)]
async fn unknown_kinds_of_frames_are_answered() {
    let both = Both::new(Strict::default()).await;
    let mut peer = RawPeer::connect(&both.server).await;
    for bits in [14, 15] {
        unknown(&mut peer, FrameKind::Unknown(bits)).await;
    }
    // These have no id to answer to, and say nothing that needs an answer.
    let hints = [
        frame(Head::plain(FrameKind::Pong), b"unasked"),
        frame(Head::plain(FrameKind::Ack), b"\x05"),
        frame(Head::plain(FrameKind::Control), b"\x63of a later version"),
    ];
    peer.send(&hints).await;
    peer.ping().await;

    async fn unknown(peer: &mut RawPeer, kind: FrameKind) {
        for id in [0, 5, 1_000_000, u32::MAX] {
            peer.send(&[frame(Head::of_call(kind, CallId::new(id)), b"payload")]).await;
            assert_eq!(peer.status(id).await.code, Code::Unimplemented, "{kind:?}");
        }
        peer.ping().await;
    }
}

/// One fault, one goodbye. The valid frames in front have been handled, those behind never are.
#[tokio::test(start_paused = true)]
async fn a_bad_frame_ends_the_connection_once() {
    let strict = Strict::default();
    let both = Both::new(strict.clone()).await;
    for (what, body) in bad_bodies() {
        let mut peer = RawPeer::connect(&both.server).await;
        let end = both.server_end().await;
        let mut bytes = record(&[double(9), body]);
        bytes.extend(record(&[request(0, 0x1013, b"\x01a"), double(1)]));
        bytes.extend(record(&[frame(Head::plain(FrameKind::Ping), b"")]));
        peer.write(&bytes).await;
        assert_eq!(peer.reply(9).await, to_vec(&8u32).unwrap(), "{what}");
        let reason = peer.goodbye().await;
        assert_eq!(reason.code, CloseCode::ProtocolError, "{what}: {reason}");
        drop(peer);
        let ours = soon(end.closed()).await;
        assert_eq!((ours.code, &ours.message), (reason.code, &reason.message), "{what}");
        both.server_is_empty().await;
    }
    assert_eq!(strict.run.entered(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_bad_record_ends_the_connection_once() {
    let both = Both::new(Strict::default()).await;
    let header = |kind: u8, len: u32| [&[kind], &len.to_le_bytes()[..3]].concat();
    for (what, bytes) in [
        ("kind 0", header(0, 4)),
        ("kind 6", header(6, 4)),
        ("kind 255", header(255, 4)),
        ("an empty record", header(3, 0)),
        ("16 MiB", header(3, 0xff_ffff)),
        ("a byte over the limit", header(3, nalix_core::session::MAX_RECORD as u32 + 1)),
        ("a sealed record", record::build(RecordKind::Sealed, &[1; 32])),
    ] {
        let mut peer = RawPeer::connect(&both.server).await;
        peer.write(&[record(&[double(0)]), bytes, record(&[double(1)])].concat()).await;
        assert_eq!(peer.reply(0).await, to_vec(&8u32).unwrap(), "{what}");
        assert_eq!(peer.goodbye().await.code, CloseCode::ProtocolError, "{what}");
    }
    both.server_is_empty().await;
}

#[tokio::test(start_paused = true)]
async fn ids_that_were_never_given_harm_nobody() {
    let strict = Strict::default();
    let both = Both::new(strict.clone()).await;
    let mut peer = RawPeer::connect(&both.server).await;
    peer.send(&[request(2, 0x1002, b"")]).await;
    strict.live.is(1).await;
    for id in [0, 1, 3, 1_023, 1_024, 65_535, u32::MAX - 1, u32::MAX] {
        let of = |kind| Head::of_call(kind, CallId::new(id));
        peer.send(&[
            cancel(id),
            frame(of(FrameKind::Reply), b"nobody asked"),
            frame(of(FrameKind::Error), b"\0\x0d\0\0"),
            frame(of(FrameKind::Error), b"\xff\xff"),
            cancel(id),
        ])
        .await;
        peer.ping().await;
    }
    assert_eq!(both.server_end().await.late_answers(), 8 * 3);
    assert_eq!(strict.live.count(), 1, "the call that runs is not disturbed");
    peer.send(&[cancel(2), cancel(2), cancel(2)]).await;
    assert_eq!(peer.status(2).await.code, Code::Cancelled);
    peer.ping().await;
}

#[tokio::test(start_paused = true)]
async fn an_id_in_use_is_a_fault_and_one_that_is_free_again_is_not() {
    let strict = Strict::default();
    let mut options = Options::default();
    options.max_calls = 3;
    let both = Both::with(strict.clone(), options).await;
    let mut peer = RawPeer::connect(&both.server).await;
    for id in [0, 1, 2, 2, 1, 0] {
        peer.send(&[double(id), double(id), request(id, 0x1002, b""), cancel(id), double(id)]).await;
        for _ in 0..2 {
            assert_eq!(peer.reply(id).await, to_vec(&8u32).unwrap());
        }
        assert_eq!(peer.status(id).await.code, Code::Cancelled);
        assert_eq!(peer.reply(id).await, to_vec(&8u32).unwrap());
    }
    peer.send(&[request(1, 0x1002, b""), double(2), double(1)]).await;
    assert_eq!(peer.reply(2).await, to_vec(&8u32).unwrap());
    let reason = peer.goodbye().await;
    assert_eq!(reason.code, CloseCode::ProtocolError);
    assert!(reason.message.contains("in use"), "{reason}");
    strict.live.is(0).await;
}

/// Good streams with some bytes changed, added and taken away: whatever becomes of the connection, it answers or says
/// goodbye, and the server lives.
#[tokio::test(start_paused = true)]
async fn damaged_streams_harm_only_their_own_connection() {
    let strict = Strict::default();
    let both = Both::new(strict.clone()).await;
    let ping = frame(Head::plain(FrameKind::Ping), b"ping");
    let good = [
        record(&[double(0), request(1, 0x1002, b""), request(2, 0x1013, b"\x02ab"), cancel(1)]),
        record(&[request(3, 0x1014, &to_vec(&vec![1u64, 2, 3]).unwrap()), ping.clone()]),
        record(&[
            frame(Head::notify(Opcode::new(0x1019)), b"\x01a"),
            frame(Head::of_call(FrameKind::Reply, CallId::new(5)), b"unasked"),
            support::packet_with(
                4,
                &Never,
                nalix_core::frame::Metadata::remaining(std::time::Duration::from_secs(3)),
            ),
        ]),
    ]
    .concat();
    let mut seed = 1u64;
    let mut roll = |sides: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % sides
    };
    let hello = RawPeer::hello();
    let (mut ended, mut alive) = (0, 0);
    for round in 0..3_000 {
        let mut bytes = good.clone();
        for _ in 0..=roll(3) {
            let at = roll(bytes.len());
            match roll(4) {
                0 => bytes[at] ^= 1 << roll(8),
                1 => bytes[at] = roll(256) as u8,
                2 => drop(bytes.remove(at)),
                _ => bytes.insert(at, roll(256) as u8),
            }
        }
        let mut peer = RawPeer::silent(&both.server);
        peer.write(&hello).await;
        peer.finish_handshake().await;
        peer.write_some(&bytes).await;
        let (reading, mut writing) = tokio::io::split(peer.stream);
        // The end of the link is the end of whatever the damage has made of it.
        drop(tokio::io::AsyncWriteExt::shutdown(&mut writing).await);
        peer.stream = reading.unsplit(writing);
        let mut goodbyes = 0;
        while let Some(frame) = peer.frame().await {
            assert_eq!(goodbyes, 0, "round {round}: {frame:?} behind a goodbye");
            goodbyes += usize::from(frame.kind == FrameKind::Control);
        }
        if goodbyes == 0 { alive += 1 } else { ended += 1 }
    }
    assert!(ended > 500 && alive > 500, "{ended} ended, {alive} did not");
    both.server_is_empty().await;
    strict.live.is(0).await;
    RawPeer::connect(&both.server).await.ping().await;
}
