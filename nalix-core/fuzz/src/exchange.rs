//! Sessions that go on over one link after the other, with a peer that says anything: which position it has come to, what it has
//! sent, when a link ends and when the next one comes. Neither side panics; what a session says at a position it says there
//! again, over whatever link; it never claims to have more than was sent; and it ends.

use std::{
    future::poll_fn,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use bytes::{Bytes, BytesMut};
use nalix_core::{
    CloseReason,
    connection::{self, Anchor, Driver, Options, Refused, Serving},
    frame::{self, Control, FrameKind, Head, ResumeToken},
    handshake::{
        Attach, ClientSecurity, Hello, Initiator, Kept, Lasting, Responder, ServerSecurity, SessionId,
    },
    link::{
        Link,
        memory::{self, MemoryLink},
    },
    record::{self, HEADER, RecordKind},
    session::{Inbound, control_of},
    wire::{Encode, Writer},
};
use tokio::{
    runtime::Runtime,
    task::JoinHandle,
    time::{sleep, timeout},
};

use crate::{
    connection::{MAX_MESSAGE, contracts, options, params, router, talk_for},
    script::Script,
    types::Walk,
};

/// The first byte chooses which side is tested and how much the link holds, the second how much is sent at a time. The others
/// are one link after the other: see [`Turn`].
pub fn exchange(input: &[u8]) {
    let [first, step, rest @ ..] = input else { return };
    thread_local! {
        static RUNTIME: Runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
    }
    let capacity = [1, 7, 64, 65_536][usize::from(first >> 1) % 4];
    let width = Width { capacity, step: usize::from(*step).max(1) };
    let script = Script::new(rest);
    RUNTIME.with(|runtime| {
        runtime.block_on(async {
            if first & 1 == 0 { accepting(width, script).await } else { connecting(width, script).await }
        });
    });
}

#[derive(Clone, Copy)]
struct Width {
    capacity: usize,
    step: usize,
}

/// What the peer does with one link.
struct Turn {
    how: u8,
    /// By how much the position that it has come to is off.
    off: i64,
    /// Its frames, in records of its own making.
    bytes: Vec<u8>,
    /// How many bytes of frames those are at the most.
    counted: u64,
    patience: Duration,
}

impl Turn {
    fn read(script: &mut Script<'_>) -> Self {
        let how = script.byte();
        let off = i64::from(script.byte() as i8) * if how & OFF == 0 { 0 } else { 1 };
        let body = script.bytes();
        let bytes = if how & RAW == 0 { record::build(RecordKind::Plain, body) } else { body.to_vec() };
        let patience = if how & HASTY == 0 { PATIENCE } else { Duration::ZERO };
        Self { how, off, counted: bytes.len() as u64, bytes, patience }
    }

    async fn wait(&self) {
        if self.is(LATE) {
            sleep(2 * GRACE).await;
        }
    }

    fn is(&self, bit: u8) -> bool {
        self.how & bit != 0
    }

    /// Where the peer says that it has come to.
    fn claims(&self, at: u64) -> u64 {
        at.saturating_add_signed(self.off)
    }
}

/// What a session has said so far, by position. Some of it may not have been heard.
#[derive(Default)]
struct History {
    heard: Vec<Option<u8>>,
    /// Behind the last byte that the last link has brought.
    at: u64,
    /// Up to where the peer can have sent.
    sent: u64,
    /// Up to where the session has said that it has handled.
    handled: u64,
    closed: bool,
}

impl History {
    /// What a link says from `from` on.
    fn hear(&mut self, from: u64, said: &[u8]) {
        let start = usize::try_from(from).expect("a position that was reached");
        let end = start + said.len();
        if self.heard.len() < end {
            self.heard.resize(end, None);
        }
        for (at, (old, new)) in self.heard[start..end].iter_mut().zip(said).enumerate() {
            assert_eq!(*old.get_or_insert(*new), *new, "what comes again is the same, at {}", start + at);
        }
        self.at = end as u64;
    }

    /// The session says that it has handled so much.
    fn handles(&mut self, position: u64) {
        assert!(position >= self.handled, "what has been handled stays so");
        assert!(position <= self.sent, "nothing is handled that was not sent");
        self.handled = position;
    }

    /// If all of it has been heard, it is well-formed.
    fn judge(&self) {
        let Some(all) = self.heard.iter().copied().collect::<Option<Vec<u8>>>() else { return };
        let mut inbound = Inbound::new(0);
        inbound.establish(MAX_MESSAGE);
        inbound.set_inflation(true);
        inbound.buffer().extend_from_slice(&record::build(RecordKind::Plain, &all));
        let (mut acknowledged, mut closed) = (0, false);
        loop {
            // The last frame may have been cut with its link.
            let Ok(Some(frame)) = inbound.next_frame() else { break };
            assert!(!closed, "nothing comes behind a close");
            match frame.kind {
                FrameKind::Ack => {
                    let (position, _) = nalix_core::wire::varint::split(&frame.payload).unwrap();
                    assert!(position > acknowledged && position <= self.sent, "{position}");
                    acknowledged = position;
                }
                FrameKind::Control => {
                    let message = Control::decode(&frame.payload).expect("a message that can be read");
                    assert!(!message.is_of_link());
                    closed = matches!(message, Control::Close(_));
                }
                _ => {}
            }
        }
    }
}

/// The bodies of all whole Plain records, one by one, and the first record if it is another.
fn records(said: &[u8]) -> (Option<(RecordKind, Bytes)>, Vec<&[u8]>) {
    let (mut first, mut bodies, mut rest) = (None, Vec::new(), said);
    while let Some((header, behind)) = rest.split_first_chunk::<HEADER>() {
        let (kind, len) = record::parse(*header).expect("a record");
        let Some((body, behind)) = behind.split_at_checked(len) else { break };
        match kind {
            RecordKind::Plain => bodies.push(body),
            kind => {
                assert!(first.is_none() && bodies.is_empty(), "{kind:?} in the middle");
                first = Some((kind, Bytes::copy_from_slice(body)));
            }
        }
        rest = behind;
    }
    (first, bodies)
}

/// The message about the link that is alone in a record.
fn word(body: &[u8]) -> Option<Control> {
    let mut inbound = Inbound::new(0);
    inbound.establish(MAX_MESSAGE);
    inbound.buffer().extend_from_slice(&record::build(RecordKind::Plain, body));
    let message = control_of(&inbound.next_frame().ok()??)?;
    assert!(!message.is_of_link() || inbound.next_frame().unwrap().is_none(), "it has a record of its own");
    Some(message)
}

/// Does the work of a side that accepts links for sessions.
struct House {
    anchors: Mutex<Vec<Anchor<MemoryLink>>>,
    drivers: Mutex<Vec<JoinHandle<CloseReason>>>,
}

impl House {
    async fn take(self: Arc<Self>, link: MemoryLink) {
        let options = lasting();
        let Ok(mut established) =
            connection::accept(link, contracts(), &ServerSecurity::Plaintext, &options).await
        else {
            return;
        };
        if let Some(attach) = established.attach().cloned() {
            let known = |anchor: &&Anchor<MemoryLink>| anchor.session() == Some(attach.session);
            let anchor = self.anchors.lock().unwrap().iter().find(known).cloned();
            if let Some(anchor) = anchor.filter(|anchor| anchor.admits(&attach.token, None)) {
                match anchor.attach(established).await {
                    Ok(()) => return,
                    Err(Refused { why: connection::Why::Stale, .. }) => return,
                    Err(refused) => established = *refused.established,
                }
                anchor.connection().abort();
            }
        }
        let (_connection, mut driver) = Driver::new(established, Serving::from(router()), &options);
        self.anchors.lock().unwrap().push(driver.anchor());
        self.drivers.lock().unwrap().push(tokio::spawn(driver));
    }
}

/// The side that accepts is tested: the peer connects.
async fn accepting(width: Width, mut script: Script<'_>) {
    let house = Arc::new(House { anchors: Mutex::default(), drivers: Mutex::default() });
    let (mut known, mut history) = (None::<Kept>, History::default());
    let (mut held, mut tasks) = (Vec::new(), Vec::new());
    for link in 1..=MAX_LINKS {
        let turn = Turn::read(&mut script);
        turn.wait().await;
        let mut params = params();
        // Grows with each link, from whichever session it was counted.
        let epoch = if turn.is(STALE) { 0 } else { link as u32 };
        let claimed = turn.claims(history.at);
        params.lasting = match &known {
            Some(kept) => {
                let wrong = ResumeToken::from_bytes([0; ResumeToken::LEN]);
                let token = if turn.is(WRONG) { wrong } else { kept.token.clone() };
                Lasting::Attach(Attach::new(kept.session, token, epoch, claimed))
            }
            None => Lasting::New,
        };
        let asked = known.is_some();
        let (initiator, mut bytes) = Initiator::start(params, &ClientSecurity::Plaintext, &[]).unwrap();
        bytes.extend_from_slice(&turn.bytes);
        let (mut ours, theirs) = memory::pair(width.capacity);
        tasks.push(tokio::spawn(Arc::clone(&house).take(theirs)));
        let said = timeout(LONG, talk_for(&mut ours, &bytes, width.step, turn.patience, turn.is(HOLD)));
        let said = said.await.expect("a link whose peer has gone ends");
        if turn.is(HOLD) {
            held.push(ours);
        }
        let (first, mut bodies) = records(&said);
        let Some((kind, body)) = first else { continue };
        assert_eq!(kind, RecordKind::HelloReply);
        let kept = initiator.finish(&body, SystemTime::now()).unwrap().kept.expect("a session that lasts");
        let mut from = 0;
        if asked {
            if bodies.is_empty() {
                // It is stale, or was cut off before.
                history.sent += turn.counted;
                continue;
            }
            match word(bodies.remove(0)) {
                Some(Control::Resumed { received }) => {
                    assert!(!turn.is(WRONG | STALE), "nobody goes on with what is not theirs");
                    assert!(!history.closed, "a session that has been closed is over");
                    history.handles(received);
                    history.sent = received + turn.counted;
                    from = claimed;
                }
                Some(Control::Fresh) => {
                    history.judge();
                    (history, known) = (History::default(), None);
                }
                other => panic!("{other:?} comes first"),
            }
        }
        if known.is_none() {
            known = Some(kept);
            history.sent = turn.counted;
        }
        history.hear(from, &bodies.concat());
        history.closed |= bodies.last().is_some_and(|body| matches!(word(body), Some(Control::Close(_))));
        if script.is_done() {
            break;
        }
    }
    history.judge();
    drop(held);
    for task in tasks {
        timeout(LONG, task).await.expect("whoever takes links does so in time").unwrap();
    }
    let drivers = std::mem::take(&mut *house.drivers.lock().unwrap());
    for driver in drivers {
        timeout(LONG, driver).await.expect("a session without a link ends").unwrap();
    }
}

/// The side that connects is tested: the peer accepts.
async fn connecting(width: Width, mut script: Script<'_>) {
    let options = lasting();
    let kept = |n: u8| {
        let token = ResumeToken::from_bytes([n; ResumeToken::LEN]);
        Kept::new(SessionId::from_bytes([n; SessionId::LEN]), token, GRACE)
    };
    let mut history = History::default();
    let mut current: Option<(Anchor<MemoryLink>, JoinHandle<CloseReason>)> = None;
    let (mut drivers, mut calls) = (Vec::new(), Vec::new());
    for n in 0..MAX_LINKS as u8 {
        let turn = Turn::read(&mut script);
        turn.wait().await;
        let attach = current.as_ref().and_then(|(anchor, _)| anchor.offer());
        let asked = attach.is_some();
        if let Some(attach) = &attach {
            history.handles(attach.received);
        }
        let (ours, mut theirs) = memory::pair(width.capacity);
        let connect = async {
            let security = ClientSecurity::Plaintext;
            match attach {
                Some(attach) => {
                    connection::connect_attached(ours, contracts(), &security, attach, &options).await
                }
                None => connection::connect(ours, contracts(), &security, &options).await,
            }
        };
        let claimed = turn.claims(history.at);
        let peer = async {
            let hello = read_record(&mut theirs).await?;
            let mut params = params();
            params.lasting = Lasting::New;
            let hello = Hello::parse(&hello).unwrap();
            let responder = Responder::read(&hello, params, &ServerSecurity::Plaintext, None).unwrap();
            let mut bytes = responder.accept(None, Some(kept(n))).unwrap().reply;
            if asked && !turn.is(WRONG) {
                let word =
                    if turn.is(STALE) { Control::Fresh } else { Control::Resumed { received: claimed } };
                bytes.extend_from_slice(&control(&word));
            }
            bytes.extend_from_slice(&turn.bytes);
            Some(talk_for(&mut theirs, &bytes, width.step, turn.patience, false).await)
        };
        let (mut resumed, mut fresh) = (false, false);
        let session = async {
            let connected = timeout(LONG, connect).await.expect("a handshake ends");
            let Ok(mut established) = connected else { return };
            if established.is_attached() {
                let (anchor, _) = current.as_ref().expect("somebody has asked");
                match anchor.attach(established).await {
                    Ok(()) => resumed = true,
                    Err(refused) => drop(refused),
                }
                return;
            }
            if let Some((anchor, driver)) = current.take() {
                anchor.connection().abort();
                drivers.push(driver);
            }
            established.set_audience(&connection::Audience::default(), true);
            let (connection, mut driver) = Driver::new(established, Serving::from(router()), &options);
            let anchor = driver.anchor();
            for count in [3, 40] {
                let call = connection.stream(Walk { count, size: 30 }).into_future();
                calls.push(tokio::spawn(async move {
                    let Ok(mut items) = call.await else { return };
                    while items.next().await.is_some() {}
                }));
            }
            (current, fresh) = (Some((anchor, tokio::spawn(driver))), true);
        };
        let (said, ()) = tokio::join!(timeout(LONG, peer), session);
        let said = said.expect("a link whose peer has gone ends").unwrap_or_default();
        let (_, bodies) = records(&said);
        if resumed {
            history.sent = history.sent.max(history.handled + turn.counted);
            history.hear(claimed, &bodies.concat());
        } else if fresh {
            history.judge();
            history = History { sent: turn.counted, ..History::default() };
            history.hear(0, &bodies.concat());
        }
        if script.is_done() {
            break;
        }
    }
    history.judge();
    drivers.extend(current.map(|(_, driver)| driver));
    for driver in drivers {
        timeout(LONG, driver).await.expect("a session without a link ends").unwrap();
    }
    for call in calls {
        timeout(LONG, call).await.expect("a call ends with its session").unwrap();
    }
}

/// The body of the first record.
async fn read_record(link: &mut MemoryLink) -> Option<Bytes> {
    let mut read = BytesMut::new();
    loop {
        if let Some((header, behind)) = read.split_first_chunk::<HEADER>() {
            let (_, len) = record::parse(*header).unwrap();
            if behind.len() >= len {
                return Some(Bytes::copy_from_slice(&behind[..len]));
            }
        }
        read.reserve(1_024);
        if poll_fn(|cx| link.poll_read(cx, &mut read)).await.ok()? == 0 {
            return None;
        }
    }
}

/// A message in a record of its own.
fn control(message: &Control) -> Vec<u8> {
    let mut payload = Vec::new();
    message.encode(&mut Writer::new(&mut payload, 100));
    let mut out = Vec::new();
    frame::put_head(&mut out, Head::plain(FrameKind::Control));
    out.push(payload.len() as u8);
    out.extend_from_slice(&payload);
    record::build(RecordKind::Plain, &out)
}

fn lasting() -> Options {
    let mut options = options();
    (options.resume_log, options.resume_grace) = (600, GRACE);
    options
}

/// The position is off.
const OFF: u8 = 1;
/// The bytes are whole records, or none.
const RAW: u8 = 2;
/// The link ends as soon as all is sent.
const HASTY: u8 = 4;
/// With a token that is none; the side that accepts says nothing of the session.
const WRONG: u8 = 8;
/// With an epoch that has been; the side that accepts begins anew.
const STALE: u8 = 16;
/// The link stays when the next one comes.
const HOLD: u8 = 32;
/// The session is away for longer than it is kept.
const LATE: u8 = 64;
const MAX_LINKS: usize = 12;
/// Of virtual time.
const GRACE: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_secs(120);
