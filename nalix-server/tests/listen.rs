//! Real sockets: ports that are taken, restarts, both families of addresses.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{io::ErrorKind, net::SocketAddr, time::Duration};

use nalix_client::{Client, ConnectError, Session};
use nalix_server::{
    BuildError, Context, Server, ServerBuilder, link::tcp::ListenOptions, packet, packet_controller,
};
use support::{eventually, within};

/// Who the server thinks the caller is.
#[packet(opcode = 0x1001, reply = (Option<SocketAddr>, Option<SocketAddr>))]
struct WhoAmI;

struct Lab;

#[packet_controller]
impl Lab {
    #[packet]
    fn who(&self, ctx: &Context, _: WhoAmI) -> (Option<SocketAddr>, Option<SocketAddr>) {
        (ctx.peer_addr(), ctx.local_addr())
    }
}

fn builder() -> ServerBuilder {
    Server::builder().plaintext().controller(Lab).drain_timeout(Duration::from_millis(100))
}

async fn connect(address: impl std::fmt::Display) -> Result<Session, ConnectError> {
    within("the connection", Client::builder(format!("tcp://{address}")).no_reconnect().plaintext().connect())
        .await
}

fn has_ipv6() -> bool {
    std::net::TcpListener::bind("[::1]:0").is_ok()
}

fn assert_in_use(built: Result<Server, BuildError>, address: SocketAddr) {
    let error = built.map(drop).unwrap_err();
    assert!(
        matches!(&error, BuildError::Listen { source, .. } if source.kind() == ErrorKind::AddrInUse),
        "{error}"
    );
    assert!(error.to_string().contains(&address.to_string()), "{error}");
    assert!(error.is_retryable());
}

#[tokio::test]
async fn a_port_that_is_taken_is_an_error_and_not_shared_in_silence() {
    let first = builder().tcp("127.0.0.1:0").build().await.unwrap();
    let address = first.local_addr();
    assert_in_use(builder().tcp(address.to_string()).build().await, address);
    // Asking for it on one side is not enough.
    let mut shared = ListenOptions::default();
    shared.shared_port = true;
    assert_in_use(builder().listen_options(shared).tcp(address.to_string()).build().await, address);
    // Nor does the same address twice in one server go unnoticed.
    let free = builder().tcp("127.0.0.1:0").build().await.unwrap().local_addr();
    assert_in_use(builder().tcp(free.to_string()).tcp(free.to_string()).build().await, free);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_port_is_shared_by_those_who_all_ask_for_it() {
    let mut shared = ListenOptions::default();
    shared.shared_port = true;
    let first = builder().listen_options(shared.clone()).tcp("127.0.0.1:0").build().await.unwrap();
    let address = first.local_addr();
    let second = builder().listen_options(shared).tcp(address.to_string()).build().await.unwrap();
    let (first, second) = (first.spawn().0, second.spawn().0);
    let mut sessions = Vec::new();
    // The kernel spreads them by a hash of the addresses.
    while first.connection_count() == 0 || second.connection_count() == 0 {
        assert!(sessions.len() < 200, "all went to one");
        let session = connect(address).await.unwrap();
        session.request(WhoAmI).await.unwrap();
        sessions.push(session);
    }
}

#[tokio::test]
async fn a_server_starts_again_at_once_on_the_port_of_its_predecessor() {
    let server = builder().tcp("127.0.0.1:0").build().await.unwrap();
    let address = server.local_addr();
    let (mut handle, mut running) = server.spawn();
    for _ in 0..3 {
        let mut sessions = Vec::new();
        for _ in 0..20 {
            sessions.push(connect(address).await.unwrap());
        }
        handle.shutdown();
        within("the drain", running).await.unwrap().unwrap();
        // The server has closed first, so the kernel remembers its side of all of them.
        (handle, running) = builder().tcp(address.to_string()).build().await.unwrap().spawn();
        assert!(connect(address).await.unwrap().request(WhoAmI).await.is_ok());
        drop(sessions);
    }
}

#[tokio::test]
async fn the_ipv6_wildcard_takes_ipv4_clients_under_their_own_addresses() {
    if !has_ipv6() {
        return;
    }
    let server = builder().tcp("[::]:0").build().await.unwrap();
    let port = server.local_addr().port();
    let (handle, _) = server.spawn();
    for host in ["127.0.0.1", "[::1]"] {
        let session = connect(format!("{host}:{port}")).await.unwrap();
        let (peer, local) = session.request(WhoAmI).await.unwrap();
        let ip: std::net::IpAddr = host.trim_matches(['[', ']']).parse().unwrap();
        assert_eq!((peer.unwrap().ip(), local.unwrap().ip()), (ip, ip));
        assert_eq!(peer, session.connection().local_addr(), "both sides agree");
        assert_eq!(local, session.connection().peer_addr());
    }
    assert!(handle.connections().iter().all(|c| c.peer_addr().is_some_and(|addr| addr.ip().is_loopback())));
}

#[tokio::test]
async fn both_wildcards_share_a_port_if_the_ipv6_one_keeps_to_itself() {
    if !has_ipv6() {
        return;
    }
    let v4 = builder().tcp("0.0.0.0:0").build().await.unwrap();
    let port = v4.local_addr().port();
    let wildcard = SocketAddr::new([0_u16; 8].into(), port);
    assert_in_use(builder().tcp(wildcard.to_string()).build().await, wildcard);
    let mut only_v6 = ListenOptions::default();
    only_v6.dual_stack = false;
    let v6 = builder().listen_options(only_v6).tcp(wildcard.to_string()).build().await.unwrap();
    let (v4, v6) = (v4.spawn().0, v6.spawn().0);
    let _one = connect(format!("127.0.0.1:{port}")).await.unwrap();
    let _two = connect(format!("[::1]:{port}")).await.unwrap();
    eventually("one each", || v4.connection_count() == 1 && v6.connection_count() == 1).await;
}

#[tokio::test]
async fn a_server_listens_on_all_its_addresses() {
    let server = builder().tcp("127.0.0.1:0").tcp("127.0.0.2:0").tcp("localhost:0").build().await.unwrap();
    let addrs = server.local_addrs();
    assert_eq!((addrs.len(), addrs[0]), (3, server.local_addr()));
    assert!(addrs.iter().all(|addr| addr.port() != 0));
    let (handle, running) = server.spawn();
    assert_eq!(handle.local_addrs(), addrs);
    for addr in &addrs {
        assert!(connect(addr).await.unwrap().request(WhoAmI).await.is_ok());
    }
    handle.shutdown();
    within("the drain", running).await.unwrap().unwrap();
    for addr in addrs {
        let error = connect(addr).await.unwrap_err();
        assert!(
            matches!(&error, ConnectError::Dial { source, .. } if source.kind() == ErrorKind::ConnectionRefused),
            "{error}"
        );
    }
}

#[tokio::test]
async fn any_backlog_can_be_asked_for() {
    for backlog in [0, 1, u32::MAX] {
        let mut options = ListenOptions::default();
        options.backlog = backlog;
        let server = builder().listen_options(options).tcp("127.0.0.1:0").build().await.unwrap();
        let address = server.local_addr();
        let _running = server.spawn();
        assert!(connect(address).await.unwrap().request(WhoAmI).await.is_ok());
    }
}

#[tokio::test]
async fn peers_that_are_gone_before_they_are_accepted_harm_nobody() {
    let server = builder().tcp("127.0.0.1:0").build().await.unwrap();
    let address = server.local_addr();
    for _ in 0..50 {
        let raw = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        raw.connect(&address.into()).unwrap();
        // Closing then sends a reset.
        raw.set_linger(Some(Duration::ZERO)).unwrap();
    }
    let (handle, _) = server.spawn();
    assert!(connect(address).await.unwrap().request(WhoAmI).await.is_ok());
    eventually("only one was real", || handle.connection_count() <= 1).await;
}
