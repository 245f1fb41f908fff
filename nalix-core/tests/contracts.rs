//! Peers that were built from different versions of their contracts: those that fit work with each other in both
//! directions, and those that don't learn it at once, with the packet and the difference named.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{any::TypeId, time::Duration};

use nalix_core::{
    CloseCode, CloseReason, Code, Connection, OneWay, Opcode, Request, RequestError, Side, Wire,
    connection::{ConnectError, Driver, Options, Serving, accept, connect},
    controller::{Controller, Router},
    handshake::{ClientSecurity, Contracts, ServerSecurity},
    link::memory,
    packet,
    packet::NoError,
    packet_controller,
    registry::{Location, PacketInfo, Shape},
    schema::{Contract, Describe, Field, Fields, Schema},
};
use tokio::task::JoinHandle;

/// The first version of everything.
mod old {
    use super::*;

    #[packet(opcode = 0x1001, reply = Greeting)]
    pub(crate) struct Greet {
        pub(crate) name: String,
    }

    #[derive(Debug, PartialEq, Wire)]
    pub(crate) struct Greeting {
        pub(crate) text: String,
    }

    #[packet(opcode = 0x1002, reply = u32)]
    pub(crate) struct Paint {
        pub(crate) color: Color,
    }

    #[derive(Debug, PartialEq, Wire)]
    pub(crate) enum Color {
        Red,
        Green,
    }

    #[packet(opcode = 0x1003, reply = Color)]
    pub(crate) struct Favourite;

    pub(crate) struct Lab;

    #[packet_controller]
    impl Lab {
        #[packet]
        fn greet(&self, greet: Greet) -> Greeting {
            Greeting { text: format!("old hello {}", greet.name) }
        }

        #[packet]
        fn paint(&self, paint: Paint) -> u32 {
            paint.color as u32
        }

        #[packet]
        fn favourite(&self, _: Favourite) -> Color {
            Color::Green
        }
    }

    pub(crate) fn contracts() -> Contracts {
        Contracts::from_packets([request::<Greet>(), request::<Paint>(), request::<Favourite>()])
    }
}

/// A later version that has grown by the rules.
mod new {
    use super::*;

    #[packet(opcode = 0x1001, reply = Greeting)]
    pub(crate) struct Greet {
        pub(crate) name: String,
        #[wire(since = 2)]
        pub(crate) loud: bool,
    }

    #[derive(Debug, PartialEq, Wire)]
    pub(crate) struct Greeting {
        pub(crate) text: String,
        #[wire(since = 2)]
        pub(crate) language: Option<String>,
    }

    #[packet(opcode = 0x1002, reply = u32)]
    pub(crate) struct Paint {
        pub(crate) color: Color,
    }

    #[derive(Debug, PartialEq, Wire)]
    pub(crate) enum Color {
        Red,
        Green,
        Blue,
    }

    #[packet(opcode = 0x1003, reply = Color)]
    pub(crate) struct Favourite;

    /// One that the old version does not know.
    #[packet(opcode = 0x1004, reply = u32)]
    pub(crate) struct Extra;

    pub(crate) struct Lab;

    #[packet_controller]
    impl Lab {
        #[packet]
        fn greet(&self, greet: Greet) -> Greeting {
            let text = format!("new hello {}{}", greet.name, if greet.loud { "!" } else { "" });
            Greeting { text, language: Some("en".to_owned()) }
        }

        #[packet]
        fn paint(&self, paint: Paint) -> u32 {
            paint.color as u32
        }

        #[packet]
        fn favourite(&self, _: Favourite) -> Color {
            Color::Blue
        }

        #[packet]
        fn extra(&self, _: Extra) -> u32 {
            7
        }
    }

    pub(crate) fn contracts() -> Contracts {
        // In another order.
        Contracts::from_packets([
            request::<Extra>(),
            request::<Favourite>(),
            request::<Greet>(),
            request::<Paint>(),
        ])
    }
}

fn contract<P: Request>() -> Contract {
    let declared = TypeId::of::<P::Error>() != TypeId::of::<NoError>();
    let error = declared.then(Schema::of::<P::Error>);
    Contract::new(Schema::of::<P>(), Some(Schema::of::<P::Reply>()), error)
}

/// What `#[packet]` submits to the registry of the program, of which there is one only.
fn info(opcode: Opcode, name: &'static str, shape: Shape, contract: fn() -> Contract) -> &'static PacketInfo {
    let location = Location { file: file!(), line: line!() };
    Box::leak(Box::new(PacketInfo::new(opcode, name, name, location, shape, contract)))
}

fn request<P: Request>() -> &'static PacketInfo {
    info(P::OPCODE, P::NAME, Shape::Request, contract::<P>)
}

fn one_way<P: OneWay>() -> &'static PacketInfo {
    info(P::OPCODE, P::NAME, Shape::OneWay, || Contract::new(Schema::of::<P>(), None, None))
}

fn router(controller: impl Controller) -> Router {
    let mut builder = Router::builder();
    builder.add(controller);
    builder.build().unwrap()
}

struct Pair {
    /// The end that has connected.
    client: Result<Connection, ConnectError>,
    /// The end that has accepted, while it lasts.
    server: Connection,
    server_ended: JoinHandle<CloseReason>,
}

async fn pair(ours: (Contracts, Router), theirs: (Contracts, Router)) -> Pair {
    let (link, their_link) = memory::pair(7);
    let options = Options::default();
    let server = tokio::spawn(async move {
        accept(their_link, theirs.0, &ServerSecurity::Plaintext, &Options::default()).await
    });
    let client =
        tokio::spawn(
            async move { connect(link, ours.0, &ClientSecurity::Plaintext, &Options::default()).await },
        );
    let (server, driver) = Driver::new(server.await.unwrap().unwrap(), Serving::from(theirs.1), &options);
    let server_ended = tokio::spawn(driver);
    let client = client.await.unwrap().map(|established| {
        let (client, driver) = Driver::new(established, Serving::from(ours.1), &options);
        tokio::spawn(driver);
        client
    });
    Pair { client, server, server_ended }
}

fn old_side() -> (Contracts, Router) {
    (old::contracts(), router(old::Lab))
}

fn new_side() -> (Contracts, Router) {
    (new::contracts(), router(new::Lab))
}

async fn old_asks_new(old_end: &Connection) {
    let greeting = old_end.request(old::Greet { name: "Ada".into() }).await;
    assert_eq!(greeting.unwrap().text, "new hello Ada", "what is missing has its default");
    assert_eq!(old_end.request(old::Paint { color: old::Color::Green }).await, Ok(1));
    // A variant that this end does not know fails this call and no other.
    let unknown = old_end.request(old::Favourite).await;
    assert!(matches!(unknown, Err(RequestError::Decode(_))), "{unknown:?}");
    assert_eq!(old_end.request(old::Paint { color: old::Color::Red }).await, Ok(0));
}

async fn new_asks_old(new_end: &Connection) {
    let greeting = new_end.request(new::Greet { name: "Ada".into(), loud: true }).await.unwrap();
    assert_eq!(greeting, new::Greeting { text: "old hello Ada".into(), language: None });
    assert_eq!(new_end.request(new::Paint { color: new::Color::Green }).await, Ok(1));
    let unknown = new_end.request(new::Paint { color: new::Color::Blue }).await.unwrap_err();
    assert_eq!(unknown.code(), Some(Code::Malformed), "{unknown}");
    assert_eq!(new_end.request(new::Favourite).await, Ok(new::Color::Green));
    let extra = new_end.request(new::Extra).await.unwrap_err();
    assert_eq!(extra.code(), Some(Code::Unimplemented), "{extra}");
}

#[tokio::test(start_paused = true)]
async fn an_old_client_and_a_new_server_work_in_both_directions() {
    let pair = pair(old_side(), new_side()).await;
    let client = pair.client.unwrap();
    old_asks_new(&client).await;
    new_asks_old(&pair.server).await;
    client.close();
    assert_eq!(pair.server_ended.await.unwrap().code, CloseCode::Normal);
}

#[tokio::test(start_paused = true)]
async fn a_new_client_and_an_old_server_work_in_both_directions() {
    let pair = pair(new_side(), old_side()).await;
    let client = pair.client.unwrap();
    new_asks_old(&client).await;
    old_asks_new(&pair.server).await;
    client.close();
    assert_eq!(pair.server_ended.await.unwrap().code, CloseCode::Normal);
}

#[tokio::test(start_paused = true)]
async fn packets_that_only_one_side_knows_are_no_obstacle() {
    for contracts in [Contracts::default(), Contracts::from_packets([request::<new::Extra>()])] {
        let pair = pair((contracts, Router::empty()), old_side()).await;
        assert_eq!(pair.client.unwrap().request(old::Paint { color: old::Color::Red }).await, Ok(0));
    }
}

/// Checks that peers which know these two packets do not come together, whoever connects.
async fn assert_refused(one: &'static PacketInfo, other: &'static PacketInfo, packet: &str, what: &[&str]) {
    for (ours, theirs) in [(one, other), (other, one)] {
        let side = |info| (Contracts::from_packets([request::<new::Extra>(), info]), router(new::Lab));
        let pair = pair(side(ours), side(theirs)).await;
        let error = pair.client.unwrap_err();
        let ConnectError::Incompatible(mismatch) = &error else { panic!("{error}") };
        assert_eq!(mismatch.opcode, ours.opcode);
        assert!(!error.is_retryable());
        let text = error.to_string();
        for part in [packet].iter().chain(what) {
            assert!(text.contains(part), "{part:?} is not in {text:?}");
        }
        // The side that was connected to hears it, too.
        let reason = pair.server_ended.await.unwrap();
        assert_eq!((reason.code, reason.by), (CloseCode::Incompatible, Side::Peer), "{reason}");
        assert!(reason.message.contains(packet), "{reason}");
        assert!(matches!(pair.server.request(new::Extra).await, Err(RequestError::Closed(_))));
    }
}

/// A packet with these fields, as a peer might describe it.
macro_rules! described {
    ($fields:expr) => {{
        fn contract() -> Contract {
            struct P;
            impl Describe for P {
                fn describe(schema: &mut nalix_core::schema::SchemaBuilder) -> nalix_core::schema::Type {
                    let key = nalix_core::schema::TypeKey::of::<P>(file!(), line!(), column!());
                    schema.named(key, |schema| {
                        let fields: fn(&mut nalix_core::schema::SchemaBuilder) -> Fields = $fields;
                        nalix_core::schema::Def::structure("Item", fields(schema))
                    })
                }
            }
            Contract::new(Schema::of::<P>(), Some(Schema::of::<u32>()), None)
        }
        info(Opcode::new(0x2001), "Item", Shape::Request, contract)
    }};
}

#[tokio::test(start_paused = true)]
async fn what_the_rules_of_growth_do_not_allow_is_refused_with_the_field_named() {
    let base = described!(|s| Fields::new(vec![
        Field::new("id", u32::describe(s)),
        Field::new("name", str::describe(s))
    ]));
    let added = described!(|s| Fields::new(vec![
        Field::new("id", u32::describe(s)),
        Field::new("name", str::describe(s)),
        Field::new("weight", f32::describe(s)),
    ]));
    assert_refused(base, added, "Item", &["weight", "no `since`"]).await;
    let removed = described!(|s| Fields::new(vec![Field::new("id", u32::describe(s))]));
    assert_refused(base, removed, "Item", &["name", "missing"]).await;
    let retyped = described!(|s| Fields::new(vec![
        Field::new("id", u64::describe(s)),
        Field::new("name", str::describe(s)),
    ]));
    assert_refused(base, retyped, "Item", &["id", "u32", "u64"]).await;
    let renamed = described!(|s| Fields::new(vec![
        Field::new("id", u32::describe(s)),
        Field::new("title", str::describe(s)),
    ]));
    assert_refused(base, renamed, "Item", &["`name`", "`title`"]).await;
    let swapped = described!(|s| Fields::new(vec![
        Field::new("name", str::describe(s)),
        Field::new("id", u32::describe(s)),
    ]));
    assert_refused(base, swapped, "Item", &["field 1", "`id`", "`name`"]).await;
    let exact = described!(|s| Fields::new(vec![
        Field::new("id", u32::describe(s)),
        Field::new("name", str::describe(s)),
        Field::new("weight", f32::describe(s)).since(2),
    ])
    .exact());
    assert_refused(base, exact, "Item", &["weight", "exact"]).await;
}

mod replies {
    use super::*;

    #[packet(opcode = 0x2002, reply = u32)]
    pub(crate) struct Count;

    pub(crate) mod wider {
        use super::*;
        #[packet(opcode = 0x2002, reply = u64)]
        pub(crate) struct Count;
    }

    pub(crate) mod failing {
        use super::*;
        #[packet(opcode = 0x2002, reply = u32, error = String)]
        pub(crate) struct Count;
    }

    pub(crate) mod unanswered {
        use super::*;
        #[packet(opcode = 0x2002)]
        pub(crate) struct Count;
    }
}

#[tokio::test(start_paused = true)]
async fn a_different_answer_is_refused() {
    let base = request::<replies::Count>();
    assert_refused(base, request::<replies::wider::Count>(), "Count", &["reply", "u32", "u64"]).await;
    assert_refused(base, request::<replies::failing::Count>(), "Count", &["error", "str"]).await;
    assert_refused(base, one_way::<replies::unanswered::Count>(), "Count", &["reply", "u32"]).await;
}

mod nested {
    use super::*;

    #[packet(opcode = 0x2003, reply = ())]
    pub(crate) struct Move {
        pub(crate) to: Point,
    }

    #[derive(Wire)]
    pub(crate) struct Point {
        pub(crate) x: f32,
    }

    pub(crate) mod grown {
        use super::*;
        #[packet(opcode = 0x2003, reply = ())]
        pub(crate) struct Move {
            pub(crate) to: Point,
        }

        #[derive(Wire)]
        pub(crate) struct Point {
            pub(crate) x: f32,
            #[wire(since = 2)]
            pub(crate) y: f32,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_nested_type_that_grows_is_refused_unless_it_says_that_it_does() {
    let (base, grown) = (request::<nested::Move>(), request::<nested::grown::Move>());
    assert_refused(base, grown, "Move", &["packet.to", "y", "neither at top level nor extensible"]).await;
}

/// `n` packets of one layout, and those of another layout with the same opcodes.
fn many(n: u16, contract: fn() -> Contract) -> Contracts {
    Contracts::from_packets((0..n).map(|i| info(Opcode::new(0x0100 + i), "Many", Shape::Request, contract)))
}

#[tokio::test(start_paused = true)]
async fn more_packets_than_a_hello_holds_are_an_error_of_ours() {
    let (link, theirs) = memory::pair(1 << 20);
    let accepting = tokio::spawn(async move {
        accept(theirs, Contracts::default(), &ServerSecurity::Plaintext, &Options::default()).await
    });
    let error = connect(
        link,
        many(7_000, contract::<replies::Count>),
        &ClientSecurity::Plaintext,
        &Options::default(),
    )
    .await
    .unwrap_err();
    assert!(matches!(&error, ConnectError::Configuration(text) if text.contains("7000 packets")), "{error}");
    // The other side is not left waiting.
    let waited = tokio::time::Instant::now();
    assert!(accepting.await.unwrap().is_err());
    assert!(waited.elapsed() < Duration::from_secs(2));

    let side = || (many(6_000, contract::<replies::Count>), Router::empty());
    assert!(pair(side(), side()).await.client.is_ok());
}

#[tokio::test(start_paused = true)]
async fn more_differences_than_can_be_described_are_refused() {
    let (link, theirs) = memory::pair(1 << 20);
    let accepting = tokio::spawn(async move {
        accept(theirs, many(6_000, contract::<new::Greet>), &ServerSecurity::Plaintext, &Options::default())
            .await
    });
    let error =
        connect(link, many(6_000, contract::<old::Greet>), &ClientSecurity::Plaintext, &Options::default())
            .await
            .unwrap_err();
    let ConnectError::Refused(reason) = &error else { panic!("{error}") };
    assert_eq!(reason.code, CloseCode::Incompatible);
    assert!(reason.message.contains("6000"), "{reason}");
    assert!(!error.is_retryable());
    assert!(accepting.await.unwrap().is_err());
}
