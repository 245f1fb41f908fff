//! What peers choose, in any number, takes no memory that stays.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use nalix_server::{Code, Context, HubExt, Options, packet, packet_controller};
use peak_alloc::PeakAlloc;
use support::{RawPeer, request, soon, until};

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

async fn round(server: &nalix_server::ServerHandle) {
    for _ in 0..1_000 {
        drop(RawPeer::connect(server).await);
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
    session.close().await;
    until("everybody is gone", || server.connection_count() == 0).await;
}
