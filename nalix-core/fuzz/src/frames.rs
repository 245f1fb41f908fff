//! Taking received bytes apart: any cut into reads gives the same frames, an error comes once, memory stays
//! in proportion.

use bytes::Bytes;
use nalix_core::{
    error::ProtocolError,
    frame::{FRAGMENT, compress},
    record::{HEADER, RecordKind, build},
    session::{Cover, Frame, Inbound, MAX_RECORD, Outbound},
};

/// The first two bytes choose a message limit, whether messages may come compressed, and how the others are cut.
pub fn frames(input: &[u8]) {
    let [limit, cut, stream @ ..] = input else { return };
    let limits = Limit([0, 1, 100, 5_000, 1 << 20][usize::from(limit % 5)], *limit < 0xc0);
    let whole = take_apart(limits, [stream]);
    let step = usize::from(*cut).max(1);
    let cut = take_apart(limits, stream.chunks(step));
    assert_eq!(whole, cut);
    let bytes = take_apart(limits, stream.chunks(1));
    assert_eq!(whole, bytes);
    for frame in &whole.0 {
        again(limits, frame);
    }
    records(stream, step);
}

/// The longest message, and whether it may come compressed.
#[derive(Clone, Copy)]
struct Limit(usize, bool);

pub(crate) type Taken = (Vec<Frame>, Option<ProtocolError>);

fn take_apart<'a>(limit: Limit, reads: impl IntoIterator<Item = &'a [u8]>) -> Taken {
    let mut inbound = Inbound::new(0);
    inbound.establish(limit.0);
    inbound.set_inflation(limit.1);
    let taken = take(inbound, MAX_RECORD, reads);
    assert!(taken.0.iter().all(|frame| frame.payload.len() <= limit.0.max(FRAGMENT) + MAX_RECORD));
    taken
}

/// All that comes out, and the error at its end if there is one. `most` is the longest body.
pub(crate) fn take<'a>(
    mut inbound: Inbound,
    most: usize,
    reads: impl IntoIterator<Item = &'a [u8]>,
) -> Taken {
    let mut frames = Vec::new();
    let mut received = 0;
    for read in reads {
        inbound.buffer().extend_from_slice(read);
        inbound.received(read.len());
        received += read.len();
        loop {
            match inbound.next_frame() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => {
                    inbound.buffer().extend_from_slice(read);
                    assert_eq!(inbound.next_frame(), Ok(None), "an error is reported once");
                    assert_eq!(inbound.end(), Ok(()));
                    return (frames, Some(error));
                }
            }
        }
        // No block inflates to more than 255 times its length.
        assert!(frames.iter().map(|frame| frame.payload.len()).sum::<usize>() <= 255 * received);
        assert!(inbound.buffer().capacity() <= 256 * 1024 + 4 * received.min(most + HEADER));
    }
    let end = inbound.end().err();
    (frames, end)
}

/// A frame that has been read can be written, and read again.
fn again(limit: Limit, frame: &Frame) {
    use nalix_core::frame::{FrameKind, Head};
    // A control frame may come out of an Abort record, which may be longer than any frame.
    if frame.unfinished.is_some() || (frame.kind == FrameKind::Control && frame.payload.len() > FRAGMENT) {
        return;
    }
    let mut head = Head::plain(frame.kind);
    (head.upload, head.id, head.opcode) = (frame.upload, frame.id, frame.opcode);
    let mut out = Outbound::new(limit.0.max(frame.payload.len()));
    let write = |w: &mut nalix_core::wire::Writer<'_>| w.put(&frame.payload);
    let metadata = (frame.metadata, frame.entries.as_ref());
    out.append_as(None, Cover::Plain, head, metadata, frame.payload.len() / 2, write).unwrap();
    let same = |out: &mut Outbound| {
        let mut bytes = Vec::new();
        while !out.is_empty() {
            bytes.extend(out.take(Vec::new()));
        }
        let (frames, error) = take_apart(limit, [&bytes[..]]);
        assert_eq!((&frames[..], error), (std::slice::from_ref(frame), None));
    };
    same(&mut out);
    let said = matches!(
        frame.kind,
        FrameKind::Notify | FrameKind::Request | FrameKind::Reply | FrameKind::Error | FrameKind::Item
    );
    if limit.1 && said {
        compress::compressed(&frame.payload, |bytes| {
            let Some(bytes) = bytes else { return };
            out.append_compressed(None, Cover::Plain, head, metadata, bytes).unwrap();
            same(&mut out);
        });
    }
}

/// The same for the records of a handshake.
fn records(stream: &[u8], step: usize) {
    let read = |reads: &mut dyn Iterator<Item = &[u8]>| {
        let mut inbound = Inbound::new(1_000);
        let mut records = Vec::new();
        for read in reads {
            inbound.buffer().extend_from_slice(read);
            loop {
                match inbound.next_record() {
                    Ok(Some(record)) => records.push(record),
                    Ok(None) => break,
                    Err(error) => return (records, Some(error)),
                }
            }
        }
        (records, inbound.end().err())
    };
    let whole = read(&mut [stream].into_iter());
    assert_eq!(whole, read(&mut stream.chunks(step)));
    let mut rebuilt = Vec::new();
    for record in &whole.0 {
        let body: &Bytes = &record.body;
        rebuilt.extend_from_slice(&build(record.kind, body));
        assert!(matches!(
            record.kind,
            RecordKind::Hello
                | RecordKind::HelloReply
                | RecordKind::Plain
                | RecordKind::Sealed
                | RecordKind::Abort
        ));
    }
    assert!(stream.starts_with(&rebuilt));
}
