//! A whole served connection that is sent any bytes behind a valid handshake: it never panics, what it says
//! is well-formed, every call is answered at most once and as it was asked, sealed or not, and it ends when
//! its peer does.

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
    wire::varint,
};
use tokio::{
    runtime::Runtime,
    time::{sleep, timeout},
};

use crate::{
    secured::{self, Secured},
    types::{Borrowed, Choice, Exact, Open, Secret, Shape},
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
    static ROUTER: LazyLock<Router> = LazyLock::new(|| {
        let mut builder = Router::builder();
        builder.add(Fuzzed);
        builder.build().unwrap()
    });
    let options = options();
    if let Ok(established) = connection::accept(link, contracts(), security, &options).await {
        let (_connection, driver) = Driver::new(established, Serving::from(ROUTER.clone()), &options);
        driver.await;
    }
}

/// Sends all bytes and reads whatever comes, at once: neither waits for the other.
pub(crate) async fn talk(link: &mut memory::MemoryLink, bytes: &[u8], step: usize) -> BytesMut {
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

/// What is asked of the server, as far as it is well-formed.
pub(crate) struct Asked {
    /// And whether each is sealed.
    calls: Vec<(CallId, bool)>,
    /// Whether nothing in it is a reason to close.
    pub(crate) well_formed: bool,
    /// Whether what is about the connection itself must be sealed.
    secured: bool,
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
        let calls: Vec<_> = frames.iter().filter(answered).map(|frame| (frame.id, frame.sealed)).collect();
        let mut requests: Vec<_> =
            frames.iter().filter(|f| f.kind == FrameKind::Request).map(|f| f.id).collect();
        let before = requests.len();
        requests.sort_unstable();
        requests.dedup();
        // Ids that come twice may be in use when they come again, or not.
        let ids_fit =
            requests.len() == before && requests.iter().all(|id| (id.get() as usize) < options().max_calls);
        let well_formed = well_formed && ids_fit && !frames.iter().any(ends);
        Self { calls, well_formed, secured }
    }
}

/// What the server has said, and whether it is well-formed, against what it was asked.
pub(crate) fn judge((frames, whole): (Vec<Frame>, bool), asked: &Asked) {
    assert!(whole, "what the server says is well-formed");
    let mut open = asked.calls.clone();
    let mut closed = false;
    let mut ponged = false;
    for frame in frames {
        assert!(!closed, "nothing comes behind a close");
        match frame.kind {
            FrameKind::Reply | FrameKind::Error => {
                let call = (frame.id, frame.sealed);
                let at = open.iter().position(|open| *open == call).expect("an answer to no call");
                open.swap_remove(at);
                let secret = frame.kind == FrameKind::Reply && frame.payload[..] == SECRET;
                assert!(frame.sealed || !secret, "what must be sealed has been answered in the clear");
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

pub(crate) fn params() -> Params {
    Params::new(MAX_MESSAGE, 8, contracts()).with_compression(true)
}

pub(crate) const MAX_MESSAGE: usize = 4_000;
const NONCE: [u8; 8] = *b"are you?";
const SECRET: [u8; 8] = *b"s3cr3t!!";
/// Of virtual time: how long answers may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Of virtual time: longer than anything that the options allow.
const LONG: Duration = Duration::from_secs(120);
