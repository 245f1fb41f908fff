//! Compressed messages, from one side's frames to the other's: any content, any cut, lies about the length, and budgets.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use nalix_core::{
    CallId, Opcode,
    error::ProtocolError,
    frame::{
        self, FRAGMENT, FrameKind, Head, Metadata,
        compress::{self, Compressed},
    },
    handshake::Sealing,
    record::{self, Key, Opener, RecordKind, Sealer},
    session::{Cover, Frame, Inbound, Outbound, Unfinished, max_items},
    wire::varint,
};
use proptest::prelude::*;

const LIMIT: usize = 1 << 20;

fn paths(sealing: Sealing, limit: usize) -> (Outbound, Inbound) {
    let mut inbound = Inbound::new(0);
    let key = || Key::new([9; 32]);
    let mut out = match sealing {
        Sealing::None => {
            inbound.establish(limit);
            Outbound::new(limit)
        }
        sealing => {
            inbound.establish_secured(limit, Opener::new(key()), sealing);
            Outbound::secured(limit, Sealer::new(key()), sealing)
        }
    };
    inbound.set_inflation(true);
    out.set_compression(true);
    (out, inbound)
}

fn plain(limit: usize) -> (Outbound, Inbound) {
    paths(Sealing::None, limit)
}

fn receive(inbound: &mut Inbound, bytes: &[u8]) -> Result<Vec<Frame>, ProtocolError> {
    inbound.buffer().extend_from_slice(bytes);
    let mut frames = Vec::new();
    while let Some(frame) = inbound.next_frame()? {
        frames.push(frame);
    }
    Ok(frames)
}

fn take_all(out: &mut Outbound) -> Vec<u8> {
    let mut bytes = Vec::new();
    while !out.is_empty() {
        bytes.extend(out.take(Vec::new()));
    }
    bytes
}

/// Appends a message, compressed if that helps. Returns whether it did.
fn append(out: &mut Outbound, cover: Cover, head: Head, message: &[u8]) -> bool {
    compress::compressed(message, |bytes| {
        let Some(bytes) = bytes else {
            out.append(cover, head, Metadata::default(), message.len(), |w| w.put(message)).unwrap();
            return false;
        };
        assert!(bytes.len() < message.len());
        out.append_compressed(None, cover, head, (Metadata::default(), None), bytes).unwrap();
        true
    })
}

/// The frames of a message whose compressed form is `body`, cut into fragments if need be.
fn send_raw(head: Head, body: &[u8]) -> Vec<u8> {
    let mut out = Outbound::new(usize::MAX);
    out.append_compressed(None, Cover::Plain, head, (Metadata::default(), None), body).unwrap();
    take_all(&mut out)
}

fn reply() -> Head {
    Head::of_call(FrameKind::Reply, CallId::new(5))
}

fn request(id: u32) -> Head {
    Head::request(CallId::new(id), Opcode::new(0x1001))
}

/// A compressed form that says `says` and holds `holds` bytes of 0x2a, at least 2.
fn run(says: usize, holds: usize) -> Vec<u8> {
    let mut body = put_varint(says);
    if holds < 24 {
        body.push(0xf0);
        body.push(u8::try_from(holds - 15).unwrap());
        body.extend(vec![0x2a; holds]);
        return body;
    }
    body.extend([0x1f, 0x2a, 1, 0]);
    let more = holds - 1 - 5 - 19;
    body.extend(vec![255; more / 255]);
    body.push((more % 255) as u8);
    body.push(0x50);
    body.extend([0x2a; 5]);
    body
}

fn put_varint(n: usize) -> Vec<u8> {
    let mut buf = [0; varint::MAX_LEN];
    let len = varint::put(n as u64, &mut buf);
    buf[..len].to_vec()
}

/// Bytes that no compressor makes shorter.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Messages that compress well, badly, and not at all.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let len = prop_oneof![0..60usize, 60..3_000usize, 60_000..70_000usize, FRAGMENT..12 * FRAGMENT];
    (len, 1..256usize, any::<u8>(), 0..4u8).prop_map(|(len, period, seed, kind)| match kind {
        0 => vec![seed; len],
        1 => (0..len).map(|i| (i % period) as u8 ^ seed).collect(),
        2 => noise(len),
        _ => noise(len / 2 + 1).iter().chain(&vec![seed; len / 2]).copied().collect(),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever is said comes out as it went in, compressed or not, sealed or not, however the stream is cut.
    #[test]
    fn messages_arrive_as_they_were_before_they_were_compressed(
        all in proptest::collection::vec((message(), 0..3u8, any::<bool>()), 1..6),
        sealing in prop_oneof![Just(Sealing::None), Just(Sealing::Marked), Just(Sealing::All)],
        cuts in proptest::collection::vec(1..50_000usize, 1..20),
    ) {
        let (mut out, mut inbound) = paths(sealing, LIMIT);
        for (i, (message, kind, sealed)) in all.iter().enumerate() {
            let id = CallId::new(i as u32);
            let head = match kind {
                0 => request(i as u32),
                1 => Head::of_call(FrameKind::Reply, id),
                _ => Head::of_call(FrameKind::Error, id),
            };
            append(&mut out, Cover::of(*sealed), head, message);
        }
        let stream = take_all(&mut out);
        let mut frames = Vec::new();
        let mut rest = &stream[..];
        for cut in cuts.iter().cycle() {
            let (read, behind) = rest.split_at((*cut).min(rest.len()));
            frames.extend(receive(&mut inbound, read).unwrap());
            rest = behind;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(inbound.end(), Ok(()));
        prop_assert_eq!(frames.len(), all.len());
        frames.sort_by_key(|frame| frame.id.get());
        for (frame, (message, ..)) in frames.iter().zip(&all) {
            prop_assert!(frame.payload == message[..]);
            prop_assert_eq!(frame.unfinished, None);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Any bytes for a block are refused, or are what LZ4 makes of them.
    #[test]
    fn a_block_holds_what_it_says_or_is_refused(
        block in proptest::collection::vec(prop_oneof![any::<u8>(), Just(0x1f), Just(0xff), Just(0), Just(1)], 0..60),
        off in -2..3isize,
    ) {
        let mut made = vec![0; 64 * 1024];
        let holds = lz4_flex::block::decompress_into(&block, &mut made);
        let says = holds.as_ref().copied().unwrap_or(1_000).saturating_add_signed(off);
        match (Compressed { len: says, block: &block }).inflate() {
            Ok(message) => prop_assert_eq!(&message[..], &made[..holds.unwrap()]),
            Err(ProtocolError::BadFrame { .. }) => prop_assert!(holds.is_err() || off != 0, "{:?}", block),
            Err(other) => prop_assert!(false, "{}", other),
        }
    }

    /// Compressed messages that were cut or changed on the way (on a connection that is not secured) break nothing, and
    /// never become longer than they say.
    #[test]
    fn what_was_changed_or_cut_breaks_nothing(
        message in message().prop_filter("short", |message| message.len() < 4_000),
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<proptest::sample::Index>(),
        cuts in any::<bool>(),
    ) {
        let body = compress::compressed(&message, |bytes| bytes.map(<[u8]>::to_vec));
        let Some(mut body) = body else { return Ok(()) };
        for (at, byte) in &changes {
            let at = at.index(body.len());
            body[at] = *byte;
        }
        if cuts {
            body.truncate(cut.index(body.len()));
        }
        let (_, mut inbound) = plain(LIMIT);
        if let Ok(frames) = receive(&mut inbound, &send_raw(reply(), &body)) {
            let (says, _) = varint::split(&body).unwrap();
            prop_assert_eq!(frames[0].payload.len() as u64, says);
            prop_assert!(!cuts && (!changes.is_empty() || frames[0].payload == message[..]));
        }
    }
}

#[test]
fn the_limit_is_that_of_the_message_before_compression() {
    for limit in [1_000, FRAGMENT, FRAGMENT + 1, 10 * FRAGMENT, LIMIT] {
        for kind in [FrameKind::Notify, FrameKind::Request, FrameKind::Reply] {
            let head = Head { kind, ..request(0) };
            let (_, mut inbound) = plain(limit);
            let frames = receive(&mut inbound, &send_raw(head, &run(limit, limit))).unwrap();
            assert!(frames[0].payload == vec![0x2a; limit]);
            let over = receive(&mut inbound, &send_raw(head, &run(limit + 1, limit + 1)));
            assert_eq!(over, Err(ProtocolError::MessageTooLarge { found: limit + 1, limit }));
        }
        let (_, mut inbound) = plain(limit);
        let error = Head::of_call(FrameKind::Error, CallId::new(0));
        let most = (limit + 1).max(1_100);
        assert!(receive(&mut inbound, &send_raw(error, &run(most, most))).is_ok());
        let over = receive(&mut inbound, &send_raw(error, &run(most + 1, most + 1)));
        assert_eq!(over, Err(ProtocolError::MessageTooLarge { found: most + 1, limit: most }));
        let (_, mut inbound) = plain(limit);
        let item = Head::of_call(FrameKind::Item, CallId::new(0));
        let most = max_items(limit);
        assert!(receive(&mut inbound, &send_raw(item, &run(most, most))).is_ok());
        let over = receive(&mut inbound, &send_raw(item, &run(most + 1, most + 1)));
        assert_eq!(over, Err(ProtocolError::MessageTooLarge { found: most + 1, limit: most }));
    }
}

/// A compressed message that does not fit a frame has the same limit.
#[test]
fn the_limit_holds_for_compressed_messages_in_fragments() {
    let badly = |len: usize| {
        // Half of it does not compress.
        let mut message = noise(len / 2);
        message.resize(len, 7);
        message
    };
    let limit = 8 * FRAGMENT;
    let (mut out, mut inbound) = plain(limit);
    let message = badly(limit);
    assert!(append(&mut out, Cover::Plain, reply(), &message) && out.has_queued());
    assert!(receive(&mut inbound, &take_all(&mut out)).unwrap()[0].payload == message);
    let (mut out, _) = plain(usize::MAX);
    assert!(append(&mut out, Cover::Plain, reply(), &badly(limit + 1)) && out.has_queued());
    let over = receive(&mut inbound, &take_all(&mut out));
    assert_eq!(over, Err(ProtocolError::MessageTooLarge { found: limit + 1, limit }));
}

#[test]
fn a_declared_length_cannot_lie() {
    let wrong = |says: usize, holds: usize| {
        let (_, mut inbound) = plain(LIMIT);
        receive(&mut inbound, &send_raw(reply(), &run(says, holds))).unwrap_err().to_string()
    };
    for len in [64, 1_000, FRAGMENT, FRAGMENT + 1, LIMIT] {
        assert!(wrong(len - 1, len).contains("longer than it says"));
        assert!(wrong(len, len - 1).contains("shorter than it says"));
    }
    // A thousand MiB in a block of four.
    assert!(wrong(LIMIT, 1_000 << 20).contains("no shorter"), "four MiB travel");
    assert!(wrong(LIMIT, 200 << 20).contains("longer than it says"));
    assert!(wrong(30, 20).contains("shorter than it says"), "literals only");
    assert!(wrong(25, 23).contains("no shorter"));
    for huge in [u32::MAX as usize, LIMIT + 1] {
        assert!(wrong(huge, 64).contains("the limit is 1048576"));
    }
}

#[test]
fn a_message_that_is_compressed_twice_is_inflated_once() {
    let once = run(LIMIT, LIMIT);
    let twice = compress::compressed(&once, |bytes| bytes.unwrap().to_vec());
    let (_, mut inbound) = plain(LIMIT);
    let frames = receive(&mut inbound, &send_raw(reply(), &twice)).unwrap();
    assert!(frames[0].payload == once);
}

#[test]
fn an_error_comes_once_and_nothing_behind_it() {
    let (_, mut inbound) = plain(LIMIT);
    let mut bytes = send_raw(reply(), &run(65, 64));
    bytes.extend(send_raw(reply(), &run(64, 64)));
    assert!(receive(&mut inbound, &bytes).is_err());
    assert_eq!(receive(&mut inbound, &send_raw(reply(), &run(64, 64))), Ok(vec![]));
}

/// One frame of 16 KiB can hold 4 MiB: it counts as a large message does.
#[test]
fn a_small_frame_that_inflates_to_much_is_refused_beyond_the_budget() {
    let len = 40 * FRAGMENT;
    let (mut out, mut inbound) = plain(LIMIT);
    inbound.set_reassembly(len - 1);
    let frames = receive(&mut inbound, &send_raw(request(7), &run(len, len))).unwrap();
    let [refused] = &frames[..] else { panic!("{frames:?}") };
    assert_eq!(refused.unfinished, Some(Unfinished::OverBudget));
    assert_eq!((refused.kind, refused.id, refused.payload.len()), (FrameKind::Request, CallId::new(7), 0));

    inbound.set_reassembly(len);
    let frames = receive(&mut inbound, &send_raw(request(7), &run(len, len))).unwrap();
    assert_eq!((frames[0].unfinished, frames[0].payload.len()), (None, len));

    // What is not whole yet counts, with the length that it will have.
    let mut message = noise(2 * FRAGMENT);
    message.resize(10 * FRAGMENT, 7);
    assert!(append(&mut out, Cover::Plain, request(0), &message));
    let bytes = take_all(&mut out);
    let half = bytes.len() / 2;
    inbound.set_reassembly(message.len() + FRAGMENT);
    assert_eq!(receive(&mut inbound, &bytes[..half]), Ok(vec![]));
    let room = 2 * FRAGMENT;
    let mut rest = bytes[half..].to_vec();
    let mut probe = |inbound: &mut Inbound, len: usize| {
        // Behind the record that is cut, so that it is whole first.
        rest.extend(send_raw(request(1), &run(len, len)));
        receive(inbound, &std::mem::take(&mut rest)).unwrap()
    };
    let (_, mut other) = plain(LIMIT);
    other.set_reassembly(message.len() + FRAGMENT);
    let start = first_fragment(&bytes);
    assert_eq!(receive(&mut other, &start), Ok(vec![]));
    let frames = receive(&mut other, &send_raw(request(1), &run(room, room))).unwrap();
    assert_eq!(frames[0].unfinished, Some(Unfinished::OverBudget));
    let frames = receive(&mut other, &send_raw(request(1), &run(FRAGMENT, FRAGMENT))).unwrap();
    assert_eq!(frames[0].unfinished, None, "what fits a frame needs no room");
    let frames = receive(&mut other, &bytes[start.len()..]).unwrap();
    assert!(frames[0].payload == message);
    let frames = receive(&mut other, &send_raw(request(1), &run(room, room))).unwrap();
    assert_eq!(frames[0].unfinished, None, "there is room again");

    let frames = probe(&mut inbound, room);
    assert!(frames[0].payload == message);
    assert_eq!(frames[1].unfinished, None);
}

fn first_fragment(bytes: &[u8]) -> Vec<u8> {
    let (_, len) = record::parse(*bytes.first_chunk().unwrap()).unwrap();
    bytes[..record::HEADER + len].to_vec()
}

#[test]
fn a_large_message_counts_with_the_length_it_will_have() {
    let mut message = noise(2 * FRAGMENT);
    message.resize(10 * FRAGMENT, 7);
    let (mut out, mut inbound) = plain(LIMIT);
    for (budget, unfinished) in [(message.len() - 1, Some(Unfinished::OverBudget)), (message.len(), None)] {
        inbound.set_reassembly(budget);
        append(&mut out, Cover::Plain, reply(), &message);
        let frames = receive(&mut inbound, &take_all(&mut out)).unwrap();
        assert_eq!((frames.len(), frames[0].unfinished), (1, unfinished));
        assert_eq!(frames[0].payload.is_empty(), unfinished.is_some());
    }
}

#[test]
fn a_compressed_message_can_be_given_up() {
    let mut message = noise(2 * FRAGMENT);
    message.resize(10 * FRAGMENT, 7);
    let (mut out, mut inbound) = plain(LIMIT);
    append(&mut out, Cover::Plain, request(3), &message);
    let bytes = take_all(&mut out);
    assert_eq!(receive(&mut inbound, &first_fragment(&bytes)), Ok(vec![]));
    let void = [0x0d, 2, 0];
    let frames = receive(&mut inbound, &record::build(RecordKind::Plain, &void)).unwrap();
    assert_eq!(frames[0].unfinished, Some(Unfinished::GivenUp));
    let frames = receive(&mut inbound, &send_raw(reply(), &run(64, 64))).unwrap();
    assert_eq!(frames[0].payload.len(), 64);
}

#[test]
fn a_broken_message_in_fragments_ends_the_connection_when_it_is_whole() {
    let message = [noise(3 * FRAGMENT), vec![7; FRAGMENT]].concat();
    let mut body = compress::compressed(&message, |bytes| bytes.unwrap().to_vec());
    *body.last_mut().unwrap() ^= 1;
    body.pop();
    let (_, mut inbound) = plain(LIMIT);
    let error = receive(&mut inbound, &send_raw(request(0), &body)).unwrap_err();
    assert!(error.to_string().contains("compressed message"), "{error}");
}

#[test]
fn a_record_is_compressed_before_it_is_sealed() {
    for sealing in [Sealing::Marked, Sealing::All] {
        let (mut out, mut inbound) = paths(sealing, LIMIT);
        assert!(append(&mut out, Cover::Sealed, reply(), &[7; 10_000]));
        let bytes = take_all(&mut out);
        assert_eq!(bytes[0], 4, "sealed");
        assert!(bytes.len() < 200, "{} bytes", bytes.len());
        let frames = receive(&mut inbound, &bytes).unwrap();
        assert!(frames[0].sealed && frames[0].payload == [7; 10_000][..]);
    }
}

#[test]
fn items_of_a_frame_are_compressed_together_from_the_threshold_on() {
    let head = Head::of_call(FrameKind::Item, CallId::new(0));
    let items = |len: usize| vec![7; len];
    for (from, len, shorter) in [
        (None, 5_000, false),
        (Some(1_000), 999, false),
        (Some(1_000), 1_000, true),
        (Some(0), 5_000, true),
        (Some(0), 1, false),
    ] {
        let (mut out, mut inbound) = plain(LIMIT);
        out.append_items_from(from, None, Cover::Plain, head, &items(len)).unwrap();
        let bytes = take_all(&mut out);
        assert_eq!(bytes.len() < len, shorter, "{from:?} {len}");
        assert!(receive(&mut inbound, &bytes).unwrap()[0].payload == items(len));
    }
    let (mut out, _) = plain(1_000);
    assert!(out.append_items_from(Some(0), None, Cover::Plain, head, &items(1_006)).is_err());
    assert!(out.is_empty());
    out.set_compression(false);
    out.append_items_from(Some(0), None, Cover::Plain, head, &items(1_000)).unwrap();
    assert!(take_all(&mut out).len() > 1_000);
}

#[test]
fn what_does_not_become_shorter_is_sent_as_it_is() {
    for message in [vec![], vec![7; 12], noise(100), noise(100_000)] {
        assert!(compress::compressed(&message, |bytes| bytes.is_none()));
    }
    let mut lens = Vec::new();
    for len in 0..300 {
        compress::compressed(&vec![7; len], |bytes| lens.extend(bytes.map(|bytes| (len, bytes.len()))));
    }
    assert!(lens.iter().all(|(len, compressed)| compressed < len));
    assert!(lens.len() > 250, "{lens:?}");
}

/// `Encode` is user code: it may compress something itself, fail, or panic.
#[test]
fn a_thread_compresses_on_after_whatever_user_code_has_done() {
    let go = || {
        let done = compress::written(
            10_000,
            100,
            |w| {
                let inner = compress::compressed(&[1; 5_000], |bytes| bytes.unwrap().to_vec());
                w.put(&inner);
                w.put(&[2; 5_000]);
            },
            |bytes, compressed| (bytes.to_vec(), compressed),
        );
        let (bytes, compressed) = done.unwrap();
        assert!(compressed);
        let message = Compressed::split(&bytes, bytes.len()).unwrap().inflate().unwrap();
        assert!(message.ends_with(&[2; 5_000]) && message.len() > 5_000);
    };
    go();
    let failed = compress::written(10, 0, |w| w.put(&[0; 11]), |_, _| ());
    assert!(failed.is_err());
    go();
    let panicked = std::panic::catch_unwind(|| compress::written(10, 0, |_| panic!("user code"), |_, _| ()));
    assert!(panicked.is_err());
    go();
    assert_eq!(
        compress::written(10, 0, |w| w.put(b"abc"), |bytes, c| (bytes.to_vec(), c)),
        Ok((b"abc".to_vec(), false))
    );
}

#[test]
fn metadata_stays_in_front_and_is_not_compressed() {
    let (mut out, mut inbound) = plain(LIMIT);
    let mut entries = frame::Entries::default();
    entries.push("tenant", b"blue").unwrap();
    let remaining = Metadata::remaining(std::time::Duration::from_secs(3));
    let mut message = noise(20_000);
    message.resize(60_000, 7);
    for message in [vec![7; 2_000], message] {
        compress::compressed(&message, |bytes| {
            let metadata = (remaining, Some(&entries));
            out.append_compressed(None, Cover::Plain, request(0), metadata, bytes.unwrap()).unwrap();
        });
        let bytes = take_all(&mut out);
        assert!(bytes.windows(4).any(|window| window == b"blue"));
        let frames = receive(&mut inbound, &bytes).unwrap();
        assert_eq!(frames[0].metadata, remaining);
        assert_eq!(frames[0].entries.as_ref().unwrap().get("tenant"), Some(&b"blue"[..]));
        assert!(frames[0].payload == message);
    }
}
