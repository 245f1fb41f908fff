//! Two packets with one opcode in one program: neither a server nor a client starts.

use nalix_client::{Client, ConnectError};
use nalix_server::{BuildError, Server, link::memory, packet_controller};

mod ours {
    use nalix_server::packet;

    #[packet(opcode = 0x1001, reply = u32)]
    pub(super) struct Ping;
}

mod theirs {
    use nalix_server::packet;

    #[packet(opcode = 0x1001)]
    #[allow(dead_code)] // nobody uses it, and it clashes all the same
    pub(super) struct Pong;
}

struct Game;

#[packet_controller]
impl Game {
    #[packet]
    fn ping(&self, _: ours::Ping) -> u32 {
        1
    }
}

fn assert_names_both(text: &str) {
    for part in ["opcode 0x1001", "clashing_packets::ours::Ping", "clashing_packets::theirs::Pong"] {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
    assert_eq!(text.matches("clashing_packets.rs:").count(), 2, "{text}");
}

#[tokio::test]
async fn a_server_names_both_places() {
    let error =
        Server::builder().plaintext().no_listener().controller(Game).build().await.map(drop).unwrap_err();
    assert!(matches!(error, BuildError::Registry(_)), "{error}");
    assert_names_both(&error.to_string());
}

#[tokio::test]
async fn a_client_names_both_places() {
    let (link, _theirs) = memory::pair(64);
    let error = Client::builder("").plaintext().connect_over(link).await.map(drop).unwrap_err();
    assert!(matches!(error, ConnectError::Configuration(_)), "{error}");
    assert_names_both(&error.to_string());
    assert!(!error.is_retryable());
}
