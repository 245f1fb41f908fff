//! Sealed records: nothing comes out that was not sealed, and whatever happens to records on their way, the
//! peer reads what was said up to there, in its order, and then an error or the end.

use std::{ops::Range, time::Duration};

use bytes::Bytes;
use nalix_core::{
    CallId, Opcode,
    frame::{FrameKind, Head, Metadata},
    handshake::Sealing,
    record::{
        self, Chosen, HEADER, Key, MAX_RECORDS, Opener, Portable, RECORDS_PER_KEY, RecordKind, Sealer, Suite,
        Suites, TAG,
    },
    session::{Cover, Frame, Inbound, Outbound, max_record},
    wire::Writer,
};

use crate::{
    frames::{Taken, take},
    script::Script,
};

/// The first byte chooses what is sealed, and whether the others are received, or say what is sent.
pub fn sealed(input: &[u8]) {
    let Some((&how, input)) = input.split_first() else { return };
    let sealing = if how & 1 == 0 { Sealing::All } else { Sealing::Marked };
    if how & 2 == 0 { received(sealing, input) } else { sent(sealing, input) }
}

/// Any bytes. Nobody has sealed them.
fn received(sealing: Sealing, input: &[u8]) {
    let [limit, step, stream @ ..] = input else { return };
    let max_message = [0, 1, 100, 5_000, 1 << 20][usize::from(limit % 5)];
    let read = |step: usize| {
        let mut inbound = Inbound::new(0);
        inbound.establish_secured(max_message, Opener::new(key()), sealing);
        take(inbound, max_record(max_message) + TAG, stream.chunks(step))
    };
    let whole = read(stream.len().max(1));
    assert_eq!(whole, read(usize::from(*step).max(1)));
    assert_eq!(whole, read(1));
    let (frames, error) = whole;
    assert!(frames.iter().all(|frame| !frame.sealed), "nobody has sealed this: {frames:?}");
    assert!(sealing == Sealing::Marked || frames.is_empty());
    assert!(error.is_some() || sealing == Sealing::Marked || stream.is_empty());
}

fn sent(sealing: Sealing, input: &[u8]) {
    let mut script = Script::new(input);
    // A key that is followed by another soon, and one that is nearly worn out.
    let at = |at| Some((Suite::ChaCha20Poly1305, at));
    let aes = Suites::here().contains(Suite::Aes256Gcm).then_some((Suite::Aes256Gcm, 0));
    let starts = [at(0), at(RECORDS_PER_KEY - 2), at(MAX_RECORDS - 3), aes];
    let Some(start) = script.one_of(starts) else { return };
    let (said, wire) = say(sealing, start, &mut script);
    let records = split(&wire);
    let heard = listen(sealing, start, &wire, &records);
    let all: Vec<_> = heard.concat().iter().map(Said::from).collect();
    assert_eq!(all, said);

    let mut changed = misroute(&wire, &records, &mut script);
    let step = match script.byte() {
        0 => changed.len().max(1),
        n => usize::from(n),
    };
    script.change(&mut changed);
    let taken = take(inbound(sealing, start), max_record(MAX_MESSAGE) + TAG, changed.chunks(step));
    judge(sealing, &wire, &records, &heard, &changed, taken);
}

/// A frame that was handed in or has come out.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Said {
    kind: FrameKind,
    upload: bool,
    id: CallId,
    opcode: Opcode,
    sealed: bool,
    metadata: Metadata,
    payload: Bytes,
}

impl From<&Frame> for Said {
    fn from(frame: &Frame) -> Self {
        let Frame { kind, upload, id, opcode, sealed, metadata, .. } = *frame;
        Self { kind, upload, id, opcode, sealed, metadata, payload: frame.payload.clone() }
    }
}

/// Appends frames as the script says, and takes them now and then. Returns those that have gone out, with the
/// bytes.
fn say(sealing: Sealing, start: Start, script: &mut Script<'_>) -> (Vec<Said>, Vec<u8>) {
    let sealer = match start {
        (suite, 0) => Sealer::with(Chosen::with(suite, &key()).unwrap()),
        (_, at) => Sealer::at(key(), at),
    };
    let mut out = Outbound::secured(MAX_MESSAGE, sealer, sealing);
    let (mut said, mut wire) = (Vec::new(), Vec::new());
    let mut pending = Vec::new();
    let count = script.below(16);
    for _ in 0..count {
        let how = script.byte();
        let cover = Cover::of(how & 1 == 0);
        let head = head(script);
        let metadata = match head.kind {
            FrameKind::Notify | FrameKind::Request if how & 2 != 0 => {
                Metadata::remaining(Duration::from_micros(script.short() as u64))
            }
            _ => Metadata::default(),
        };
        // Mostly short, but long enough to fill records.
        let len = match script.short() {
            n if n >= 0x8000 => n - 0x8000,
            n => n & 0xff,
        };
        let payload = Bytes::from(vec![script.byte(); len]);
        let hint = if how & 4 == 0 { len } else { script.short() };
        let fails = how & 0x30 == 0x30;
        let write = |w: &mut Writer<'_>| {
            w.put(&payload);
            if fails {
                w.put(&[0; MAX_MESSAGE]);
                w.put_u8(0);
            }
        };
        let taken = wire.len() as u64;
        match out.append(cover, head, metadata, hint, write) {
            Ok(appended) => {
                assert!(!fails && appended.position >= taken);
                let sealed = sealing == Sealing::All || cover.is_sealed();
                let Head { kind, upload, id, opcode, .. } = head;
                pending.push(Said { kind, upload, id, opcode, sealed, metadata, payload });
            }
            Err(_) => assert!(fails),
        }
        let bytes = match how >> 6 {
            0 => out.take(Vec::new()),
            1 => {
                let most = script.short();
                let mut written = Vec::new();
                let all = out.write_with(|bytes| {
                    written.extend_from_slice(&bytes[..most.min(bytes.len())]);
                    most
                });
                assert!(!all || !out.is_exhausted(), "what was not sealed has not been written");
                written.extend_from_slice(&out.take(Vec::new()));
                assert!(!all || written.len() <= most);
                written
            }
            _ => continue,
        };
        if out.is_exhausted() {
            break;
        }
        wire.extend_from_slice(&bytes);
        said.append(&mut pending);
    }
    let bytes = out.take(Vec::new());
    // What the last key does not seal is lost, and everything with it that would have gone out at the same
    // time.
    if !out.is_exhausted() {
        wire.extend_from_slice(&bytes);
        said.append(&mut pending);
    }
    (said, wire)
}

fn head(script: &mut Script<'_>) -> Head {
    let (kind, id) = (script.below(10), CallId::new(script.short() as u32));
    let opcode = Opcode::new(script.short() as u16);
    match kind {
        0 => Head::notify(opcode),
        1 => Head::request(id, opcode),
        2 => Head::of_call(FrameKind::Reply, id),
        3 => Head::of_call(FrameKind::Error, id),
        4 => Head::of_call(FrameKind::Cancel, id),
        5 => Head::of_call(FrameKind::Continue, id),
        6 => Head::of_call(FrameKind::Unknown(14), id),
        7 => Head::plain(FrameKind::Ping),
        8 => Head::plain(FrameKind::Pong),
        _ => Head::plain(FrameKind::Control),
    }
}

fn split(wire: &[u8]) -> Vec<Range<usize>> {
    let (mut records, mut at) = (Vec::new(), 0);
    while let Some(head) = wire[at..].first_chunk() {
        let end = at + HEADER + record::parse(*head).unwrap().1;
        records.push(at..end);
        at = end;
    }
    assert_eq!(at, wire.len());
    records
}

/// What a peer with the right key hears of each record; with another implementation of the cipher it is the
/// same.
fn listen(sealing: Sealing, start: Start, wire: &[u8], records: &[Range<usize>]) -> Vec<Vec<Frame>> {
    let mut inbound = inbound(sealing, start);
    let mut portable = Opener::<Portable>::at(key(), start.1);
    let heard = |record: &Range<usize>| {
        let mut record = wire[record.clone()].to_vec();
        inbound.buffer().extend_from_slice(&record);
        let frames: Vec<_> = std::iter::from_fn(|| inbound.next_frame().unwrap()).collect();
        assert_eq!(inbound.end(), Ok(()));
        assert!(!frames.is_empty(), "an empty record");
        let (head, body) = record.split_first_chunk_mut().unwrap();
        if record::parse(*head).unwrap().0 == RecordKind::Sealed {
            assert!(frames.iter().all(|frame| frame.sealed));
            if start.0 == Suite::ChaCha20Poly1305 {
                let len = portable.open(*head, body).unwrap();
                assert!(body[..len].ends_with(&frames[frames.len() - 1].payload));
            }
        } else {
            assert!(sealing == Sealing::Marked && !frames.iter().any(|frame| frame.sealed));
        }
        frames
    };
    records.iter().map(heard).collect()
}

/// Records that are lost, come twice, or out of order.
fn misroute(wire: &[u8], records: &[Range<usize>], script: &mut Script<'_>) -> Vec<u8> {
    let mut records = records.to_vec();
    for _ in 0..script.below(4) {
        let (what, n) = (script.byte(), records.len());
        let (a, b) = (script.below(n), script.below(n));
        match what % 4 {
            _ if n == 0 => {}
            0 => drop(records.remove(a)),
            1 => records.insert(b, records[a].clone()),
            2 => records.swap(a, b),
            _ => records.truncate(a + 1),
        }
    }
    records.into_iter().flat_map(|record| &wire[record]).copied().collect()
}

fn judge(
    sealing: Sealing,
    wire: &[u8],
    records: &[Range<usize>],
    heard: &[Vec<Frame>],
    changed: &[u8],
    (frames, error): Taken,
) {
    let same = wire.iter().zip(changed).take_while(|(a, b)| a == b).count();
    let whole = records.iter().take_while(|record| record.end <= same).count();
    let first = heard[..whole].concat();
    assert!(frames.starts_with(&first), "what has arrived as it was sent comes out");
    let behind = records[..whole].last().map_or(0, |record| record.end);
    if behind == changed.len() {
        assert_eq!((frames.len(), error), (first.len(), None));
    } else if sealing == Sealing::All {
        assert_eq!(frames.len(), first.len(), "what has changed does not come out: {frames:?}");
        assert!(error.is_some(), "what has changed is noticed");
    } else {
        // Of the others, which anyone can change, only the peer's own come out as sealed.
        let sealed = |frames: Vec<Frame>| frames.into_iter().filter(|frame| frame.sealed).collect::<Vec<_>>();
        let (out, sent) = (sealed(frames), sealed(heard.concat()));
        assert!(sent.starts_with(&out), "{out:?} of {sent:?}");
    }
}

fn inbound(sealing: Sealing, start: Start) -> Inbound {
    let opener = match start {
        (suite, 0) => Opener::with(Chosen::with(suite, &key()).unwrap()),
        (_, at) => Opener::at(key(), at),
    };
    let mut inbound = Inbound::new(0);
    inbound.establish_secured(MAX_MESSAGE, opener, sealing);
    inbound
}

/// The cipher, and which record comes first.
type Start = (Suite, u64);

fn key() -> Key {
    Key::new([0x6b; Key::LEN])
}

/// Longer than any payload that a script asks for.
const MAX_MESSAGE: usize = 40_000;
