//! What a server refuses to start with, and what it says.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::ErrorKind;

use nalix_server::{BuildError, Context, Server, ServerBuilder, State, packet, packet_controller};
use support::session;

#[packet(opcode = 0x1001, reply = u32)]
struct One;

#[packet(opcode = 0x1002, reply = u32)]
struct Two;

struct A;

#[packet_controller]
impl A {
    #[packet]
    fn one(&self, _: One) -> u32 {
        1
    }
}

struct B;

#[packet_controller]
impl B {
    #[packet]
    fn also_one(&self, _: One) -> u32 {
        2
    }
}

struct Database(u32);

struct C;

#[packet_controller]
impl C {
    #[packet]
    fn two(&self, State(db): State<Database>, _: Two) -> u32 {
        db.0
    }
}

struct OnlyHooks;

#[packet_controller]
impl OnlyHooks {
    #[connected]
    fn connected(&self, _: &Context) {}
}

fn base() -> ServerBuilder {
    Server::builder().plaintext().no_listener()
}

async fn refusal(builder: ServerBuilder) -> (BuildError, String) {
    let error = builder.build().await.map(drop).unwrap_err();
    let text = error.to_string();
    (error, text)
}

#[tokio::test]
async fn security_must_be_spoken_of() {
    let (error, text) = refusal(Server::builder().no_listener().controller(A)).await;
    assert!(matches!(error, BuildError::Security));
    assert!(text.contains(".plaintext()"), "{text}");
}

#[tokio::test]
async fn a_server_listens_somewhere_or_says_that_it_does_not() {
    let (error, text) = refusal(Server::builder().plaintext().controller(A)).await;
    assert!(matches!(error, BuildError::NoListener));
    assert!(text.contains(".tcp(") && text.contains(".no_listener()"), "{text}");
}

#[tokio::test]
async fn a_server_without_handlers_says_how_to_give_it_some() {
    for builder in [base(), base().controller(OnlyHooks)] {
        let (_, text) = refusal(builder).await;
        assert!(text.contains("no handlers") && text.contains("discover()"), "{text}");
    }
}

#[tokio::test]
async fn two_handlers_of_one_opcode_are_both_named_in_whatever_order_they_come() {
    let (_, text) = refusal(base().controller(A).controller(B)).await;
    let (_, other) = refusal(base().controller(B).controller(A)).await;
    assert_eq!(text, other);
    for part in ["0x1001", "A::one", "B::also_one", "build_errors.rs:"] {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
    assert_eq!(text.matches("build_errors.rs:").count(), 2, "{text}");
    let (_, text) = refusal(base().controller(A).controller(A)).await;
    assert_eq!(text.matches("A::one").count(), 2, "{text}");
}

#[tokio::test]
async fn a_missing_state_is_named_with_the_handler_that_needs_it() {
    let (_, text) = refusal(base().controller(C)).await;
    assert!(text.contains("C::two") && text.contains("Database") && text.contains(".state("), "{text}");
    let server = base().controller(C).state(Database(7)).build().await.unwrap();
    let (handle, _) = server.spawn();
    assert_eq!(session(&handle).await.request(Two).await, Ok(7));
}

#[tokio::test]
async fn a_state_that_is_given_twice_is_named() {
    let (_, text) = refusal(base().controller(C).state(Database(1)).state(Database(2))).await;
    assert!(text.contains("Database") && text.contains("twice"), "{text}");
}

#[tokio::test]
async fn an_address_that_is_none_is_quoted() {
    for bad in
        ["", "localhost", "127.0.0.1", "127.0.0.1:", ":x", "127.0.0.1:65536", "tcp://127.0.0.1:0", "[::1:0"]
    {
        let (error, text) = refusal(Server::builder().plaintext().controller(A).tcp(bad)).await;
        assert!(matches!(&error, BuildError::Address { address, .. } if address == bad), "{bad}: {text}");
        assert!(text.contains(&format!("{bad:?}")), "{text}");
        assert!(!error.is_retryable());
    }
    // A host that is nobody's, and an address that is not ours.
    let (_, text) = refusal(Server::builder().plaintext().controller(A).tcp("no.such.host.invalid:0")).await;
    assert!(text.contains("no.such.host.invalid:0"), "{text}");
    let (error, text) = refusal(Server::builder().plaintext().controller(A).tcp("192.0.2.1:0")).await;
    assert!(
        matches!(&error, BuildError::Listen { source, .. } if source.kind() == ErrorKind::AddrNotAvailable),
        "{text}"
    );
}

#[tokio::test]
async fn a_failed_build_leaves_nothing_bound() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let failing = Server::builder().plaintext().controller(A).tcp(free.to_string()).tcp("192.0.2.1:0");
    refusal(failing).await;
    let server = Server::builder().plaintext().controller(A).tcp(free.to_string()).build().await.unwrap();
    assert_eq!(server.local_addr(), free);
}
