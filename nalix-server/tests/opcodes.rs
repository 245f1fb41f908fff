//! Every opcode there is, asked of a server.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::HashSet;

use nalix_core::{
    Opcode,
    frame::{FrameKind, Head},
};
use nalix_server::{Code, Server, packet, packet_controller};
use support::{RawPeer, frame, request, status, within};

#[packet(opcode = 0x0100, reply = u32)]
struct Lowest;

#[packet(opcode = 0xFFFF, reply = u32)]
struct Highest;

#[derive(Default)]
struct Ends;

#[packet_controller]
impl Ends {
    #[packet]
    fn lowest(&self, _: Lowest) -> u32 {
        1
    }

    #[packet]
    fn highest(&self, _: Highest) -> u32 {
        2
    }
}

#[packet(opcode = 0x1000, reply = u32)]
struct Found;

#[derive(Default)]
struct Discovered;

#[packet_controller]
impl Discovered {
    #[packet]
    fn found(&self, _: Found) -> u32 {
        3
    }
}

#[packet(opcode = 0x1002, reply = u32)]
struct NotFound;

/// Cannot be made from nothing, so it is not discovered.
struct Private(u32);

#[packet_controller]
impl Private {
    #[packet]
    fn not_found(&self, _: NotFound) -> u32 {
        self.0
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_and_the_last_opcode_work_and_all_unknown_ones_are_answered() {
    let builder = Server::builder().plaintext().no_listener().controller(Ends);
    let server = builder.build().await.unwrap().spawn().0;
    let mut peer = RawPeer::connect(&server).await;
    let mut served = HashSet::new();
    let all: Vec<u16> = (0..=u16::MAX).collect();
    for opcodes in all.chunks(1024) {
        let mut frames = Vec::new();
        for (id, &opcode) in (0..).zip(opcodes) {
            frames.push(request(id, opcode, &[]));
            frames.push(frame(Head::notify(Opcode::new(opcode)), &[]));
        }
        frames.push(frame(Head::plain(FrameKind::Ping), b"still there?"));
        peer.send(&frames).await;
        let mut answered = HashSet::new();
        while answered.len() < opcodes.len() + 1 {
            let frame = within("an answer", peer.frame()).await.expect("the connection is open");
            let id = frame.id.get();
            match frame.kind {
                FrameKind::Pong => assert!(answered.insert(None)),
                FrameKind::Reply => {
                    served.insert(opcodes[id as usize]);
                    assert!(answered.insert(Some(id)));
                }
                FrameKind::Error => {
                    assert_eq!(status(&frame.payload).code, Code::Unimplemented);
                    assert!(answered.insert(Some(id)));
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(served, HashSet::from([0x0100, 0xFFFF]));
}

#[tokio::test(start_paused = true)]
async fn controllers_with_a_default_are_discovered() {
    let server = Server::builder().plaintext().no_listener().discover().build().await.unwrap().spawn().0;
    let session = support::session(&server).await;
    assert_eq!(session.request(Lowest).await, Ok(1));
    assert_eq!(session.request(Highest).await, Ok(2));
    assert_eq!(session.request(Found).await, Ok(3));
    assert_eq!(session.request(NotFound).await.unwrap_err().code(), Some(Code::Unimplemented));
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_is_discovered_and_given_is_a_duplicate() {
    let builder = Server::builder().plaintext().no_listener().discover();
    let error = builder.controller(Ends).build().await.map(drop).unwrap_err().to_string();
    assert!(error.contains("0x0100") && error.matches("Ends::lowest").count() == 2, "{error}");
    let builder = Server::builder().plaintext().no_listener().discover();
    let server = builder.controller(Private(9)).build().await.unwrap().spawn().0;
    assert_eq!(support::session(&server).await.request(NotFound).await, Ok(9));
}
