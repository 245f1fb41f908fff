//! Secured connections: who is let in, what each side knows of the other, and what is said to those who are not.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::Arc;

use nalix_client::{Client, ClientBuilder, ConnectError, RequestError, Session};
use nalix_core::{
    CloseCode, Code, Sealing, Side,
    connection::{self, Driver, Serving},
    controller::Router,
    handshake::{ClientSecurity, Contracts, Initiator, Params, Pinned, Secured, ServerSecurity},
    link::memory,
    record::{self, RecordKind, Suites},
};
use nalix_server::{
    BuildError, ClientKeys, Context, Identity, Options, PublicKey, Server, ServerBuilder, ServerHandle, Wire,
    packet, packet_controller,
};
use tokio::io::AsyncReadExt;

use support::{RawPeer, request, soon};

#[packet(opcode = 0x1001, reply = u32)]
struct Double(u32);

#[packet(opcode = 0x1002, reply = Option<Who>)]
struct WhoAmI;

#[derive(Debug, PartialEq, Wire)]
struct Who(String);

#[packet(opcode = 0x1003, reply = u32, encrypt)]
struct Secret(u32);

#[packet(opcode = 0x1004, reply = u32)]
struct SecretHandler(u32);

struct Game;

#[packet_controller]
impl Game {
    #[packet]
    fn double(&self, Double(n): Double) -> u32 {
        n * 2
    }

    #[packet]
    fn who_am_i(&self, ctx: &Context, _: WhoAmI) -> Option<Who> {
        ctx.peer_key().map(|key| Who(key.to_string()))
    }

    #[packet]
    fn secret(&self, Secret(n): Secret) -> u32 {
        n + 1
    }

    #[packet(encrypt)]
    fn secret_handler(&self, SecretHandler(n): SecretHandler) -> u32 {
        n + 2
    }
}

async fn start(set: impl FnOnce(ServerBuilder) -> ServerBuilder) -> (ServerHandle, PublicKey) {
    let identity = Identity::generate().unwrap();
    let key = identity.public_key();
    let builder = Server::builder().identity(identity).no_listener().controller(Game);
    (set(builder).build().await.unwrap().handle(), key)
}

async fn connect(server: &ServerHandle, client: ClientBuilder) -> Result<Session, ConnectError> {
    let (ours, theirs) = memory::pair(1 << 16);
    server.serve_link(theirs);
    client.connect_over(ours).await
}

fn client() -> ClientBuilder {
    Client::builder("memory")
}

#[tokio::test(start_paused = true)]
async fn an_anonymous_client_and_a_client_with_a_key_are_served() {
    let (server, key) = start(|server| server).await;
    let session = connect(&server, client().server_key(key)).await.unwrap();
    assert_eq!(session.request(Double(4)).await.unwrap(), 8);
    assert_eq!(session.request(WhoAmI).await.unwrap(), None);
    assert_eq!(session.request(Secret(4)).await.unwrap(), 5);
    assert_eq!(session.request(SecretHandler(4)).await.unwrap(), 6);
    assert_eq!(session.connection().peer_key(), Some(&key));
    assert_eq!(session.connection().sealing(), Sealing::All);

    let me = Identity::generate().unwrap();
    let session = connect(&server, client().server_key(key).identity(me.clone())).await.unwrap();
    let who = session.request(WhoAmI).await.unwrap();
    assert_eq!(who, Some(Who(me.public_key().to_string())));
}

#[tokio::test(start_paused = true)]
async fn many_calls_and_large_ones_go_sealed() {
    let (server, key) = start(|server| server).await;
    let session = connect(&server, client().server_key(key)).await.unwrap();
    let calls = (0..1_000).map(|n| {
        let session = session.clone();
        tokio::spawn(async move { session.request(Double(n)).await.unwrap() })
    });
    for (n, call) in (0..).zip(calls.collect::<Vec<_>>()) {
        assert_eq!(call.await.unwrap(), n * 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_with_another_key_is_not_talked_to() {
    let (server, _) = start(|server| server).await;
    let other = Identity::generate().unwrap().public_key();
    for client in
        [client().server_key(other), client().server_key(other).identity(Identity::generate().unwrap())]
    {
        let error = connect(&server, client).await.unwrap_err();
        let ConnectError::Refused(reason) = &error else { panic!("{error:?}") };
        assert_eq!((reason.code, reason.by), (CloseCode::HandshakeFailed, Side::Peer));
        assert!(!error.is_retryable());
    }
    assert_eq!(server.connection_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn whoever_does_not_encrypt_is_told_so() {
    let (server, key) = start(|server| server).await;
    let error = connect(&server, client().plaintext()).await.unwrap_err();
    assert!(
        matches!(&error, ConnectError::Refused(reason) if reason.code == CloseCode::EncryptionRequired),
        "{error:?}"
    );

    let plain = Server::builder().plaintext().no_listener().controller(Game).build().await.unwrap();
    let error = connect(&plain.handle(), client().server_key(key)).await.unwrap_err();
    assert!(
        matches!(&error, ConnectError::Refused(reason) if reason.code == CloseCode::Incompatible),
        "{error:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn clients_are_let_in_by_their_keys() {
    let (good, bad) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let (server, key) = start(|server| server.client_keys(ClientKeys::Required)).await;
    let refused = |error: &ConnectError| matches!(error, ConnectError::Refused(reason) if reason.code == CloseCode::KeyRefused);
    assert!(refused(&connect(&server, client().server_key(key)).await.unwrap_err()));
    connect(&server, client().server_key(key).identity(bad.clone())).await.unwrap();

    let wanted = good.public_key();
    let (server, key) =
        start(|server| server.client_keys(ClientKeys::accepted(move |key| *key == wanted))).await;
    assert!(refused(&connect(&server, client().server_key(key)).await.unwrap_err()));
    assert!(refused(&connect(&server, client().server_key(key).identity(bad)).await.unwrap_err()));
    let session = connect(&server, client().server_key(key).identity(good)).await.unwrap();
    assert_eq!(session.request(Double(2)).await.unwrap(), 4);
}

/// Only marked packets are sealed if both sides ask for that.
#[tokio::test(start_paused = true)]
async fn sealing_only_what_is_marked_takes_two() {
    for (ours, theirs, agreed) in [
        (Sealing::Marked, Sealing::Marked, Sealing::Marked),
        (Sealing::All, Sealing::Marked, Sealing::All),
        (Sealing::Marked, Sealing::All, Sealing::All),
    ] {
        let (server, key) = start(|server| server.sealing(theirs)).await;
        let session = connect(&server, client().server_key(key).sealing(ours)).await.unwrap();
        assert_eq!(session.connection().sealing(), agreed);
        assert_eq!(session.request(Double(1)).await.unwrap(), 2);
        assert_eq!(session.request(Secret(1)).await.unwrap(), 2);
        let unmarked = session.request(SecretHandler(1)).await;
        match agreed {
            // The client does not know that the handler insists.
            Sealing::Marked => {
                let error = unmarked.unwrap_err();
                assert!(
                    matches!(&error, RequestError::Status(s) if s.code == Code::EncryptionRequired),
                    "{error}"
                );
            }
            _ => assert_eq!(unmarked.unwrap(), 3),
        }
    }
}

/// A peer without instructions for AES, or one of a build without them, is no worse off.
#[tokio::test(start_paused = true)]
async fn peers_with_different_ciphers_agree_on_one() {
    for (ours, theirs) in [
        (Suites::COMMON, Suites::COMMON),
        (Suites::here(), Suites::COMMON),
        (Suites::COMMON, Suites::here()),
        (Suites::here(), Suites::here()),
    ] {
        assert_eq!(double_with(ours, theirs).await.unwrap(), 8);
    }
    let refused = double_with(Suites::NONE, Suites::here()).await.unwrap_err();
    assert!(
        matches!(&refused, ConnectError::Refused(reason) if reason.code == CloseCode::Incompatible),
        "{refused:?}"
    );
}

/// A call of a client with these ciphers to a server with those.
async fn double_with(ours: Suites, theirs: Suites) -> Result<u32, ConnectError> {
    let identity = Identity::generate().unwrap();
    let mut pinned = Pinned::new(identity.public_key());
    let mut secured = Secured::new(identity);
    (pinned.suites, secured.suites) = (ours, theirs);
    let (near, far) = memory::pair(1 << 16);
    tokio::spawn(async move {
        let options = Options::default();
        let security = ServerSecurity::Secured(Arc::new(secured));
        let established = connection::accept(far, Contracts::default(), &security, &options).await?;
        let mut router = Router::builder();
        router.add(Game);
        let serving = Serving::from(router.build().unwrap());
        Driver::new(established, serving, &options).1.await;
        Ok::<_, ConnectError>(())
    });
    let options = Options::default();
    let security = ClientSecurity::Secured(pinned);
    let established = connection::connect(near, Contracts::default(), &security, &options).await?;
    let (connection, driver) = Driver::new(established, Serving::from(Router::empty()), &options);
    tokio::spawn(driver);
    Ok(connection.request(Double(4)).await.unwrap())
}

#[tokio::test]
async fn contradictions_are_found_before_anything_is_bound() {
    let identity = Identity::generate().unwrap();
    let key = identity.public_key();
    let builder = || Server::builder().no_listener().controller(Game);
    for contradiction in [
        builder().plaintext().identity(identity.clone()),
        builder().plaintext().client_keys(ClientKeys::Required),
        builder().plaintext().sealing(Sealing::All),
        builder().identity(identity.clone()).sealing(Sealing::None),
    ] {
        let error = contradiction.build().await.unwrap_err();
        assert!(matches!(error, BuildError::Contradiction { .. }), "{error}");
    }
    assert!(matches!(builder().build().await.unwrap_err(), BuildError::Security));
    for contradiction in [
        client(),
        client().plaintext().server_key(key),
        client().plaintext().identity(identity.clone()),
        client().plaintext().sealing(Sealing::All),
        client().server_key(key).sealing(Sealing::None),
    ] {
        let (ours, _theirs) = memory::pair(1);
        let error = contradiction.connect_over(ours).await.unwrap_err();
        assert!(matches!(error, ConnectError::Configuration(_)), "{error}");
    }
}

/// A hello can be a recording of an old one, so nobody is believed to be its client before a sealed record has opened. That
/// holds where only marked packets are sealed, too.
#[tokio::test(start_paused = true)]
async fn a_recorded_hello_with_plain_records_behind_it_opens_no_connection() {
    let (server, key) = start(|server| server.sealing(Sealing::Marked)).await;
    let mut pinned = Pinned::new(key);
    pinned.identity = Some(Identity::generate().unwrap());
    pinned.sealing = Sealing::Marked;
    let params = Params::new(1 << 20, 1024, Contracts::default());
    let (_, hello) = Initiator::start(params, &ClientSecurity::Secured(pinned), &[]).unwrap();

    let mut thief = RawPeer::silent(&server);
    thief.write(&hello).await;
    assert_eq!(thief.record().await.unwrap().kind, RecordKind::HelloReply);
    thief.send(&[request(0, 0x1002, &[])]).await;
    // What it is told it cannot read, and it is told no more.
    let mut last = Vec::new();
    soon(thief.stream.read_to_end(&mut last)).await.unwrap();
    let (kind, len) = record::parse(*last.first_chunk().unwrap()).unwrap();
    assert_eq!((kind, len), (RecordKind::Sealed, last.len() - record::HEADER));
    assert_eq!(server.connection_count(), 0);
}
