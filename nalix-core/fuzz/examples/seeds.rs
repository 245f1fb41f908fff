//! Writes the seeds of the targets `hello`, `sealed`, `exchange` and `proxy`, of hellos for `handshake`, and of streams and of secured
//! connections for `connection` into their corpora:
//!
//!     cargo run --manifest-path nalix-core/fuzz/Cargo.toml --example seeds
//!
//! Hellos differ each time, since they hold fresh keys; the others stay the same. The seeds of secured
//! connections are made of those of plain ones, and some of `sealed` of those of `frames`. Names begin with
//! what the target takes them as.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, UNIX_EPOCH},
};

use nalix_core::{
    CallId, Opcode,
    frame::{self, FrameKind, Head},
    handshake::{
        ClientSecurity, Contracts, Hello, Identity, Initiator, Offer, Params, Pinned, PublicKey, Responder,
        Sealing, ServerSecurity, SessionId, SessionRecord, SessionTicket, TicketId,
    },
    record::{self, HEADER, Key, RecordKind, Suites},
    registry::Registry,
};

// The target's packets are in the hello.
use nalix_fuzz as _;

fn main() {
    hello();
    sealed();
    streams();
    connection();
    exchange();
    proxy();
}

fn hello() {
    // The server's key and the session's secret that the target knows.
    let server: PublicKey =
        "nalix17zh6pr2z2qvvmvzkn4dwactezq59ev74w52yte9htyc2zaudzehstp4hz5".parse().unwrap();
    let secret = Key::new([0x5e; Key::LEN]);
    let ticket = SessionTicket::new(
        TicketId::from_bytes([7; TicketId::LEN]),
        secret.clone(),
        server,
        UNIX_EPOCH,
        4_096,
        8,
    );
    let params = || Params::new(1 << 20, 1024, Contracts::of(Registry::global().unwrap()));

    let mut pinned = Pinned::new(server);
    let body = |security: &ClientSecurity, early: &[u8]| {
        Initiator::start(params(), security, early).unwrap().1[HEADER..].to_vec()
    };
    let mut hellos = vec![body(&ClientSecurity::Plaintext, &[])];
    hellos.push(body(&ClientSecurity::Secured(pinned.clone()), &[]));
    pinned.identity = Some(Identity::generate().unwrap());
    hellos.push(body(&ClientSecurity::Secured(pinned.clone()), &[]));
    pinned.ticket = Some(ticket.clone());
    hellos.push(body(&ClientSecurity::Secured(pinned), b"early"));
    for ((name, hello), policy) in ["plain", "pinned", "mutual", "resume"].iter().zip(&hellos).zip(0..) {
        write("hello", &format!("hello-{name}"), &[&[0, policy & 1, 0, 0], hello]);
    }
    // The target that plain connections belong to reads them too.
    write("handshake", "hello", &[&[0], &hellos[0]]);
    let plain = Hello::parse(&hellos[0].clone().into()).unwrap();
    let responder = Responder::read(&plain, params(), &ServerSecurity::Plaintext, None).unwrap();
    write("handshake", "reply", &[&[1], &responder.accept(None, None).unwrap().reply[HEADER..]]);
    write("hello", "reply-short", &[&[1, 0, 0, 1, 2, 3]]);
    write("hello", "reply", &[&[1, 1, 0, 1], &[9; 100]]);

    let mut offer = Offer::new(&params(), Sealing::All, Suites::COMMON);
    write("hello", "offer", &[&[2, 0, 0, 0, 1, 2], &offer.to_bytes()]);
    offer.early = vec![9, 0].into();
    write(
        "hello",
        "offer-early",
        &[&[2, 1, 1, 0, 1, 2], &offer.to_bytes(), b"and what a later version adds"],
    );
    offer.sealing = Sealing::None;
    write("hello", "offer-unsealed", &[&[2, 1, 1, 0, 1, 2], &offer.to_bytes()]);

    for pattern in 0..3 {
        let seed = |target: &str, name: &str, bytes: &[u8]| {
            write("hello", &format!("changed-{target}-{pattern}{name}"), &[bytes]);
        };
        // Which pattern and sealing; the server's sealing, ciphers and keys; then changes.
        seed("hello", "", &[3, pattern, 0, 0, 0, 0]);
        seed("hello", "-bit", &[3, pattern, 1, 0, 0, 1, 0, 8 + pattern, 0, 3]);
        seed("hello", "-end", &[3, pattern, 1, 1, 0, 2, 0x83, 1, 0]);
        // Which pattern, sealing and ciphers; early bytes, a ticket; then as above.
        seed("reply", "", &[4, pattern, 0, 0, 2, 0, 9, 0, 7, 0, 0, 0]);
        seed("reply", "-common", &[4, pattern, 1, 1, 0, 0, 3, 1, 0, 0]);
        seed("reply", "-bit", &[4, pattern, 1, 0, 0, 0, 1, 1, 1, 0, 0, 40, 0, 5]);
        seed("reply", "-end", &[4, pattern, 1, 0, 0, 0, 33, 0, 0, 0, 1, 0, 0, 9]);
    }
    write("hello", "kept-ticket", &[&[5], &ticket.to_bytes()]);
    let expires = UNIX_EPOCH + Duration::from_secs(1 << 31);
    let mut record = SessionRecord::new(SessionId::from_bytes([5; SessionId::LEN]), secret, expires);
    record.peer_key = Some(server);
    record.data.insert("user", &String::from("ada")).unwrap();
    write("hello", "kept-record", &[&[5], &record.to_bytes()]);
}

fn sealed() {
    for (name, bytes) in read("frames") {
        if name.starts_with("frame-2") || name.starts_with("bad-record") || name == "many" {
            write("sealed", &format!("received-{name}"), &[&[1], &bytes]);
        }
    }
    let forged = [&[4, 20, 0, 0][..], &[0x5a; 20]].concat();
    write("sealed", "received-forged", &[&[0, 3, 5], &forged]);

    // A frame: how, kind, id, opcode, length, what it is full of.
    let frame = |how: u8, kind: u8, len: u16| {
        let [a, b] = len.to_le_bytes();
        [how, kind, 1, 0, 1, 0x10, a, b, kind]
    };
    // How each is taken: at once, with the next, in part.
    let (at_once, later) = (0, 0x80);
    let short: Vec<u8> =
        (0..10).flat_map(|kind| frame(if kind % 3 == 0 { at_once } else { later }, kind, 5)).collect();
    let covers: Vec<u8> = (0..10).flat_map(|kind| frame(later | (kind & 1), kind, 30)).collect();
    let long: Vec<u8> = (0..4).flat_map(|kind| frame(later, kind, 0x8000 + 12_000)).collect();
    let fails: Vec<u8> = [frame(later, 1, 9), frame(later | 0x30, 1, 9), frame(at_once, 1, 9)].concat();
    let written: Vec<u8> = [&frame(0x40, 2, 9)[..], &[7, 0], &frame(0x40, 3, 9), &[255, 0]].concat();
    for (sealing, name) in [(2, "all"), (3, "marked")] {
        for start in 0..4 {
            write("sealed", &format!("sent-{name}-{start}"), &[&[sealing, start, 10], &short]);
        }
        write("sealed", &format!("sent-{name}-covers"), &[&[sealing, 0, 10], &covers]);
        write("sealed", &format!("sent-{name}-long"), &[&[sealing, 0, 4], &long]);
        write("sealed", &format!("sent-{name}-fails"), &[&[sealing, 0, 3], &fails]);
        write("sealed", &format!("sent-{name}-written"), &[&[sealing, 0, 2], &written]);
        // Which of the records, how they are cut, and what changes in them.
        let changes: [(&str, &[u8]); 8] = [
            ("lost", &[1, 0, 1, 0]),
            ("twice", &[1, 1, 1, 2]),
            ("swapped", &[1, 2, 1, 2]),
            ("ended", &[1, 3, 1, 0]),
            ("bit", &[0, 3, 0, 30, 0, 2]),
            ("inserted", &[0, 1, 1, 30, 0, 2]),
            ("removed", &[0, 7, 2, 30, 0]),
            ("cut", &[0, 0, 0x83, 5, 0]),
        ];
        for (change, bytes) in changes {
            write("sealed", &format!("sent-{name}-{change}"), &[&[sealing, 0, 10], &short, bytes]);
        }
    }
}

/// Seeds of streams, over links and in steps of several widths.
fn streams() {
    let frame = |head: Head, payload: &[u8]| {
        let mut out = Vec::new();
        frame::put_head(&mut out, head);
        out.push(payload.len() as u8);
        out.extend_from_slice(payload);
        out
    };
    let of = |kind, id| Head::of_call(kind, CallId::new(id));
    let upload = |kind, id| Head::of_upload(kind, CallId::new(id));
    let ask =
        |id, opcode, payload: &[u8]| frame(Head::request(CallId::new(id), Opcode::new(opcode)), payload);
    // How many items of what size.
    let walk = |id, count: u8, size: u16| {
        let [low, high] = size.to_le_bytes();
        ask(id, 0x1005, &[count, low, high])
    };
    let credit = |id, bytes: &[u8]| frame(of(FrameKind::Credit, id), bytes);
    let chunk = |id, bytes: &[u8]| frame(upload(FrameKind::Item, id), bytes);
    let end = |id| frame(upload(FrameKind::End, id), &[]);
    let seeds: [(&str, Vec<Vec<u8>>); 12] = [
        ("walk", vec![walk(1, 5, 8), walk(2, 0, 0), walk(3, 255, 0)]),
        ("credit", vec![walk(1, 20, 60), credit(1, &[0x80, 2]), credit(1, &[0xe8, 7])]),
        (
            "errors",
            vec![walk(1, 220, 0), credit(1, &[0x80, 0x80, 4]), walk(2, 9, 4_999), credit(2, &[0xff, 0x7f])],
        ),
        ("late", vec![walk(1, 9, 7), frame(of(FrameKind::Cancel, 1), &[]), credit(1, &[9]), walk(2, 3, 1)]),
        (
            "gather",
            vec![
                ask(1, 0x1006, &[9]),
                chunk(1, &[1, 0, 1, 0]),
                chunk(1, &[11, 1, 1, 0, 0]),
                chunk(1, &[0, 5, 0, 0, 0, 9, 9, 1, 0]),
                end(1),
            ],
        ),
        ("stopped", vec![ask(1, 0x1006, &[1]), chunk(1, &[1, 0, 1, 0]), ask(2, 0x1006, &[0]), end(2)]),
        (
            "mirror",
            vec![
                ask(1, 0x1007, &[]),
                chunk(1, &[3, 2, 7, 7, 1, 0]),
                chunk(1, &[6, 5, 1]),
                chunk(1, &[2, 3, 4, 5]),
                end(1),
            ],
        ),
        (
            "mirrors",
            vec![
                ask(1, 0x1007, &[]),
                ask(2, 0x1007, &[]),
                chunk(2, &[1, 0]),
                chunk(1, &[2, 1, 9]),
                end(2),
                end(1),
            ],
        ),
        (
            "given-up",
            vec![ask(1, 0x1007, &[]), chunk(1, &[2, 1, 9]), frame(upload(FrameKind::End, 1), &[0, 1, 0, 0])],
        ),
        ("overdrawn", vec![ask(1, 0x1007, &[]), chunk(1, &[60; 61]), chunk(1, &[60; 61])]),
        ("window", vec![ask(1, 0x1006, &[200]), chunk(1, &[1, 0].repeat(30)), chunk(1, &[1, 0].repeat(20))]),
        ("secret", vec![ask(1, 0x1008, &[]), chunk(1, &[3, 2, 7, 7]), end(1)]),
    ];
    for (name, frames) in seeds {
        let stream = record::build(RecordKind::Plain, &frames.concat());
        write("connection", &format!("stream-{name}"), &[&[3, 0xff], &stream]);
        write("connection", &format!("stream-{name}-narrow"), &[&[1, 5], &stream]);
    }
}

/// Seeds of packets that must be sealed, and of plain connections, sealed and not, with and without what an
/// honest client says first.
fn connection() {
    let part = |what: u8, bytes: &[u8]| [&[what], &(bytes.len() as u16).to_le_bytes()[..], bytes].concat();
    // Requests of the packet that must be sealed, under two ids, and a ping.
    let (one, two, ping) = ([2, 1, 4, 0x10, 0], [2, 2, 4, 0x10, 0], [9, 0]);
    let parts = [part(1, &one), part(0, &two)].concat();
    write("connection", "secured-secret", &[&[3 | (2 | 4) << 2, 0xff], &parts]);
    write("connection", "secured-ping-in-the-clear", &[&[3 | (1 | 4) << 2, 0xff], &part(1, &ping)]);
    for (name, bytes) in read("connection") {
        if bytes[0] & 0x3c != 0 {
            continue;
        }
        let [first, step, stream @ ..] = &bytes[..] else { panic!("{name}") };
        let ready = [2];
        let seed = |kind: &str, bits: u8, parts: &[Vec<u8>]| {
            let start = [first | bits << 2, *step];
            write("connection", &format!("secured-{kind}-{name}"), &[&start, &parts.concat()]);
        };
        seed("all", 1 | 16, &[part(2, stream)]);
        seed("marked", 2 | 4, &[part(3, stream), part(2, stream)]);
        if name.ends_with("narrow") || name == "calls" {
            seed("unconfirmed", 1 | 4 | 8, &[part(3, stream), part(0, &ready)]);
            seed("resumed", 3 | 4, &[part(0, &stream[HEADER..])[1..].to_vec(), part(2, stream)]);
            seed("raw", 2, &[part(0, &stream[HEADER..]), part(3, stream)]);
        }
    }
}

/// Seeds of sessions over several links: what the target's flags say, by how much the position is off, and frames.
fn exchange() {
    let turn = |how: u8, off: i8, frames: &[u8]| {
        [&[how, off as u8][..], &(frames.len() as u16).to_le_bytes(), frames].concat()
    };
    // A packet whose answer takes a while, one that is answered with items, a ping, acknowledgements.
    let open = [2, 1, 3, 0x10, 1, 5];
    let walk = [2, 2, 5, 0x10, 3, 9, 20, 0];
    let ping = [9, 2, 7, 7];
    let ack = |position: u8| [11, 1, position];
    let (off, hasty, wrong, stale, hold, late) = (1, 4, 8, 16, 32, 64);
    let turns: [(&str, Vec<Vec<u8>>); 9] = [
        ("goes-on", vec![turn(0, 0, &[&open[..], &walk].concat()), turn(0, 0, &ack(9)), turn(0, 0, &ping)]),
        ("again", vec![turn(0, 0, &walk), turn(off, -9, &ping), turn(off, -3, &ack(20)), turn(0, 0, &open)]),
        ("hasty", vec![turn(hasty, 0, &walk), turn(hasty, 0, &open), turn(0, 0, &ping), turn(0, 0, &ping)]),
        ("too-far", vec![turn(0, 0, &walk), turn(off, 100, &ping), turn(0, 0, &ping), turn(0, 0, &ping)]),
        ("foreign", vec![turn(0, 0, &open), turn(wrong, 0, &ping), turn(0, 0, &ping)]),
        ("stale", vec![turn(0, 0, &open), turn(0, 0, &ping), turn(stale, 0, &ping), turn(0, 0, &walk)]),
        (
            "taken-over",
            vec![turn(hold, 0, &walk), turn(hold, 0, &open), turn(0, 0, &ack(1)), turn(0, 0, &ping)],
        ),
        ("late", vec![turn(0, 0, &open), turn(late, 0, &ping), turn(0, 0, &ping)]),
        ("not-sent", vec![turn(0, 0, &ping), turn(0, 0, &ack(100)), turn(0, 0, &ping)]),
    ];
    for (name, turns) in turns {
        let turns = turns.concat();
        // The side that accepts and the one that connects; a wide link and one of seven bytes.
        write("exchange", &format!("accept-{name}"), &[&[6, 0xff], &turns]);
        write("exchange", &format!("accept-{name}-narrow"), &[&[2, 5], &turns]);
        write("exchange", &format!("connect-{name}"), &[&[7, 0xff], &turns]);
        write("exchange", &format!("connect-{name}-narrow"), &[&[3, 5], &turns]);
    }
}

/// Headers of both versions, and some that are none.
fn proxy() {
    const V4: [u8; 12] = [192, 0, 2, 1, 10, 0, 0, 1, 0xdc, 0x04, 0x1e, 0x61];
    for (name, line) in [
        ("tcp4", "PROXY TCP4 192.0.2.1 10.0.0.1 56324 7777\r\nrest"),
        ("tcp6", "PROXY TCP6 2001:db8::1 ::ffff:10.0.0.1 0 65535\r\n"),
        ("unknown", "PROXY UNKNOWN\r\n"),
        ("unknown-more", "PROXY UNKNOWN ffff::1 what ever\r\n"),
        ("zero", "PROXY TCP4 192.0.2.01 10.0.0.1 1 2\r\n"),
        ("feed", "PROXY TCP4 192.0.2.1 10.0.0.1 1 2\n"),
        ("http", "GET / HTTP/1.1\r\n\r\n"),
    ] {
        write("proxy", &format!("line-{name}"), &[&[0, 255], line.as_bytes()]);
    }
    write("proxy", "line-endless", &[&[0, 255], b"PROXY TCP4 ", &[b'1'; 120]]);
    let beside = [0x04, 0, 3, 1, 2, 3];
    for (name, head, block) in [
        ("tcp4", [0x21, 0x11, 0, 12], &V4[..]),
        ("beside", [0x21, 0x11, 0, 18], &[&V4[..], &beside].concat()),
        ("tcp6", [0x21, 0x21, 0, 36], &[9; 40]),
        ("unix", [0x21, 0x31, 0, 216], &[7; 216]),
        ("local", [0x20, 0x00, 0, 0], b"rest"),
        ("local-more", [0x20, 0xff, 0, 3], b"any"),
        ("unspecified", [0x21, 0x00, 0, 2], b"xy"),
        ("short", [0x21, 0x11, 0, 11], &V4),
        ("long", [0x21, 0x11, 0xff, 0xff], &V4),
        ("version", [0x31, 0x11, 0, 12], &V4),
        ("family", [0x21, 0x41, 0, 12], &V4),
    ] {
        write("proxy", &format!("binary-{name}"), &[&[1, 255], &head, block]);
    }
    write("proxy", "written-4", &[&[2, 0, 0], &[10; 36], &[4, 1, 2, 3, 4, 5, 6]]);
    write("proxy", "written-6", &[&[2, 0, 1], &[0x20; 36], &[0, 1, 1]]);
}

fn corpus(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/__fuzz__").join(target).join("corpus")
}

fn read(target: &str) -> Vec<(String, Vec<u8>)> {
    let files = fs::read_dir(corpus(target)).unwrap().map(|file| {
        let file = file.unwrap();
        (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap())
    });
    files.collect()
}

fn write(target: &str, name: &str, parts: &[&[u8]]) {
    let corpus = corpus(target);
    fs::create_dir_all(&corpus).unwrap();
    fs::write(corpus.join(name), parts.concat()).unwrap();
}
