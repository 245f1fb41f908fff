//! What peers choose, in any number, takes no memory that stays.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use nalix_core::link::StreamLink;
use nalix_server::{Code, Context, HubExt, Options, ServerHandle, packet, packet_controller};
use peak_alloc::PeakAlloc;
use support::{RawPeer, request, soon, until};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, duplex},
    time::advance,
};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Goes into a group of this name, and out again.
#[packet(opcode = 0x1001, reply = ())]
struct Visit(String);

struct Lobby;

#[packet_controller]
impl Lobby {
    #[packet]
    fn visit(&self, ctx: &Context, Visit(name): Visit) {
        let group = ctx.group(name);
        group.join(ctx);
        group.leave(ctx);
    }
}

/// The only test here, so that nothing else takes memory meanwhile.
#[tokio::test(start_paused = true)]
async fn connections_opcodes_and_names_without_end_leave_nothing_behind() {
    let server = support::server(Lobby, Options::default()).await;
    round(&server).await;
    let before = MEMORY.current_usage();
    for _ in 0..2 {
        round(&server).await;
    }
    let left = MEMORY.current_usage().saturating_sub(before);
    assert!(left < 128 << 10, "{left} bytes are left");
    assert_eq!((server.connection_count(), server.hub().group_count()), (0, 0));
}

async fn round(server: &ServerHandle) {
    // One client that comes back from another port each time, and others that have an address each.
    for n in 0..10_000u16 {
        let address = Ipv4Addr::new(192, 0, 2, if n % 4 == 0 { n as u8 } else { 1 });
        reconnect(server, SocketAddr::new(address.into(), 1_024 + n)).await;
    }
    let mut peer = RawPeer::connect(server).await;
    for opcode in 0..=u16::MAX {
        if opcode == 0x1001 {
            continue;
        }
        peer.send(&[request(0, opcode, b"")]).await;
        assert_eq!(soon(peer.status(0)).await.code, Code::Unimplemented);
    }
    drop(peer);
    let session = support::session(server).await;
    for n in 0..10_000 {
        session.request(Visit(format!("room {n}"))).await.unwrap();
    }
    for n in 0..10_000 {
        let agent = format!("Mozilla/5.0 (strange; rv:{n}) \u{202e}\u{7f}{}", "x".repeat(n % 100));
        let visit = session.request(Visit("lobby".to_owned()));
        visit.metadata(&format!("x-{n}"), format!("{n}")).metadata("user-agent", agent).await.unwrap();
    }
    session.close().await;
    until("everybody is gone", || server.connection_count() == 0).await;
}

async fn reconnect(server: &ServerHandle, from: SocketAddr) {
    // As fast as one address may.
    advance(Duration::from_millis(20)).await;
    let (mut ours, theirs) = duplex(1 << 12);
    server.serve_link(StreamLink::new(theirs).with_addrs(Some(from), None));
    ours.write_all(&RawPeer::hello()).await.unwrap();
    soon(ours.read_u8()).await.expect("an answer to the hello");
}
