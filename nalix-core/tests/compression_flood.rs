//! What a peer can make a connection keep by frames that inflate to far more than they are, about calls that there are not.
//!
//! One test in a program of its own, since the allocator counts for all threads.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::future::poll_fn;

use nalix_core::{
    CallId,
    connection::{self, Driver, Options, Serving},
    controller::Router,
    frame::{self, FRAGMENT, FrameKind, Head, compress},
    handshake::{ClientSecurity, Contracts, Hello, MAX_HELLO, Params, Responder, ServerSecurity},
    link::{Link, memory},
    record::{self, RecordKind},
    session::Inbound,
    wire::varint,
};
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

#[tokio::test(start_paused = true)]
async fn answers_to_nobody_are_not_kept_until_all_that_has_been_read_is_handled() {
    for (kind, len, most) in [
        (FrameKind::Reply, 3 << 20, 8 << 20),
        (FrameKind::Error, FRAGMENT, 8 << 20),
        (FrameKind::Item, FRAGMENT, 8 << 20),
    ] {
        let (taken, sent) = flood(kind, len).await;
        assert!(sent > 4 * most, "{sent} bytes are no flood");
        assert!(taken < most, "{kind:?}: {taken} bytes for {sent} that inflate from one read");
    }
}

/// What the driver has taken at its highest, and how many bytes came in all when inflated.
async fn flood(kind: FrameKind, len: usize) -> (usize, usize) {
    let (ours, mut theirs) = memory::pair(1 << 20);
    let options = Options::default();
    let connecting = connection::connect(ours, Contracts::default(), &ClientSecurity::Plaintext, &options);
    let (established, ()) = tokio::join!(connecting, answer(&mut theirs));
    let (_connection, driver) = Driver::new(established.unwrap(), Serving::from(Router::empty()), &options);
    let driver = tokio::spawn(driver);

    let message = vec![7; len];
    let body = compress::compressed(&message, |bytes| bytes.unwrap().to_vec());
    drop(message);
    let mut one = Vec::new();
    frame::put_head(&mut one, Head::of_call(kind, CallId::new(9)).with_compressed());
    let mut buf = [0; varint::MAX_LEN];
    let n = varint::put(body.len() as u64, &mut buf);
    one.extend_from_slice(&buf[..n]);
    one.extend_from_slice(&body);
    let each = 30_000 / one.len();
    let record = record::build(RecordKind::Plain, &one.repeat(each));
    // The buffer grows to what a read brings; the last rounds are the largest.
    let mut sent = 0;
    MEMORY.reset_peak_usage();
    let before = MEMORY.current_usage();
    for _ in 0..40 {
        write(&mut theirs, &record).await;
        sent += each * len;
    }
    tokio::task::yield_now().await;
    assert!(!driver.is_finished(), "it is no error");
    let taken = MEMORY.peak_usage() - before;
    drop(theirs);
    driver.await.unwrap();
    (taken, sent)
}

/// The accepting side's part of the handshake.
async fn answer(link: &mut memory::MemoryLink) {
    let mut inbound = Inbound::new(MAX_HELLO);
    let hello = loop {
        if let Some(record) = inbound.next_record().unwrap() {
            break Hello::parse(&record.body).unwrap();
        }
        poll_fn(|cx| link.poll_read(cx, inbound.buffer())).await.unwrap();
    };
    let params = Params::new(1 << 20, 100, Contracts::default());
    let responder = Responder::read(&hello, params, &ServerSecurity::Plaintext, None).unwrap();
    write(link, &responder.accept(None, None).unwrap().reply).await;
}

async fn write(link: &mut memory::MemoryLink, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let n = poll_fn(|cx| link.poll_write(cx, bytes)).await.unwrap();
        bytes = &bytes[n..];
    }
}
