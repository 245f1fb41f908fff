//! Contracts, handshakes, records and frames against the bytes in `golden/frames.txt`, both ways, and what must be refused.
//!
//! The file is what a second implementation is checked with. It never changes: a layout that differs is another version of
//! the protocol.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{cell::Cell, time::Duration};

use bytes::Bytes;
use nalix_core::{
    Advice, CallId, CloseCode, CloseReason, Code, Opcode, Side, Status, Wire,
    error::ProtocolError,
    frame::{
        self, Control, Entries, FrameKind, Head, Metadata, ResumeToken, compress, encode_application,
        encode_status,
    },
    handshake::{
        self, Answer, Attach, Contracts, Hello, Kept, Lasting, Offer, Params, Responder, ServerSecurity,
        SessionId, Terms,
    },
    packet,
    record::{self, RecordKind},
    registry::Registry,
    session::{Cover, Frame, Inbound, Outbound},
    wire::{Encode, to_vec},
};

#[packet(opcode = 0x1001, reply = Pong)]
struct Ping {
    #[wire(max_len = 256)]
    message: String,
}

#[derive(Debug, Wire)]
struct Pong {
    message: String,
}

#[packet(opcode = 0x3001)]
struct Moved {
    x: f32,
    y: f32,
}

#[test]
fn contracts_have_their_golden_bytes() {
    let golden = Golden::read(&["contract", "fingerprint"]);
    let registry = Registry::global().unwrap();
    for name in ["Ping", "Moved"] {
        let packet = registry.by_name(name).unwrap();
        assert_eq!(to_vec(packet.contract()).unwrap(), golden.take("contract", name));
        assert_eq!(to_vec(&packet.fingerprint()).unwrap(), golden.take("fingerprint", name));
    }
    golden.finish();
}

#[test]
fn handshakes_have_their_golden_bytes() {
    let golden = Golden::read(&["hello", "hello reply", "abort"]);
    let both = params(Contracts::of(Registry::global().unwrap()));
    let none = params(Contracts::default());

    let bytes = golden.take("hello", "both packets");
    assert_eq!(record::build(RecordKind::Hello, &Hello::plaintext(&both).body()), bytes);
    let hello = Hello::parse(&body_of(RecordKind::Hello, &bytes)).unwrap();
    assert_eq!(hello, Hello::plaintext(&both));
    let (reply, _) = answer(&hello, &both);
    let bytes = golden.take("hello reply", "nothing differs");
    assert_eq!(reply, bytes);
    assert_eq!(
        Answer::parse(&body_of(RecordKind::HelloReply, &bytes)).unwrap().to_bytes(),
        bytes[record::HEADER..]
    );

    let bytes = golden.take("hello", "no packets");
    assert_eq!(record::build(RecordKind::Hello, &Hello::plaintext(&none).body()), bytes);

    let mut other = hello.clone();
    let mut offer = Offer::parse(&hello.content).unwrap();
    offer.fingerprints[0].1 += 1;
    other.content = offer.to_bytes().into();
    let (reply, terms) = answer(&other, &both);
    let bytes = golden.take("hello reply", "Ping differs");
    assert_eq!(reply, bytes);
    assert_eq!(
        Answer::parse(&body_of(RecordKind::HelloReply, &bytes)).unwrap().to_bytes(),
        bytes[record::HEADER..]
    );
    assert_eq!((terms.version, terms.message_out, terms.calls_out), (1, 1 << 20, 1024));
    assert!(!terms.compression_in && !terms.compression_out);

    compression(&golden, &none);
    lasting(&golden, &none);

    let bytes = golden.take("hello", "versions 0 to 9, 2 bytes of a later one");
    let hello = Hello::parse(&body_of(RecordKind::Hello, &bytes)).unwrap();
    assert_eq!((hello.min_version, hello.max_version), (0, 9));
    answer(&hello, &none);

    let bytes = golden.take("abort", "too many, try again after 1 s");
    let reason = CloseReason::new(CloseCode::LimitExceeded, "too many")
        .with_advice(Advice::Retry { after: Some(Duration::from_secs(1)) });
    assert_eq!(record::build(RecordKind::Abort, &handshake::abort_body(&reason)), bytes);
    assert_eq!(handshake::read_abort(&body_of(RecordKind::Abort, &bytes)), reason.by(Side::Peer));
    golden.finish();
}

/// Compression is said behind the window of streams, and counts where both sides know it.
fn compression(golden: &Golden, none: &Params) {
    let both = none.clone().with_compression(true);
    for (window, words) in
        [(0, "no packets, no streams, LZ4"), (64 << 10, "no packets, window of 64 KiB, LZ4")]
    {
        let ours = both.clone().with_streams(window);
        let bytes = golden.take("hello", words);
        assert_eq!(record::build(RecordKind::Hello, &Hello::plaintext(&ours).body()), bytes, "{words}");
        let hello = Hello::parse(&body_of(RecordKind::Hello, &bytes)).unwrap();
        let (reply, terms) = answer(&hello, &both);
        assert_eq!((terms.compression_in, terms.compression_out, terms.window_out), (true, true, window));
        assert_eq!(reply, golden.take("hello reply", "nothing differs, LZ4"));
        let parsed = Answer::parse(&body_of(RecordKind::HelloReply, &reply)).unwrap();
        assert!(parsed.lz4 && parsed.to_bytes() == reply[record::HEADER..]);
        let (_, terms) = answer(&hello, none);
        assert_eq!((terms.compression_in, terms.compression_out), (false, false));
    }
    let (_, terms) = answer(&Hello::plaintext(none), &both);
    assert_eq!((terms.compression_in, terms.compression_out), (true, false));
}

/// A session that outlives its links is asked for, named and gone on with.
fn lasting(golden: &Golden, none: &Params) {
    let (session, token) = (SessionId::from_bytes([7; 16]), ResumeToken::from_bytes([9; 16]));
    let attach = Attach::new(session, token.clone(), 5, 300);
    let kept = Kept::new(session, token, Duration::from_secs(30));
    for (lasting, words) in [
        (Lasting::New, "no packets, a lasting session"),
        (Lasting::Attach(attach.clone()), "no packets, go on at 300, epoch 5"),
    ] {
        let mut ours = none.clone();
        ours.lasting = lasting.clone();
        let bytes = golden.take("hello", words);
        assert_eq!(record::build(RecordKind::Hello, &Hello::plaintext(&ours).body()), bytes, "{words}");
        let hello = Hello::parse(&body_of(RecordKind::Hello, &bytes)).unwrap();
        let mut theirs = none.clone();
        theirs.lasting = Lasting::New;
        let responder = Responder::read(&hello, theirs, &ServerSecurity::Plaintext, None).unwrap();
        let accepted = responder.accept(None, Some(kept.clone())).unwrap();
        assert_eq!(accepted.reply, golden.take("hello reply", "nothing differs, session kept for 30 s"));
        assert!(accepted.terms.lasting && accepted.kept.as_ref() == Some(&kept));
        assert_eq!(accepted.attach, (lasting != Lasting::New).then(|| attach.clone()));
        // A side that keeps nothing says nothing of it.
        let (reply, terms) = answer(&hello, none);
        assert!(
            !terms.lasting
                && Answer::parse(&body_of(RecordKind::HelloReply, &reply)).unwrap().lasting.is_none()
        );
    }
}

#[test]
fn frames_have_their_golden_bytes() {
    let golden = Golden::read(&["frame"]);
    let hi = &b"\x03hi!"[..];
    let (five, big) = (CallId::new(5), CallId::new(300));
    let of = Head::of_call;
    golden.frame("notify 0x3001", Head::notify(Opcode::new(0x3001)), hi);
    golden.frame("request 5 of 0x1001", Head::request(five, Opcode::new(0x1001)), hi);
    golden.frame("request 300 of 0xffff, empty", Head::request(big, Opcode::new(0xffff)), b"");
    golden.frame("reply 5", of(FrameKind::Reply, five), hi);
    golden.frame("reply 0, empty", of(FrameKind::Reply, CallId::new(0)), b"");
    let last = of(FrameKind::Reply, CallId::new(u32::MAX));
    golden.frame("reply 4294967295, 200 bytes of 0x2a", last, &[0x2a; 200]);
    golden.frame("cancel 300", of(FrameKind::Cancel, big), b"");
    golden.frame("ping 1, 2, 3, 4", Head::plain(FrameKind::Ping), &[1, 2, 3, 4]);
    golden.frame("pong 1, 2, 3, 4", Head::plain(FrameKind::Pong), &[1, 2, 3, 4]);
    golden.frame("ack of 300", Head::plain(FrameKind::Ack), &[0xac, 2]);
    golden.frame("unknown kind 15, id 7", of(FrameKind::Unknown(15), CallId::new(7)), &[0xaa, 0xbb]);

    let bytes = golden.take("frame", "request 5, 2.5 s remain");
    let (head, metadata) =
        (Head::request(five, Opcode::new(0x1001)), Metadata::remaining(Duration::from_millis(2_500)));
    assert_eq!(build(head, metadata, hi), bytes);
    let frame = parse_one(&bytes);
    assert_eq!(
        (frame.kind, frame.id, frame.metadata, &frame.payload[..]),
        (FrameKind::Request, five, metadata, hi)
    );

    entries(&golden);
    errors(&golden, of(FrameKind::Error, five));
    messages(&golden);
    streams(&golden, five, big);
    golden.finish();
}

fn entries(golden: &Golden) {
    let request = Head::request(CallId::new(5), Opcode::new(0x1001));
    let remaining = Metadata::remaining(Duration::from_millis(2_500));
    let tenant = ("tenant".to_owned(), b"blue".to_vec());
    let none = Metadata::default();
    let answer = |kind| Head::of_call(kind, CallId::new(5));
    let hi = &b"\x03hi!"[..];
    let two = vec![tenant.clone(), ("empty".to_owned(), Vec::new())];
    let long = vec![("k".repeat(64), b"v".repeat(200))];
    let tenant = vec![tenant];
    let cases = [
        ("request 5, tenant is blue", request, none, tenant.clone(), hi),
        ("request 5, 2.5 s remain, tenant, empty", request, remaining, two, hi),
        ("notify 0x3001, tenant is blue", Head::notify(Opcode::new(0x3001)), none, tenant.clone(), hi),
        ("request 5, key of 64 k, value of 200 v", request, none, long, hi),
        ("reply 5, tenant is blue", answer(FrameKind::Reply), none, tenant.clone(), hi),
        ("error 5, 0x2a, tenant is blue", answer(FrameKind::Error), none, tenant.clone(), &[1, 0x2a]),
        ("end of stream 5, tenant is blue", answer(FrameKind::End), none, tenant, b""),
    ];
    for (words, head, metadata, pairs, payload) in cases {
        let bytes = golden.take("frame", words);
        let mut entries = Entries::default();
        for (key, value) in &pairs {
            entries.push(key, value).unwrap();
        }
        let mut out = Outbound::new(LIMIT);
        out.append_as(None, Cover::Plain, head, (metadata, Some(&entries)), 4, |w| w.put(payload)).unwrap();
        assert_eq!(out.take(Vec::new()).split_off(record::HEADER), bytes, "{words}");
        let frame = parse_one(&bytes);
        assert_eq!((frame.kind, frame.id, frame.metadata), (head.kind, head.id, metadata), "{words}");
        let found = frame.entries.unwrap();
        let found: Vec<_> = found.iter().map(|(key, value)| (key.to_owned(), value.to_vec())).collect();
        assert_eq!((found, &frame.payload[..]), (pairs, payload), "{words}");
    }
}

fn errors(golden: &Golden, head: Head) {
    let mut body = Vec::new();
    encode_application(&mut nalix_core::wire::Writer::new(&mut body, 100), &[0x2a]);
    golden.frame("error 5, the packet's own: 0x2a", head, &body);
    let after = Duration::from_millis(1_500);
    let statuses = [
        ("NotFound: no room 7", Status::not_found("no room 7")),
        ("ResourceExhausted, after 1.5 s", Status::resource_exhausted("", Some(after))),
        ("Unavailable, try again", Status::unavailable("")),
        ("code 999, connect anew", Status::new(Code::Other(999), "").with_advice(Advice::Reconnect)),
        (
            "Unauthenticated, authenticate",
            Status::new(Code::Unauthenticated, "").with_advice(Advice::Authenticate),
        ),
        ("Malformed, give up", Status::new(Code::Malformed, "").with_advice(Advice::GiveUp)),
    ];
    for (words, status) in statuses {
        let mut body = Vec::new();
        encode_status(&mut nalix_core::wire::Writer::new(&mut body, 100), &status);
        golden.frame(&format!("error 5, {words}"), head, &body);
        let failure = frame::decode_failure(&Bytes::from(body)).unwrap();
        assert_eq!(failure, nalix_core::Failure::Status(status));
    }
}

fn streams(golden: &Golden, five: CallId, big: CallId) {
    let (of, upload) = (Head::of_call, Head::of_upload);
    golden.frame("two items of stream 5: 0x2a, nothing", of(FrameKind::Item, five), &[1, 0x2a, 0]);
    golden.frame("hi! on stream 5, in two frames: the first", of(FrameKind::Item, five), b"\x04\x03");
    golden.frame("hi! on stream 5, the second, then 0x2a", of(FrameKind::Item, five), b"hi!\x01\x2a");
    golden.frame("a chunk of upload 5: hi!", upload(FrameKind::Item, five), b"\x04\x03hi!");
    golden.frame("end of stream 5", of(FrameKind::End, five), b"");
    golden.frame("end of upload 5", upload(FrameKind::End, five), b"");
    let mut body = Vec::new();
    let cancelled = Status::new(Code::Cancelled, "");
    encode_status(&mut nalix_core::wire::Writer::new(&mut body, 100), &cancelled);
    golden.frame("upload 5 given up: Cancelled", upload(FrameKind::End, five), &body);
    golden.frame("credit of 32768 bytes for stream 5", of(FrameKind::Credit, five), &[0x80, 0x80, 2]);
    golden.frame("credit of 1 byte for upload 300", upload(FrameKind::Credit, big), &[1]);
    golden.frame("no more of upload 300", upload(FrameKind::Cancel, big), b"");
}

fn messages(golden: &Golden) {
    let restart = CloseReason::new(CloseCode::GoingAway, "restart").with_advice(Advice::Reconnect);
    let messages = [
        ("close: GoingAway, connect anew, restart", Control::Close(restart.by(Side::Peer))),
        ("close: Normal", Control::Close(CloseReason::new(CloseCode::Normal, "").by(Side::Peer))),
        ("drain within 10 s", Control::Drain { within: Duration::from_secs(10) }),
        ("ready", Control::Ready),
        ("fresh", Control::Fresh),
        ("resumed at 300", Control::Resumed { received: 300 }),
        ("what time is it, 300", Control::AskTime { number: 300 }),
        (
            "300: it came at 1 s and left at 1.000001 s",
            Control::Time { number: 300, received: 1_000_000, sent: 1_000_001 },
        ),
        ("control message of unknown kind 77", Control::Unknown(77)),
    ];
    for (words, message) in messages {
        let body = to_vec(&message).unwrap();
        golden.frame(words, Head::plain(FrameKind::Control), &body);
        assert_eq!(Control::decode(&Bytes::from(body)).unwrap(), message);
    }
}

#[test]
fn messages_in_fragments_have_their_golden_bytes() {
    let golden = Golden::read(&["message", "given up"]);
    let request = Head::request(CallId::new(5), Opcode::new(0x1001));
    let remain = Metadata::remaining(Duration::from_millis(2_500));
    for (words, head, metadata, len) in [
        ("request 5 of 0x1001, 16,385 bytes of 0x2a", request, Metadata::default(), 16_385),
        (
            "reply 300, 16,386 bytes of 0x2a",
            Head::of_call(FrameKind::Reply, CallId::new(300)),
            Metadata::default(),
            16_386,
        ),
        ("request 5, 2.5 s remain, 16,385 bytes", request, remain, 16_385),
    ] {
        let bytes = golden.take("message", words);
        let mut out = Outbound::new(100_000);
        out.append(Cover::Plain, head, metadata, 0, |w| w.put(&vec![0x2a; len])).unwrap();
        assert!(out.take(Vec::new()) == bytes, "{words}");
        let frames = receive(&bytes).unwrap();
        assert_eq!((frames.len(), frames[0].kind, frames[0].id), (1, head.kind, head.id), "{words}");
        assert_eq!((&frames[0].payload[..], frames[0].metadata), (&vec![0x2a; len][..], metadata), "{words}");
    }
    let bytes = golden.take("message", "reply 5, 16,385 bytes, tenant is blue");
    let mut tenant = Entries::default();
    tenant.push("tenant", b"blue").unwrap();
    let mut out = Outbound::new(100_000);
    let head = Head::of_call(FrameKind::Reply, CallId::new(5));
    let metadata = (Metadata::default(), Some(&tenant));
    out.append_encoded(None, Cover::Plain, head, metadata, vec![0x2a; 16_385].into()).unwrap();
    assert!(out.take(Vec::new()) == bytes);
    let frames = receive(&bytes).unwrap();
    assert_eq!((frames.len(), frames[0].payload.len(), &frames[0].entries), (1, 16_385, &Some(tenant)));
    let mut out = Vec::new();
    frame::put_head(&mut out, Head::of_call(FrameKind::Continue, CallId::new(3)));
    out.push(0);
    assert_eq!(out, golden.take("given up", "slot 3"));
    golden.finish();
}

#[test]
fn compressed_messages_have_their_golden_bytes() {
    let golden = Golden::read(&["compressed"]);
    let (run, five) = ([0x2a; 64], CallId::new(5));
    let of = Head::of_call;
    let remain = Metadata::remaining(Duration::from_millis(2_500));
    let items = [&[15][..], &[0x2a; 15]].concat().repeat(4);
    let own = [&[1][..], &[0x2a; 63]].concat();
    let request = Head::request(five, Opcode::new(0x1001));
    let none = Metadata::default();
    let cases = [
        ("reply 5, 64 bytes of 0x2a", of(FrameKind::Reply, five), none, &run[..]),
        ("notify 0x3001, 64 bytes of 0x2a", Head::notify(Opcode::new(0x3001)), none, &run),
        ("request 5, 2.5 s remain, 64 bytes of 0x2a", request, remain, &run),
        ("error 5, the packet's own: 63 times 0x2a", of(FrameKind::Error, five), none, &own),
        ("items of stream 5: 4 times 15 of 0x2a", of(FrameKind::Item, five), none, &items),
        ("chunks of upload 5: the same", Head::of_upload(FrameKind::Item, five), none, &items),
        ("reply 5, 40,005 bytes of 0x2a, badly", of(FrameKind::Reply, five), none, &[0x2a; 40_005]),
    ];
    for (words, head, metadata, message) in cases {
        let bytes = golden.take("compressed", words);
        let mut out = Outbound::new(LIMIT);
        out.set_compression(true);
        let ours = compress::compressed(message, |bytes| {
            let bytes = bytes.expect("it becomes shorter");
            out.append_compressed(None, Cover::Plain, head, (metadata, None), bytes).unwrap();
            out.take(Vec::new())
        });
        assert!(ours.len() < message.len(), "{words}: {ours:x?}");
        for bytes in [bytes, ours] {
            let frames = receive_compressed(&bytes).unwrap();
            let [frame] = &frames[..] else { panic!("{words}: {frames:?}") };
            assert_eq!((frame.kind, frame.id, frame.upload), (head.kind, head.id, head.upload), "{words}");
            assert_eq!((frame.opcode, frame.metadata), (head.opcode, metadata), "{words}");
            assert!(frame.payload == message, "{words}");
            let refused = receive(&bytes).unwrap_err().to_string();
            assert!(refused.contains("not agreed on"), "{words}: {refused}");
        }
    }
    golden.finish();
}

#[test]
fn frames_in_other_forms_are_read() {
    let golden = Golden::read(&["read"]);
    let frame = parse_one(&golden.take("read", "request 5, unknown key, 2.5 s remain"));
    assert_eq!(frame.metadata, Metadata::remaining(Duration::from_millis(2_500)));
    assert_eq!(&frame.payload[..], b"\x03hi!");
    let frame = parse_one(&golden.take("read", "request 5, tenant, unknown key, 2.5 s"));
    assert_eq!(frame.metadata, Metadata::remaining(Duration::from_millis(2_500)));
    assert_eq!(frame.entries.unwrap().iter().collect::<Vec<_>>(), [("tenant", &b"blue"[..])]);
    let frame = parse_one(&golden.take("read", "notify 0x3001, empty metadata"));
    assert_eq!((frame.metadata, &frame.payload[..]), (Metadata::default(), &b"\x03hi!"[..]));
    let frame = parse_one(&golden.take("read", "close: Normal, unknown advice, more bytes"));
    let normal = CloseReason::new(CloseCode::Normal, "").by(Side::Peer);
    assert_eq!(Control::decode(&frame.payload).unwrap(), Control::Close(normal));
    golden.finish();
}

#[test]
fn records_have_their_golden_bytes() {
    let golden = Golden::read(&["record"]);
    let bytes = golden.take("record", "request 5 and cancel 5");
    let mut out = Outbound::new(LIMIT);
    let id = CallId::new(5);
    let ping = Ping { message: "hi!".to_owned() };
    let heads = [Head::request(id, Opcode::new(0x1001)), Head::of_call(FrameKind::Cancel, id)];
    out.append(Cover::Plain, heads[0], Metadata::default(), 0, |w| ping.encode(w)).unwrap();
    out.append(Cover::Plain, heads[1], Metadata::default(), 0, |_| ()).unwrap();
    assert_eq!(out.take(Vec::new()), bytes);
    let kinds: Vec<_> = receive(&bytes).unwrap().iter().map(|frame| frame.kind).collect();
    assert_eq!(kinds, [FrameKind::Request, FrameKind::Cancel]);
    golden.finish();
}

#[test]
fn what_is_malformed_is_refused() {
    let names = ["bad frame", "bad compressed", "bad record", "bad hello", "bad reply"];
    let golden = Golden::read(&names);
    for line in &golden.lines {
        line.used.set(true);
        let (words, bytes) = (line.words, line.bytes.clone());
        match line.name {
            "bad frame" => assert!(receive(&record::build(RecordKind::Plain, &bytes)).is_err(), "{words}"),
            "bad compressed" => {
                let refused = receive_compressed(&record::build(RecordKind::Plain, &bytes));
                assert!(refused.is_err(), "{words}: {refused:?}");
            }
            "bad record" => assert!(receive(&bytes).is_err(), "{words}"),
            "bad hello" => {
                let taken = Hello::parse(&bytes.into()).is_ok_and(|hello| {
                    let params = params(Contracts::default());
                    Responder::read(&hello, params, &ServerSecurity::Plaintext, None).is_ok()
                });
                assert!(!taken, "{words}");
            }
            _ => assert!(Answer::parse(&bytes.into()).is_err(), "{words}"),
        }
    }
    golden.finish();
}

fn params(contracts: Contracts) -> Params {
    Params::new(LIMIT, 1024, contracts)
}

/// The bytes of a single frame, without its record.
fn build(head: Head, metadata: Metadata, payload: &[u8]) -> Vec<u8> {
    let mut out = Outbound::new(LIMIT);
    out.append(Cover::Plain, head, metadata, payload.len(), |w| w.put(payload)).unwrap();
    out.take(Vec::new()).split_off(record::HEADER)
}

fn parse_one(frame: &[u8]) -> Frame {
    let mut frames = receive(&record::build(RecordKind::Plain, frame)).unwrap();
    assert_eq!(frames.len(), 1);
    frames.remove(0)
}

fn receive(bytes: &[u8]) -> Result<Vec<Frame>, ProtocolError> {
    receive_with(false, bytes)
}

fn receive_compressed(bytes: &[u8]) -> Result<Vec<Frame>, ProtocolError> {
    receive_with(true, bytes)
}

fn receive_with(inflation: bool, bytes: &[u8]) -> Result<Vec<Frame>, ProtocolError> {
    let mut inbound = Inbound::new(0);
    inbound.establish(LIMIT);
    inbound.set_inflation(inflation);
    inbound.buffer().extend_from_slice(bytes);
    let mut frames = Vec::new();
    while let Some(frame) = inbound.next_frame()? {
        frames.push(frame);
    }
    inbound.end()?;
    Ok(frames)
}

/// The HelloReply record that answers a hello, and what has been agreed on.
fn answer(hello: &Hello, params: &Params) -> (Vec<u8>, Terms) {
    let responder = Responder::read(hello, params.clone(), &ServerSecurity::Plaintext, None).unwrap();
    let accepted = responder.accept(None, None).unwrap();
    (accepted.reply, accepted.terms)
}

/// The body of a handshake's record, which is the whole input.
fn body_of(kind: RecordKind, bytes: &[u8]) -> Bytes {
    let mut inbound = Inbound::new(handshake::MAX_HELLO);
    inbound.buffer().extend_from_slice(bytes);
    let record = inbound.next_record().unwrap().unwrap();
    assert_eq!(record.kind, kind);
    inbound.end().unwrap();
    record.body
}

/// Some lines of the file, and which of them have been used.
struct Golden {
    lines: Vec<Line>,
}

struct Line {
    name: &'static str,
    words: &'static str,
    bytes: Vec<u8>,
    used: Cell<bool>,
}

impl Golden {
    fn read(names: &[&str]) -> Self {
        let lines = GOLDEN.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(Line::read);
        Self { lines: lines.filter(|line| names.contains(&line.name)).collect() }
    }

    fn take(&self, name: &str, words: &str) -> Vec<u8> {
        let line = self.lines.iter().find(|line| line.name == name && line.words == words);
        let line = line.unwrap_or_else(|| panic!("no golden line for {name}: {words}"));
        line.used.set(true);
        line.bytes.clone()
    }

    /// Checks a frame without metadata, both ways.
    fn frame(&self, words: &str, head: Head, payload: &[u8]) {
        let bytes = self.take("frame", words);
        assert_eq!(build(head, Metadata::default(), payload), bytes, "{words}");
        let frame = parse_one(&bytes);
        assert_eq!((frame.kind, frame.id, frame.opcode), (head.kind, head.id, head.opcode), "{words}");
        assert_eq!((frame.metadata, &frame.payload[..]), (Metadata::default(), payload), "{words}");
    }

    fn finish(self) {
        assert!(!self.lines.is_empty());
        for line in self.lines {
            assert!(line.used.get(), "nothing checks the golden line for {}: {}", line.name, line.words);
        }
    }
}

impl Line {
    fn read(line: &'static str) -> Self {
        let [name, words, hex] = line.split('|').map(str::trim).collect::<Vec<_>>()[..] else {
            panic!("not `name | meaning | hex`: {line}");
        };
        let bytes = hex.split_whitespace().flat_map(|item| {
            let (byte, times) = item.split_once('*').unwrap_or((item, "1"));
            vec![u8::from_str_radix(byte, 16).unwrap(); times.parse().unwrap()]
        });
        Self { name, words, bytes: bytes.collect(), used: Cell::new(false) }
    }
}

const GOLDEN: &str = include_str!("golden/frames.txt");
const LIMIT: usize = 1 << 20;
