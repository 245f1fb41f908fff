//! Links from proxies that name their clients, and those who would like to be taken for some.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use nalix_client::{Client, ConnectError, Session};
use nalix_core::link::StreamLink;
use nalix_server::{
    Context, GuardOptions, RefusalCause, Server, ServerBuilder, ServerHandle, packet, packet_controller,
};
use socket2::{Domain, Socket, Type};
use support::{RawPeer, eventually, soon, until};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    net::TcpStream,
    time::{Instant, sleep, timeout},
};

/// Who the client is, as its handler sees it.
#[packet(opcode = 0x1001, reply = Option<SocketAddr>)]
struct WhoAmI;

struct Game;

#[packet_controller]
impl Game {
    #[packet]
    fn who_am_i(&self, ctx: &Context, _: WhoAmI) -> Option<SocketAddr> {
        ctx.connection().peer_addr()
    }
}

async fn server(
    set: impl FnOnce(&mut GuardOptions),
    build: impl FnOnce(ServerBuilder) -> ServerBuilder,
) -> ServerHandle {
    let mut guard = GuardOptions::default();
    guard.trusted_proxies = vec!["10.0.0.0/8".parse().unwrap(), "127.0.0.2".parse().unwrap()];
    guard.refusal_interval = Duration::ZERO;
    set(&mut guard);
    let builder = Server::builder().plaintext().no_listener().controller(Game).guard(guard);
    build(builder).build().await.unwrap().spawn().0
}

async fn memory(set: impl FnOnce(&mut GuardOptions)) -> ServerHandle {
    server(set, |builder| builder).await
}

fn link(server: &ServerHandle, from: &str) -> DuplexStream {
    let (ours, theirs) = duplex(1 << 16);
    let from = SocketAddr::new(from.parse().unwrap(), 1_000);
    server.serve_link(StreamLink::new(theirs).with_addrs(Some(from), None));
    ours
}

async fn connect(mut link: DuplexStream, header: &[u8]) -> Result<Session, ConnectError> {
    drop(link.write_all(header).await);
    soon(Client::builder("").plaintext().connect_over(StreamLink::new(link))).await
}

async fn who(session: &Session) -> Option<SocketAddr> {
    session.request(WhoAmI).await.unwrap()
}

fn v1(source: &str, port: u16) -> Vec<u8> {
    format!("PROXY TCP4 {source} 192.0.2.200 {port} 7777\r\n").into_bytes()
}

fn v2(command: u8, family: u8, block: &[u8]) -> Vec<u8> {
    let len = u16::try_from(block.len()).unwrap().to_be_bytes();
    [b"\r\n\r\n\0\r\nQUIT\n", &[0x20 | command, family][..], &len, block].concat()
}

fn v2_of(source: [u8; 4], rest: &[u8]) -> Vec<u8> {
    v2(1, 0x11, &[&source[..], &[192, 0, 2, 200, 0x12, 0x34, 0x1e, 0x61], rest].concat())
}

/// Closed without anything served: by the end of the link, after an abort or not.
async fn is_closed(link: &mut (impl AsyncReadExt + Unpin)) {
    drop(soon(link.read_to_end(&mut Vec::new())).await);
}

#[tokio::test(start_paused = true)]
async fn handlers_and_limits_see_the_client_that_the_proxy_names() {
    let server = memory(|guard| guard.max_connections_per_address = 1).await;
    let first = connect(link(&server, "10.0.0.9"), &v1("203.0.113.5", 4_660)).await.unwrap();
    assert_eq!(who(&first).await, Some("203.0.113.5:4660".parse().unwrap()));
    let second = connect(link(&server, "10.0.0.9"), &v2_of([203, 0, 113, 6], b"")).await.unwrap();
    assert_eq!(who(&second).await, Some("203.0.113.6:4660".parse().unwrap()));
    // Both limits and bans are those of clients, not of the proxy.
    assert!(connect(link(&server, "10.0.0.8"), &v1("203.0.113.5", 1)).await.is_err());
    assert_eq!(server.guard().refused(RefusalCause::TooManyFromAddress), 1);
    assert!(server.guard().ban("203.0.113.7".parse().unwrap(), Duration::from_secs(9)));
    assert!(connect(link(&server, "10.0.0.9"), &v2_of([203, 0, 113, 7], b"")).await.is_err());
    // Also in the form of an IPv6 address.
    let mut block = [0; 36];
    block[10..16].copy_from_slice(&[0xff, 0xff, 203, 0, 113, 7]);
    assert!(connect(link(&server, "10.0.0.9"), &v2(1, 0x21, &block)).await.is_err());
    assert_eq!(server.guard().refused(RefusalCause::Banned), 2);
    assert_eq!(server.guard().links_from("10.0.0.9".parse().unwrap()), 0);
}

#[tokio::test(start_paused = true)]
async fn connections_of_the_proxys_own_are_served_under_its_address_and_not_counted() {
    let server = memory(|guard| (guard.max_connections_per_address, guard.ban_after) = (1, 0)).await;
    let proxy = Some("10.0.0.9:1000".parse().unwrap());
    let mut sessions = Vec::new();
    for (header, seen) in [
        (v2(0, 0, b""), proxy),
        (v2(0, 0x11, &[1; 12]), proxy),
        (v2(1, 0, b"anything"), proxy),
        (b"PROXY UNKNOWN\r\n".to_vec(), proxy),
        (b"PROXY UNKNOWN ffff:: whatever 1 2\r\n".to_vec(), proxy),
        // There is no address to a Unix socket.
        (v2(1, 0x31, &[7; 216]), None),
    ] {
        sessions.push(connect(link(&server, "10.0.0.9"), &header).await.unwrap());
        assert_eq!(who(sessions.last().unwrap()).await, seen);
    }
    // A fault behind a header that names nobody bans nobody.
    let mut bad = link(&server, "10.0.0.9");
    bad.write_all(&[&v2(0, 0, b"")[..], &[0xff; 40]].concat()).await.unwrap();
    is_closed(&mut bad).await;
    assert!(server.guard().bans().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_header_from_anybody_else_is_no_header_and_names_nobody() {
    let server = memory(|guard| guard.ban_after = 0).await;
    for (n, header) in [v1("10.0.0.1", 1), v2_of([10, 0, 0, 1], b""), v2(0, 0, b"")].iter().enumerate() {
        let from = format!("192.0.2.{n}");
        let mut link = link(&server, &from);
        link.write_all(&[header, &RawPeer::hello()[..]].concat()).await.unwrap();
        is_closed(&mut link).await;
        drop(link);
        let ip = from.parse().unwrap();
        until("banned", || server.guard().banned(ip).is_some()).await;
    }
    // It was the sender's fault, and not that of the one he named.
    assert!(server.guard().banned("10.0.0.1".parse().unwrap()).is_none());
    assert_eq!(server.connection_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_proxy_that_names_nobody_or_in_a_bad_way_is_closed() {
    let server = memory(|guard| guard.max_proxy_header = 256).await;
    let two = [v1("203.0.113.5", 1), v1("203.0.113.6", 1)].concat();
    let bad: [(&str, Vec<u8>); 9] = [
        ("none", RawPeer::hello()),
        ("no end in 107 bytes", [&b"PROXY TCP4 "[..], &[b'1'; 200]].concat()),
        ("a leading zero", v1("203.0.113.05", 1)),
        ("65,535 bytes", [&v2(1, 0x11, b"")[..14], &[0xff, 0xff]].concat()),
        ("over the limit", v2_of([203, 0, 113, 5], &[0; 229])),
        ("an unknown family", v2(1, 0x41, &[0; 36])),
        ("an unknown command", v2(2, 0x11, &[0; 12])),
        ("too short", v2(1, 0x11, &[0; 11])),
        ("two headers", two),
    ];
    let named = bad.len() - 1;
    for (what, bytes) in &bad {
        let mut link = link(&server, "10.0.0.9");
        let start = Instant::now();
        link.write_all(bytes).await.unwrap();
        is_closed(&mut link).await;
        assert!(start.elapsed() < Duration::from_secs(3), "{what}: only when the time was over");
    }
    assert_eq!(server.guard().refused(RefusalCause::ProxyHeader), named as u64);
    assert_eq!(server.connection_count(), 0);
    // At the limit it is good, whatever is behind the addresses.
    let most = v2_of([203, 0, 113, 5], &[0xee; 228]);
    assert_eq!(most.len(), 256);
    assert!(who(&connect(link(&server, "10.0.0.9"), &most).await.unwrap()).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_header_that_is_cut_at_any_byte_names_the_same_client() {
    let server = memory(|_| {}).await;
    for header in [v1("203.0.113.5", 9), v2_of([203, 0, 113, 5], &[4, 0, 1, 9])] {
        // The hello may come along with any part of it.
        let bytes = [&header[..], &RawPeer::hello()].concat();
        for cut in 1..bytes.len() {
            let mut link = link(&server, "10.0.0.9");
            link.write_all(&bytes[..cut]).await.unwrap();
            sleep(Duration::from_millis(1)).await;
            link.write_all(&bytes[cut..]).await.unwrap();
            until("open", || server.connection_count() == 1).await;
            let ip = server.connections()[0].peer_addr().unwrap().ip();
            assert_eq!(ip, IpAddr::V4(Ipv4Addr::new(203, 0, 113, 5)), "cut at {cut}");
            drop(link);
            until("gone", || server.connection_count() == 0).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_proxy_that_says_nothing_is_cut_off_in_time_and_holds_no_more_than_handshakes() {
    let server = server(
        |guard| guard.proxy_timeout = Duration::from_secs(3),
        |builder| builder.max_handshakes(10).max_connections(3),
    )
    .await;
    let start = Instant::now();
    let mut silent: Vec<_> = (0..10).map(|_| link(&server, "10.0.0.9")).collect();
    for (n, link) in silent.iter_mut().enumerate() {
        // Some stop in the middle.
        link.write_all(&v2_of([203, 0, 113, 5], b"")[..n]).await.unwrap();
    }
    sleep(Duration::from_millis(1)).await;
    is_closed(&mut link(&server, "10.0.0.9")).await;
    assert_eq!(server.guard().refused(RefusalCause::Handshakes), 1);
    assert!(start.elapsed() < Duration::from_secs(2));
    for link in &mut silent {
        is_closed(link).await;
        let waited = start.elapsed();
        assert!((3..4).contains(&waited.as_secs()), "{waited:?}");
    }
    assert!(who(&connect(link(&server, "10.0.0.9"), &v1("203.0.113.5", 1)).await.unwrap()).await.is_some());
    let never = memory(|guard| guard.proxy_timeout = Duration::ZERO).await;
    assert!(connect(link(&never, "10.0.0.9"), &v1("203.0.113.5", 1)).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_drain_does_not_wait_for_headers() {
    let server = memory(|guard| guard.proxy_timeout = Duration::MAX).await;
    let mut waiting = link(&server, "10.0.0.9");
    waiting.write_all(b"PROXY").await.unwrap();
    sleep(Duration::from_millis(1)).await;
    server.shutdown();
    assert!(timeout(Duration::from_secs(1), waiting.read_to_end(&mut Vec::new())).await.is_ok());
}

/// A socket bound to an address of the loopback network's, which is many.
async fn socket(from: &str, port: u16) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let from: SocketAddr = SocketAddr::new(from.parse().unwrap(), 0);
    socket.bind(&from.into()).unwrap();
    let to: SocketAddr = (Ipv4Addr::LOCALHOST, port).into();
    tokio::task::spawn_blocking(move || {
        socket.connect(&to.into()).unwrap();
        socket.set_nonblocking(true).unwrap();
        TcpStream::from_std(socket.into()).unwrap()
    })
    .await
    .unwrap()
}

/// In the order in which a listener sees it: the header, the lists, the limits, the handshake.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_real_sockets_the_header_comes_first_and_the_lists_next() {
    let server = server(
        |guard| {
            // The proxy's own address is denied, which says nothing of its clients.
            guard.deny = vec!["127.0.0.2".parse().unwrap(), "203.0.113.66".parse().unwrap()];
            guard.max_connections_per_address = 1;
        },
        |builder| builder.tcp("127.0.0.1:0"),
    )
    .await;
    let port = server.local_addrs()[0].port();
    let over = async |from: &str, header: Vec<u8>| {
        let mut stream = socket(from, port).await;
        stream.write_all(&header).await.unwrap();
        soon(Client::builder("").plaintext().connect_over(StreamLink::new(stream))).await
    };
    let session = over("127.0.0.2", v1("203.0.113.5", 77)).await.unwrap();
    assert_eq!(who(&session).await, Some("203.0.113.5:77".parse().unwrap()));
    assert!(over("127.0.0.2", v1("203.0.113.5", 78)).await.is_err(), "one is the limit");
    assert!(over("127.0.0.2", v1("203.0.113.66", 78)).await.is_err(), "denied");
    assert_eq!(
        (
            server.guard().refused(RefusalCause::Denied),
            server.guard().refused(RefusalCause::TooManyFromAddress)
        ),
        (1, 1)
    );
    // From where no proxy is, a header breaks the protocol, and a client needs none.
    assert!(over("127.0.0.3", v1("203.0.113.9", 1)).await.is_err());
    let plain = over("127.0.0.3", Vec::new()).await.unwrap();
    assert_eq!(who(&plain).await.unwrap().ip(), IpAddr::V4(Ipv4Addr::new(127, 0, 0, 3)));
    // And from where one is, a client cannot do without: his hello is no header.
    assert!(over("127.0.0.2", Vec::new()).await.is_err());
    plain.close().await;
    session.close().await;
    eventually("empty", || server.connection_count() == 0).await;
}
