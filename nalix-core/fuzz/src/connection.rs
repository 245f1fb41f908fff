//! A whole served connection that is sent any bytes behind a valid handshake: it never panics, what it says
//! is well-formed, every call is answered at most once and as it was asked, sealed or not, streams keep to
//! their credit, and it ends when its peer does.

use std::{
    collections::HashMap,
    future::{Future, poll_fn},
    pin::Pin,
    sync::{LazyLock, OnceLock},
    task::{Context, Poll},
    time::Duration,
};

use bytes::{BufMut, Bytes, BytesMut};
use futures_core::Stream;
use nalix_core::{
    CallId, Failure, Incoming, Opcode, Packet, Status,
    connection::{self, Driver, Options, Serving},
    controller::Router,
    frame::{Control, FrameKind, Head, Metadata},
    handshake::{Contracts, Hello, Params, ServerSecurity},
    link::{Link, memory},
    packet_controller,
    record::{self, RecordKind},
    registry::Registry,
    session::{Cover, Frame, Inbound, Outbound},
    wire::varint,
};
use tokio::{
    runtime::Runtime,
    time::{sleep, timeout},
};

use crate::{
    secured::{self, Secured},
    types::{Borrowed, Choice, Exact, Gather, Mirror, Open, Secret, SecretMirror, Shape, Walk},
};

struct Fuzzed;

#[packet_controller]
impl Fuzzed {
    #[packet]
    fn borrowed(&self, packet: Borrowed<'_>) -> String {
        packet.text.repeat(packet.data.len().min(20))
    }

    #[packet(lane = "exact")]
    async fn exact(&self, _packet: Exact) {
        tokio::time::sleep(Duration::from_millis(3)).await;
    }

    #[packet(concurrent)]
    async fn open(&self, packet: Open) -> Result<Choice, nalix_core::Failure<Shape>> {
        let millis = Duration::from_millis(packet.id.into());
        tokio::time::sleep(millis).await;
        match packet.id {
            0..100 => Ok(Choice::No),
            100..200 => Err(Shape::Nothing.into_failure()),
            _ => Err(Status::not_found("nothing").into()),
        }
    }

    #[packet]
    fn secret(&self, _packet: Secret) -> [u8; 8] {
        SECRET
    }

    #[packet]
    async fn walk(&self, walk: Walk) -> Result<Walking, Shape> {
        match walk.count {
            255 => Err(Shape::Nothing),
            _ => Ok(Walking { walk, at: 0, pause: None }),
        }
    }

    #[packet(concurrent)]
    async fn gather(&self, gather: Gather, mut shapes: Incoming<Shape>) -> u32 {
        let mut n = 0;
        while n < gather.most.into()
            && let Some(shape) = shapes.next().await
        {
            n += u32::from(shape.is_ok());
        }
        n
    }

    #[packet]
    fn mirror(&self, _: Mirror, chunks: Incoming<Vec<u8>>) -> Mirrored {
        Mirrored(chunks)
    }

    #[packet(concurrent)]
    async fn secret_mirror(&self, _: SecretMirror, chunks: Incoming<Vec<u8>>) -> Mirrored {
        Mirrored(chunks)
    }
}

/// As many items as asked for, of any size; some come late, and some are errors.
struct Walking {
    walk: Walk,
    at: u8,
    pause: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl Stream for Walking {
    type Item = Result<Vec<u8>, Failure<Shape>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Walk { count, size } = self.walk;
        if let Some(pause) = &mut self.pause {
            if pause.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.pause = None;
        }
        self.at += 1;
        if self.at % 8 == 3 && size % 2 == 1 {
            self.pause = Some(Box::pin(sleep(Duration::from_millis(1))));
        }
        Poll::Ready(match self.at {
            at if at > count => None,
            200 => Some(Err(Failure::Application(Shape::Nothing))),
            at => Some(Ok(vec![at; usize::from(size) % 5_000])),
        })
    }
}

/// What comes goes back, as far as it is any good.
struct Mirrored(Incoming<Vec<u8>>);

impl Stream for Mirrored {
    type Item = Result<Vec<u8>, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut self.0).poll_next(cx).map_err(|_| Status::invalid_argument("no chunk"))
    }
}

impl Shape {
    fn into_failure(self) -> nalix_core::Failure<Shape> {
        nalix_core::Failure::Application(self)
    }
}

/// The first byte chooses how much the link holds and how the connection is secured, the second how much is
/// sent at a time. The others are sent; on a secured connection they say what is, see [`secured`].
pub fn connection(input: &[u8]) {
    let [first, step, rest @ ..] = input else { return };
    thread_local! {
        static RUNTIME: Runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
    }
    let capacity = [1, 7, 64, 65_536][usize::from(first % 4)];
    let step = usize::from(*step).max(1);
    let secured = Secured::choose(first >> 2);
    RUNTIME.with(|runtime| runtime.block_on(converse(capacity, step, secured, rest)));
}

async fn converse(capacity: usize, step: usize, secured: Option<Secured>, rest: &[u8]) {
    let (mut ours, theirs) = memory::pair(capacity);
    let security = secured.as_ref().map_or(ServerSecurity::Plaintext, Secured::server);
    let talk = async {
        match secured {
            None => plainly(&mut ours, step, rest).await,
            Some(secured) => secured::talk(secured, &mut ours, step, rest).await,
        }
    };
    let (talked, ()) = tokio::join!(timeout(LONG, talk), async {
        assert!(timeout(LONG, serve(theirs, &security)).await.is_ok(), "the connection does not end");
    });
    talked.expect("the peer of a connection that has ended reads on for ever");
}

async fn plainly(link: &mut memory::MemoryLink, step: usize, stream: &[u8]) {
    let mut bytes = record::build(RecordKind::Hello, &Hello::plaintext(&params()).body());
    bytes.extend_from_slice(stream);
    let mut inbound = Inbound::new(0);
    inbound.establish(MAX_MESSAGE);
    inbound.set_inflation(true);
    inbound.buffer().put_slice(stream);
    let asked = Asked::of(frames_of(inbound), false);
    if asked.well_formed {
        let mut out = Outbound::new(MAX_MESSAGE);
        ping(&mut out);
        bytes.extend_from_slice(&out.take(Vec::new()));
    }
    let said = talk(link, &bytes, step).await;

    let mut inbound = Inbound::new(100_000);
    inbound.buffer().put_slice(&said);
    let reply = inbound.next_record().unwrap().expect("a reply to the hello");
    assert_eq!(reply.kind, RecordKind::HelloReply);
    inbound.establish(MAX_MESSAGE);
    inbound.set_inflation(true);
    judge(frames_of(inbound), &asked);
}

async fn serve(link: memory::MemoryLink, security: &ServerSecurity) {
    let options = options();
    if let Ok(established) = connection::accept(link, contracts(), security, &options).await {
        let (_connection, driver) = Driver::new(established, Serving::from(router()), &options);
        driver.await;
    }
}

/// What is served.
pub(crate) fn router() -> Router {
    static ROUTER: LazyLock<Router> = LazyLock::new(|| {
        let mut builder = Router::builder();
        builder.add(Fuzzed);
        builder.build().unwrap()
    });
    ROUTER.clone()
}

/// Sends all bytes and reads whatever comes, at once: neither waits for the other.
pub(crate) async fn talk(link: &mut memory::MemoryLink, bytes: &[u8], step: usize) -> BytesMut {
    talk_for(link, bytes, step, PATIENCE, false).await
}

/// As [`talk`], with a time that answers may take. The link stays open if it is to be held.
pub(crate) async fn talk_for(
    link: &mut memory::MemoryLink,
    bytes: &[u8],
    step: usize,
    answers_take: Duration,
    hold: bool,
) -> BytesMut {
    let (mut sent, mut shut, mut said) = (0, false, BytesMut::new());
    let mut held = false;
    let mut patience = std::pin::pin!(None);
    poll_fn(|cx| {
        while !shut {
            let rest = &bytes[sent..];
            let polled = match rest.len() {
                // An end of input makes the server drop what it has not said.
                0 => {
                    if patience.is_none() {
                        patience.set(Some(sleep(answers_take)));
                    }
                    let waited = patience.as_mut().as_pin_mut().map(|patience| patience.poll(cx));
                    if waited.is_some_and(|polled| polled.is_pending()) {
                        break;
                    }
                    if hold {
                        held = true;
                        break;
                    }
                    link.poll_close(cx).map_ok(|()| 0)
                }
                n => link.poll_write(cx, &rest[..n.min(step)]),
            };
            match polled {
                Poll::Ready(Ok(0) | Err(_)) => shut = true,
                Poll::Ready(Ok(n)) => sent += n,
                Poll::Pending => break,
            }
        }
        loop {
            said.reserve(1_024);
            match link.poll_read(cx, &mut said) {
                Poll::Ready(Ok(0) | Err(_)) => {
                    return Poll::Ready(());
                }
                Poll::Ready(Ok(_)) => {}
                Poll::Pending if held => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await;
    said
}

/// What is asked of the server, as far as it is well-formed.
pub(crate) struct Asked {
    calls: Vec<Call>,
    /// How many bytes of items may come for each id, and how many may be sent.
    credits: HashMap<CallId, u64>,
    /// Whether nothing in it is a reason to close.
    pub(crate) well_formed: bool,
    /// Whether what is about the connection itself must be sealed.
    secured: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Call {
    id: CallId,
    sealed: bool,
    /// Whether items come in answer, and whether chunks go.
    streams: bool,
    uploads: bool,
}

impl Call {
    fn of(frame: &Frame) -> Self {
        let is = |opcodes: &[Opcode]| frame.kind == FrameKind::Request && opcodes.contains(&frame.opcode);
        let both = [Mirror::OPCODE, SecretMirror::OPCODE];
        Self {
            id: frame.id,
            sealed: frame.sealed,
            streams: is(&[Walk::OPCODE]) || is(&both),
            uploads: is(&[Gather::OPCODE]) || is(&both),
        }
    }
}

impl Asked {
    pub(crate) fn of((frames, well_formed): (Vec<Frame>, bool), secured: bool) -> Self {
        let answered = |frame: &&Frame| {
            let dropped = frame.unfinished.is_some() && frame.kind != FrameKind::Request;
            !dropped
                && !matches!(
                    frame.kind,
                    FrameKind::Notify
                        | FrameKind::Reply
                        | FrameKind::Error
                        | FrameKind::Cancel
                        | FrameKind::Item
                        | FrameKind::End
                        | FrameKind::Credit
                        | FrameKind::Ping
                        | FrameKind::Pong
                        | FrameKind::Ack
                        | FrameKind::Control
                )
        };
        let unsealed = |frame: &Frame| secured && !frame.sealed;
        let ends = |frame: &Frame| match frame.kind {
            FrameKind::Control => {
                unsealed(frame)
                    || !matches!(
                        Control::decode(&frame.payload),
                        Ok(Control::Drain { .. } | Control::Ready | Control::Unknown(_))
                    )
            }
            FrameKind::Cancel => unsealed(frame) || !frame.payload.is_empty(),
            FrameKind::Credit => unsealed(frame) || !matches!(varint::split(&frame.payload), Ok((1.., []))),
            FrameKind::Ping => unsealed(frame) || frame.payload.len() > 32,
            FrameKind::Pong | FrameKind::Ack => unsealed(frame),
            _ => false,
        };
        let calls: Vec<_> = frames.iter().filter(answered).map(Call::of).collect();
        let mut requests: Vec<_> =
            frames.iter().filter(|f| f.kind == FrameKind::Request).map(|f| f.id).collect();
        let before = requests.len();
        requests.sort_unstable();
        requests.dedup();
        // Ids that come twice may be in use when they come again, or not.
        let ids_fit =
            requests.len() == before && requests.iter().all(|id| (id.get() as usize) < options().max_calls);

        let mut credits: HashMap<CallId, u64> = HashMap::new();
        for call in &calls {
            *credits.entry(call.id).or_default() += u64::from(WINDOW);
        }
        for frame in frames.iter().filter(|frame| frame.kind == FrameKind::Credit && !frame.upload) {
            let n = varint::split(&frame.payload).map_or(0, |(n, _)| n);
            let credit = credits.entry(frame.id).or_default();
            *credit = credit.saturating_add(n);
        }
        let credits_fit = credits.values().all(|&n| n <= u32::MAX.into());
        let well_formed =
            well_formed && ids_fit && credits_fit && uploads_fit(&frames, &calls) && !frames.iter().any(ends);
        Self { calls, credits, well_formed, secured }
    }
}

/// Whether no upload can be a reason to close, whenever its parts are handled.
fn uploads_fit(frames: &[Frame], calls: &[Call]) -> bool {
    calls.iter().filter(|call| call.uploads).all(|call| {
        let parts = frames.iter().filter(|frame| frame.upload && frame.id == call.id);
        let (mut bytes, mut ended) = (0, false);
        parts.filter(|frame| matches!(frame.kind, FrameKind::Item | FrameKind::End)).all(|frame| {
            let fits = !ended && (frame.sealed || !call.sealed);
            ended = frame.kind == FrameKind::End;
            bytes += frame.payload.len();
            fits && (ended || !frame.payload.is_empty()) && (ended || bytes <= FIRST_WINDOW)
        })
    })
}

/// What the server has said, and whether it is well-formed, against what it was asked.
pub(crate) fn judge((frames, whole): (Vec<Frame>, bool), asked: &Asked) {
    assert!(whole, "what the server says is well-formed");
    let mut open = asked.calls.clone();
    let mut credits = asked.credits.clone();
    let mut items: HashMap<CallId, Vec<u8>> = HashMap::new();
    let mut closed = false;
    let mut ponged = false;
    for frame in frames {
        assert!(!closed, "nothing comes behind a close");
        let find = |open: &[Call], streams: bool| {
            open.iter().position(|call| {
                call.id == frame.id && call.sealed == frame.sealed && (call.streams || !streams)
            })
        };
        match frame.kind {
            FrameKind::Reply | FrameKind::Error => {
                let at = find(&open, false).expect("an answer to no call");
                open.swap_remove(at);
                let secret = frame.kind == FrameKind::Reply && frame.payload[..] == SECRET;
                assert!(frame.sealed || !secret, "what must be sealed has been answered in the clear");
            }
            FrameKind::End => {
                assert!(!frame.upload && frame.payload.is_empty());
                let at = find(&open, true).expect("the end of no stream");
                open.swap_remove(at);
                let alone = asked.calls.iter().filter(|call| call.id == frame.id).count() == 1;
                let mut rest = &items.remove(&frame.id).unwrap_or_default()[..];
                while alone && !rest.is_empty() {
                    let (len, behind) = varint::split(rest).expect("an item with a length");
                    assert!(len <= MAX_MESSAGE as u64);
                    rest = behind.split_at_checked(len as usize).expect("a stream that ends is whole").1;
                }
            }
            FrameKind::Item => {
                assert!(!frame.upload && !frame.payload.is_empty());
                find(&open, true).expect("items of no stream");
                let left = credits.get_mut(&frame.id).expect("credit");
                *left = left.checked_sub(frame.payload.len() as u64).expect("no item without credit");
                items.entry(frame.id).or_default().extend_from_slice(&frame.payload);
            }
            FrameKind::Credit | FrameKind::Cancel => {
                assert!(frame.upload && frame.sealed == asked.secured);
                assert!(asked.calls.iter().any(|call| call.id == frame.id && call.uploads));
                match frame.kind {
                    FrameKind::Cancel => assert!(frame.payload.is_empty()),
                    _ => assert!(matches!(varint::split(&frame.payload), Ok((1.., [])))),
                }
            }
            FrameKind::Pong => {
                assert_eq!(frame.sealed, asked.secured);
                ponged |= frame.payload[..] == NONCE;
            }
            FrameKind::Control => {
                assert_eq!(frame.sealed, asked.secured);
                closed = matches!(Control::decode(&frame.payload), Ok(Control::Close(_)));
                assert!(closed);
            }
            other => panic!("{other:?}"),
        }
    }
    if asked.well_formed {
        assert!(ponged && !closed, "a connection that was not abused is well");
        assert!(open.is_empty(), "every call is answered");
    }
}

pub(crate) fn frames_of(mut inbound: Inbound) -> (Vec<Frame>, bool) {
    let mut frames = Vec::new();
    loop {
        match inbound.next_frame() {
            Ok(Some(frame)) => frames.push(frame),
            Ok(None) => return (frames, inbound.end().is_ok()),
            Err(_) => return (frames, false),
        }
    }
}

/// Asks whether the connection is well.
pub(crate) fn ping(out: &mut Outbound) {
    let nonce = Bytes::from_static(&NONCE);
    out.append(Cover::Sealed, Head::plain(FrameKind::Ping), Metadata::default(), 0, |w| w.put(&nonce))
        .unwrap();
}

pub(crate) fn options() -> Options {
    let mut options = Options::default();
    (options.max_message, options.max_calls, options.max_queued) = (MAX_MESSAGE, 8, 4);
    (options.outbox, options.max_deadline) = (300, Some(Duration::from_secs(1)));
    // A quarter of the budget is for the uploads of eight calls.
    (options.stream_window, options.stream_budget) = (1_000, 4 * 8 * FIRST_WINDOW);
    options
}

pub(crate) fn contracts() -> Contracts {
    static CONTRACTS: OnceLock<Contracts> = OnceLock::new();
    CONTRACTS.get_or_init(|| Contracts::of(Registry::global().unwrap())).clone()
}

pub(crate) fn params() -> Params {
    Params::new(MAX_MESSAGE, 8, contracts()).with_streams(WINDOW as usize).with_compression(true)
}

pub(crate) const MAX_MESSAGE: usize = 4_000;
/// How many bytes of items the peer takes on each stream at first, and the server.
const WINDOW: u32 = 200;
const FIRST_WINDOW: usize = 100;
const NONCE: [u8; 8] = *b"are you?";
const SECRET: [u8; 8] = *b"s3cr3t!!";
/// Of virtual time: how long answers may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Of virtual time: longer than anything that the options allow.
const LONG: Duration = Duration::from_secs(120);
