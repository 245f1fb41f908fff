//! Faults of peers that are nobody's clients, behind a good hello or in it. Each is shown the door at once, runs nothing, and
//! leaves its place to the next.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use nalix_client::Client;
use nalix_core::{
    Sealing,
    connection::{Driver, Serving, connect_early},
    controller::Router,
    frame::{Control, FrameKind, Head},
    handshake::{
        self, ClientSecurity, Contracts, Hello, Initiator, MAX_HELLO, Offer, Params, Pinned, Secrets, Way,
    },
    link::memory,
    record::{self, RecordKind, Suites},
    wire::to_vec,
};
use nalix_server::{CloseCode, CloseReason, Options, PublicKey, Server, ServerHandle};
use tokio::time::Instant;

use crate::{
    middle::End,
    support::{frame, request, within},
    world::{Double, Game, How, World},
};

/// What comes behind a good hello, and the code that is said to it if any.
fn faults(hello: &[u8], secured: bool) -> Vec<(String, Vec<u8>, Option<CloseCode>)> {
    let goodbye = CloseReason::new(CloseCode::Normal, "");
    let plain = |frame: &[u8]| record::build(RecordKind::Plain, frame);
    let close = frame(Head::plain(FrameKind::Control), &to_vec(&Control::Close(goodbye.clone())).unwrap());
    let required = Some(CloseCode::EncryptionRequired);
    let protocol = Some(CloseCode::ProtocolError);
    let mut faults = vec![
        ("a second hello", hello.to_vec(), protocol),
        ("half a second hello behind a whole", [hello, &hello[..hello.len() / 2]].concat(), protocol),
        ("an answer", record::build(RecordKind::HelloReply, &hello[4..]), protocol),
        ("no record", vec![0xff; 50], protocol),
        ("an endless record", vec![4, 0xff, 0xff, 0xff], protocol),
        ("an empty record", vec![3, 0, 0, 0], if secured { required } else { protocol }),
        ("an abort", record::build(RecordKind::Abort, &handshake::abort_body(&goodbye)), None),
        ("an abort without a reason", record::build(RecordKind::Abort, &[0xff]), protocol),
    ];
    if secured {
        // It makes no difference what an abort says.
        faults.last_mut().unwrap().2 = None;
        faults.extend([
            ("a goodbye", plain(&close), required),
            ("a request", plain(&request(0, 0x1001, &[1, 0, 0, 0])), required),
            (
                "half a record in the clear and a whole one",
                [&plain(&close)[..9], &plain(&close)].concat(),
                required,
            ),
            (
                "sealed for somebody else",
                record::build(RecordKind::Sealed, &[1; 23]),
                Some(CloseCode::DecryptFailed),
            ),
        ]);
    } else {
        faults.extend([
            ("a goodbye", plain(&close), None),
            ("sealed", record::build(RecordKind::Sealed, &[1; 23]), protocol),
        ]);
    }
    faults.into_iter().map(|(name, bytes, code)| (name.to_owned(), bytes, code)).collect()
}

#[tokio::test(start_paused = true)]
async fn what_a_stranger_says_behind_its_hello_ends_it_at_once() {
    for key in [true, false] {
        let (server, key, game) = server(key).await;
        for at_once in [true, false] {
            let (_, hello) = initiator(key);
            for (name, bytes, code) in faults(&hello, key.is_some()) {
                let start = Instant::now();
                let (initiator, hello) = initiator(key);
                let mut peer = End::of(&server);
                peer.give(&if at_once { [&hello[..], &bytes].concat() } else { hello }).await;
                let answer = peer.take_kind(RecordKind::HelloReply).await;
                if !at_once {
                    peer.give(&bytes).await;
                }
                let told = goodbye(&mut peer, initiator, &answer).await;
                assert_eq!(told, code, "{name}, secured: {}", key.is_some());
                assert!(start.elapsed() < Duration::from_millis(500), "{name}");
                drop(peer);
                serves(&server, key).await;
            }
        }
        // The good clients only.
        let good = 2 * faults(&initiator(key).1, key.is_some()).len();
        assert_eq!(game.runs.entered(), good);
        if key.is_some() {
            assert_eq!(game.connected.entered(), good);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stranger_that_stops_is_given_its_time_and_one_that_ends_is_not() {
    // Without security a hello is the whole handshake.
    let (server, key, game) = server(true).await;
    let ready = 4 + 3 + 16;
    for said in 0..ready {
        for ends in [true, false] {
            let (initiator, hello) = initiator(key);
            let mut peer = End::of(&server);
            peer.give(&hello).await;
            let answer = peer.take_kind(RecordKind::HelloReply).await;
            let mut own = sealed_ready(initiator, &answer);
            assert_eq!(own.len(), ready);
            own.truncate(said);
            let start = Instant::now();
            peer.give(&own).await;
            if ends {
                peer.end().await;
            }
            while peer.take().await.is_some() {}
            assert_eq!(start.elapsed().as_secs(), if ends { 0 } else { 10 }, "{said} bytes");
            assert_eq!((server.connection_count(), game.connected.entered()), (0, game.runs.entered()));
            drop(peer);
            serves(&server, key).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_hello_whose_content_is_nothing_good_is_refused_at_once() {
    let (server, key, game) = server(true).await;
    let lens = [0, 1, 15, 16, 31, 32, 33, 47, 48, 63, 64, 95, 96, 97, 1_000, MAX_HELLO - 8];
    for way in 0..=4 {
        for len in lens {
            for fill in [0, 0x55, 0xff] {
                let body = [&b"nalix\x01\x01"[..], &[way], &vec![fill; len]].concat();
                let mut peer = End::of(&server);
                let start = Instant::now();
                peer.give(&record::build(RecordKind::Hello, &body)).await;
                let code = match way {
                    0 => CloseCode::EncryptionRequired,
                    1 | 2 => CloseCode::HandshakeFailed,
                    3 if len >= 16 => CloseCode::TicketRefused,
                    _ => CloseCode::ProtocolError,
                };
                assert_eq!(refusal(&mut peer).await, code, "way {way}, {len} times {fill:#04x}");
                assert!(start.elapsed() < Duration::from_millis(500));
                drop(peer);
                serves(&server, key).await;
            }
        }
    }
    assert_eq!(game.connected.entered(), game.runs.entered());

    let (server, key, game) = self::server(false).await;
    for len in lens {
        let body = [&b"nalix\x01\x01\x00"[..], &vec![0xff; len]].concat();
        let mut peer = End::of(&server);
        peer.give(&record::build(RecordKind::Hello, &body)).await;
        assert_eq!(refusal(&mut peer).await, CloseCode::ProtocolError, "{len} bytes");
        drop(peer);
        serves(&server, key).await;
    }
    assert_eq!(game.connected.entered(), game.runs.entered());
}

/// Only a ticket, which can be used once, makes early frames safe to take.
#[tokio::test(start_paused = true)]
async fn early_frames_without_a_ticket_are_refused() {
    let (server, key, game) = server(false).await;
    let params = Params::new(1_000, 10, Contracts::default());
    let mut offer = Offer::new(&params, Sealing::None, Suites::NONE);
    offer.early = request(0, 0x1001, &[1, 0, 0, 0]).into();
    let mut hello = Hello::plaintext(&params);
    assert_eq!(hello.way, Way::Plaintext);
    hello.content = offer.to_bytes().into();
    let mut peer = End::of(&server);
    peer.give(&record::build(RecordKind::Hello, &hello.body())).await;
    assert_eq!(refusal(&mut peer).await, CloseCode::ProtocolError);
    drop(peer);
    assert_eq!(game.runs.entered(), 0);
    serves(&server, key).await;
}

/// A client that has a ticket and sends nonsense along is in, and out again.
#[tokio::test(start_paused = true)]
async fn early_frames_that_are_none_close_the_connection() {
    let world = World::new().await;
    for bytes in [&[0][..], &[2, 0, 1], &[0xff; 8_000], b"GET / HTTP/1.1"] {
        let first = world.directly(world.client(How::Mutual).await).await.unwrap();
        let mut pinned = Pinned::new(world.key);
        pinned.ticket = first.ticket();
        first.close().await;
        world.is_empty().await;
        let hooks = world.game.connected.entered();
        let (ours, theirs) = memory::pair(1 << 16);
        world.server.serve_link(theirs);
        let security = ClientSecurity::Secured(pinned);
        let established =
            connect_early(ours, Contracts::default(), &security, bytes, &Options::default()).await.unwrap();
        assert!(established.early_sent() && established.is_resumed());
        let serving = Serving::from(Router::empty());
        let driver = Driver::new(established, serving, &Options::default()).1;
        let reason = within("the end", driver).await;
        assert_eq!(reason.code, CloseCode::ProtocolError, "{reason}");
        world.is_empty().await;
        assert_eq!(world.game.connected.entered() - hooks, 1);
        assert_eq!(world.game.runs.entered(), 0);
    }
}

/// A server that has a place for one handshake, secured or not.
async fn server(secured: bool) -> (ServerHandle, Option<PublicKey>, Game) {
    if secured {
        let world = World::with(Sealing::All, |server| server.max_handshakes(1)).await;
        return (world.server, Some(world.key), world.game);
    }
    let game = Game::default();
    let server = Server::builder().plaintext().no_listener().controller(game.clone()).max_handshakes(1);
    (server.build().await.unwrap().handle(), None, game)
}

fn initiator(key: Option<PublicKey>) -> (Initiator, Vec<u8>) {
    let security = key.map_or(ClientSecurity::Plaintext, |key| ClientSecurity::Secured(Pinned::new(key)));
    Initiator::start(Params::new(1_000, 10, Contracts::default()), &security, &[]).unwrap()
}

fn secrets(initiator: Initiator, answer: &[u8]) -> Option<Secrets> {
    let answer = Bytes::copy_from_slice(&answer[record::HEADER..]);
    initiator.finish(&answer, SystemTime::now()).expect("a good answer").secrets
}

/// What a client that is there says first.
fn sealed_ready(initiator: Initiator, answer: &[u8]) -> Vec<u8> {
    let mut record = vec![0; record::HEADER];
    record.extend(frame(Head::plain(FrameKind::Control), &to_vec(&Control::Ready).unwrap()));
    secrets(initiator, answer).unwrap().sealer.seal(&mut record, 0).unwrap();
    record
}

/// Reads the code of the goodbye, if there is one, and the end behind it.
async fn goodbye(peer: &mut End, initiator: Initiator, answer: &[u8]) -> Option<CloseCode> {
    let mut record = peer.take().await?;
    assert_eq!(peer.take().await, None, "nothing comes behind a goodbye");
    let (header, body) = record.split_first_chunk_mut().unwrap();
    let mut body = body.to_vec();
    if let Some(mut secrets) = secrets(initiator, answer) {
        let len = secrets.opener.open(*header, &mut body).expect("sealed for whom it is for");
        body.truncate(len);
    }
    match Control::decode(&Bytes::copy_from_slice(&body[2..])).unwrap() {
        Control::Close(reason) => Some(reason.code),
        other => panic!("{other:?}"),
    }
}

/// Expects to be refused.
async fn refusal(peer: &mut End) -> CloseCode {
    let abort = peer.take_kind(RecordKind::Abort).await;
    assert_eq!(peer.take().await, None, "nothing comes behind a refusal");
    handshake::read_abort(&abort[record::HEADER..].to_vec().into()).code
}

async fn serves(server: &ServerHandle, key: Option<PublicKey>) {
    let client = match key {
        Some(key) => Client::builder("").server_key(key),
        None => Client::builder("").plaintext(),
    };
    let (ours, theirs) = memory::pair(1 << 16);
    server.serve_link(theirs);
    let session = within("the handshake", client.connect_over(ours)).await.expect("there is a place");
    assert_eq!(session.request(Double(4)).await.unwrap(), 8);
    session.close().await;
}
