//! A whole served connection that is sent any bytes behind a valid hello: it never panics, what it says is well-formed,
//! every call is answered at most once, and it ends when its peer does.

use std::{
    future::{Future, poll_fn},
    sync::{LazyLock, OnceLock},
    task::Poll,
    time::Duration,
};

use bytes::{BufMut, Bytes, BytesMut};
use nalix_core::{
    CallId, Status,
    connection::{self, Driver, Options, Serving},
    controller::Router,
    frame::{Control, FrameKind, Head, Metadata},
    handshake::{Contracts, Hello, Params, ServerSecurity},
    link::{Link, memory},
    packet_controller,
    record::{self, RecordKind},
    registry::Registry,
    session::{Cover, Frame, Inbound, Outbound},
};
use tokio::{
    runtime::Runtime,
    time::{sleep, timeout},
};

use crate::types::{Borrowed, Choice, Exact, Open, Shape};

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
}

impl Shape {
    fn into_failure(self) -> nalix_core::Failure<Shape> {
        nalix_core::Failure::Application(self)
    }
}

/// The first byte chooses how much the link holds, the second how much is sent at a time.
pub fn connection(input: &[u8]) {
    let [capacity, step, stream @ ..] = input else { return };
    thread_local! {
        static RUNTIME: Runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
    }
    let capacity = [1, 7, 64, 65_536][usize::from(capacity % 4)];
    let step = usize::from(*step).max(1);
    RUNTIME.with(|runtime| runtime.block_on(converse(capacity, step, stream)));
}

async fn converse(capacity: usize, step: usize, stream: &[u8]) {
    let (mut ours, theirs) = memory::pair(capacity);
    let mut bytes = record::build(RecordKind::Hello, &Hello::plaintext(&params()).body());
    bytes.extend_from_slice(stream);
    let asked = Asked::of(stream);
    if asked.well_formed {
        bytes.extend_from_slice(&ping());
    }
    let (said, ()) = tokio::join!(timeout(LONG, talk(&mut ours, &bytes, step)), async {
        assert!(timeout(LONG, serve(theirs)).await.is_ok(), "the connection does not end");
    });
    judge(&said.expect("the peer of a connection that has ended reads on for ever"), &asked);
}

async fn serve(link: memory::MemoryLink) {
    static ROUTER: LazyLock<Router> = LazyLock::new(|| {
        let mut builder = Router::builder();
        builder.add(Fuzzed);
        builder.build().unwrap()
    });
    let options = options();
    if let Ok(established) = connection::accept(link, contracts(), &ServerSecurity::Plaintext, &options).await
    {
        let (_connection, driver) = Driver::new(established, Serving::from(ROUTER.clone()), &options);
        driver.await;
    }
}

/// Sends all bytes and reads whatever comes, at once: neither waits for the other.
async fn talk(link: &mut memory::MemoryLink, bytes: &[u8], step: usize) -> BytesMut {
    let (mut sent, mut shut, mut said) = (0, false, BytesMut::new());
    let mut patience = std::pin::pin!(None);
    poll_fn(|cx| {
        while !shut {
            let rest = &bytes[sent..];
            let polled = match rest.len() {
                // An end of input makes the server drop what it has not said.
                0 => {
                    if patience.is_none() {
                        patience.set(Some(sleep(PATIENCE)));
                    }
                    let waited = patience.as_mut().as_pin_mut().map(|patience| patience.poll(cx));
                    if waited.is_some_and(|polled| polled.is_pending()) {
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
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await;
    said
}

/// What the stream asks of the server, as far as it is well-formed.
struct Asked {
    calls: Vec<CallId>,
    /// Whether nothing in it is a reason to close.
    well_formed: bool,
}

impl Asked {
    fn of(stream: &[u8]) -> Self {
        let (frames, well_formed) = parse(stream);
        let answered = |frame: &&Frame| {
            !matches!(
                frame.kind,
                FrameKind::Notify
                    | FrameKind::Reply
                    | FrameKind::Error
                    | FrameKind::Cancel
                    | FrameKind::Ping
                    | FrameKind::Pong
                    | FrameKind::Ack
                    | FrameKind::Control
            )
        };
        let ends = |frame: &Frame| match frame.kind {
            FrameKind::Control => {
                !matches!(Control::decode(&frame.payload), Ok(Control::Drain { .. } | Control::Unknown(_)))
            }
            FrameKind::Cancel => !frame.payload.is_empty(),
            FrameKind::Ping => frame.payload.len() > 32,
            _ => false,
        };
        let calls: Vec<_> = frames.iter().filter(answered).map(|frame| frame.id).collect();
        let mut requests: Vec<_> =
            frames.iter().filter(|f| f.kind == FrameKind::Request).map(|f| f.id).collect();
        let before = requests.len();
        requests.sort_unstable();
        requests.dedup();
        // Ids that come twice may be in use when they come again, or not.
        let ids_fit =
            requests.len() == before && requests.iter().all(|id| (id.get() as usize) < options().max_calls);
        Self { calls, well_formed: well_formed && ids_fit && !frames.iter().any(ends) }
    }
}

fn judge(said: &[u8], asked: &Asked) {
    let (frames, whole) = parse_said(said);
    assert!(whole, "what the server says is well-formed");
    let mut open = asked.calls.clone();
    let mut closed = false;
    let mut ponged = false;
    for frame in frames {
        assert!(!closed, "nothing comes behind a close");
        match frame.kind {
            FrameKind::Reply | FrameKind::Error => {
                let at = open.iter().position(|id| *id == frame.id).expect("an answer to no call");
                open.swap_remove(at);
            }
            FrameKind::Pong => ponged |= frame.payload[..] == NONCE,
            FrameKind::Control => {
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

fn parse(stream: &[u8]) -> (Vec<Frame>, bool) {
    let mut inbound = Inbound::new(0);
    inbound.establish(MAX_MESSAGE);
    inbound.buffer().put_slice(stream);
    frames_of(inbound)
}

/// As [`parse`], behind the reply to the hello.
fn parse_said(said: &[u8]) -> (Vec<Frame>, bool) {
    let mut inbound = Inbound::new(100_000);
    inbound.buffer().put_slice(said);
    let reply = inbound.next_record().unwrap().expect("a reply to the hello");
    assert_eq!(reply.kind, RecordKind::HelloReply);
    inbound.establish(MAX_MESSAGE);
    frames_of(inbound)
}

fn frames_of(mut inbound: Inbound) -> (Vec<Frame>, bool) {
    let mut frames = Vec::new();
    loop {
        match inbound.next_frame() {
            Ok(Some(frame)) => frames.push(frame),
            Ok(None) => return (frames, inbound.end().is_ok()),
            Err(_) => return (frames, false),
        }
    }
}

fn ping() -> Vec<u8> {
    let mut out = Outbound::new(MAX_MESSAGE);
    let nonce = Bytes::from_static(&NONCE);
    out.append(Cover::Plain, Head::plain(FrameKind::Ping), Metadata::default(), 0, |w| w.put(&nonce))
        .unwrap();
    out.take(Vec::new())
}

fn options() -> Options {
    let mut options = Options::default();
    (options.max_message, options.max_calls, options.max_queued) = (MAX_MESSAGE, 8, 4);
    (options.outbox, options.max_deadline) = (300, Some(Duration::from_secs(1)));
    options
}

fn contracts() -> Contracts {
    static CONTRACTS: OnceLock<Contracts> = OnceLock::new();
    CONTRACTS.get_or_init(|| Contracts::of(Registry::global().unwrap())).clone()
}

fn params() -> Params {
    Params::new(MAX_MESSAGE, 8, contracts())
}

const MAX_MESSAGE: usize = 4_000;
const NONCE: [u8; 8] = *b"are you?";
/// Of virtual time: how long answers may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Of virtual time: longer than anything that the options allow.
const LONG: Duration = Duration::from_secs(120);
