//! Connections are counted in and out, however they end.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use nalix_client::{Client, ConnectError};
use nalix_core::{
    connection::connect,
    handshake::{ClientSecurity, Contracts},
};
use nalix_server::{
    Advice, CloseCode, CloseReason, Context, Options, Server, ServerHandle, link::StreamLink, link::memory,
    packet, packet_controller,
};
use support::{session, until, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[packet(opcode = 0x1001, reply = ())]
struct Hello;

#[packet(opcode = 0x1002, reply = ())]
struct Panic;

struct Lab {
    panics: Arc<AtomicBool>,
}

#[packet_controller]
impl Lab {
    #[packet]
    fn hello(&self, _: Hello) {}

    #[packet]
    fn panic(&self, _: Panic) {
        panic!("on purpose");
    }

    #[connected]
    fn connected(&self, _: &Context) {
        if self.panics.load(SeqCst) {
            panic!("on purpose");
        }
    }

    #[disconnected]
    fn disconnected(&self, _: &Context, _: &CloseReason) {
        if self.panics.load(SeqCst) {
            panic!("on purpose");
        }
    }
}

async fn server(max: usize) -> (ServerHandle, Arc<AtomicBool>) {
    let panics = Arc::new(AtomicBool::new(false));
    let lab = Lab { panics: Arc::clone(&panics) };
    let builder = Server::builder().plaintext().no_listener().controller(lab).max_connections(max);
    (builder.build().await.unwrap().spawn().0, panics)
}

fn raw(server: &ServerHandle) -> tokio::io::DuplexStream {
    let (ours, theirs) = tokio::io::duplex(1024);
    server.serve_link(StreamLink::new(theirs));
    ours
}

/// Every place is free again: as many as there may be get in, and not one more.
async fn assert_all_free(server: &ServerHandle, max: usize, what: &str) {
    until(what, || server.connection_count() == 0).await;
    let mut inside = Vec::new();
    for _ in 0..max {
        inside.push(session(server).await);
    }
    assert_eq!(server.connection_count(), max, "{what}");
    let (ours, theirs) = memory::pair(1024);
    server.serve_link(theirs);
    let error = Client::builder("").plaintext().connect_over(ours).await.unwrap_err();
    let ConnectError::Refused(reason) = &error else { panic!("{what}: {error}") };
    assert_eq!(reason.code, CloseCode::LimitExceeded, "{what}");
    assert!(matches!(reason.advice, Advice::Retry { after: Some(_) }) && error.is_retryable());

    // Closing one lets exactly one in.
    inside.pop().unwrap().close().await;
    until(what, || server.connection_count() == max - 1).await;
    inside.push(session(server).await);
    let (ours, theirs) = memory::pair(1024);
    server.serve_link(theirs);
    assert!(Client::builder("").plaintext().connect_over(ours).await.is_err(), "{what}");
    for session in inside {
        session.close().await;
    }
    until(what, || server.connection_count() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_end_frees_the_place() {
    for max in [1, 3] {
        let (server, panics) = server(max).await;
        for _ in 0..10 {
            session(&server).await.close().await;
            until("closed", || server.connection_count() == 0).await;
        }
        assert_all_free(&server, max, "closed").await;

        for _ in 0..10 {
            drop(session(&server).await);
            until("dropped", || server.connection_count() == 0).await;
        }
        assert_all_free(&server, max, "dropped").await;

        for _ in 0..10 {
            let raw = raw(&server);
            tokio::time::sleep(Options::default().handshake_timeout + Duration::from_secs(2)).await;
            drop(raw);
        }
        assert_all_free(&server, max, "handshakes that stalled").await;

        for _ in 0..10 {
            let mut raw = raw(&server);
            raw.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
            drop(raw);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_all_free(&server, max, "garbage").await;

        for _ in 0..10 {
            drop(raw(&server));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_all_free(&server, max, "instant close").await;

        for _ in 0..10 {
            let (ours, theirs) = memory::pair(1024);
            server.serve_link(theirs);
            // Gone as soon as the handshake is done, without a word.
            drop(
                connect(
                    ours,
                    Contracts::default(),
                    &ClientSecurity::Plaintext,
                    &Options::default().resume_log(0),
                )
                .await
                .unwrap(),
            );
            until("gone", || server.connection_count() == 0).await;
        }
        assert_all_free(&server, max, "links that broke").await;

        panics.store(true, SeqCst);
        for _ in 0..10 {
            let session = session(&server).await;
            assert_eq!(session.closed().await.code, CloseCode::Internal);
            until("gone", || server.connection_count() == 0).await;
        }
        panics.store(false, SeqCst);
        assert_all_free(&server, max, "panics in hooks").await;

        for _ in 0..10 {
            let session = session(&server).await;
            assert!(session.request(Panic).await.is_err());
            session.request(Hello).await.unwrap();
            session.close().await;
            until("gone", || server.connection_count() == 0).await;
        }
        assert_all_free(&server, max, "panics in handlers").await;

        for _ in 0..10 {
            let session = session(&server).await;
            let connection = server.connections().pop().unwrap();
            assert_eq!(server.connection(connection.id()), Some(connection.clone()));
            connection.close_with(CloseReason::new(CloseCode::LimitExceeded, "enough"));
            assert_eq!(session.closed().await.code, CloseCode::LimitExceeded);
            until("gone", || server.connection_count() == 0).await;
            assert_eq!(server.connection(connection.id()), None);
        }
        assert_all_free(&server, max, "thrown out").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_handshake_takes_a_place_and_a_refusal_takes_none() {
    let (server, _) = server(1).await;
    let stalled = raw(&server);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(server.connection_count(), 0, "it is not open");
    for refused in 1..=3 {
        let (ours, theirs) = memory::pair(1024);
        server.serve_link(theirs);
        assert!(Client::builder("").plaintext().connect_over(ours).await.is_err());
        assert_eq!(server.refused_count(), refused);
    }
    drop(stalled);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(within("the call", session(&server).await.request(Hello).into_future()).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn those_who_are_turned_away_and_do_not_listen_hold_few_links() {
    let (server, _) = server(1).await;
    let _inside = session(&server).await;
    let deaf: Vec<_> = (0..1_000).map(|_| raw(&server)).collect();
    until("all are turned away", || server.refused_count() == 1_000).await;
    let mut dropped = 0;
    for mut raw in deaf {
        let mut said = Vec::new();
        raw.read_to_end(&mut said).await.unwrap();
        dropped += usize::from(said.is_empty());
    }
    assert_eq!(dropped, 1_000 - 256);
    // Time has passed, and there is courtesy again.
    let (ours, theirs) = memory::pair(1024);
    server.serve_link(theirs);
    let error = Client::builder("").plaintext().connect_over(ours).await.unwrap_err();
    assert!(matches!(error, ConnectError::Refused(_)), "{error}");
}

#[tokio::test(start_paused = true)]
async fn no_connection_at_all_may_be_allowed() {
    let (server, _) = server(0).await;
    let (ours, theirs) = memory::pair(1024);
    server.serve_link(theirs);
    assert!(matches!(
        Client::builder("").plaintext().connect_over(ours).await,
        Err(ConnectError::Refused(_))
    ));
    let (server, _) = self::server(usize::MAX).await;
    assert_eq!(session(&server).await.request(Hello).await, Ok(()));
}
