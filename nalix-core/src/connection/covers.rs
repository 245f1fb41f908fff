//! Tests: what must come sealed, and what becomes of it if it does not.

use std::{
    future::{Future, IntoFuture},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    task::{Context, Poll, Waker},
};

use bytes::Bytes;

use super::{Options, Serving, driver::Driver, establish::settle};
use crate::{
    CallId, CloseCode, Code, Connection, Packet, RequestError,
    controller::Router,
    error::ProtocolError,
    frame::{Control, FrameKind, Head, Metadata},
    handshake::{Sealing, Terms},
    link::memory::{self, MemoryLink},
    packet, packet_controller,
    session::{Frame, Inbound, MAX_MESSAGE, Outbound},
    wire::to_vec,
};

#[packet(opcode = 0x1e01, reply = u8, encrypt)]
struct Marked(u8);

#[packet(opcode = 0x1e02, reply = u8)]
struct HandlerMarked(u8);

#[packet(opcode = 0x1e03, reply = u8)]
struct Open(u8);

#[packet(opcode = 0x1e04, encrypt)]
struct Whisper(u8);

#[packet(opcode = 0x1e05)]
struct HandlerWhisper(u8);

#[packet(opcode = 0x1e06, upload = u8, stream = u8, encrypt)]
struct Echo;

#[packet(opcode = 0x1e07, upload = u8, reply = u8, encrypt)]
struct Sum;

struct Bank(Arc<AtomicU32>);

impl Bank {
    fn run(&self, n: u8) -> u8 {
        self.0.fetch_add(1, Relaxed);
        n
    }
}

#[packet_controller]
impl Bank {
    #[packet]
    fn marked(&self, Marked(n): Marked) -> u8 {
        self.run(n)
    }

    #[packet(encrypt)]
    async fn handler_marked(&self, HandlerMarked(n): HandlerMarked) -> u8 {
        self.run(n)
    }

    #[packet]
    fn open(&self, Open(n): Open) -> u8 {
        self.run(n)
    }

    #[packet]
    fn whisper(&self, Whisper(n): Whisper) {
        self.run(n);
    }

    #[packet(concurrent)]
    async fn sum(&self, _: Sum, mut chunks: crate::Incoming<u8>) -> u8 {
        while let Some(chunk) = chunks.next().await {
            self.run(chunk.unwrap_or_default());
        }
        self.run(0)
    }

    #[packet(encrypt, concurrent)]
    fn handler_whisper(&self, HandlerWhisper(n): HandlerWhisper) {
        self.run(n);
    }
}

fn driver(sealing: Sealing) -> (Connection, Driver<MemoryLink>, Arc<AtomicU32>) {
    let runs = Arc::default();
    let mut router = Router::builder();
    router.add(Bank(Arc::clone(&runs)));
    let terms = Terms {
        version: 1,
        message_out: 1_000,
        message_in: 1_000,
        calls_out: 10,
        calls_in: 10,
        window_out: 100,
        window_in: 100,
        compression_out: false,
        compression_in: false,
        lasting: false,
        sealing,
    };
    // Neither seals anything, so that a test can say what was sealed.
    let paths = (Inbound::new(MAX_MESSAGE), Outbound::new(1_000));
    let options = Options::default();
    let established = settle(memory::pair(1).0, paths, terms, None, None, &options);
    let serving = Serving::from(router.build().unwrap());
    let (connection, driver) = Driver::new(established, serving, &options);
    (connection, driver, runs)
}

fn frame(kind: FrameKind, sealed: bool, payload: &[u8]) -> Frame {
    let Head { id, opcode, .. } = Head::plain(kind);
    let payload = Bytes::copy_from_slice(payload);
    let metadata = Metadata::default();
    Frame { kind, upload: false, id, opcode, sealed, metadata, entries: None, payload, unfinished: None }
}

fn packet<P: Packet>(kind: FrameKind, sealed: bool, packet: &P) -> Frame {
    Frame { opcode: P::OPCODE, ..frame(kind, sealed, &to_vec(packet).unwrap()) }
}

fn handle(driver: &mut Driver<MemoryLink>, mut frame: Frame) -> Result<(), ProtocolError> {
    driver.handle_frame(&mut frame, &mut Context::from_waker(Waker::noop())).map(drop)
}

/// What the driver has to say.
fn said(driver: &Driver<MemoryLink>) -> Vec<(FrameKind, Bytes)> {
    let mut inbound = Inbound::new(MAX_MESSAGE);
    inbound.establish(MAX_MESSAGE);
    let mut bytes = Vec::new();
    driver.shared.take_output(&mut bytes);
    inbound.buffer().extend_from_slice(&bytes);
    std::iter::from_fn(|| inbound.next_frame().unwrap()).map(|frame| (frame.kind, frame.payload)).collect()
}

fn codes(said: &[(FrameKind, Bytes)]) -> Vec<Code> {
    let codes = said.iter().map(|(kind, payload)| match crate::frame::decode_failure(payload).unwrap() {
        crate::Failure::Status(status) if *kind == FrameKind::Error => status.code,
        other => panic!("{kind:?}, {other:?}"),
    });
    codes.collect()
}

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    std::pin::Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_marked_request_in_the_clear_is_refused_before_it_is_decoded() {
    for sealing in [Sealing::None, Sealing::Marked, Sealing::All] {
        let (_connection, mut driver, runs) = driver(sealing);
        let request = FrameKind::Request;
        for frame in [
            packet(request, false, &Marked(7)),
            packet(request, false, &HandlerMarked(7)),
            Frame { opcode: Marked::OPCODE, ..frame(request, false, b"") },
            Frame { opcode: HandlerMarked::OPCODE, ..frame(request, false, b"") },
        ] {
            handle(&mut driver, frame).unwrap();
            assert_eq!(codes(&said(&driver)), [Code::EncryptionRequired], "{sealing:?}");
        }
        assert_eq!(runs.load(Relaxed), 0);
        handle(&mut driver, packet(request, false, &Open(7))).unwrap();
        handle(&mut driver, packet(request, true, &Open(8))).unwrap();
        handle(&mut driver, packet(request, true, &Marked(9))).unwrap();
        handle(&mut driver, packet(request, true, &HandlerMarked(10))).unwrap();
        let replies: Vec<_> = said(&driver).into_iter().map(|(_, payload)| payload.to_vec()).collect();
        assert_eq!(replies, [[7], [8], [9], [10]]);
        handle(&mut driver, Frame { opcode: Marked::OPCODE, ..frame(request, true, b"") }).unwrap();
        assert_eq!(codes(&said(&driver)), [Code::Malformed]);
    }
}

#[test]
fn a_marked_one_way_packet_in_the_clear_is_dropped() {
    let (_connection, mut driver, runs) = driver(Sealing::Marked);
    let notify = FrameKind::Notify;
    handle(&mut driver, packet(notify, false, &Whisper(1))).unwrap();
    handle(&mut driver, packet(notify, false, &HandlerWhisper(1))).unwrap();
    assert_eq!(runs.load(Relaxed), 0);
    handle(&mut driver, packet(notify, true, &Whisper(1))).unwrap();
    handle(&mut driver, packet(notify, true, &HandlerWhisper(1))).unwrap();
    assert_eq!(runs.load(Relaxed), 2);
    assert_eq!(said(&driver), []);
    assert!(driver.phase.is_open());
}

#[test]
fn an_unsealed_answer_to_a_sealed_request_closes_the_connection() {
    for kind in [FrameKind::Reply, FrameKind::Error] {
        let (connection, mut driver, _) = driver(Sealing::Marked);
        let mut call = pin!(connection.request(Marked(1)).into_future());
        assert!(poll(&mut call).is_pending());
        assert_eq!(said(&driver).len(), 1);
        handle(&mut driver, frame(kind, false, &[0, 13, 0, 0, 0])).unwrap();
        driver.deliver_answers();
        assert!(poll(&mut call).is_pending(), "a forged answer has been believed");
        let said = said(&driver);
        let [(FrameKind::Control, goodbye)] = &said[..] else { panic!("{said:?}") };
        let Ok(Control::Close(reason)) = Control::decode(goodbye) else { panic!("{goodbye:?}") };
        assert_eq!(reason.code, CloseCode::EncryptionRequired);
        assert!(reason.message.contains("unsealed"), "{reason}");
        drop(driver);
        assert!(matches!(poll(&mut call), Poll::Ready(Err(RequestError::Disconnected { .. }))));
    }
}

#[test]
fn answers_come_as_their_requests_went() {
    for sealing in [Sealing::Marked, Sealing::All] {
        let (connection, mut driver, _) = driver(sealing);
        let mut marked = pin!(connection.request(Marked(1)).into_future());
        assert!(poll(&mut marked).is_pending());
        let mut open = pin!(connection.request(Open(1)).into_future());
        assert!(poll(&mut open).is_pending());
        let sealed = sealing == Sealing::All;
        let answers = [
            frame(FrameKind::Reply, true, &[1]),
            Frame { id: CallId::new(1), ..frame(FrameKind::Reply, sealed, &[2]) },
        ];
        for answer in answers {
            handle(&mut driver, answer).unwrap();
        }
        driver.deliver_answers();
        assert_eq!(poll(&mut marked), Poll::Ready(Ok(1)));
        assert_eq!(poll(&mut open), Poll::Ready(Ok(2)));
        assert!(driver.phase.is_open());
    }
}

#[test]
fn what_is_no_packet_is_not_taken_in_the_clear_on_a_secured_connection() {
    let drain = to_vec(&Control::Drain { within: std::time::Duration::from_secs(1) }).unwrap();
    let frames = [
        (FrameKind::Cancel, &b""[..]),
        (FrameKind::Ping, b"?"),
        (FrameKind::Pong, b"?"),
        (FrameKind::Ack, b"\0"),
        (FrameKind::Control, &drain),
    ];
    for (kind, payload) in frames {
        for sealing in [Sealing::Marked, Sealing::All] {
            let (connection, mut driver, _) = driver(sealing);
            let refused = handle(&mut driver, frame(kind, false, payload));
            assert!(matches!(refused, Err(ProtocolError::Unsealed { .. })), "{kind:?}: {refused:?}");
            assert!(said(&driver).is_empty() && !connection.is_peer_draining(), "{kind:?}");
            handle(&mut driver, frame(kind, true, payload)).unwrap();
        }
        let (_connection, mut driver, _) = driver(Sealing::None);
        handle(&mut driver, frame(kind, false, payload)).unwrap();
    }
}

/// Parts of a stream are as good as an answer: what anyone can forge is not taken for those of a sealed call.
#[test]
fn parts_of_the_streams_of_sealed_calls_are_not_taken_in_the_clear() {
    let parts = [
        (FrameKind::Item, false, &[1, 7][..]),
        (FrameKind::End, false, b""),
        (FrameKind::Credit, true, &[1]),
        (FrameKind::Cancel, true, b""),
    ];
    for (kind, upload, payload) in parts {
        for sealing in [Sealing::Marked, Sealing::All] {
            let (connection, mut driver, _) = driver(sealing);
            let Poll::Ready(Ok((_chunks, mut items))) = poll(&mut connection.duplex(Echo).into_future())
            else {
                panic!("not sent");
            };
            assert_eq!(said(&driver).len(), 1);
            if let Err(error) = handle(&mut driver, Frame { upload, ..frame(kind, false, payload) }) {
                driver.refuse_peer(&error);
            }
            driver.deliver_answers();
            assert!(poll(&mut pin!(items.next())).is_pending(), "a forged {kind:?} has been believed");
            let said = said(&driver);
            let [(FrameKind::Control, goodbye)] = &said[..] else { panic!("{kind:?}: {said:?}") };
            let Ok(Control::Close(reason)) = Control::decode(goodbye) else { panic!("{goodbye:?}") };
            assert_eq!(reason.code, CloseCode::EncryptionRequired, "{kind:?}");
        }
    }
    // The same from the side that asked, about an upload that came sealed.
    for (kind, payload) in [(FrameKind::Item, &[1, 7][..]), (FrameKind::End, b"")] {
        let (_connection, mut driver, runs) = driver(Sealing::Marked);
        handle(&mut driver, packet(FrameKind::Request, true, &Sum)).unwrap();
        driver.inbox.poll_running(&mut Vec::new());
        handle(&mut driver, Frame { upload: true, ..frame(kind, false, payload) }).unwrap();
        driver.deliver_answers();
        driver.inbox.poll_running(&mut Vec::new());
        assert_eq!(runs.load(Relaxed), 0, "a forged {kind:?} has reached the handler");
        assert!(!driver.phase.is_open());
    }
    let (_connection, mut driver, runs) = driver(Sealing::Marked);
    handle(&mut driver, packet(FrameKind::Request, true, &Sum)).unwrap();
    handle(&mut driver, Frame { upload: true, ..frame(FrameKind::Item, true, &[1, 7]) }).unwrap();
    driver.deliver_answers();
    driver.inbox.poll_running(&mut Vec::new());
    assert_eq!(runs.load(Relaxed), 1);
}
