//! What is logged, at which level, and in which span.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::time::Duration;

use nalix_client::Client;
use nalix_core::{
    Opcode,
    frame::{Control, FrameKind, Head},
};
use nalix_server::{
    CloseCode, CloseReason, Code, Context, Server, ServerHandle, link::StreamLink, packet, packet_controller,
};
use support::{Line, RawPeer, Recorder, frame, notify, request, session, until, within};
use tokio::io::AsyncWriteExt;
use tracing::Level;

#[packet(opcode = 0x1001, reply = ())]
struct Hello;

#[packet(opcode = 0x1002, reply = ())]
struct Panic;

#[packet(opcode = 0x1003, reply = ())]
struct PanicLater;

#[packet(opcode = 0x1004, reply = ())]
struct PanicElsewhere;

#[packet(opcode = 0x1005)]
struct PanicUnheard;

#[packet(opcode = 0x1006, encrypt)]
struct Whisper(String);

struct Lab;

#[packet_controller]
impl Lab {
    #[packet]
    fn hello(&self, _: Hello) {
        tracing::info!("a handler speaks");
    }

    #[packet]
    fn panic(&self, _: Panic) {
        panic!("a secret of the handler");
    }

    #[packet]
    async fn later(&self, _: PanicLater) {
        tokio::task::yield_now().await;
        panic!("a secret of the handler");
    }

    #[packet(spawn)]
    async fn elsewhere(&self, _: PanicElsewhere) {
        panic!("a secret of the handler");
    }

    #[packet]
    fn unheard(&self, _: PanicUnheard) {
        panic!("a secret of the handler");
    }

    #[packet]
    fn whisper(&self, _: Whisper) {
        panic!("it came in the clear");
    }

    #[connected]
    fn connected(&self, _: &Context) {}
}

async fn server() -> ServerHandle {
    // As few as the process has descriptors for; more would be a warning.
    let builder = Server::builder().plaintext().no_listener().controller(Lab).max_connections(64);
    builder.build().await.unwrap().spawn().0
}

async fn gone(server: &ServerHandle) {
    until("all have gone", || server.connection_count() == 0).await;
    tokio::time::sleep(Duration::from_millis(1)).await;
}

fn assert_one_line_each(lines: &[Line]) {
    for line in lines {
        let texts = line.spans.iter().chain([&line.text]);
        for text in texts {
            assert!(!text.contains(|c: char| c.is_control()), "{text:?}");
            assert!(!text.contains("secret"), "{text:?}");
        }
    }
}

#[tokio::test]
async fn a_connection_has_a_span_with_its_number_and_its_peer() {
    let recorder = Recorder::new();
    let _guard = tracing::subscriber::set_default(recorder.clone());
    let server = Server::builder().plaintext().tcp("127.0.0.1:0").controller(Lab).build().await.unwrap();
    let address = server.local_addr();
    let (handle, running) = server.spawn();
    let client = Client::builder(format!("tcp://{address}")).no_reconnect().plaintext();
    let session = within("the connection", client.connect()).await.unwrap();
    session.request(Hello).await.unwrap();
    let (id, peer) = (handle.connections()[0].id(), session.connection().local_addr().unwrap());
    let span = format!("connection peer={peer} id={}", id.get());
    assert!(recorder.spans().contains(&span), "{span:?} is not in {:?}", recorder.spans());
    let spoken = recorder.lines().into_iter().find(|line| line.text.contains("a handler speaks")).unwrap();
    assert_eq!(spoken.spans, [span], "what a handler logs is in the span, too");
    handle.shutdown();
    within("the drain", running).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn nothing_that_peers_do_is_a_warning() {
    let recorder = Recorder::new();
    let _guard = tracing::subscriber::set_default(recorder.clone());
    let server = server().await;
    session(&server).await.close().await;
    drop(session(&server).await);
    drop(RawPeer::connect(&server).await);
    let mut garbage = RawPeer::connect(&server).await;
    garbage.write(&[0xff; 50]).await;
    while garbage.frame().await.is_some() {}
    drop(garbage);
    for bytes in [&b""[..], b"GET / HTTP/1.1\r\nX: \x1b[2J\r\n\r\n", &[1, 2]] {
        let (mut raw, theirs) = tokio::io::duplex(1024);
        server.serve_link(StreamLink::new(theirs));
        raw.write_all(bytes).await.unwrap();
    }
    let mut unknown = RawPeer::connect(&server).await;
    let whisper = frame(Head::notify(Opcode::new(0x7777)), b"?");
    unknown.send(&[request(0, 0x7777, b"?"), whisper, request(1, 0x1001, b"")]).await;
    assert!(unknown.frame().await.is_some() && unknown.frame().await.is_some());
    drop(unknown);
    gone(&server).await;
    server.shutdown();
    tokio::time::sleep(Duration::from_secs(30)).await;
    let bad = recorder.at_least(Level::WARN);
    assert!(bad.is_empty(), "{bad:#?}");
    assert_one_line_each(&recorder.lines());
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_logged_once_in_the_span_of_its_connection() {
    for what in ["at once", "later", "elsewhere", "unheard"] {
        let recorder = Recorder::new();
        let _guard = tracing::subscriber::set_default(recorder.clone());
        let server = server().await;
        let session = session(&server).await;
        let id = server.connections()[0].id();
        let error = match what {
            "at once" => session.request(Panic).await.unwrap_err(),
            "later" => session.request(PanicLater).await.unwrap_err(),
            "elsewhere" => session.request(PanicElsewhere).await.unwrap_err(),
            _ => {
                session.send(&PanicUnheard).await.unwrap();
                nalix_server::RequestError::Status(nalix_server::Status::internal("nobody hears it"))
            }
        };
        assert_eq!(error.code(), Some(Code::Internal), "{what}");
        session.request(Hello).await.unwrap();
        session.close().await;
        gone(&server).await;
        let bad = recorder.at_least(Level::WARN);
        assert_eq!(bad.len(), 1, "{what}: {bad:#?}");
        assert!(bad[0].text.contains("panicked"), "{what}: {bad:#?}");
        assert!(
            bad[0].spans.iter().any(|span| span.contains(&format!(" id={}", id.get()))),
            "{what}: {bad:#?}"
        );
        assert_one_line_each(&recorder.lines());
    }
}

/// Its sender is told nothing, so the log has to say where it went.
#[tokio::test(start_paused = true)]
async fn a_one_way_packet_that_must_be_sealed_and_is_not_leaves_a_line_without_its_content() {
    let recorder = Recorder::new();
    let _guard = tracing::subscriber::set_default(recorder.clone());
    let server = server().await;
    let mut peer = RawPeer::connect(&server).await;
    peer.send(&[notify(&Whisper("a secret".to_owned()))]).await;
    peer.ping().await;
    let lines = recorder.lines();
    let told: Vec<_> = lines.iter().filter(|line| line.text.contains("in the clear")).collect();
    assert_eq!(told.len(), 1, "{lines:#?}");
    assert_eq!(told[0].level, Level::DEBUG);
    assert!(told[0].text.contains("0x1006"), "{told:?}");
    assert!(recorder.at_least(Level::WARN).is_empty());
    assert_one_line_each(&lines);
}

#[tokio::test(start_paused = true)]
async fn a_peer_cannot_forge_lines_of_the_log() {
    let recorder = Recorder::new();
    let _guard = tracing::subscriber::set_default(recorder.clone());
    let server = server().await;
    for code in [CloseCode::Normal, CloseCode::Internal, CloseCode::Other(777)] {
        let mut peer = RawPeer::connect(&server).await;
        let reason = CloseReason::new(code, "bye\n2026 ERROR forged\u{1b}[2J\r\u{85}");
        let payload = nalix_core::wire::to_vec(&Control::Close(reason)).unwrap();
        peer.send(&[frame(Head::plain(FrameKind::Control), &payload)]).await;
        while peer.frame().await.is_some() {}
        drop(peer);
        gone(&server).await;
    }
    let lines = recorder.lines();
    assert!(lines.iter().any(|line| line.text.contains("forged")), "{lines:#?}");
    assert_one_line_each(&lines);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_server_is_reported_once_with_its_counts() {
    let recorder = Recorder::new();
    let _guard = tracing::subscriber::set_default(recorder.clone());
    let server = server().await;
    let _session = session(&server).await;
    server.shutdown();
    server.shutdown();
    tokio::time::sleep(Duration::from_secs(30)).await;
    let lines = recorder.at_least(Level::INFO);
    let count = |what: &str| lines.iter().filter(|line| line.text.contains(what)).count();
    assert_eq!(
        (count("server draining connections=1"), count("server stopped drained=1 forced=0")),
        (1, 1),
        "{lines:#?}"
    );
}
