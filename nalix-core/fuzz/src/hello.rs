//! The hellos of secured connections: whatever the bytes, they are refused or read; and what one side has
//! made the other takes, unless a single bit of it has changed.

use std::{
    sync::LazyLock,
    time::{Duration, UNIX_EPOCH},
};

use bytes::Bytes;
use nalix_core::{
    CloseCode,
    error::{DecodeErrorKind, ProtocolError},
    handshake::{
        Accepted, AnswerError, Connected, Contracts, Grant, Hello, Initiator, MAX_HELLO, Offer, Params,
        Responder, Sealing, SessionRecord, SessionTicket, TicketId, VERSION, Way,
    },
    record::{self, Suites},
    registry::Registry,
};

use crate::{
    keys::{self, Pattern},
    offer,
    script::Script,
};

/// The first byte chooses what the others are taken as.
pub fn hello(input: &[u8]) {
    let Some((&which, input)) = input.split_first() else { return };
    match which % 6 {
        0 => any_hello(input),
        1 => any_reply(input),
        2 => any_offer(input),
        3 => changed_hello(input),
        4 => changed_reply(input),
        _ => kept(input),
    }
}

fn any_hello(input: &[u8]) {
    let mut script = Script::new(&input[..input.len().min(3)]);
    let server = keys::server(&mut script);
    let body = Bytes::copy_from_slice(input.get(3..).unwrap_or_default());
    let Ok(hello) = Hello::parse(&body) else { return };
    assert_eq!(hello.body(), body[..]);
    assert_eq!(Hello::parse(&hello.body().into()), Ok(hello.clone()));
    if let Ok(offer) = Offer::parse(&hello.content) {
        in_proportion(&offer, body.len());
    }
    // Anybody can send the hellos in the corpus once more, which were made for this key.
    match Responder::read(&hello, params(), &server, Some(&keys::session())) {
        Ok(responder) => {
            assert_eq!(responder.client_key().is_some(), hello.way == Way::Mutual);
            check(&responder.accept(None, None).unwrap(), &hello);
        }
        Err(reason) => assert!(!reason.message.is_empty()),
    }
    // No ticket, no resumption.
    if matches!(hello.way, Way::Resume(_)) {
        assert!(Responder::read(&hello, params(), &server, None).is_err());
    }
}

fn any_reply(input: &[u8]) {
    let mut script = Script::new(input);
    let (pattern, sealing) = (script.one_of(Pattern::ALL), script.one_of(SEALINGS));
    let (initiator, _) =
        Initiator::start(params(), &keys::client(pattern, sealing, Suites::here()), &[]).unwrap();
    let body = Bytes::copy_from_slice(input.get(2..).unwrap_or_default());
    // The client has drawn a key that nobody could know.
    assert_eq!(initiator.finish(&body, UNIX_EPOCH).unwrap_err(), refusal(&body));
}

/// What a client may say that has a ticket, and wants no good.
fn any_offer(input: &[u8]) {
    let mut script = Script::new(&input[..input.len().min(5)]);
    let server = keys::server(&mut script);
    let content = Bytes::copy_from_slice(input.get(5..).unwrap_or_default());
    let mut hello = Hello::plaintext(&params());
    hello.way = Way::Resume(TicketId::from_bytes([script.byte(); TicketId::LEN]));
    // Some of low order are among them, which are as good as others in a first message but cannot be
    // answered.
    let ephemeral = [script.byte(); 32];
    let body = offer::hello(&hello, &keys::secret(), ephemeral, &content);
    let hello = Hello::parse(&body.into()).unwrap();
    let read = Responder::read(&hello, params(), &server, Some(&keys::session()));
    let offer = Offer::parse(&content);
    match read {
        Ok(responder) => {
            let offer = offer.unwrap();
            in_proportion(&offer, content.len());
            assert_ne!(offer.sealing, Sealing::None);
            assert_eq!(responder.client_key(), None);
            if let Ok(accepted) = responder.accept(None, None) {
                assert_eq!(accepted.early, offer.early);
                check(&accepted, &hello);
            }
        }
        Err(reason) if reason.code == CloseCode::KeyRefused => assert!(offer.is_ok()),
        Err(reason) if reason.code == CloseCode::Incompatible => {
            assert_eq!(Suites::COMMON.choose(offer.unwrap().suites), None, "every server has it");
        }
        Err(reason) => {
            assert_eq!(reason.code, CloseCode::ProtocolError, "it is sealed as it should be: {reason}");
            assert!(!offer.is_ok_and(|offer| offer.sealing != Sealing::None));
        }
    }
}

fn changed_hello(input: &[u8]) {
    static HELLOS: LazyLock<[[Vec<u8>; 2]; 3]> = LazyLock::new(|| {
        Pattern::ALL
            .map(|pattern| SEALINGS.map(|sealing| start(pattern, sealing, Suites::here(), b"not frames").1))
    });
    let mut script = Script::new(input);
    let (pattern, sealing) = (script.below(3), script.below(2));
    let server = keys::server(&mut script);
    let original = &HELLOS[pattern][sealing];
    let mut body = original.clone();
    script.change(&mut body);
    let unchanged = body == *original;
    let Ok(hello) = Hello::parse(&body.into()) else { return };
    let read = Responder::read(&hello, params(), &server, Some(&keys::session()));
    let code = read.as_ref().err().map(|reason| reason.code);
    if unchanged {
        assert!(matches!(code, None | Some(CloseCode::KeyRefused)), "{code:?}");
    } else {
        let refused =
            [CloseCode::HandshakeFailed, CloseCode::EncryptionRequired, CloseCode::Incompatible].map(Some);
        assert!(refused.contains(&code), "{code:?}, though it was changed: {read:?}");
    }
}

fn changed_reply(input: &[u8]) {
    let mut script = Script::new(input);
    let (pattern, sealing) = (script.one_of(Pattern::ALL), script.one_of(SEALINGS));
    let early = script.bytes();
    let suites = keys::suites(&mut script);
    let (initiator, body) = start(pattern, sealing, suites, early);
    let grant = match script.byte() {
        0 => None,
        n => Some(Grant::new(TicketId::from_bytes([n; TicketId::LEN]), Duration::from_secs(1 << (n % 33)))),
    };
    let server = keys::server(&mut script);
    let hello = Hello::parse(&body.into()).unwrap();
    let read = Responder::read(&hello, params(), &server, Some(&keys::session()));
    let Ok(responder) = read else { return };
    let accepted = responder.accept(grant.clone(), None).unwrap();
    check(&accepted, &hello);
    assert_eq!(accepted.early, if pattern == Pattern::Resume { early } else { &[] });
    let original = &accepted.reply[record::HEADER..];
    let mut body = original.to_vec();
    script.change(&mut body);
    let unchanged = body == original;
    let body = Bytes::from(body);
    let finished = initiator.finish(&body, UNIX_EPOCH);
    if unchanged {
        fits(accepted, finished.unwrap(), grant.as_ref());
    } else {
        assert_eq!(finished.unwrap_err(), refusal(&body));
    }
}

/// What is kept of a session between connections, on either side. Moments before 1970 are kept as past.
fn kept(input: &[u8]) {
    if let Ok(mut ticket) = SessionTicket::from_bytes(input) {
        ticket.expires = ticket.expires.max(UNIX_EPOCH);
        assert_eq!(SessionTicket::from_bytes(&ticket.to_bytes()), Ok(ticket));
    }
    if let Ok(mut record) = SessionRecord::from_bytes(input) {
        record.expires = record.expires.max(UNIX_EPOCH);
        assert_eq!(SessionRecord::from_bytes(&record.to_bytes()), Ok(record));
    }
}

fn params() -> Params {
    static CONTRACTS: LazyLock<Contracts> = LazyLock::new(|| Contracts::of(Registry::global().unwrap()));
    Params::new(1 << 20, 1024, CONTRACTS.clone())
}

/// A handshake and the body of its hello.
fn start(pattern: Pattern, sealing: Sealing, suites: Suites, early: &[u8]) -> (Initiator, Vec<u8>) {
    let security = keys::client(pattern, sealing, suites);
    let (initiator, record) = Initiator::start(params(), &security, early).unwrap();
    (initiator, record[record::HEADER..].to_vec())
}

/// What an offer takes in memory goes with what has been received.
fn in_proportion(offer: &Offer, received: usize) {
    let taken = offer.fingerprints.capacity() * size_of::<(u16, u64)>();
    assert!(taken <= 64 + 8 * received, "{taken} bytes for {received}");
}

fn check(accepted: &Accepted, hello: &Hello) {
    assert!(accepted.terms.message_in == 1 << 20);
    assert_ne!(accepted.terms.sealing, Sealing::None);
    assert!(accepted.secrets.is_some());
    assert!(accepted.reply.len() <= record::HEADER + MAX_HELLO);
    assert!(accepted.early.is_empty() || matches!(hello.way, Way::Resume(_)));
}

/// Why a client does not take a reply that its server has not made.
fn refusal(body: &[u8]) -> AnswerError {
    match body.first() {
        None => {
            AnswerError::Protocol(ProtocolError::BadHello(DecodeErrorKind::Truncated { missing: 1 }.into()))
        }
        Some(&VERSION) => AnswerError::Unverified,
        Some(_) => AnswerError::Version,
    }
}

/// Both sides have come to the same.
fn fits(accepted: Accepted, connected: Connected, grant: Option<&Grant>) {
    let (ours, theirs) = (connected.terms, accepted.terms);
    assert_eq!((ours.message_out, ours.sealing), (theirs.message_in, theirs.sealing));
    assert_eq!((ours.calls_in, ours.calls_out), (theirs.calls_out, theirs.calls_in));
    assert_eq!(connected.server_key, Some(keys::SERVER.public_key()));
    let (mut one, (mut other, secret)) = (connected.secrets.unwrap(), accepted.secrets.unwrap());
    for (sealer, opener) in [(&mut one.sealer, &mut other.opener), (&mut other.sealer, &mut one.opener)] {
        let mut record = b"....what was said".to_vec();
        sealer.seal(&mut record, 0).unwrap();
        let (head, body) = record.split_first_chunk_mut().unwrap();
        let len = opener.open(*head, body).unwrap();
        assert_eq!(&body[..len], b"what was said");
    }
    let ticket = connected.ticket;
    assert_eq!(ticket.is_some(), grant.is_some());
    if let Some((ticket, grant)) = ticket.zip(grant) {
        assert_eq!((ticket.id, &ticket.secret), (grant.id, &secret));
        let lifetime = grant.lifetime.min(Duration::from_secs(u32::MAX.into()));
        assert_eq!(ticket.expires, UNIX_EPOCH + lifetime);
        assert_eq!(SessionTicket::from_bytes(&ticket.to_bytes()), Ok(ticket));
    }
}

const SEALINGS: [Sealing; 2] = [Sealing::All, Sealing::Marked];
