//! Tests: whole secured handshakes and their first records against the bytes in `tests/golden/secured.txt`.
//!
//! They are here and not beside the file, since they need ephemeral keys that are not random.

use std::{
    cell::RefCell,
    collections::{HashSet, VecDeque},
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;

use super::{
    Answer, ClientSecurity, Connected, Contracts, Grant, Hello, Identity, Initiator, Offer, Params, Pinned,
    PublicKey, Responder, Sealing, Secrets, Secured, ServerSecurity, SessionId, SessionRecord, TicketId,
    resolver,
};
use crate::{
    packet,
    record::{
        self, Aes256Gcm, Best, Chosen, Cipher, HEADER, Key, Opener, RECORDS_PER_KEY, RecordKind, Sealer,
        Suite, Suites,
    },
    registry::Registry,
};

#[packet(opcode = 0x1001, reply = Pong)]
struct Ping {
    #[wire(max_len = 256)]
    message: String,
}

#[derive(nalix_macros::Wire)]
struct Pong {
    message: String,
}

#[packet(opcode = 0x3001)]
struct Moved {
    x: f32,
    y: f32,
}

thread_local! {
    static EPHEMERAL: RefCell<VecDeque<[u8; 32]>> = const { RefCell::new(VecDeque::new()) };
}

/// What this thread's next ephemeral key is to be, if it is not to be random.
pub(super) fn next_ephemeral() -> Option<[u8; 32]> {
    EPHEMERAL.with_borrow_mut(VecDeque::pop_front)
}

#[test]
fn secured_handshakes_have_their_golden_bytes() {
    let golden = Golden::default();
    let (server, client) = (golden.identity("server"), golden.identity("client"));

    let mut pinned = Pinned::new(server.public_key());
    pinned.suites = Suites::COMMON;
    let (connected, accepted) = handshake(&golden, "NK", &pinned, &server, None);
    assert!(connected.ticket.is_none() && !connected.resumed);
    let (mut ours, mut theirs) = (connected.secrets.unwrap(), accepted);
    golden.record("NK", "client's record 0: ready", READY, &mut ours, &mut theirs);
    golden.record("NK", "client's record 1: request", REQUEST, &mut ours, &mut theirs);
    golden.record("NK", "server's record 0: reply", REPLY, &mut theirs, &mut ours);
    rekeyed::<Best>(&golden, "NK");

    pinned.identity = Some(client.clone());
    let (connected, accepted) = handshake(&golden, "IK", &pinned, &server, None);
    let (mut ours, mut theirs) = (connected.secrets.unwrap(), accepted);
    let both = [READY, REQUEST].concat();
    golden.record("IK", "client's record 0: ready, request", &both, &mut ours, &mut theirs);
    golden.record("IK", "server's record 0: reply", REPLY, &mut theirs, &mut ours);

    let ticket = connected.ticket.unwrap();
    assert_eq!(ticket.expires, now() + HOUR);
    assert_eq!(ticket.secret.as_bytes(), &golden.array("NNpsk0", "resumption secret of before"));
    let mut record = SessionRecord::new(SessionId::from_bytes([0; 16]), ticket.secret.clone(), now() + HOUR);
    record.peer_key = Some(client.public_key());
    pinned.ticket = Some(ticket);
    let (connected, accepted) = handshake(&golden, "NNpsk0", &pinned, &server, Some(&record));
    assert!(connected.early && connected.resumed);
    let (mut ours, mut theirs) = (connected.secrets.unwrap(), accepted);
    golden.record("NNpsk0", "server's record 0: reply", REPLY, &mut theirs, &mut ours);
    golden.record("NNpsk0", "client's record 0: ping", PING, &mut ours, &mut theirs);
    golden.finish(|name| name != "AES");
}

#[test]
fn handshakes_of_peers_with_aes_have_their_golden_bytes() {
    if Chosen::with(Suite::Aes256Gcm, &Key::new([0; Key::LEN])).is_none() {
        return; // Not in this build.
    }
    let golden = Golden::default();
    let server = golden.identity("server");
    let mut pinned = Pinned::new(server.public_key());
    pinned.suites = both();
    let (connected, accepted) = handshake(&golden, "AES", &pinned, &server, None);
    let (mut ours, mut theirs) = (connected.secrets.unwrap(), accepted);
    let frames = [READY, REQUEST].concat();
    golden.record("AES", "client's record 0: ready, request", &frames, &mut ours, &mut theirs);
    golden.record("AES", "server's record 0: reply", REPLY, &mut theirs, &mut ours);
    rekeyed::<Aes256Gcm>(&golden, "AES");
    golden.finish(|name| name == "AES");
}

/// Both ciphers, whether they are fast on this machine or not.
fn both() -> Suites {
    Suites::from_byte(3)
}

/// One handshake, message by message.
fn handshake(
    golden: &Golden,
    pattern: &'static str,
    pinned: &Pinned,
    server: &Identity,
    session: Option<&SessionRecord>,
) -> (Connected, Secrets) {
    let params = || {
        let registry = Registry::global().unwrap();
        let packets = ["Ping", "Moved"].map(|name| registry.by_name(name).unwrap());
        Params::new(1 << 20, 1024, Contracts::from_packets(packets))
    };
    let take = |words| golden.bytes(pattern, words);
    EPHEMERAL.set(
        ["client's", "server's"]
            .map(|who| golden.array(pattern, &format!("{who} ephemeral private key")))
            .into(),
    );

    let early = if session.is_some() { REQUEST } else { &[] };
    let security = ClientSecurity::Secured(pinned.clone());
    let (initiator, hello) = Initiator::start(params(), &security, early).unwrap();
    assert_eq!(hello, take("Hello"), "{pattern}");
    let hello = Hello::parse(&Bytes::from(hello).slice(HEADER..)).unwrap();
    assert_eq!(hello.prologue(), take("prologue"), "{pattern}");

    let mut secured = Secured::new(server.clone());
    secured.suites = both();
    let security = ServerSecurity::Secured(Arc::new(secured));
    let responder = Responder::read(&hello, params(), &security, session).unwrap();
    assert_eq!(Offer::parse(&take("offer").into()).unwrap().to_bytes(), take("offer"), "{pattern}");
    assert_eq!(responder.client_key(), pinned.identity.as_ref().map(Identity::public_key));
    let answer = take("answer");
    let grant = ["IK", "NNpsk0"].contains(&pattern).then(|| {
        let id = *answer[answer.len() - TicketId::LEN - 4..].first_chunk().unwrap();
        Grant::new(TicketId::from_bytes(id), HOUR)
    });
    let parsed = Answer::parse(&answer.clone().into()).unwrap();
    assert_eq!((parsed.to_bytes(), &parsed.ticket), (answer, &grant), "{pattern}");
    let accepted = responder.accept(grant, None).unwrap();
    assert_eq!(accepted.reply, take("HelloReply"), "{pattern}");
    assert_eq!(accepted.early, early);
    let (kind, body) =
        accepted.reply.split_first_chunk().map(|(h, body)| (record::parse(*h).unwrap().0, body)).unwrap();
    assert_eq!(kind, RecordKind::HelloReply);
    let connected = initiator.finish(&Bytes::copy_from_slice(body), now()).unwrap();
    assert_eq!((connected.terms.sealing, connected.terms.message_out), (Sealing::All, 1 << 20));

    let (secrets, secret) = accepted.secrets.unwrap();
    assert_eq!(secret.as_bytes(), &golden.array(pattern, "resumption secret"));
    let keys = [take("client's sealing key"), take("server's sealing key")].concat();
    let derived = resolver::hmac(&keys, &[b"nalix resumption v1", &take("handshake hash")]);
    assert_eq!(*derived, *secret.as_bytes(), "{pattern}");
    (connected, secrets)
}

/// The key changes after so many records, and the counter goes on.
fn rekeyed<C: Cipher>(golden: &Golden, name: &str) {
    let key = || Key::new(golden.array(name, "client's sealing key"));
    assert_eq!(C::new(&key()).next_key().as_bytes(), &golden.array(name, "client's next key"));
    let mut sealer = Sealer::<C>::at(key(), RECORDS_PER_KEY - 1);
    let mut opener = Opener::<C>::at(key(), RECORDS_PER_KEY - 1);
    for words in ["client's record 1048575: ping", "client's record 1048576: ping"] {
        golden.sealed(name, words, PING, &mut sealer, &mut opener);
    }
}

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + HOUR
}

/// The lines of the file, and which of them have been used.
#[derive(Default)]
struct Golden {
    used: RefCell<HashSet<&'static str>>,
}

impl Golden {
    fn text(&self, name: &str, words: &str) -> &'static str {
        let found = lines().find_map(|line| {
            let [a, b, text] = line.split('|').map(str::trim).collect::<Vec<_>>()[..] else {
                panic!("not `name | meaning | bytes`: {line}");
            };
            (a == name && b == words).then_some((line, text))
        });
        let (line, text) = found.unwrap_or_else(|| panic!("no golden line for {name}: {words}"));
        self.used.borrow_mut().insert(line);
        text
    }

    fn bytes(&self, name: &str, words: &str) -> Vec<u8> {
        self.text(name, words).split(' ').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
    }

    fn array(&self, name: &str, words: &str) -> [u8; 32] {
        self.bytes(name, words).try_into().unwrap()
    }

    /// An identity, whose keys have the right bytes and text.
    fn identity(&self, who: &str) -> Identity {
        let private = self.text("text", &format!("{who}, private"));
        let identity = Identity::from_text(&format!("nalix identity v1\n{private}")).unwrap();
        assert_eq!(*identity.own().private, self.array("key", &format!("{who}, private")));
        assert_eq!(*identity.own().public, self.array("key", &format!("{who}, public")));
        let public = self.text("text", &format!("{who}, public"));
        assert_eq!(identity.public_key().to_string(), public);
        assert_eq!(public.parse::<PublicKey>(), Ok(identity.public_key()));
        identity
    }

    fn record(&self, name: &str, words: &str, frames: &[u8], from: &mut Secrets, to: &mut Secrets) {
        self.sealed(name, words, frames, &mut from.sealer, &mut to.opener);
    }

    /// Seals the frames and opens the record of the file.
    fn sealed<C: Cipher>(
        &self,
        name: &str,
        words: &str,
        frames: &[u8],
        sealer: &mut Sealer<C>,
        opener: &mut Opener<C>,
    ) {
        let record = self.bytes(name, words);
        let mut ours = [&[0; HEADER], frames].concat();
        sealer.seal(&mut ours, 0).unwrap();
        assert_eq!(ours, record, "{name}: {words}");
        let (head, body) = ours.split_first_chunk_mut().unwrap();
        let len = opener.open(*head, body).unwrap();
        assert_eq!(&body[..len], frames, "{name}: {words}");
    }

    /// Checks that the lines with such names have all been used.
    fn finish(self, wanted: impl Fn(&str) -> bool) {
        let used = self.used.into_inner();
        for line in lines().filter(|line| wanted(line.split('|').next().unwrap_or(line).trim())) {
            assert!(used.contains(line), "nothing checks the golden line {line}");
        }
    }
}

fn lines() -> impl Iterator<Item = &'static str> {
    FILE.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

const FILE: &str = include_str!("../../tests/golden/secured.txt");
const HOUR: Duration = Duration::from_secs(60 * 60);

/// The frames in the records of the file.
const READY: &[u8] = &[0x0c, 1, 2];
const PING: &[u8] = &[9, 4, 1, 2, 3, 4];
const REQUEST: &[u8] = b"\x02\x00\x01\x10\x04\x03hi!";
const REPLY: &[u8] = b"\x03\x00\x04\x03hi!";
