//! Keys and values that travel with answers: from handlers and layers to callers that ask for them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{fmt::Debug, task::Poll};

use bytes::Bytes;
use nalix_core::{
    CallId,
    frame::{FrameKind, Head, MAX_ENTRIES, MAX_KEY},
    wire::to_vec,
};
use nalix_server::{
    Code, Context, Failure, Incoming, Options, Reply, RequestError, Response, Server, Status, StreamError,
    Wire, packet, packet_controller,
};
use support::{Both, RawPeer, frame, from_fn, request, session, soon};
use tower::util::MapResponseLayer;

#[packet(opcode = 0x1001, reply = u32)]
struct Plain;

/// Answered with so many bytes, which travel with a value of so many.
#[packet(opcode = 0x1002, reply = Bytes)]
struct Give {
    bytes: u32,
    value: u32,
}

#[derive(Debug, Clone, PartialEq, Wire, thiserror::Error)]
#[error("out of {0}")]
struct Out(String);

/// Answered, or failed in one of several ways.
#[packet(opcode = 0x1003, reply = u32, error = Out)]
struct Fail(u8);

#[packet(opcode = 0x1004, reply = u32)]
struct WithKey(String);

/// Calls the caller back, and tells what travelled with the answer.
#[packet(opcode = 0x1005, reply = Option<Vec<u8>>)]
struct AskBack;

#[packet(opcode = 0x4001, stream = u32, error = Out)]
struct Count(u8);

#[packet(opcode = 0x4002, upload = u32, reply = u32)]
struct Sum(bool);

#[packet(opcode = 0x3001)]
struct Noted;

#[derive(Clone, Copy)]
struct Shop;

#[packet_controller]
impl Shop {
    #[packet]
    fn plain(&self, _: Plain) -> u32 {
        1
    }

    #[packet]
    fn give(&self, give: Give) -> Response<Bytes> {
        let bytes = Bytes::from(vec![7; give.bytes as usize]);
        Response::new(bytes).with_metadata("value", vec![1; give.value as usize])
    }

    #[packet(concurrent)]
    async fn fail(&self, Fail(how): Fail) -> Result<Response<u32>, Response<Failure<Out>>> {
        tokio::task::yield_now().await;
        let out = || Failure::Application(Out("milk".into()));
        match how {
            0 => Ok(Response::new(5).with_metadata("how", "well").with_metadata("how", "very")),
            1 => Err(Response::new(out()).with_metadata("how", "application")),
            2 => {
                Err(Response::new(Failure::Status(Status::not_found("no shop")))
                    .with_metadata("how", "status"))
            }
            _ => Err(out())?,
        }
    }

    #[packet]
    fn with_key(&self, WithKey(key): WithKey) -> Response<Result<u32, Status>> {
        Response::new(Ok(1)).with_metadata(&key, "v")
    }

    #[packet(concurrent)]
    async fn ask_back(&self, ctx: &Context, _: AskBack) -> Result<Option<Vec<u8>>, Status> {
        let reply = ctx.request(Plain).response().await.map_err(|e| Status::internal(e.to_string()))?;
        Ok(reply.metadata("from").map(<[u8]>::to_vec))
    }

    #[packet]
    fn count(
        &self,
        Count(how): Count,
    ) -> Result<Response<impl futures_core::Stream<Item = Result<u32, Out>>>, Response<Status>> {
        if how == 2 {
            return Err(Response::new(Status::not_found("")).with_metadata("count", "none"));
        }
        let mut n = 0;
        let items = from_fn(move |_| {
            n += 1;
            Poll::Ready(match n {
                4 if how == 1 => Some(Err(Out("numbers".into()))),
                4 => None,
                n => Some(Ok(n)),
            })
        });
        Ok(Response::new(items).with_metadata("count", "three"))
    }

    #[packet]
    async fn sum(
        &self,
        Sum(good): Sum,
        mut chunks: Incoming<u32>,
    ) -> Result<Response<u32>, Response<Status>> {
        let mut sum = 0;
        while let Some(Ok(n)) = chunks.next().await {
            sum += n;
        }
        assert_eq!(chunks.all_metadata().count(), 0);
        match good {
            true => Ok(Response::new(sum).with_metadata("sum", "good")),
            false => Err(Response::new(Status::internal("")).with_metadata("sum", "bad")),
        }
    }

    #[packet]
    fn noted(&self, _: Noted) -> Response<()> {
        Response::new(()).with_metadata("nobody", "sees this")
    }
}

struct Answers;

#[packet_controller]
impl Answers {
    #[packet]
    fn plain(&self, _: Plain) -> Response<u32> {
        Response::new(9).with_metadata("from", "the client")
    }
}

fn pairs<T>(response: &Response<T>) -> Vec<(&str, &[u8])> {
    response.all_metadata().collect()
}

#[tokio::test(start_paused = true)]
async fn what_the_handler_attaches_is_what_the_caller_sees() {
    let both = Both::new(Shop).await;
    let session = both.client().await;
    let reply = session.request(Fail(0)).response().await.unwrap();
    assert_eq!((*reply, pairs(&reply)), (5, vec![("how", &b"well"[..]), ("how", b"very")]));
    assert_eq!((reply.metadata("how"), reply.metadata("ho")), (Some(&b"well"[..]), None));
    // Those who do not ask for it are not bothered, and what the caller has sent itself does not come back.
    assert_eq!(session.request(Fail(0)).await, Ok(5));
    let reply = session.request(Plain).metadata("mine", "own").response().await.unwrap();
    assert_eq!((reply.into_inner(), session.request(Plain).await), (1, Ok(1)));
    let reply = session.request(Plain).metadata("mine", "own").response().await.unwrap();
    assert_eq!(pairs(&reply), []);
}

#[tokio::test(start_paused = true)]
async fn failures_bring_it_too() {
    let both = Both::new(Shop).await;
    let session = both.client().await;
    let error = session.request(Fail(1)).response().await.unwrap_err();
    assert_eq!(pairs(&error), [("how", &b"application"[..])]);
    assert_eq!(error.to_string(), "out of milk");
    assert_eq!(error.into_inner(), RequestError::Application(Out("milk".into())));
    let error = session.request(Fail(2)).response().await.unwrap_err();
    assert_eq!((error.code(), pairs(&error)), (Some(Code::NotFound), vec![("how", &b"status"[..])]));
    let error = session.request(Fail(3)).response().await.unwrap_err();
    assert_eq!((pairs(&error), error.code()), (vec![], None));
    assert_eq!(session.request(Fail(1)).await, Err(RequestError::Application(Out("milk".into()))));
    // A failure of the caller's own has none.
    let late = session.request(Plain).metadata("k", "v").timeout(std::time::Duration::ZERO).response().await;
    let late = late.unwrap_err();
    assert_eq!(pairs(&late), []);
    assert_eq!(late.into_inner(), RequestError::Timeout);
}

/// Exactly at a limit works; beyond it the call fails, and the connection is as good as before.
#[tokio::test(start_paused = true)]
async fn too_much_fails_the_call_and_nothing_else() {
    fn refused<T: Debug, E: Debug>(result: Result<T, RequestError<E>>) {
        let error = result.unwrap_err();
        assert_eq!(error.code(), Some(Code::Internal), "{error:?}");
    }
    let both = Both::new(Shop).await;
    let session = both.client().await;
    // Four bytes besides key and value.
    let most = (MAX_ENTRIES - 4 - "value".len()) as u32;
    for bytes in [0, 100, 16_000, 200_000] {
        let reply = session.request(Give { bytes, value: most }).response().await.unwrap();
        assert_eq!((reply.len() as u32, reply.metadata("value").unwrap().len() as u32), (bytes, most));
        refused(session.request(Give { bytes, value: most + 1 }).await);
    }
    let longest = "k".repeat(MAX_KEY);
    let reply = session.request(WithKey(longest.clone())).response().await.unwrap();
    assert_eq!(reply.metadata(&longest), Some(&b"v"[..]));
    for bad in [String::new(), format!("{longest}k")] {
        refused(session.request(WithKey(bad)).await);
    }
    assert_eq!(session.connection().calls_in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn it_does_not_count_for_the_message_limit() {
    let mut both = Both::new(Shop).await;
    both.client_options.max_message = 1_000;
    let session = both.client().await;
    let give = |bytes| session.request(Give { bytes, value: 900 }).response();
    assert_eq!(give(998).await.unwrap().len(), 998);
    assert_eq!(give(999).await.unwrap_err().code(), Some(Code::ResourceExhausted));
    assert_eq!(give(998).await.unwrap().metadata("value"), Some(&[1; 900][..]));
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_stream_brings_it_however_it_ends() {
    let both = Both::new(Shop).await;
    let session = both.client().await;
    for how in [0, 1] {
        let mut count = session.stream(Count(how)).await.unwrap();
        for n in 1..=3 {
            assert_eq!(count.next().await, Some(Ok(n)));
            assert_eq!(count.metadata("count"), None, "it comes with the end");
        }
        let end = (how == 1).then(|| Err(StreamError::Application(Out("numbers".into()))));
        assert_eq!(count.next().await, end);
        assert_eq!(count.all_metadata().collect::<Vec<_>>(), [("count", &b"three"[..])]);
    }
    let mut none = session.stream(Count(2)).await.unwrap();
    assert_eq!(none.next().await.unwrap().unwrap_err().code(), Some(Code::NotFound));
    assert_eq!(none.metadata("count"), Some(&b"none"[..]));
}

#[tokio::test(start_paused = true)]
async fn the_answer_to_an_upload_brings_it() {
    let both = Both::new(Shop).await;
    let session = both.client().await;
    for good in [true, false] {
        for ask in [true, false] {
            let mut upload = session.upload(Sum(good)).await.unwrap();
            upload.send(&3).await.unwrap();
            upload.send(&4).await.unwrap();
            if !ask {
                assert_eq!(upload.finish().await.ok(), good.then_some(7));
                continue;
            }
            match upload.finish().response().await {
                Ok(sum) => assert_eq!((*sum, sum.metadata("sum")), (7, Some(&b"good"[..]))),
                Err(error) => {
                    assert_eq!(
                        (error.code(), error.metadata("sum")),
                        (Some(Code::Internal), Some(&b"bad"[..]))
                    );
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_its_client_sees_it() {
    let both = Both::new(Shop).await;
    let session = both.client_serving(Answers).await;
    assert_eq!(session.request(AskBack).await, Ok(Some(b"the client".to_vec())));
    // One that nobody is answered with does no harm.
    session.send(&Noted).await.unwrap();
    assert_eq!(session.request(AskBack).await, Ok(Some(b"the client".to_vec())));
}

#[tokio::test(start_paused = true)]
async fn layers_add_theirs_behind_the_handlers() {
    let layer = MapResponseLayer::new(|reply: Reply| {
        assert!(reply.metadata("how") == Some(b"well") || reply.metadata("how").is_none());
        reply.with_metadata("served-by", "a")
    });
    let server = Server::builder().plaintext().no_listener().controller(Shop).layer(layer);
    let server = server.build().await.unwrap().handle();
    let session = session(&server).await;
    let reply = session.request(Plain).response().await.unwrap();
    assert_eq!(pairs(&reply), [("served-by", &b"a"[..])]);
    let reply = session.request(Fail(0)).response().await.unwrap();
    assert_eq!(pairs(&reply), [("how", &b"well"[..]), ("how", b"very"), ("served-by", b"a")]);
    let error = session.request(Fail(3)).response().await.unwrap_err();
    assert_eq!(pairs(&error), [("served-by", &b"a"[..])]);
}

#[tokio::test(start_paused = true)]
async fn values_are_not_shown() {
    let reply = Response::new(1).with_metadata("token", "hunter2");
    assert_eq!(format!("{reply:?}"), r#"Response { inner: 1, metadata: Some({"token"}) }"#);
}

/// A reply without metadata has the bytes it always had.
#[tokio::test(start_paused = true)]
async fn replies_without_it_are_as_they_were_and_a_peer_may_send_what_it_likes() {
    let both = Both::new(Shop).await;
    let mut peer = RawPeer::connect(&both.server).await;
    peer.send(&[request(0, 0x1001, b"")]).await;
    let reply = peer.frame().await.unwrap();
    assert_eq!((reply.kind, reply.entries, &reply.payload[..]), (FrameKind::Reply, None, &[1, 0, 0, 0][..]));

    let (mut peer, session) = RawPeer::accept(Options::default()).await;
    let asking = tokio::spawn(async move {
        let first = session.request(Plain).response().await;
        (first, session.request(Plain).await, session)
    });
    let asked = peer.frame().await.unwrap();
    let answer = |block: &[u8]| {
        let payload = [&[block.len() as u8], block, &to_vec(&3u32).unwrap()].concat();
        frame(Head::of_call(FrameKind::Reply, asked.id).with_metadata(), &payload)
    };
    // An unknown key, and remaining time that has no meaning here.
    peer.send(&[answer(&[0x77, 1, 0xff, 1, 1, 0, 2, 2, 1, b'k'])]).await;
    assert_eq!(peer.frame().await.unwrap().id, CallId::new(0));
    // What breaks the block breaks the connection.
    peer.send(&[answer(&[2, 2, 2, b'k'])]).await;
    let (first, second, _session) = soon(asking).await.unwrap();
    let first = first.unwrap();
    assert_eq!((*first, pairs(&first)), (3, vec![("k", &b""[..])]));
    assert!(matches!(second, Err(RequestError::Disconnected { .. })), "{second:?}");
}
