//! The client of a secured connection that does its handshake properly, and from then on what its input says.
//!
//! The input is a list of parts: a byte that says what becomes of the part, two for its length, and its
//! bytes.

use std::{
    future::poll_fn,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use bytes::{Buf, BufMut, Bytes};
use nalix_core::{
    frame::{Control, FrameKind, Head, Metadata},
    handshake::{
        self, Initiator, MAX_HELLO, Sealing, ServerSecurity, SessionRecord, SessionStore, StoreFuture, Taken,
        TicketId,
    },
    link::{Link, memory::MemoryLink},
    record::{self, HEADER, Key, Opener, RecordKind, Sealer, Suites},
    session::{Cover, Inbound, Outbound},
    wire::to_vec,
};

use crate::{
    connection::{self, Asked, MAX_MESSAGE, frames_of, judge, params, ping},
    keys::{self, Pattern},
    script::Script,
};

/// How a connection is secured.
pub(crate) struct Secured {
    pattern: Pattern,
    sealing: Sealing,
    suites: Suites,
    /// Whether the client begins with what an honest one begins with.
    ready: bool,
}

impl Secured {
    /// Of five bits, two for the pattern.
    pub(crate) fn choose(bits: u8) -> Option<Self> {
        let pattern = *Pattern::ALL.get(usize::from(bits & 3).checked_sub(1)?)?;
        let sealing = if bits & 4 == 0 { Sealing::All } else { Sealing::Marked };
        let suites = if bits & 16 == 0 { Suites::COMMON } else { Suites::here() };
        Some(Self { pattern, sealing, suites, ready: bits & 8 == 0 && pattern != Pattern::Resume })
    }

    pub(crate) fn server(&self) -> ServerSecurity {
        let mut secured = handshake::Secured::new(keys::SERVER.clone());
        secured.sealing = self.sealing;
        secured.store = Some(Arc::new(Anything));
        ServerSecurity::Secured(Arc::new(secured))
    }

    fn inbound(&self, opener: Opener) -> Inbound {
        let mut inbound = Inbound::new(0);
        inbound.establish_secured(MAX_MESSAGE, opener, self.sealing);
        inbound.set_inflation(true);
        inbound
    }
}

/// Does the handshake, sends what the input says, and judges the answers.
pub(crate) async fn talk(secured: Secured, link: &mut MemoryLink, step: usize, input: &[u8]) {
    let mut script = Script::new(input);
    let early = if secured.pattern == Pattern::Resume { script.bytes() } else { &[] };
    let security = keys::client(secured.pattern, secured.sealing, secured.suites);
    let (initiator, hello) = Initiator::start(params(), &security, early).unwrap();
    let (reply, mut said) = shake(link, step, &hello).await;
    let connected = initiator.finish(&reply, UNIX_EPOCH).unwrap();
    assert_eq!(connected.terms.sealing, secured.sealing);
    let mut secrets = connected.secrets.unwrap();

    // The same under a key that is known here, to see what the server makes of it.
    let key = || Key::new([3; Key::LEN]);
    let mut known = Sealer::new(key());
    let rehearsed = compile(&secured, script.clone(), &mut known);
    let mut inbound = secured.inbound(Opener::new(key()));
    inbound.buffer().put_slice(&rehearsed);
    let confirmed = match secured.pattern {
        Pattern::Resume => {
            inbound.early(Bytes::copy_from_slice(early));
            true
        }
        _ => inbound.next_kind() == Some(RecordKind::Sealed) && inbound.confirm() == Ok(true),
    };
    let asked = Asked::of(if confirmed { frames_of(inbound) } else { (Vec::new(), false) }, true);
    let mut bytes = compile(&secured, script, &mut secrets.sealer);
    if asked.well_formed {
        let mut out = Outbound::secured(MAX_MESSAGE, secrets.sealer, secured.sealing);
        ping(&mut out);
        bytes.extend_from_slice(&out.take(Vec::new()));
    }
    said.extend_from_slice(&connection::talk(link, &bytes, step).await);

    let mut inbound = secured.inbound(secrets.opener);
    inbound.buffer().put_slice(&said);
    let heard = frames_of(inbound);
    // Nothing but a goodbye, where the server does not know whether somebody is there.
    assert!(confirmed || heard.0.iter().all(|frame| frame.kind == FrameKind::Control), "{heard:?}");
    judge(heard, &asked);
}

/// Sends the hello. Returns the body of the reply and what has come behind it.
async fn shake(link: &mut MemoryLink, step: usize, mut hello: &[u8]) -> (Bytes, Vec<u8>) {
    while !hello.is_empty() {
        let n = poll_fn(|cx| link.poll_write(cx, &hello[..hello.len().min(step)])).await.unwrap();
        hello.advance(n);
    }
    let mut inbound = Inbound::new(MAX_HELLO);
    loop {
        if let Some(reply) = inbound.next_record().unwrap() {
            assert_eq!(reply.kind, RecordKind::HelloReply, "{:?}", handshake::read_abort(&reply.body));
            return (reply.body, inbound.buffer().to_vec());
        }
        let n = poll_fn(|cx| link.poll_read(cx, inbound.buffer())).await.unwrap();
        assert_ne!(n, 0, "a reply to the hello");
    }
}

/// What the client sends behind its hello.
fn compile(secured: &Secured, mut script: Script<'_>, sealer: &mut Sealer) -> Vec<u8> {
    let mut out = Vec::new();
    if secured.ready {
        let mut frames = Outbound::new(MAX_MESSAGE);
        let ready = to_vec(&Control::Ready).unwrap();
        let head = Head::plain(FrameKind::Control);
        frames.append(Cover::Plain, head, Metadata::default(), 1, |w| w.put(&ready)).unwrap();
        seal(&mut out, sealer, &frames.take(Vec::new())[HEADER..]);
    }
    while !script.is_done() {
        let what = script.byte();
        let part = script.bytes();
        match what % 4 {
            // Frames.
            0 => seal(&mut out, sealer, part),
            1 => out.extend_from_slice(&record::build(RecordKind::Plain, part)),
            // Records, sealed if they are Plain ones: what goes over an unsecured connection.
            2 => {
                let mut rest = part;
                while let Some((head, behind)) = rest.split_first_chunk::<HEADER>() {
                    match record::parse(*head) {
                        Ok((RecordKind::Plain, len)) if len <= behind.len() => {
                            seal(&mut out, sealer, &behind[..len]);
                            rest = &behind[len..];
                        }
                        _ => break,
                    }
                }
                out.extend_from_slice(rest);
            }
            _ => out.extend_from_slice(part),
        }
    }
    out
}

fn seal(out: &mut Vec<u8>, sealer: &mut Sealer, body: &[u8]) {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER]);
    out.extend_from_slice(body);
    sealer.seal(out, start).unwrap();
}

/// A store in which every ticket is found, and can be taken.
struct Anything;

impl SessionStore for Anything {
    fn put(&self, _: TicketId, _: SessionRecord) -> StoreFuture<'_, ()> {
        StoreFuture::ready(Ok(()))
    }

    fn get(&self, _: TicketId) -> StoreFuture<'_, Option<SessionRecord>> {
        StoreFuture::ready(Ok(Some(keys::session())))
    }

    fn take(&self, _: TicketId, _: &SessionRecord, _: (TicketId, SessionRecord)) -> StoreFuture<'_, Taken> {
        StoreFuture::ready(Ok(Taken::Yes))
    }

    fn update(&self, _: TicketId, _: SessionRecord) -> StoreFuture<'_, bool> {
        StoreFuture::ready(Ok(true))
    }

    fn revoke(&self, _: nalix_core::handshake::SessionId, _: Duration) -> StoreFuture<'_, usize> {
        StoreFuture::ready(Ok(0))
    }
}
