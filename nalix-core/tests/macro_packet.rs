//! `#[packet]`: traits, and what the registry knows.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use nalix_core::{
    OneWay, Opcode, Packet, Request, Wire, packet,
    packet::NoError,
    registry::{PacketInfo, Registry, Shape},
    schema::Fingerprint,
    wire::{from_slice, to_vec},
};

const BASE: u16 = 0x1000;

/// A request.
#[packet(opcode = BASE + 1, reply = Pong)]
#[derive(Debug, PartialEq)]
struct Ping {
    #[wire(max_len = 8)]
    text: String,
}

#[derive(Debug, PartialEq, Wire)]
struct Pong {
    text: String,
}

#[packet(opcode = 0x1002u16, reply = Vec<(u8, String)>, error = LoginError, rename = "sign-in")]
struct Login<'a, 'b> {
    user: &'a str,
    secret: &'b [u8],
}

#[derive(Debug, Wire)]
enum LoginError {
    BadPassword,
    Banned { until: u64 },
}

#[packet(opcode = 0x00_0100, exact)]
#[derive(Debug, PartialEq)]
enum Event {
    Joined(u8),
    Left { id: u8 },
    Nothing,
}

#[packet(opcode = 65535)]
struct Last;

#[packet(opcode = 0x1003)]
struct Tuple(u8, #[wire(varint)] u32);

mod inner {
    pub(crate) mod deeper {
        #[nalix_core::packet(opcode = 0x1004)]
        pub(crate) struct Elsewhere;
    }
}

fn info<P: Packet>() -> &'static PacketInfo {
    Registry::global().unwrap().by_opcode(P::OPCODE).unwrap()
}

/// That the shape and the types of a conversation are these.
fn answers<P: Request<Reply = R, Error = E>, R, E>() {}
fn tells<P: OneWay>() {}

#[test]
fn traits() {
    assert_eq!((Ping::OPCODE, Ping::NAME, Ping::EXACT), (Opcode::new(0x1001), "Ping", false));
    assert_eq!((Login::OPCODE, Login::NAME), (Opcode::new(0x1002), "sign-in"));
    assert_eq!((Event::OPCODE, Event::EXACT), (Opcode::FIRST_FREE, true));
    assert_eq!(Last::OPCODE.get(), u16::MAX);
    answers::<Ping, Pong, NoError>();
    answers::<Login<'_, '_>, Vec<(u8, String)>, LoginError>();
    tells::<Event>();
    tells::<Tuple>();
}

#[test]
fn packets_are_values_too() {
    let ping = Ping { text: "hello".into() };
    assert_eq!(from_slice::<Ping>(&to_vec(&ping).unwrap()).unwrap(), ping);
    assert!(to_vec(&Ping { text: "too long a text".into() }).is_err());
    for event in [Event::Joined(1), Event::Left { id: 2 }, Event::Nothing] {
        assert_eq!(from_slice::<Event>(&to_vec(&event).unwrap()).unwrap(), event);
    }
    assert_eq!(to_vec(&Tuple(1, 300)).unwrap(), [1, 0xac, 2]);
    let bytes = to_vec(&Login { user: "u", secret: b"s" }).unwrap();
    let login = from_slice::<Login<'_, '_>>(&bytes).unwrap();
    assert_eq!((login.user, login.secret), ("u", &b"s"[..]));
}

#[test]
fn registry_has_all_by_opcode_and_name() {
    let registry = Registry::global().unwrap();
    let opcodes: Vec<_> = registry.iter().map(|info| info.opcode.get()).collect();
    assert_eq!(
        opcodes,
        [
            0x0100, 0x1001, 0x1002, 0x1003, 0x1004, 0x1f01, 0x1f02, 0x1f03, 0x1f04, 0x1f05, 0x1f06, 0x1f21,
            0x1f22, 0x1f23, 0x1f24, 0xffff
        ]
    );
    assert_eq!(registry.by_name("sign-in").unwrap().opcode, Login::OPCODE);
    assert!(registry.by_name("Login").is_none());
}

#[test]
fn registry_knows_places() {
    let ping = info::<Ping>();
    assert_eq!((ping.name, ping.path), ("Ping", "macro_packet::Ping"));
    assert_eq!((ping.shape, info::<Tuple>().shape), (Shape::Request, Shape::OneWay));
    assert!(ping.location.file.ends_with("macro_packet.rs"));
    let line =
        include_str!("macro_packet.rs").lines().position(|line| line.contains("BASE + 1")).unwrap() + 1;
    assert_eq!(ping.location.line as usize, line);
    assert_eq!(info::<Login<'_, '_>>().path, "macro_packet::Login");
    assert_eq!(info::<inner::deeper::Elsewhere>().path, "macro_packet::inner::deeper::Elsewhere");
}

#[test]
fn registry_knows_contracts() {
    let login = info::<Login<'_, '_>>().contract();
    assert_eq!(login.packet.defs[0].name(), "sign-in");
    assert!(login.reply.is_some());
    assert_eq!(login.error.as_ref().unwrap().defs[0].name(), "LoginError");
    let ping = info::<Ping>().contract();
    assert!(ping.reply.is_some() && ping.error.is_none());
    let tuple = info::<Tuple>().contract();
    assert!(tuple.reply.is_none() && tuple.error.is_none());
    assert_eq!(info::<Ping>().fingerprint(), Fingerprint::of(ping));
}

/// The same contracts, with their parts defined in two orders and under other names.
mod orders {
    use nalix_core::Wire;

    pub(super) mod one {
        use super::*;

        #[derive(Wire)]
        pub(super) struct First(pub(super) u8);
        #[derive(Wire)]
        pub(super) struct Second(pub(super) u16);
        #[derive(Wire)]
        pub(super) struct Whole {
            a: First,
            b: Second,
        }
    }

    pub(super) mod other {
        use super::*;

        #[derive(Wire)]
        pub(super) struct All {
            a: Eins,
            b: Zwei,
        }
        #[derive(Wire)]
        pub(super) struct Zwei(pub(super) u16);
        #[derive(Wire)]
        pub(super) struct Eins(pub(super) u8);
    }

    #[test]
    fn fingerprints_do_not_depend_on_the_order_of_definition() {
        use nalix_core::schema::{Contract, Fingerprint, Schema};
        let one = Fingerprint::of(&Contract::new(Schema::of::<one::Whole>(), None, None));
        let other = Fingerprint::of(&Contract::new(Schema::of::<other::All>(), None, None));
        assert_eq!(one, other);
        let part = Fingerprint::of(&Contract::new(Schema::of::<one::First>(), None, None));
        assert_ne!(one, part);
    }
}

/// Duplicates are found, and both places named, whatever the order.
#[test]
fn duplicates_name_both_places() {
    fn copy(
        of: &'static PacketInfo,
        opcode: u16,
        name: &'static str,
        path: &'static str,
    ) -> &'static PacketInfo {
        let contract = || unreachable!("not asked for");
        let info = PacketInfo::new(Opcode::new(opcode), name, path, of.location, of.shape, contract);
        Box::leak(Box::new(info))
    }
    let ping = info::<Ping>();
    let same_opcode = copy(ping, 0x1001, "Pang", "other::Pang");
    let same_name = copy(ping, 0x2001, "Ping", "other::Ping");
    for pair in [[ping, same_opcode], [same_opcode, ping]] {
        let error = Registry::of(pair).unwrap_err();
        assert_eq!((&*error.first, &*error.second), ("macro_packet::Ping", "other::Pang"));
        assert_eq!(error.opcode, Some(Ping::OPCODE));
        assert!(error.to_string().starts_with("opcode 0x1001 is claimed twice"), "{error}");
    }
    for pair in [[ping, same_name], [same_name, ping]] {
        let error = Registry::of(pair).unwrap_err();
        assert_eq!((&*error.first, &*error.second), ("macro_packet::Ping", "other::Ping"));
        assert!(error.to_string().contains("\"Ping\""), "{error}");
    }
}

#[test]
fn errors_are_values_too() {
    assert_eq!(to_vec(&LoginError::BadPassword).unwrap(), [0]);
    assert_eq!(to_vec(&LoginError::Banned { until: 1 }).unwrap(), [1, 1, 0, 0, 0, 0, 0, 0, 0]);
}

#[packet(opcode = 0x1f01, reply = u8, priority = "control")]
struct Heal;

#[packet(opcode = 0x1f02, priority = "high")]
struct Alarm;

#[packet(opcode = 0x1f03, priority = "normal")]
struct Chat;

#[packet(opcode = 0x1f04, reply = u8, priority = "bulk")]
struct Backup<'a>(&'a [u8]);

#[test]
fn the_priority_is_what_the_packet_says() {
    use nalix_core::packet::Priority;
    assert_eq!(Heal::PRIORITY, Some(Priority::Control));
    assert_eq!(Alarm::PRIORITY, Some(Priority::High));
    assert_eq!(Chat::PRIORITY, Some(Priority::Normal));
    assert_eq!(Backup::PRIORITY, Some(Priority::Bulk));
    assert_eq!(Ping::PRIORITY, None);
    let registry = Registry::global().unwrap();
    let registered = |opcode| registry.by_opcode(Opcode::new(opcode)).unwrap().priority;
    assert_eq!((registered(0x1f01), registered(0x1f04)), (Some(Priority::Control), Some(Priority::Bulk)));
    assert_eq!(registered(Ping::OPCODE.get()), None);
}

#[packet(opcode = 0x1f05, reply = u8, compress, rename = "Twin")]
struct TwinCompressed(Vec<u8>);

#[test]
fn what_is_compressed_is_what_the_packet_says() {
    assert_eq!(Ping::COMPRESS, None);
    assert_eq!(TwinCompressed::COMPRESS, Some(1024));
}

/// Receivers take both forms, so that one side may begin with it without the other.
#[test]
fn the_contract_does_not_depend_on_compression() {
    use nalix_core::registry::Registry;
    mod plain {
        #[nalix_core::packet(opcode = 0x1f06, reply = u8)]
        pub(super) struct TwinPlain(pub(super) Vec<u8>);
    }
    assert_eq!(to_vec(&plain::TwinPlain(vec![1])), to_vec(&TwinCompressed(vec![1])));
    let registry = Registry::global().unwrap();
    let of = |opcode| registry.by_opcode(nalix_core::Opcode::new(opcode)).unwrap().fingerprint();
    assert_eq!(of(0x1f05), of(0x1f06));
}

#[packet(opcode = 0x1f21, delivery = "reliable")]
struct Fact;

#[packet(opcode = 0x1f22, delivery = "droppable")]
struct Rumour;

#[packet(opcode = 0x1f23, delivery = "drop_oldest")]
struct News<'a>(&'a str);

#[packet(opcode = 0x1f24, delivery = "latest")]
struct Score;

#[test]
fn the_delivery_is_what_the_packet_says() {
    use nalix_core::{Delivery, Encoded};
    assert_eq!((Fact::DELIVERY, Last::DELIVERY), (Delivery::Reliable, Delivery::Reliable));
    assert_eq!(Rumour::DELIVERY, Delivery::Droppable);
    assert_eq!(News::DELIVERY, Delivery::DropOldest);
    assert_eq!(Score::DELIVERY, Delivery::Latest(0));
    assert_eq!(Encoded::<Score>::DELIVERY, Delivery::Latest(0));
}
