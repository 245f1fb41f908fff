//! What is marked `encrypt`, over connections that are not: it never leaves, and where it comes all the same, from a peer
//! that does not keep to the rules or whose packet is not marked, it is refused.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use nalix_core::{
    Opcode, Packet,
    frame::{FrameKind, Head},
    wire::to_vec,
};
use nalix_server::{
    Call, Code, Context, Options, RequestError, SendError, Server, ServerHandle, Status, packet,
    packet_controller,
};
use support::{Both, Live, RawPeer, frame, notify, request, session};
use tower::{Service, layer::layer_fn};

#[packet(opcode = 0x1001, reply = u8, encrypt)]
struct Login {
    password: String,
}

#[packet(opcode = 0x1002, encrypt)]
struct Whisper(u8);

#[packet(opcode = 0x1003, reply = u8)]
struct Open;

/// As an older peer knows them: not marked.
#[packet(opcode = 0x1004, reply = u8)]
struct HandlerMarked(u8);

#[packet(opcode = 0x1005)]
struct HandlerWhisper(u8);

/// Asks the server to send the client what it must not.
#[packet(opcode = 0x1006, reply = u8)]
struct Push;

#[derive(Clone, Default)]
struct Bank {
    entered: Live,
}

#[packet_controller]
impl Bank {
    #[packet]
    fn login(&self, _: Login) -> u8 {
        drop(self.entered.enter());
        1
    }

    #[packet]
    fn whisper(&self, _: Whisper) {
        drop(self.entered.enter());
    }

    #[packet]
    fn open(&self, _: Open) -> u8 {
        2
    }

    #[packet(encrypt)]
    async fn handler_marked(&self, _: HandlerMarked) -> u8 {
        drop(self.entered.enter());
        3
    }

    #[packet(encrypt, concurrent)]
    fn handler_whisper(&self, _: HandlerWhisper) {
        drop(self.entered.enter());
    }

    #[packet]
    async fn push(&self, ctx: &Context, _: Push) -> Result<u8, Status> {
        let asked = ctx.request(login()).await;
        assert_eq!(asked, Err(RequestError::EncryptionRequired));
        assert_eq!(ctx.send(&Whisper(1)).await, Err(SendError::EncryptionRequired));
        assert_eq!(ctx.try_send(&Whisper(1)), Err(SendError::EncryptionRequired));
        Ok(4)
    }
}

fn login() -> Login {
    Login { password: "a secret".to_owned() }
}

async fn bank() -> (ServerHandle, Bank) {
    let bank = Bank::default();
    (support::server(bank.clone(), Options::default()).await, bank)
}

/// The first frame that arrives is that of the request after them, and it has the first call's id: no byte has left and
/// no slot was taken.
#[tokio::test(start_paused = true)]
async fn what_is_marked_never_leaves_a_client_on_an_unsecured_connection() {
    let (mut peer, session) = RawPeer::accept(Options::default()).await;
    for _ in 0..3 {
        let error = session.request(login()).await.unwrap_err();
        assert_eq!(error, RequestError::EncryptionRequired);
        assert!(!error.is_retryable() && error.code().is_none());
        assert!(!format!("{error} {error:?}").contains("secret"));
        let error = session.send(&Whisper(1)).await.unwrap_err();
        assert!(error == SendError::EncryptionRequired && !error.is_retryable());
        assert_eq!(session.try_send(&Whisper(1)), Err(SendError::EncryptionRequired));
        assert_eq!(session.connection().calls_in_flight(), 0);
    }
    let call = tokio::spawn(async move { session.request(Open).await });
    let frame = peer.frame().await.unwrap();
    assert_eq!((frame.kind, frame.id.get(), frame.opcode), (FrameKind::Request, 0, Open::OPCODE));
    let answer = support::frame(Head::of_call(FrameKind::Reply, frame.id), &[2]);
    peer.send(&[answer]).await;
    assert_eq!(call.await.unwrap(), Ok(2));
}

#[tokio::test(start_paused = true)]
async fn what_is_marked_never_leaves_a_server_on_an_unsecured_connection() {
    let (server, _) = bank().await;
    let mut peer = RawPeer::connect(&server).await;
    peer.send(&[request(5, Push::OPCODE.get(), b"")]).await;
    assert_eq!(peer.reply(5).await, [4][..]);
    peer.ping().await;
}

/// Also where there is no room: it does not wait for what it could not use.
#[tokio::test(start_paused = true)]
async fn what_is_marked_is_refused_at_once_when_the_outbox_is_full() {
    let both = Both::new(Bank::default()).await;
    let _peer = RawPeer::connect_over(&both.server, 1).await;
    let connection = both.server_end().await;
    while connection.try_send(&HandlerWhisper(1)).is_ok() {}
    assert_eq!(connection.request(login()).await, Err(RequestError::EncryptionRequired));
    assert_eq!(connection.send(&Whisper(1)).await, Err(SendError::EncryptionRequired));
    assert_eq!(connection.try_send(&Whisper(1)), Err(SendError::EncryptionRequired));
}

#[tokio::test(start_paused = true)]
async fn what_is_marked_and_comes_in_the_clear_is_refused_and_never_decoded() {
    let (server, bank) = bank().await;
    let mut peer = RawPeer::connect(&server).await;
    let good = to_vec(&login()).unwrap();
    for opcode in [Login::OPCODE, HandlerMarked::OPCODE] {
        // What does not decode is not told apart from what would.
        for payload in [&good[..], b"", b"\xff\xff\xff\xff", b"\x08a secret"] {
            peer.send(&[request(0, opcode.get(), payload)]).await;
            let status = peer.status(0).await;
            assert_eq!(status.code, Code::EncryptionRequired, "{status}");
            assert!(!status.is_retryable() && !status.message.is_empty());
            assert!(!status.message.contains("secret"), "{status}");
        }
    }
    let garbage = |opcode: Opcode| frame(Head::notify(opcode), b"");
    peer.send(&[notify(&Whisper(1)), notify(&HandlerWhisper(1))]).await;
    peer.send(&[garbage(Whisper::OPCODE), garbage(HandlerWhisper::OPCODE)]).await;
    // Nothing of this counts as a packet that does not decode, or is held against the peer.
    peer.ping().await;
    peer.send(&[request(0, Open::OPCODE.get(), b"")]).await;
    assert_eq!(peer.reply(0).await, [2][..]);
    assert_eq!(bank.entered.entered(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_marked_handler_refuses_a_packet_that_is_not_marked() {
    let bank = Bank::default();
    let both = Both::new(bank.clone()).await;
    let client = both.client_serving(bank.clone()).await;
    for connection in [client.connection().clone(), both.server_end().await] {
        let error = connection.request(HandlerMarked(1)).await.unwrap_err();
        assert_eq!(error.code(), Some(Code::EncryptionRequired));
        assert!(!error.is_retryable());
        connection.send(&HandlerWhisper(1)).await.unwrap();
        assert_eq!(connection.request(Open).await, Ok(2));
    }
    assert_eq!(bank.entered.entered(), 0);
}

#[tokio::test(start_paused = true)]
async fn layers_do_not_see_what_comes_in_the_clear_and_must_not() {
    #[derive(Clone)]
    struct Counted<S>(S, Arc<AtomicUsize>);
    impl<S: Service<Call>> Service<Call> for Counted<S> {
        type Response = S::Response;
        type Error = S::Error;
        type Future = S::Future;

        fn poll_ready(
            &mut self,
            cx: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Result<(), Self::Error>> {
            self.1.fetch_add(1, SeqCst);
            self.0.poll_ready(cx)
        }

        fn call(&mut self, call: Call) -> S::Future {
            self.1.fetch_add(1, SeqCst);
            self.0.call(call)
        }
    }
    let seen = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&seen);
    let server = Server::builder().plaintext().no_listener().controller(Bank::default());
    let server = server.layer(layer_fn(move |inner| Counted(inner, Arc::clone(&counter))));
    let server = server.build().await.unwrap().handle();
    let mut peer = RawPeer::connect(&server).await;
    for opcode in [Login::OPCODE, HandlerMarked::OPCODE] {
        peer.send(&[request(0, opcode.get(), b"\x01")]).await;
        assert_eq!(peer.status(0).await.code, Code::EncryptionRequired);
    }
    peer.send(&[notify(&Whisper(1)), notify(&HandlerWhisper(1))]).await;
    peer.ping().await;
    assert_eq!(seen.load(SeqCst), 0);
    assert_eq!(session(&server).await.request(Open).await, Ok(2));
    assert!(seen.load(SeqCst) > 0);
}
