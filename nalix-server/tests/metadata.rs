//! Keys and values that travel with packets: who sees them, and what they may not be.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use nalix_core::{
    error::EncodeError,
    frame::{MAX_ENTRIES, MAX_KEY},
    packet::NoError,
};
use nalix_server::{
    Call, Context, Options, RequestError, SendError, Server, link::memory, packet, packet_controller,
};
use support::{Both, RawPeer, frame, session, soon, until};
use tower::util::MapRequestLayer;

/// Answered with all metadata that has come with it.
#[packet(opcode = 0x1001, reply = Vec<(String, Vec<u8>)>)]
struct All;

/// Answered with the first value of the key.
#[packet(opcode = 0x1002, reply = Option<Vec<u8>>)]
struct First {
    key: String,
}

/// Asks the caller for all, with metadata, and answers with what it got.
#[packet(opcode = 0x1003, reply = Vec<(String, Vec<u8>)>)]
struct AskBack;

#[packet(opcode = 0x1004, reply = u32)]
struct Blob {
    bytes: Vec<u8>,
}

#[packet(opcode = 0x1005, reply = ())]
struct Forever;

#[packet(opcode = 0x3001)]
struct Noted;

#[packet(opcode = 0x3002)]
struct Filler {
    bytes: Vec<u8>,
}

#[derive(Clone, Default)]
struct Lab {
    noted: Arc<Mutex<Vec<Option<Vec<u8>>>>>,
}

fn all(ctx: &Context) -> Vec<(String, Vec<u8>)> {
    ctx.all_metadata().map(|(key, value)| (key.to_owned(), value.to_vec())).collect()
}

#[packet_controller]
impl Lab {
    #[packet]
    fn all(&self, ctx: &Context, _: All) -> Vec<(String, Vec<u8>)> {
        all(ctx)
    }

    #[packet(concurrent)]
    async fn first(&self, ctx: &Context, first: First) -> Option<Vec<u8>> {
        // Others come in between.
        tokio::task::yield_now().await;
        ctx.metadata(&first.key).map(<[u8]>::to_vec)
    }

    #[packet(concurrent)]
    async fn ask_back(&self, ctx: &Context, _: AskBack) -> Vec<(String, Vec<u8>)> {
        ctx.request(All).metadata("asked", ctx.metadata("why").unwrap()).await.unwrap()
    }

    #[packet]
    fn blob(&self, ctx: &Context, blob: Blob) -> u32 {
        (blob.bytes.len() + ctx.all_metadata().map(|(_, value)| value.len()).sum::<usize>()) as u32
    }

    #[packet(concurrent)]
    async fn forever(&self, _: Forever) {
        std::future::pending::<()>().await;
    }

    #[packet]
    fn noted(&self, ctx: &Context, _: Noted) {
        self.noted.lock().unwrap().push(ctx.metadata("who").map(<[u8]>::to_vec));
    }

    #[packet]
    fn filler(&self, _: Filler) {}
}

struct Answers;

#[packet_controller]
impl Answers {
    #[packet]
    fn all(&self, ctx: &Context, _: All) -> Vec<(String, Vec<u8>)> {
        all(ctx)
    }
}

fn pair(key: &str, value: &[u8]) -> (String, Vec<u8>) {
    (key.to_owned(), value.to_vec())
}

#[tokio::test(start_paused = true)]
async fn what_the_caller_gives_is_what_the_handler_sees() {
    let both = Both::new(Lab::default()).await;
    let session = both.client().await;
    assert_eq!(session.request(All).await.unwrap(), []);
    let longest = "ü".repeat(MAX_KEY / 2);
    for timed in [false, true] {
        let mut request =
            session.request(All).metadata("traceparent", "00-4bf9").metadata("raw", [0, 255, 0]);
        request = request.metadata(&longest, String::new()).metadata("raw", vec![1]);
        request = if timed { request.timeout(Duration::from_secs(5)) } else { request.no_timeout() };
        let expected = [
            pair("traceparent", b"00-4bf9"),
            pair("raw", &[0, 255, 0]),
            pair(&longest, b""),
            pair("raw", &[1]),
        ];
        assert_eq!(request.await.unwrap(), expected);
    }
    let first = |key: &str| First { key: key.to_owned() };
    let ask = |key| session.request(first(key)).metadata("raw", [1]).metadata("raw", [2]);
    assert_eq!(ask("raw").await, Ok(Some(vec![1])));
    assert_eq!(ask("ra").await, Ok(None));
    assert_eq!(session.request(first("raw")).await, Ok(None), "nothing is left of earlier requests");
}

#[tokio::test(start_paused = true)]
async fn calls_at_once_keep_theirs_apart() {
    let both = Both::new(Lab::default()).await;
    let session = both.client().await;
    let calls: Vec<_> = (0..500u32)
        .map(|n| {
            let session = session.clone();
            tokio::spawn(async move {
                let request = session.request(First { key: "n".to_owned() });
                let request = if n % 3 == 0 { request } else { request.metadata("n", n.to_le_bytes()) };
                (n, request.await.unwrap())
            })
        })
        .collect();
    for call in calls {
        let (n, found) = call.await.unwrap();
        assert_eq!(found, (n % 3 != 0).then(|| n.to_le_bytes().to_vec()));
    }
}

#[tokio::test(start_paused = true)]
async fn one_way_packets_and_the_servers_own_requests_have_it_too() {
    let lab = Lab::default();
    let noted = Arc::clone(&lab.noted);
    let both = Both::new(lab).await;
    let session = both.client_serving(Answers).await;
    session.send(&Noted).metadata("who", "me").await.unwrap();
    session.send(&Noted).await.unwrap();
    session.connection().send(&Noted).metadata("whom", "you").metadata("who", b"me again").await.unwrap();
    let found = session.request(AskBack).metadata("why", "because").await;
    assert_eq!(found, Ok(vec![pair("asked", b"because")]));
    assert_eq!(*noted.lock().unwrap(), [Some(b"me".to_vec()), None, Some(b"me again".to_vec())]);
}

#[tokio::test(start_paused = true)]
async fn layers_see_it_before_the_handler_does() {
    let seen: Arc<Mutex<Vec<Option<Vec<u8>>>>> = Arc::default();
    let layer = MapRequestLayer::new({
        let seen = Arc::clone(&seen);
        move |call: Call| {
            seen.lock().unwrap().push(call.context().metadata("traceparent").map(<[u8]>::to_vec));
            call
        }
    });
    let server = Server::builder().plaintext().no_listener().controller(Lab::default()).layer(layer);
    let server = server.build().await.unwrap().handle();
    let session = session(&server).await;
    let found = session.request(All).metadata("traceparent", "00-1").await.unwrap();
    assert_eq!(found, [pair("traceparent", b"00-1")]);
    session.request(All).await.unwrap();
    assert_eq!(*seen.lock().unwrap(), [Some(b"00-1".to_vec()), None]);
}

/// Exactly at a limit works; a byte more fails at the sender with nothing sent, and the connection is as good as before.
#[tokio::test(start_paused = true)]
async fn too_much_fails_at_its_sender() {
    fn refused<T: std::fmt::Debug>(result: Result<T, RequestError<NoError>>) {
        assert!(matches!(&result, Err(RequestError::Encode(EncodeError::Metadata { .. }))), "{result:?}");
        assert!(!result.unwrap_err().is_retryable());
    }
    let both = Both::new(Lab::default()).await;
    let session = both.client().await;
    // Four bytes besides the key, which is one byte long, and the value.
    let most = vec![7; MAX_ENTRIES - 5];
    for timed in [false, true] {
        let with = |value: &[u8]| {
            let request = session.request(All).metadata("k", value);
            if timed { request.timeout(Duration::from_secs(5)) } else { request.no_timeout() }
        };
        assert_eq!(with(&most).await.unwrap(), [pair("k", &most)]);
        refused(with(&[&most[..], &[7]].concat()).await);
        refused(with(&most).metadata("l", b"").await);
        refused(with(&vec![7; 1 << 20]).await);
    }
    let key = "k".repeat(MAX_KEY);
    assert_eq!(session.request(All).metadata(&key, "v").await.unwrap(), [pair(&key, b"v")]);
    refused(session.request(All).metadata(&format!("{key}k"), "v").await);
    refused(session.request(All).metadata("", "v").await);
    refused(session.request(All).metadata("", "v").metadata("k", "what comes behind does not mend it").await);
    let sent = session.send(&Noted).metadata("", "v").await;
    assert!(matches!(sent, Err(SendError::Encode(EncodeError::Metadata { .. }))), "{sent:?}");
    assert_eq!(session.connection().calls_in_flight(), 0);
    let many = (0..MAX_ENTRIES / 5).fold(session.request(All), |request, n| request.metadata("k", [n as u8]));
    assert_eq!(many.await.unwrap().len(), MAX_ENTRIES / 5);
    let error = session.request(All).metadata("", "v").await.unwrap_err();
    assert_eq!(error.to_string(), "packet cannot be sent: metadata: a key is empty");
}

#[tokio::test(start_paused = true)]
async fn it_does_not_count_for_the_message_limit() {
    let mut options = Options::default();
    options.max_message = 1_000;
    let both = Both::with(Lab::default(), options).await;
    let session = both.client().await;
    let value = vec![1; MAX_ENTRIES - 5];
    let blob = |len| session.request(Blob { bytes: vec![0; len] }).metadata("k", &value);
    assert_eq!(blob(998).await, Ok(998 + value.len() as u32));
    assert_eq!(blob(999).await, Err(RequestError::TooLarge { limit: 1_000 }));
    assert_eq!(blob(998).await, Ok(998 + value.len() as u32));
}

#[tokio::test(start_paused = true)]
async fn it_arrives_with_what_does_not_fit_a_frame() {
    let both = Both::with(Lab::default(), Options::default()).await;
    let session = both.client().await;
    let value = vec![1; MAX_ENTRIES - 5];
    let request = session.request(Blob { bytes: vec![0; 200_000] }).metadata("k", &value);
    assert_eq!(request.await, Ok(200_000 + value.len() as u32));
}

/// A request that waits for a free slot, or a packet for room, is sent with all that belongs to it.
#[tokio::test(start_paused = true)]
async fn what_waits_keeps_it() {
    let mut options = Options::default();
    options.max_calls = 1;
    let lab = Lab::default();
    let noted = Arc::clone(&lab.noted);
    let mut both = Both::with(lab, options).await;
    both.capacity = 64;
    both.client_options.outbox = 1;
    let session = both.client().await;
    let slot = tokio::spawn({
        let session = session.clone();
        async move { session.request(Forever).await }
    });
    until("it is in flight", || session.connection().calls_in_flight() == 1).await;
    let waiting = tokio::spawn({
        let session = session.clone();
        async move { session.request(All).metadata("k", "v").await }
    });
    tokio::task::yield_now().await;
    let filling = session.send(&Filler { bytes: vec![0; 10_000] }).await;
    filling.unwrap();
    soon(session.send(&Noted).metadata("who", "me")).await.unwrap();
    slot.abort();
    assert_eq!(soon(waiting).await.unwrap().unwrap(), [pair("k", b"v")]);
    until("it is noted", || noted.lock().unwrap().len() == 1).await;
    assert_eq!(*noted.lock().unwrap(), [Some(b"me".to_vec())]);
}

#[tokio::test(start_paused = true)]
async fn values_are_not_shown() {
    let seen: Arc<Mutex<String>> = Arc::default();
    let layer = MapRequestLayer::new({
        let seen = Arc::clone(&seen);
        move |call: Call| {
            *seen.lock().unwrap() = format!("{call:?}");
            call
        }
    });
    let server = Server::builder().plaintext().no_listener().controller(Lab::default()).layer(layer);
    let server = server.build().await.unwrap().handle();
    let (ours, theirs) = memory::pair(1 << 16);
    server.serve_link(theirs);
    let session = nalix_client::Client::builder("").plaintext().connect_over(ours).await.unwrap();
    let request = session.request(All).metadata("token", "hunter2");
    let ours = format!("{request:?}");
    request.await.unwrap();
    let seen = seen.lock().unwrap();
    let bytes = format!("{:?}", b"hunter2");
    for text in [&ours, &*seen] {
        assert!(!text.contains("hunter2") && !text.contains(&bytes[1..bytes.len() - 1]), "{text}");
    }
    assert!(seen.contains("token"), "{seen}");
}

/// Entries that are no fault of this protocol are passed on as they are.
#[tokio::test(start_paused = true)]
async fn a_peer_may_send_more_than_our_callers_may() {
    let both = Both::new(Lab::default()).await;
    let mut peer = RawPeer::connect(&both.server).await;
    let mut block = Vec::new();
    // 1,024 bytes of entries: 128 times key 2, 6 bytes, a name of one byte.
    for n in 0..128u8 {
        block.extend_from_slice(&[2, 6, 1, b'k', n, 0, 0, 0]);
    }
    let payload = [&[0x80, 0x08][..], &block].concat();
    let head = nalix_core::frame::Head::request(nalix_core::CallId::new(0), nalix_core::Opcode::new(0x1001));
    peer.send(&[frame(head.with_metadata(), &payload)]).await;
    let reply = peer.reply(0).await;
    let all: Vec<(String, Vec<u8>)> = nalix_core::wire::from_slice(&reply).unwrap();
    assert_eq!(all.len(), 128);
    assert!(all.iter().enumerate().all(|(n, pair)| *pair == ("k".to_owned(), vec![n as u8, 0, 0, 0])));
}
