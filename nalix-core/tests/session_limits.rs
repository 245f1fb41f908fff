//! The limits that both directions must agree on, where they are easiest to get wrong: tiny message limits, and what is
//! no message at all.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use nalix_core::{
    CallId, CloseCode, CloseReason, Opcode, Status,
    error::ProtocolError,
    frame::{Control, FrameKind, Head, Metadata, encode_application, encode_status},
    handshake::abort_body,
    record::{self, RecordKind},
    session::{Cover, Frame, Inbound, Outbound},
    wire::Encode,
};

fn receive(max_message: usize, bytes: &[u8]) -> Result<Vec<Frame>, ProtocolError> {
    let mut inbound = Inbound::new(0);
    inbound.establish(max_message);
    inbound.buffer().extend_from_slice(bytes);
    let mut frames = Vec::new();
    while let Some(frame) = inbound.next_frame()? {
        frames.push(frame);
    }
    inbound.end()?;
    Ok(frames)
}

/// A record that is one byte short of being full, with the longest status behind it.
#[test]
fn a_long_status_fits_the_last_place_in_a_record_at_every_message_limit() {
    let status = Status::resource_exhausted("x".repeat(1024), Some(std::time::Duration::MAX));
    for max_message in [0, 1, 6, 7, 100, 1_099, 1_100, 1_101, 20_000] {
        let mut out = Outbound::new(max_message);
        let mut filled = 0;
        while filled < record::TARGET_BODY - 1 {
            let cancel = Head::of_call(FrameKind::Cancel, CallId::new(0));
            let odd = Head::of_call(FrameKind::Cancel, CallId::new(128));
            let head = if (record::TARGET_BODY - 1 - filled).is_multiple_of(3) { cancel } else { odd };
            out.append(Cover::Plain, head, Metadata::default(), 0, |_| ()).unwrap();
            filled += if head == cancel { 3 } else { 4 };
        }
        assert_eq!(filled, record::TARGET_BODY - 1);
        let head = Head::of_call(FrameKind::Error, CallId::new(65_535));
        out.append_error(Cover::Plain, head, 16, |w| encode_status(w, &status)).unwrap();
        let frames = receive(max_message, &out.take(Vec::new())).unwrap();
        assert_eq!(frames.last().unwrap().kind, FrameKind::Error, "{max_message}");
    }
}

#[test]
fn an_application_error_over_the_limit_is_refused_by_both_sides() {
    let max_message = 5_000;
    let error = |len: usize| {
        move |out: &mut Outbound| {
            let head = Head::of_call(FrameKind::Error, CallId::new(0));
            out.append_error(Cover::Plain, head, len, |w| encode_application(w, &vec![0; len]))
                .map(|_| out.take(Vec::new()))
        }
    };
    let mut out = Outbound::new(max_message);
    assert!(error(max_message + 1)(&mut out).is_err());
    assert!(out.is_empty());
    let exactly = error(max_message)(&mut out).unwrap();
    assert_eq!(receive(max_message, &exactly).unwrap().len(), 1);
    let one_more = error(max_message + 1)(&mut Outbound::new(max_message + 1)).unwrap();
    assert!(matches!(receive(max_message, &one_more), Err(ProtocolError::MessageTooLarge { .. })));
}

#[test]
fn pings_do_not_depend_on_the_message_limit() {
    let mut out = Outbound::new(32);
    for kind in [FrameKind::Ping, FrameKind::Pong] {
        out.append(Cover::Plain, Head::plain(kind), Metadata::default(), 32, |w| w.put(&[7; 32])).unwrap();
    }
    assert_eq!(receive(0, &out.take(Vec::new())).unwrap().len(), 2);
}

/// The connecting side finds that the contracts do not fit when the accepting side thinks that all is well.
#[test]
fn an_abort_after_the_reply_to_a_hello_ends_the_connection_with_its_reason() {
    let reason = CloseReason::new(CloseCode::Incompatible, "Ping.message: str here, u8 there");
    let bytes = record::build(RecordKind::Abort, &abort_body(&reason));
    let frames = receive(1_000, &bytes).unwrap();
    assert_eq!(frames.len(), 1);
    assert_eq!(frames[0].kind, FrameKind::Control);
    match Control::decode(&frames[0].payload).unwrap() {
        Control::Close(found) => assert_eq!((found.code, found.message), (reason.code, reason.message)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_abort_that_says_something_else_is_an_error() {
    let drain = nalix_core::wire::to_vec(&Control::Drain { within: std::time::Duration::ZERO }).unwrap();
    for body in [&drain[..], &[0], &[9, 9]] {
        let refused = receive(1_000, &record::build(RecordKind::Abort, body));
        assert_eq!(refused, Err(ProtocolError::UnexpectedRecord { found: "Abort" }));
    }
}

#[test]
fn bytes_behind_an_error_bring_no_more_frames() {
    let cancel = [3, 3, 0, 0, 5, 0, 0];
    let mut inbound = Inbound::new(0);
    inbound.establish(100);
    inbound.buffer().extend_from_slice(&[0xff; 4]);
    assert!(inbound.next_frame().is_err());
    inbound.buffer().extend_from_slice(&cancel);
    assert_eq!(inbound.next_frame(), Ok(None));
    assert_eq!(inbound.next_record(), Ok(None));
    assert!(inbound.buffer().is_empty());
    assert_eq!(inbound.end(), Ok(()));
}

/// What a frame carries is counted without its metadata, and refused at one byte more than the limit.
#[test]
fn metadata_does_not_count_towards_the_message_limit() {
    let metadata = Metadata::remaining(std::time::Duration::from_secs(1));
    let message = |len: usize| {
        let mut out = Outbound::new(len);
        let head = Head::request(CallId::new(0), Opcode::new(0x1001));
        out.append(Cover::Plain, head, metadata, len, |w| vec![0u8; len].iter().for_each(|b| b.encode(w)))
            .unwrap();
        out.take(Vec::new())
    };
    assert_eq!(receive(300, &message(300)).unwrap()[0].metadata, metadata);
    assert_eq!(receive(300, &message(301)), Err(ProtocolError::MessageTooLarge { found: 301, limit: 300 }));
}
