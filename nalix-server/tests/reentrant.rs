//! Handlers that call the side which called them, while it waits.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::time::Duration;

use nalix_core::{Code, RequestError};
use nalix_server::{Context, Options, Status, packet, packet_controller};
use tokio::time::Instant;

use support::{Both, soon};

/// Goes to the server, which asks the client `Down(n - 1)` and adds one. In order.
#[packet(opcode = 0x1001, reply = u32)]
struct Up(u32);

/// Goes to the client, which asks the server `Up(n - 1)` and adds one. In order.
#[packet(opcode = 0x1002, reply = u32)]
struct Down(u32);

/// The same, whatever else runs.
#[packet(opcode = 0x1003, reply = u32)]
struct UpAside(u32);

#[packet(opcode = 0x1004, reply = u32)]
struct DownAside(u32);

/// Pushed to the client, whose handler calls the server.
#[packet(opcode = 0x1005)]
struct Push(u32);

/// What the client's handler of a push found out.
#[packet(opcode = 0x1006, reply = ())]
struct Report(u32);

/// Has the server push, and answered when the report has come back.
#[packet(opcode = 0x1007, reply = u32)]
struct PushToMe(u32);

struct Upper {
    reported: tokio::sync::watch::Sender<u32>,
}

fn failed<E: std::fmt::Display>(error: RequestError<E>) -> Status {
    match error {
        RequestError::Status(status) => status,
        RequestError::Timeout => Status::new(Code::DeadlineExceeded, "the one below took too long"),
        other => Status::internal(other.to_string()),
    }
}

#[packet_controller]
impl Upper {
    #[packet]
    async fn up(&self, ctx: &Context, Up(n): Up) -> Result<u32, Status> {
        if n == 0 {
            return Ok(0);
        }
        Ok(ctx.request(Down(n - 1)).await.map_err(failed)? + 1)
    }

    #[packet(concurrent)]
    async fn up_aside(&self, ctx: &Context, UpAside(n): UpAside) -> Result<u32, Status> {
        if n == 0 {
            return Ok(0);
        }
        Ok(ctx.request(DownAside(n - 1)).await.map_err(failed)? + 1)
    }

    #[packet]
    async fn push_to_me(&self, ctx: &Context, PushToMe(n): PushToMe) -> Result<u32, Status> {
        ctx.send(&Push(n)).await.map_err(|error| Status::internal(error.to_string()))?;
        let mut reported = self.reported.subscribe();
        let n = *reported.wait_for(|&reported| reported == n + 1).await.map_err(|_| Status::internal(""))?;
        Ok(n)
    }

    #[packet(concurrent)]
    fn report(&self, Report(n): Report) {
        self.reported.send_replace(n);
    }
}

struct Lower;

#[packet_controller]
impl Lower {
    #[packet]
    async fn down(&self, ctx: &Context, Down(n): Down) -> Result<u32, Status> {
        if n == 0 {
            return Ok(0);
        }
        Ok(ctx.request(Up(n - 1)).await.map_err(failed)? + 1)
    }

    #[packet(concurrent)]
    async fn down_aside(&self, ctx: &Context, DownAside(n): DownAside) -> Result<u32, Status> {
        if n == 0 {
            return Ok(0);
        }
        Ok(ctx.request(UpAside(n - 1)).await.map_err(failed)? + 1)
    }

    #[packet]
    async fn push(&self, ctx: &Context, Push(n): Push) -> Result<(), Status> {
        ctx.request(Report(n + 1)).await.map_err(failed)
    }
}

async fn pair(max_calls: usize, capacity: usize) -> (Both, nalix_client::Session) {
    let mut options = Options::default();
    options.max_calls = max_calls;
    let mut both = Both::with(Upper { reported: Default::default() }, options.clone()).await;
    (both.client_options, both.capacity) = (options, capacity);
    let session = both.client_serving(Lower).await;
    (both, session)
}

/// The reply to a handler's own call never waits behind that handler, also with the narrowest bounds.
#[tokio::test(start_paused = true)]
async fn a_handler_may_call_its_caller_back() {
    for max_calls in [1, 2, 1_024] {
        for capacity in [1, 7, 1 << 16] {
            let (both, session) = pair(max_calls, capacity).await;
            let start = Instant::now();
            assert_eq!(session.request(Up(1)).await, Ok(1));
            assert_eq!(session.request(UpAside(1)).await, Ok(1));
            let server = both.server_end().await;
            assert_eq!(server.request(Down(1)).await, Ok(1));
            // Many at once: each is one call deep, so each finds its slot in the end.
            let many: Vec<_> = (0..50)
                .map(|_| {
                    let session = session.clone();
                    tokio::spawn(async move { session.request(Up(1)).await })
                })
                .collect();
            for call in many {
                assert_eq!(soon(call).await.unwrap(), Ok(1));
            }
            assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn handlers_that_do_not_wait_for_others_may_call_each_other_to_any_depth() {
    for depth in [2, 3, 4, 50, 300] {
        let (_both, session) = pair(1_024, 1 << 16).await;
        assert_eq!(session.request(UpAside(depth)).await, Ok(depth));
    }
}

/// Two handlers in order that wait for each other cannot go on, nor can one whose call would need the slot that its
/// own caller holds. That ends with an error, in the time allowed and not later, and the connection is as good as new.
#[tokio::test(start_paused = true)]
async fn handlers_that_wait_for_each_other_end_in_time() {
    for (max_calls, aside) in [(1_024, false), (1, false), (1, true)] {
        let (both, session) = pair(max_calls, 1 << 16).await;
        let start = Instant::now();
        let timeout = Duration::from_secs(5);
        let result = if aside {
            session.request(UpAside(3)).timeout(timeout).await
        } else {
            session.request(Up(3)).timeout(timeout).await
        };
        match result {
            Err(RequestError::Timeout) => {}
            Err(RequestError::Status(status)) if status.code == Code::DeadlineExceeded => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(start.elapsed().as_secs(), 5);
        // The lower handlers end with the upper one, not when their own time is up.
        assert_eq!(session.request(Up(1)).await, Ok(1));
        assert_eq!(both.server_end().await.request(Down(1)).await, Ok(1));
        assert_eq!(start.elapsed().as_secs(), 5);
        assert_eq!(session.connection().calls_in_flight(), 0);
        assert_eq!(both.server_end().await.calls_in_flight(), 0);
    }
}

/// The handler of a push calls the server while the server's handler waits for the outcome.
#[tokio::test(start_paused = true)]
async fn the_handler_of_a_push_may_call_the_server() {
    let (_both, session) = pair(1_024, 7).await;
    for n in 0..100 {
        assert_eq!(soon(std::future::IntoFuture::into_future(session.request(PushToMe(n)))).await, Ok(n + 1));
    }
}
