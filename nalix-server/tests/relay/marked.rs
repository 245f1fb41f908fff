//! What can be done where only some packets are sealed: a lot, but not to those.

use nalix_core::{
    CallId, RequestError, Sealing, Side,
    frame::{Control, FrameKind, Head},
    record::{self, RecordKind},
    wire::to_vec,
};
use nalix_server::{CloseCode, CloseReason};

use crate::{
    middle::Party,
    support::{cancel, frame, request, until, within},
    world::{How, Open, Secret, World},
};

fn plain(frame: &[u8]) -> Vec<u8> {
    record::build(RecordKind::Plain, frame)
}

#[tokio::test(start_paused = true)]
async fn what_is_about_the_connection_is_not_taken_in_the_clear() {
    let world = World::with(Sealing::Marked, |server| server).await;
    let control = |control: &Control| frame(Head::plain(FrameKind::Control), &to_vec(control).unwrap());
    let frames = [
        control(&Control::Close(CloseReason::new(CloseCode::Normal, ""))),
        control(&Control::Drain { within: std::time::Duration::from_secs(1) }),
        frame(Head::plain(FrameKind::Ping), b"?"),
        frame(Head::plain(FrameKind::Pong), b"?"),
        cancel(0),
    ];
    for how in How::ALL {
        for victim in Party::BOTH {
            for frame in &frames {
                let Open { mut middle, session, .. } = world.open(how).await;
                middle.give(victim, &plain(frame)).await;
                middle.step_aside().await;
                let client = within("the end", session.closed()).await;
                world.is_empty().await;
                let server = world.game.last_end().unwrap();
                let (lied_to, other) =
                    if victim == Party::Client { (client, server) } else { (server, client) };
                assert_eq!((lied_to.code, lied_to.by), (CloseCode::EncryptionRequired, Side::Local));
                assert_eq!((other.code, other.by), (CloseCode::EncryptionRequired, Side::Peer));
            }
        }
    }
    assert_eq!(world.game.runs.entered(), 0);
}

#[tokio::test(start_paused = true)]
async fn marked_packets_cannot_be_forged_and_others_can() {
    let world = World::with(Sealing::Marked, |server| server).await;
    let Open { mut middle, session, .. } = world.open(How::Mutual).await;
    middle.give(Party::Server, &plain(&request(7, 0x1003, &[1, 0, 0, 0]))).await;
    let refused = middle.take_kind(Party::Server, RecordKind::Plain).await;
    assert_eq!(world.game.runs.entered(), 0);
    // This is what it costs not to seal everything.
    middle.give(Party::Server, &plain(&request(8, 0x1001, &[1, 0, 0, 0]))).await;
    let forged = middle.take_kind(Party::Server, RecordKind::Plain).await;
    assert_eq!(world.game.runs.entered(), 1);
    middle.give(Party::Client, &[refused, forged].concat()).await;
    until("two answers that nobody waits for", || session.connection().late_answers() == 2).await;

    // A marked call that the client makes, with an answer that the server has not given.
    let reply = |n: u32| frame(Head::of_call(FrameKind::Reply, CallId::new(0)), &n.to_le_bytes());
    let call = tokio::spawn({
        let session = session.clone();
        async move { session.request(Secret(1)).await }
    });
    middle.take_kind(Party::Client, RecordKind::Sealed).await;
    middle.give(Party::Client, &plain(&reply(99))).await;
    let result = within("the end", call).await.unwrap();
    let Err(RequestError::Disconnected { reason, .. }) = result else { panic!("{result:?}") };
    assert_eq!((reason.code, reason.by), (CloseCode::EncryptionRequired, Side::Local));
    middle.step_aside().await;
    world.is_empty().await;
    // Its own request was taken away, and a sealed goodbye behind it does not open.
    assert_eq!(world.game.last_end().unwrap().code, CloseCode::DecryptFailed);
    assert_eq!(world.game.runs.entered(), 1);
}
