//! What can be done between the answer to a hello and the first sealed record, and with recordings of old ones.

use std::future::IntoFuture;

use nalix_client::ConnectError;
use nalix_core::{
    Advice, RequestError, Sealing, Side,
    connection::{EarlyRequest, connect_early},
    frame::{Control, FrameKind, Head},
    handshake::{self, ClientSecurity, Contracts, Pinned},
    record::{self, RecordKind},
    wire::to_vec,
};
use nalix_server::{CloseCode, CloseReason, Options};
use tokio::time::Instant;

use crate::{
    middle::{End, Middle, Party},
    support::{RawPeer, frame, request, until, within},
    world::{Double, How, News, World},
};

/// Whoever has listened to a client can say what it has said, but cannot go on.
#[tokio::test(start_paused = true)]
async fn a_recording_of_a_client_never_counts_as_a_connection() {
    for how in How::ALL {
        let world = World::with(Sealing::All, |server| server.max_handshakes(1)).await;
        let mut open = world.open(how).await;
        let hello = record::HEADER + record::parse(*open.flight.first_chunk().unwrap()).unwrap().1;
        let flight = open.flight.clone();
        let request = open.exchange().await.0;
        drop(open);
        world.is_empty().await;
        let hooks = world.game.connected.entered();

        let recordings = [flight[..hello].to_vec(), flight.clone(), [&flight[..], &request].concat()];
        for (n, recording) in recordings.iter().enumerate() {
            let start = Instant::now();
            let mut peer = End::of(&world.server);
            peer.give(recording).await;
            if how == How::Resumed {
                assert_eq!(refusal(&mut peer).await.code, CloseCode::TicketRefused);
            } else {
                // It cannot be told from a client so far.
                peer.take_kind(RecordKind::HelloReply).await;
                if n == 0 {
                    // Meanwhile it holds the place.
                    let error = world.directly(world.client(How::Pinned).await).await.unwrap_err();
                    assert!(
                        matches!(&error, ConnectError::Refused(r) if r.code == CloseCode::LimitExceeded),
                        "{error:?}"
                    );
                }
                // The goodbye is for the client, if it is one.
                peer.take_kind(RecordKind::Sealed).await;
                assert_eq!(peer.take().await, None);
                assert_eq!(start.elapsed().as_secs(), if n == 0 { 10 } else { 0 }, "{how:?}, {n}");
            }
            assert_eq!(world.server.connection_count(), 0);
            drop(peer);
            world.serves().await;
        }
        // Those of the clients that `serves` has connected.
        assert_eq!(world.game.connected.entered() - hooks, recordings.len(), "{how:?}");
        assert_eq!(world.game.runs.entered(), 1 + recordings.len());
    }
}

/// Whoever holds the hello of a client back can hand it in, once, and that is all they can do.
#[tokio::test(start_paused = true)]
async fn a_first_request_runs_once_however_often_it_is_handed_in() {
    let world = World::new().await;
    let first = world.directly(world.client(How::Mutual).await).await.unwrap();
    let ticket = first.ticket().unwrap().clone();
    first.close().await;
    let early = EarlyRequest::new(&Double(4), 1_000, None).unwrap();
    let mut pinned = Pinned::new(world.key);
    pinned.ticket = Some(ticket);
    let (mut middle, link) = Middle::new(&world.server);
    let (frames, options) = (early.frames().to_vec(), Options::default());
    let connecting = tokio::spawn(async move {
        let security = ClientSecurity::Secured(pinned);
        connect_early(link, Contracts::default(), &security, &frames, &options).await
    });
    let hello = middle.take_kind(Party::Client, RecordKind::Hello).await;
    world.is_empty().await;

    let mut peers: Vec<_> = (0..5).map(|_| End::of(&world.server)).collect();
    for peer in &mut peers {
        peer.give(&hello).await;
    }
    // The store takes them in the order in which they were handed in.
    let (first, others) = peers.split_first_mut().unwrap();
    first.take_kind(RecordKind::HelloReply).await;
    for peer in others {
        assert_eq!(refusal(peer).await.code, CloseCode::TicketRefused);
    }
    assert_eq!(world.server.connection_count(), 1);
    until("run", || world.game.runs.entered() == 1).await;

    // The one that got in cannot say anything.
    peers[0].give(&record::build(RecordKind::Sealed, &[7; 40])).await;
    drop(peers);
    world.is_empty().await;
    assert_eq!(world.game.last_end().unwrap().code, CloseCode::DecryptFailed);
    // Nor has the client anything of its own hello.
    middle.give(Party::Server, &hello).await;
    let helper = tokio::spawn(middle.step_aside());
    let error = within("refused", connecting).await.unwrap().unwrap_err();
    assert!(matches!(&error, ConnectError::Refused(r) if r.code == CloseCode::TicketRefused), "{error:?}");
    helper.await.unwrap();
    assert_eq!(world.game.runs.entered(), 1);
}

/// The client believes that it is connected, the server does not yet.
#[tokio::test(start_paused = true)]
async fn a_client_is_not_connected_before_its_first_record_has_opened() {
    let goodbye = CloseReason::new(CloseCode::Normal, "");
    let control = |control: &Control| frame(Head::plain(FrameKind::Control), &to_vec(control).unwrap());
    let plain = |frame: &[u8]| record::build(RecordKind::Plain, frame);
    let abort = |reason: &CloseReason| record::build(RecordKind::Abort, &handshake::abort_body(reason));
    for how in [How::Pinned, How::Mutual] {
        let world = World::with(Sealing::All, |server| server.max_handshakes(1)).await;
        let hello = RawPeer::hello();
        let mut attacks = vec![
            (plain(&control(&Control::Ready)), CloseCode::EncryptionRequired),
            (plain(&control(&Control::Close(goodbye.clone()))), CloseCode::EncryptionRequired),
            (plain(&request(0, 0x1001, &[1, 0, 0, 0])), CloseCode::EncryptionRequired),
            (hello.clone(), CloseCode::ProtocolError),
            (record::build(RecordKind::HelloReply, &hello[4..]), CloseCode::ProtocolError),
            (record::build(RecordKind::Sealed, &[0; 23]), CloseCode::DecryptFailed),
            (b"GET / HTTP/1.1\r\n\r\n".to_vec(), CloseCode::ProtocolError),
            // This one the server believes, and says nothing to.
            (abort(&goodbye), CloseCode::Lost),
        ];
        let mut n = 0;
        loop {
            let (mut middle, connecting) = world.begin(world.client(how).await);
            middle.pass(Party::Client).await;
            let answer = middle.pass(Party::Server).await;
            let session = connecting.await.unwrap().unwrap();
            let ready = middle.take_kind(Party::Client, RecordKind::Sealed).await;
            if n == 0 {
                attacks.push((answer, CloseCode::ProtocolError));
                for at in 4..ready.len() {
                    let mut changed = ready.clone();
                    changed[at] ^= 1;
                    attacks.push((changed, CloseCode::DecryptFailed));
                }
            }
            // What was recorded from one connection does not fit another either.
            let Some((bytes, code)) = attacks.get(n) else { break };
            let hooks = world.game.connected.entered();
            middle.give(Party::Server, bytes).await;
            middle.give(Party::Server, &ready).await;
            let helper = tokio::spawn(middle.step_aside());
            let result = within("the end", session.request(Double(1)).into_future()).await;
            assert!(
                matches!(result, Err(RequestError::Disconnected { .. } | RequestError::Closed(_))),
                "{how:?}, {n}: {result:?}"
            );
            let reason = session.closed().await;
            assert_eq!((reason.code, reason.by), (*code, Side::Peer), "{how:?}, {n}: {reason}");
            within("both ends", helper).await.unwrap();
            assert_eq!((world.server.connection_count(), world.game.connected.entered()), (0, hooks));
            n += 1;
        }
        assert_eq!(world.game.runs.entered(), 0);
        world.serves().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_whose_first_record_is_still_on_its_way_is_told_why_it_is_cut_off() {
    for drain in [true, false] {
        let world = World::new().await;
        let (mut middle, connecting) = world.begin(world.client(How::Mutual).await);
        middle.pass(Party::Client).await;
        middle.pass(Party::Server).await;
        let session = connecting.await.unwrap().unwrap();
        let ready = middle.take_kind(Party::Client, RecordKind::Sealed).await;
        if drain {
            world.server.shutdown();
        }
        // In the other case the time for the handshake runs out.
        let record = middle.take_kind(Party::Server, RecordKind::Sealed).await;
        middle.give(Party::Client, &record).await;
        middle.give(Party::Server, &ready).await;
        let helper = tokio::spawn(middle.step_aside());
        let reason = within("the end", session.closed()).await;
        let (code, advice) = if drain {
            (CloseCode::GoingAway, Advice::Reconnect)
        } else {
            (CloseCode::HandshakeTimeout, Advice::None)
        };
        assert_eq!((reason.code, reason.by, reason.advice), (code, Side::Peer, advice), "{reason}");
        helper.await.unwrap();
        assert_eq!(world.game.connected.entered(), 0);
    }
}

/// The same words, as the first record in either direction, and by the same client to the same server once more.
#[tokio::test(start_paused = true)]
async fn equal_frames_give_different_records() {
    let world = World::new().await;
    let mut seen: Vec<Vec<u8>> = Vec::new();
    for _ in 0..2 {
        let mut open = world.open(How::Resumed).await;
        open.session.send(&News(7)).await.unwrap();
        let server = world.server.connections().remove(0);
        server.send(&News(7)).await.unwrap();
        for party in Party::BOTH {
            seen.push(open.middle.take_kind(party, RecordKind::Sealed).await);
        }
        // The next has another counter.
        open.session.send(&News(7)).await.unwrap();
        seen.push(open.middle.take_kind(Party::Client, RecordKind::Sealed).await);
        drop(open);
        world.is_empty().await;
    }
    for (n, one) in seen.iter().enumerate() {
        for other in &seen[..n] {
            assert_eq!(one.len(), other.len(), "they are of the same frame");
            assert_common_is_short(&one[record::HEADER..], &other[record::HEADER..]);
        }
    }
    for how in How::ALL {
        let (mut first, one) = world.begin(world.client(how).await);
        let (mut second, other) = world.begin(world.client(how).await);
        // Behind the way, where the ticket or the ephemeral key begins.
        let hellos = [first.take(Party::Client).await.unwrap(), second.take(Party::Client).await.unwrap()];
        assert_eq!(hellos[0].len(), hellos[1].len());
        assert_common_is_short(&hellos[0][12..], &hellos[1][12..]);
        one.abort();
        other.abort();
    }
}

/// Expects to be refused.
async fn refusal(peer: &mut End) -> CloseReason {
    let abort = peer.take_kind(RecordKind::Abort).await;
    assert_eq!(peer.take().await, None, "nothing comes behind a refusal");
    handshake::read_abort(&abort[record::HEADER..].to_vec().into())
}

/// That two ciphertexts have eight bytes in common somewhere is as unlikely as to guess 50 bits.
fn assert_common_is_short(one: &[u8], other: &[u8]) {
    for part in one.windows(8) {
        assert!(!other.windows(8).any(|found| found == part), "{one:02x?} and {other:02x?}");
    }
}
