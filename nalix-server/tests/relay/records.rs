//! What can be done to the records of a connection that is open.

use nalix_core::{
    CallId, RequestError, Side,
    frame::{Control, FrameKind, Head},
    handshake,
    record::{self, RecordKind},
    session::MAX_RECORD,
    wire::to_vec,
};
use nalix_server::{CloseCode, CloseReason};

use crate::{
    middle::Party,
    support::{RawPeer, cancel, frame, notify, request, within},
    world::{Calling, How, News, Open, World},
};

/// What the one in the middle has in its hands.
struct Scene {
    /// The records that the victim is to get next. Each holds a call of the client's, or its answer.
    next: [Vec<u8>; 2],
    /// A record that the victim has got already.
    past: Vec<u8>,
    /// A record that the victim has sent.
    own: Vec<u8>,
    /// What corresponds to the first of `next` on another connection of the same client.
    other: Vec<u8>,
}

/// What is done, and what must come of it.
struct Attack {
    name: String,
    bytes: Vec<u8>,
    /// How many of the two calls are as good as if nobody had done anything.
    good: usize,
    /// Whether the victim is made to believe that the other has ended.
    end: bool,
    code: CloseCode,
}

impl Attack {
    fn new(name: impl Into<String>, bytes: &[&[u8]]) -> Self {
        let code = CloseCode::DecryptFailed;
        Self { name: name.into(), bytes: bytes.concat(), good: 0, end: false, code }
    }

    fn good(self, good: usize) -> Self {
        Self { good, ..self }
    }

    fn ended(self) -> Self {
        Self { end: true, ..self }
    }

    fn code(self, code: CloseCode) -> Self {
        Self { code, ..self }
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_that_is_not_the_next_one_closes_the_connection() {
    all_attacks(How::ALL, |Scene { next: [a, b], past, own, other }| {
        let half = 4 + (a.len() - 4) / 2;
        let sealed = |body: &[u8]| record::build(RecordKind::Sealed, body);
        vec![
            Attack::new("dropped", &[b]),
            Attack::new("doubled", &[a, a]).good(1),
            Attack::new("doubled later", &[a, b, a]).good(2),
            Attack::new("swapped", &[b, a]),
            Attack::new("replayed", &[past]),
            Attack::new("replayed later", &[a, past]).good(1),
            Attack::new("reflected", &[own]),
            Attack::new("reflected later", &[a, own]).good(1),
            Attack::new("moved to another connection", &[other]),
            Attack::new("cut in two records", &[&sealed(&a[4..half]), &sealed(&a[half..])]),
            Attack::new("two in one record", &[&sealed(&[&a[4..], &b[4..]].concat())]),
            Attack::new("a byte more", &[&sealed(&[&a[4..], &[0]].concat())]),
            Attack::new("a byte less", &[&sealed(&a[4..a.len() - 1])]),
            Attack::new("a byte less in front", &[&sealed(&a[5..])]),
            Attack::new("zeros", &[&sealed(&[0; 40])]),
            Attack::new("a tag alone", &[&sealed(&[0; 16])]),
            Attack::new("less than a tag", &[&sealed(&[0; 15])]),
            Attack::new("one byte", &[&sealed(&[0])]),
        ]
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_comes_in_the_clear_is_not_looked_at() {
    all_attacks(How::ALL, |Scene { next: [a, b], .. }| {
        let of_call = |kind, n| Head::of_call(kind, CallId::new(n));
        let control = |control: &Control| frame(Head::plain(FrameKind::Control), &to_vec(control).unwrap());
        let goodbye = CloseReason::new(CloseCode::Normal, "the one in the middle is done");
        let frames = [
            ("a request", request(0, 0x1001, &[1, 0, 0, 0])),
            ("a one-way packet", notify(&News(7))),
            ("a reply", frame(of_call(FrameKind::Reply, 0), &[99, 0, 0, 0])),
            ("a reply to the other call", frame(of_call(FrameKind::Reply, 1), &[99, 0, 0, 0])),
            ("an error", frame(of_call(FrameKind::Error, 0), &[0, 13, 0, 0])),
            ("a cancel", cancel(0)),
            ("a ping", frame(Head::plain(FrameKind::Ping), b"?")),
            ("a goodbye", control(&Control::Close(goodbye.clone()))),
            ("a drain", control(&Control::Drain { within: std::time::Duration::from_secs(1) })),
            ("a ready", control(&Control::Ready)),
            ("nonsense", vec![0; 20]),
        ];
        let plain = |body: &[u8]| record::build(RecordKind::Plain, body);
        let mut attacks = Vec::new();
        for (name, frame) in frames {
            let plain = plain(&frame);
            let required = CloseCode::EncryptionRequired;
            attacks.push(Attack::new(name, &[&plain]).code(required));
            attacks.push(Attack::new(format!("{name} in between"), &[a, &plain, b]).good(1).code(required));
        }
        attacks.push(Attack::new("ciphertext", &[&plain(&a[4..])]).code(CloseCode::EncryptionRequired));
        let abort = record::build(RecordKind::Abort, &handshake::abort_body(&goodbye));
        let hello = RawPeer::hello();
        for (name, record) in [
            ("an abort", &abort),
            ("an abort without a reason", &record::build(RecordKind::Abort, &[0])),
            ("a hello", &hello),
            ("an answer to a hello", &record::build(RecordKind::HelloReply, &[1; 60])),
            ("no record", &vec![0; 60]),
            ("an unknown record", &vec![6, 1, 0, 0, 0]),
            ("nothing sealed", &vec![4, 0, 0, 0]),
            ("sealed without end", &vec![4, 0xff, 0xff, 0xff]),
        ] {
            attacks.push(Attack::new(name, &[record]).code(CloseCode::ProtocolError));
            attacks.push(Attack::new(name, &[a, record, b]).good(1).code(CloseCode::ProtocolError));
        }
        attacks
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn every_byte_of_a_record_counts() {
    all_attacks([How::Pinned], |Scene { next: [a, b], .. }| {
        let mut attacks = Vec::new();
        for at in 4..a.len() {
            for mask in [0x01, 0x80] {
                let mut bytes = a.clone();
                bytes[at] ^= mask;
                attacks.push(Attack::new(format!("byte {at} ^ {mask:#04x}"), &[&bytes, b]));
            }
        }
        for kind in 0..=255 {
            let code = match kind {
                4 => continue,
                3 => CloseCode::EncryptionRequired,
                _ => CloseCode::ProtocolError,
            };
            let bytes = [&[kind], &a[1..]].concat();
            attacks.push(Attack::new(format!("kind {kind}"), &[&bytes, b]).code(code));
        }
        for bit in 0..24 {
            let mut header = *a.first_chunk::<4>().unwrap();
            header[1 + bit / 8] ^= 1 << (bit % 8);
            let len = record::parse(header).unwrap().1;
            // What stays below the limit waits for as much, and is given what there is.
            let code = match len {
                _ if len == 0 || len > MAX_RECORD + record::TAG => CloseCode::ProtocolError,
                _ if len <= a.len() - 4 + b.len() => CloseCode::DecryptFailed,
                _ => CloseCode::Lost,
            };
            let attack = Attack::new(format!("length bit {bit}"), &[&header, &a[4..], b]).code(code);
            attacks.push(if code == CloseCode::Lost { attack.ended() } else { attack });
        }
        attacks
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_record_that_is_cut_off_is_never_taken_for_whole() {
    all_attacks([How::Mutual], |Scene { next: [a, b], .. }| {
        let mut attacks = Vec::new();
        for len in 0..a.len() {
            let cut = &a[..len];
            attacks
                .push(Attack::new(format!("{len} bytes and the end"), &[cut]).ended().code(CloseCode::Lost));
            if len >= record::HEADER {
                attacks.push(Attack::new(format!("{len} bytes and the next"), &[cut, b]));
            }
        }
        attacks
    })
    .await;
}

/// Does them one by one, each on a connection of its own, to either side.
async fn all_attacks(how: impl IntoIterator<Item = How>, attacks: impl Fn(&Scene) -> Vec<Attack>) {
    for how in how {
        for victim in Party::BOTH {
            let world = World::new().await;
            let mut n = 0;
            loop {
                let mut open = world.open(how).await;
                let (scene, calls) = scene(&world, &mut open, how, victim).await;
                // All connections are alike, and so there are as many attacks every time.
                let Some(attack) = attacks(&scene).into_iter().nth(n) else { break };
                let name = format!("{how:?}, to the {victim:?}: {}", attack.name);
                strike(&world, open, victim, &attack, calls, &name).await;
                n += 1;
            }
            assert!(n > 10, "the attacks have been carried out");
        }
    }
}

async fn scene(world: &World, open: &mut Open, how: How, victim: Party) -> (Scene, [Calling; 2]) {
    let mut other = world.open(how).await;
    let (there, back) = open.exchange().await;
    other.exchange().await;
    let (own, past) = if victim == Party::Client { (there, back) } else { (back, there) };

    let mut others = other.call(2).await.1;
    let (first, mut a) = open.call(2).await;
    let (second, mut b) = open.call(3).await;
    if victim == Party::Client {
        a = open.middle.answer_to(&a).await;
        b = open.middle.answer_to(&b).await;
        others = other.middle.answer_to(&others).await;
    }
    other.session.connection().close();
    other.middle.step_aside().await;
    (Scene { next: [a, b], past, own, other: others }, [first, second])
}

async fn strike(world: &World, open: Open, victim: Party, attack: &Attack, calls: [Calling; 2], name: &str) {
    let Open { mut middle, session, theirs, .. } = open;
    let before = world.game.runs.entered();
    middle.give(victim, &attack.bytes).await;
    if attack.end {
        middle.end(victim).await;
    }
    middle.step_aside().await;

    for (n, call) in calls.into_iter().enumerate() {
        let result = within(name, call).await.unwrap();
        if n < attack.good {
            assert_eq!(result.unwrap(), 4 + 2 * n as u32, "{name}: call {n}");
        } else {
            assert!(matches!(result, Err(RequestError::Disconnected { .. })), "{name}: call {n}: {result:?}");
        }
    }
    let client = within(name, session.closed()).await;
    until_gone(world, name).await;
    let server = world.game.last_end().unwrap();
    let (lied_to, other) = if victim == Party::Client { (&client, &server) } else { (&server, &client) };
    assert_eq!(lied_to.code, attack.code, "{name}: {lied_to}");
    if attack.code != CloseCode::Lost {
        assert_eq!(lied_to.by, Side::Local, "{name}: {lied_to}");
        assert_eq!((other.code, other.by), (attack.code, Side::Peer), "{name}: {other}");
    }
    if victim == Party::Server {
        assert_eq!(world.game.runs.entered() - before, attack.good, "{name}: calls that ran");
    }
    assert_eq!(theirs.runs.entered(), 0, "{name}: the server has asked for nothing");
}

async fn until_gone(world: &World, name: &str) {
    within(name, world.is_empty()).await;
}
