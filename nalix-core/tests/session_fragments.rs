//! Messages in fragments, from one side's frames to the other's: any sizes, any order, any cut, and what must be refused.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use nalix_core::{
    CallId, Opcode,
    error::{EncodeError, ProtocolError},
    frame::{self, Entries, FRAGMENT, FrameKind, Head, Metadata, SLOTS},
    handshake::Sealing,
    packet::Priority,
    record::{self, Key, Opener, RecordKind, Sealer},
    session::{Cover, Frame, Inbound, MAX_RECORD, Outbound, Unfinished},
    wire::varint,
};
use proptest::prelude::*;

const LIMIT: usize = 1 << 20;

fn paths(sealing: Sealing, limit: usize) -> (Outbound, Inbound) {
    let mut inbound = Inbound::new(0);
    let key = || Key::new([9; 32]);
    match sealing {
        Sealing::None => {
            inbound.establish(limit);
            (Outbound::new(limit), inbound)
        }
        sealing => {
            inbound.establish_secured(limit, Opener::new(key()), sealing);
            (Outbound::secured(limit, Sealer::new(key()), sealing), inbound)
        }
    }
}

fn receive(inbound: &mut Inbound, bytes: &[u8]) -> Result<Vec<Frame>, ProtocolError> {
    inbound.buffer().extend_from_slice(bytes);
    let mut frames = Vec::new();
    while let Some(frame) = inbound.next_frame()? {
        frames.push(frame);
    }
    Ok(frames)
}

/// Bytes that tell where they are and whose.
fn body(id: u32, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i as u32).wrapping_mul(0x9e37_79b1).wrapping_add(id).to_le_bytes()[3]).collect()
}

fn request(id: u32) -> Head {
    Head::request(CallId::new(id), Opcode::new(0x1001))
}

fn append(out: &mut Outbound, head: Head, len: usize, hint: usize) -> Result<(), EncodeError> {
    let bytes = body(head.id.get(), len);
    out.append(Cover::Plain, head, Metadata::default(), hint, |w| w.put(&bytes)).map(drop)
}

#[derive(Debug, Clone)]
struct Sent {
    len: usize,
    hint: usize,
    kind: u8,
    sealed: bool,
    priority: Option<Priority>,
    remaining: bool,
    /// Take so many times before the next.
    takes: usize,
}

fn sent() -> impl Strategy<Value = Sent> {
    let len = prop_oneof![
        0..200usize,
        FRAGMENT - 3..FRAGMENT + 3,
        2 * FRAGMENT - 1..2 * FRAGMENT + 2,
        FRAGMENT..20 * FRAGMENT,
    ];
    let priority = prop_oneof![
        Just(None),
        Just(Some(Priority::Control)),
        Just(Some(Priority::High)),
        Just(Some(Priority::Normal)),
        Just(Some(Priority::Bulk)),
    ];
    (len, 0..3usize, 0..4u8, any::<bool>(), priority, any::<bool>(), 0..3usize).prop_map(
        |(len, hint, kind, sealed, priority, remaining, takes)| {
            let hint = [0, len, len * 2][hint];
            Sent { len, hint, kind, sealed, priority, remaining, takes }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Every message comes out once, as it went in, whatever else is on its way and however the stream is cut.
    #[test]
    fn messages_arrive_whole_in_any_interleaving(
        all in proptest::collection::vec(sent(), 1..30),
        sealing in prop_oneof![Just(Sealing::None), Just(Sealing::Marked), Just(Sealing::All)],
        cuts in proptest::collection::vec(1..70_000usize, 1..20),
    ) {
        let (mut out, mut inbound) = paths(sealing, LIMIT);
        let mut stream = Vec::new();
        for (i, sent) in all.iter().enumerate() {
            let id = CallId::new(i as u32);
            let head = match sent.kind {
                0 => Head::request(id, Opcode::new(0x1001)),
                1 => Head::of_call(FrameKind::Reply, id),
                _ => Head::of_call(FrameKind::Error, id),
            };
            let carries = sent.remaining && sent.kind == 0;
            let seconds = std::time::Duration::from_secs(i as u64);
            let metadata = if carries { Metadata::remaining(seconds) } else { Metadata::default() };
            let bytes = body(i as u32, sent.len);
            let cover = Cover::of(sent.sealed);
            out.append_as(sent.priority, cover, head, (metadata, None), sent.hint, |w| w.put(&bytes)).unwrap();
            for _ in 0..sent.takes {
                stream.extend(out.take(Vec::new()));
            }
        }
        while !out.is_empty() {
            stream.extend(out.take(Vec::new()));
        }
        prop_assert!(out.take(Vec::new()).is_empty());
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
        for (i, (frame, sent)) in frames.iter().zip(&all).enumerate() {
            prop_assert_eq!(frame.id.get(), i as u32);
            prop_assert_eq!(&frame.payload[..], body(i as u32, sent.len));
            prop_assert_eq!(frame.unfinished, None);
            prop_assert_eq!(frame.metadata.remaining.is_some(), sent.remaining && sent.kind == 0);
            let sealed = match sealing {
                Sealing::None => false,
                Sealing::All => true,
                Sealing::Marked => sent.sealed,
            };
            prop_assert_eq!(frame.sealed, sealed);
        }
    }

    /// Whatever fragments come, nothing panics, and what is kept is no more than what has come.
    #[test]
    fn arbitrary_fragments_cost_no_more_than_they_bring(
        frames in proptest::collection::vec(
            (0..4u8, 0..6u32, 0..2_000u64, any::<bool>(), proptest::collection::vec(any::<u8>(), 0..50)),
            1..60,
        ),
        budget in 0..5_000usize,
    ) {
        let mut inbound = Inbound::new(0);
        inbound.establish(1_000);
        inbound.set_reassembly(budget);
        for (kind, slot, total, more, bytes) in frames {
            let raw = match kind {
                0 => go_on(slot, more, &bytes),
                _ => start(request(slot), slot, total, &bytes),
            };
            match receive(&mut inbound, &record::build(RecordKind::Plain, &raw)) {
                Ok(frames) => {
                    for frame in frames {
                        prop_assert!(frame.payload.len() <= 1_000);
                    }
                }
                Err(_) => break,
            }
        }
    }
}

/// A first fragment made by hand.
fn start(head: Head, slot: u32, total: u64, bytes: &[u8]) -> Vec<u8> {
    let mut payload = Vec::new();
    for n in [u64::from(slot), total] {
        let mut buf = [0; varint::MAX_LEN];
        let len = varint::put(n, &mut buf);
        payload.extend_from_slice(&buf[..len]);
    }
    payload.extend_from_slice(bytes);
    raw(head.with_more(), &payload)
}

fn go_on(slot: u32, more: bool, bytes: &[u8]) -> Vec<u8> {
    let head = Head::of_call(FrameKind::Continue, CallId::new(slot));
    raw(if more { head.with_more() } else { head }, bytes)
}

fn raw(head: Head, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::put_head(&mut out, head);
    let mut buf = [0; varint::MAX_LEN];
    let len = varint::put(payload.len() as u64, &mut buf);
    out.extend_from_slice(&buf[..len]);
    out.extend_from_slice(payload);
    out
}

fn take_all(limit: usize, frames: &[Vec<u8>]) -> Result<Vec<Frame>, ProtocolError> {
    let mut inbound = Inbound::new(0);
    inbound.establish(limit);
    let mut all = Vec::new();
    for frame in frames {
        all.extend(receive(&mut inbound, &record::build(RecordKind::Plain, frame))?);
    }
    inbound.end()?;
    Ok(all)
}

#[test]
fn a_message_is_cut_when_it_is_one_byte_longer_than_a_frame_may_be() {
    for (len, frames) in
        [(FRAGMENT - 1, 1), (FRAGMENT, 1), (FRAGMENT + 1, 2), (3 * FRAGMENT, 3), (3 * FRAGMENT + 1, 4)]
    {
        for hint in [0, len, 10 * len] {
            let mut out = Outbound::new(LIMIT);
            append(&mut out, request(1), len, hint).unwrap();
            assert_eq!(out.has_queued(), frames > 1, "{len}");
            let bytes = out.take(Vec::new());
            let mut found = 0;
            let mut rest = &bytes[..];
            while let Some((header, behind)) = rest.split_first_chunk::<{ record::HEADER }>() {
                let (_, len) = record::parse(*header).unwrap();
                let mut at = 0;
                while at < len {
                    at = frame::parse(&behind[..len], at).unwrap().payload.end;
                    found += 1;
                }
                rest = &behind[len..];
            }
            assert_eq!(found, frames, "{len}");
        }
    }
}

#[test]
fn exactly_the_limit_goes_and_one_byte_more_leaves_nothing_behind() {
    for limit in [FRAGMENT - 1, FRAGMENT, FRAGMENT + 1, 5 * FRAGMENT - 1, 5 * FRAGMENT, 5 * FRAGMENT + 1] {
        for sealing in [Sealing::None, Sealing::All] {
            for (len, fits) in [(limit - 1, true), (limit, true), (limit + 1, false)] {
                for hint in [0, len] {
                    let (mut out, mut inbound) = paths(sealing, limit);
                    let sent = append(&mut out, request(0), len, hint);
                    assert_eq!(sent.is_ok(), fits, "{len} of {limit}");
                    assert_eq!(out.is_empty(), !fits, "{len} of {limit}");
                    let mut frames = Vec::new();
                    while !out.is_empty() {
                        frames.extend(receive(&mut inbound, &out.take(Vec::new())).unwrap());
                    }
                    assert_eq!(frames.len(), usize::from(fits), "{len} of {limit}");
                }
            }
            // A sender with a limit of its own.
            let (_, mut inbound) = paths(sealing, limit);
            let (mut out, _) = paths(sealing, limit + 1);
            append(&mut out, request(0), limit + 1, 0).unwrap();
            let mut refused = Ok(());
            while !out.is_empty() && refused.is_ok() {
                refused = receive(&mut inbound, &out.take(Vec::new())).map(drop);
            }
            let expected =
                ProtocolError::MessageTooLarge { found: limit + 1, limit: limit.min(FRAGMENT.max(limit)) };
            assert_eq!(refused, Err(expected));
        }
    }
}

#[test]
fn a_small_frame_waits_for_four_fragments_at_the_most() {
    for sealing in [Sealing::None, Sealing::All] {
        let (mut out, mut inbound) = paths(sealing, 16 << 20);
        for (id, priority) in
            [Priority::Control, Priority::High, Priority::Normal, Priority::Bulk].into_iter().enumerate()
        {
            let bytes = body(id as u32, 4 << 20);
            out.append_as(
                Some(priority),
                Cover::Plain,
                request(id as u32),
                (Metadata::default(), None),
                0,
                |w| {
                    w.put(&bytes);
                },
            )
            .unwrap();
        }
        let mut ahead = out.take(Vec::new());
        for id in 100..160 {
            // All that may be in front of it is what had been taken before it came.
            assert!(ahead.len() <= 4 * (FRAGMENT + 64), "{}", ahead.len());
            append(&mut out, request(id), 10, 10).unwrap();
            let next = out.take(Vec::new());
            assert!(
                receive(&mut inbound, &ahead)
                    .unwrap()
                    .iter()
                    .all(|frame| frame.id.get() < 100 || frame.id.get() == id - 1)
            );
            let head = next.len().min(200);
            assert!(receive(&mut inbound, &next[..head]).unwrap().len() <= 1);
            ahead = next[head..].to_vec();
        }
    }
}

#[test]
fn a_small_frame_overtakes_a_large_one_and_large_ones_of_a_class_keep_their_order() {
    let (mut out, mut inbound) = paths(Sealing::None, LIMIT);
    for id in 0..3 {
        append(&mut out, request(id), 10 * FRAGMENT, 0).unwrap();
    }
    append(&mut out, request(9), 5, 5).unwrap();
    let mut order = Vec::new();
    while !out.is_empty() {
        order
            .extend(receive(&mut inbound, &out.take(Vec::new())).unwrap().iter().map(|frame| frame.id.get()));
    }
    assert_eq!(order, [9, 0, 1, 2]);
}

#[test]
fn what_is_no_message_in_fragments_is_refused() {
    let x = [7; 10];
    let too_long = vec![7; FRAGMENT + 1];
    let good = || start(request(0), 2, 20, &x);
    let cases: Vec<(&str, Vec<Vec<u8>>)> = vec![
        ("a fragment without a start", vec![go_on(0, true, &x)]),
        ("an end without a start", vec![go_on(0, false, &x)]),
        ("giving up nothing", vec![go_on(0, false, b"")]),
        ("a fragment of another slot", vec![good(), go_on(1, false, &x)]),
        ("a fragment behind the end", vec![good(), go_on(2, false, &x), go_on(2, false, &x)]),
        ("two starts in a slot", vec![good(), start(request(1), 2, 20, &x)]),
        ("a start in a slot that there is not", vec![start(request(0), SLOTS as u32, 20, &x)]),
        ("a start in the last slot of all", vec![start(request(0), u32::MAX, 20, &x)]),
        ("a fragment in a slot that there is not", vec![go_on(SLOTS as u32, true, &x)]),
        ("a message that ends early", vec![good(), go_on(2, false, &x[1..])]),
        ("a message that ends late", vec![good(), go_on(2, false, &[7; 11])]),
        ("a message that does not end", vec![good(), go_on(2, true, &x)]),
        ("a message that goes on for too long", vec![good(), go_on(2, true, &[7; 11])]),
        ("a start that is the whole message", vec![start(request(0), 2, 10, &x)]),
        ("a start that is more than the message", vec![start(request(0), 2, 9, &x)]),
        ("an empty start", vec![start(request(0), 2, 20, b"")]),
        ("an empty fragment", vec![good(), go_on(2, true, b"")]),
        ("a message of no bytes", vec![start(request(0), 2, 0, b"")]),
        ("a start longer than a fragment", vec![start(request(0), 2, 20_000, &too_long)]),
        (
            "a fragment longer than a fragment",
            vec![start(request(0), 2, 20_000, &x), go_on(2, true, &too_long)],
        ),
        ("a whole message longer than a fragment", vec![raw(request(0), &too_long)]),
        ("a start without a length", vec![raw(request(0).with_more(), &[2])]),
        ("a start without anything", vec![raw(request(0).with_more(), b"")]),
        ("a length of more than 32 bits", vec![start(request(0), 2, 1 << 32, &x)]),
        ("a length that is not canonical", vec![raw(request(0).with_more(), &[2, 0x94, 0x80, 0, 1])]),
        ("more of a ping", vec![raw(Head::plain(FrameKind::Ping).with_more(), &[2, 20, 1])]),
        (
            "more of a cancel",
            vec![raw(Head::of_call(FrameKind::Cancel, CallId::new(0)).with_more(), &[2, 20, 1])],
        ),
        (
            "metadata in the middle",
            vec![good(), raw(Head::of_call(FrameKind::Continue, CallId::new(2)).with_metadata(), &[0, 1])],
        ),
        ("metadata that is cut", vec![raw(request(0).with_metadata().with_more(), &[2, 20, 5, 1])]),
        ("a link that ends in a message", vec![good(), go_on(2, true, &[7; 3])]),
    ];
    for (what, frames) in cases {
        assert!(take_all(100_000, &frames).is_err(), "{what}");
    }
    let good = take_all(100_000, &[good(), go_on(2, true, &[7; 3]), go_on(2, false, &[7; 7])]).unwrap();
    assert_eq!(&good[0].payload[..], [7; 20]);
    let missing = take_all(100_000, &[start(request(0), 0, 20, &x), start(request(1), 1, 15, &x)]);
    assert_eq!(missing, Err(ProtocolError::CutMessage { missing: 15 }));
}

#[test]
fn an_announced_length_is_checked_against_the_limit_before_anything_is_kept() {
    let x = [7; 10];
    assert!(take_all(20, &[start(request(0), 0, 20, &x), go_on(0, false, &x)]).is_ok());
    let over = take_all(20, &[start(request(0), 0, 21, &x)]);
    assert_eq!(over, Err(ProtocolError::MessageTooLarge { found: 21, limit: 20 }));
    // An error may carry one byte besides, or a status.
    let error = Head::of_call(FrameKind::Error, CallId::new(0));
    assert!(take_all(2_000, &[start(error, 0, 2_001, &x), go_on(0, false, &[7; 1_991])]).is_ok());
    assert!(take_all(2_000, &[start(error, 0, 2_002, &x)]).is_err());
}

/// Somebody on the way could put in or end what was sealed.
#[test]
fn all_fragments_of_a_message_come_as_its_first() {
    let (mut out, _) = paths(Sealing::Marked, LIMIT);
    for sealed in [true, false] {
        let (_, mut inbound) = paths(Sealing::Marked, LIMIT);
        let bytes = body(0, FRAGMENT + 5);
        out = paths(Sealing::Marked, LIMIT).0;
        out.append(Cover::of(sealed), request(0), Metadata::default(), 0, |w| w.put(&bytes)).unwrap();
        let all = out.take(Vec::new());
        let (_, len) = record::parse(*all.first_chunk().unwrap()).unwrap();
        let (first, second) = all.split_at(record::HEADER + len);
        assert!(receive(&mut inbound, first).unwrap().is_empty());
        if sealed {
            for forged in [go_on(2, false, &[7; 5]), go_on(2, false, b"")] {
                let mut inbound = paths(Sealing::Marked, LIMIT).1;
                receive(&mut inbound, first).unwrap();
                let refused = receive(&mut inbound, &record::build(RecordKind::Plain, &forged));
                assert!(matches!(refused, Err(ProtocolError::Unsealed { .. })), "{refused:?}");
            }
        }
        assert_eq!(receive(&mut inbound, second).unwrap()[0].payload, bytes);
    }
    let _ = out;
}

#[test]
fn a_request_that_is_given_up_leaves_its_slot_to_the_next() {
    for taken in [0, 1, 3] {
        let (mut out, mut inbound) = paths(Sealing::All, LIMIT);
        append(&mut out, request(5), 20 * FRAGMENT, 0).unwrap();
        append(&mut out, request(6), 2 * FRAGMENT, 0).unwrap();
        let mut frames = Vec::new();
        for _ in 0..taken {
            frames.extend(receive(&mut inbound, &out.take(Vec::new())).unwrap());
        }
        assert_eq!(out.give_up(false, CallId::new(5)), None);
        let back = out.give_up(true, CallId::new(5)).unwrap();
        assert_eq!(back.begun, taken > 0);
        assert_eq!(out.give_up(true, CallId::new(5)), None);
        while !out.is_empty() {
            frames.extend(receive(&mut inbound, &out.take(Vec::new())).unwrap());
        }
        let found: Vec<_> = frames.iter().map(|frame| (frame.id.get(), frame.unfinished)).collect();
        let given_up = (5, Some(Unfinished::GivenUp));
        assert_eq!(found, if taken > 0 { vec![given_up, (6, None)] } else { vec![(6, None)] });
        assert_eq!(inbound.end(), Ok(()));
    }
}

#[test]
fn what_is_over_the_budget_is_refused_once_and_skipped() {
    let x = [7; 10];
    let mut inbound = Inbound::new(0);
    inbound.establish(100);
    inbound.set_reassembly(50);
    let mut take = |raw: Vec<u8>| receive(&mut inbound, &record::build(RecordKind::Plain, &raw)).unwrap();
    assert!(take(start(request(0), 0, 30, &x)).is_empty());
    let refused = take(start(request(1), 1, 21, &x));
    assert_eq!((refused[0].id.get(), refused[0].unfinished), (1, Some(Unfinished::OverBudget)));
    assert!(take(start(request(2), 2, 20, &x)).is_empty(), "exactly the budget");
    assert!(take(go_on(1, true, &x)).is_empty());
    assert!(take(go_on(1, false, &x[..1])).is_empty(), "its end is no news");
    assert_eq!(take(go_on(2, false, &x))[0].payload.len(), 20);
    // There is room again.
    assert!(take(start(request(3), 1, 20, &x)).is_empty());
    assert_eq!(take(go_on(1, false, b""))[0].unfinished, Some(Unfinished::GivenUp));
    assert!(take(start(request(4), 1, 20, &x)).is_empty());
    let refused = take(start(request(5), 2, 99, &x));
    assert_eq!(refused[0].unfinished, Some(Unfinished::OverBudget));
    assert!(take(go_on(2, false, b"")).is_empty(), "giving up what was refused is no news");
    assert_eq!(take(go_on(0, false, &[7; 20]))[0].payload.len(), 30);
}

/// Whether it is found to be long before it is encoded or only then.
#[test]
fn a_message_in_fragments_keeps_what_its_user_attached() {
    let mut entries = Entries::default();
    entries.push("token", &[5; 900]).unwrap();
    let bytes = body(3, LIMIT);
    for metadata in [Metadata::default(), Metadata::remaining(std::time::Duration::from_secs(9))] {
        for hint in [0, LIMIT] {
            let (mut out, mut inbound) = paths(Sealing::None, LIMIT);
            let with = (metadata, Some(&entries));
            out.append_as(None, Cover::Plain, request(3), with, hint, |w| w.put(&bytes)).unwrap();
            let mut frames = Vec::new();
            while !out.is_empty() {
                frames.extend(receive(&mut inbound, &out.take(Vec::new())).unwrap());
            }
            let [frame] = &frames[..] else { panic!("{frames:?}") };
            assert_eq!((frame.metadata, frame.entries.as_ref()), (metadata, Some(&entries)));
            assert!(frame.payload == bytes);
        }
    }
}

#[test]
fn a_request_counts_as_sent_only_when_its_last_fragment_goes() {
    let mut out = Outbound::new(LIMIT);
    let bytes = body(3, 10 * FRAGMENT);
    let appended = out.append(Cover::Plain, request(3), Metadata::default(), 0, |w| w.put(&bytes)).unwrap();
    assert_eq!(appended.position, u64::MAX);
    let mut written = 0;
    let mut last = Vec::new();
    while !out.is_empty() {
        assert_eq!(out.completed().count(), 0);
        written += last.len() as u64;
        last = out.take(Vec::new());
    }
    let completed: Vec<_> = out.completed().collect();
    assert_eq!((completed.len(), completed[0].id.get()), (1, 3));
    assert!(completed[0].position >= written && completed[0].position < written + last.len() as u64);
}

#[test]
fn the_goodbye_comes_behind_the_last_fragment() {
    let (mut out, mut inbound) = paths(Sealing::All, LIMIT);
    append(&mut out, request(1), 10 * FRAGMENT, 0).unwrap();
    out.append_last(Cover::Sealed, Head::plain(FrameKind::Control), vec![1, 0]);
    let mut kinds = Vec::new();
    while !out.is_empty() {
        kinds.extend(receive(&mut inbound, &out.take(Vec::new())).unwrap().iter().map(|frame| frame.kind));
    }
    assert_eq!(kinds, [FrameKind::Request, FrameKind::Control]);
}

/// The longest record that a writer makes: the largest frame behind as much as leaves room for another.
#[test]
fn the_fullest_record_is_one_that_the_reader_takes() {
    for sealing in [Sealing::None, Sealing::All] {
        let (mut out, mut inbound) = paths(sealing, LIMIT);
        for _ in 0..(record::TARGET_BODY - 1) / 3 {
            append(&mut out, Head::of_call(FrameKind::Cancel, CallId::new(0)), 0, 0).unwrap();
        }
        let bytes = body(0, FRAGMENT);
        let forever = Metadata::remaining(std::time::Duration::MAX);
        let head = Head::request(CallId::new(u32::MAX), Opcode::new(0xffff));
        out.append(Cover::Plain, head, forever, 0, |w| w.put(&bytes)).unwrap();
        let all = out.take(Vec::new());
        let (_, len) = record::parse(*all.first_chunk().unwrap()).unwrap();
        assert!(len > record::TARGET_BODY + FRAGMENT - 3 && len <= MAX_RECORD + record::TAG, "{len}");
        assert_eq!(receive(&mut inbound, &all).unwrap().pop().unwrap().payload, bytes);
    }
}

/// Otherwise it would have to wait until the fragment has arrived as well.
#[test]
fn a_small_frame_shares_no_record_with_a_fragment_behind_it() {
    let (mut out, mut inbound) = paths(Sealing::All, LIMIT);
    append(&mut out, request(1), 10 * FRAGMENT, 0).unwrap();
    append(&mut out, request(2), 10, 10).unwrap();
    let all = out.take(Vec::new());
    assert_eq!(receive(&mut inbound, &all[..100]).unwrap().len(), 1);
}
