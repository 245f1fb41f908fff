//! The registry and the table of handlers: nothing depends on order, and no duplicate passes in silence.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use nalix_core::{
    Opcode, Packet,
    controller::{Router, discovered},
    packet, packet_controller,
    registry::{Location, PacketInfo, Registry, Shape},
    schema::{Contract, Schema},
};

#[packet(opcode = 0x0100, reply = u32)]
struct Lowest;

#[packet(opcode = 0xFFFF)]
struct Highest;

mod inner {
    use super::*;

    #[packet(opcode = 0x1001, reply = u32)]
    pub(crate) struct Inner {
        #[wire(rename = "number")]
        pub(crate) n: u32,
    }
}

#[derive(Default)]
struct Ends;

#[packet_controller]
impl Ends {
    #[packet]
    fn lowest(&self, _: Lowest) -> u32 {
        0
    }

    #[packet]
    fn highest(&self, _: Highest) {}
}

struct Middle;

#[packet_controller]
impl Middle {
    #[packet]
    fn inner(&self, inner: inner::Inner) -> u32 {
        inner.n
    }
}

fn info(opcode: u16, name: &'static str, path: &'static str, line: u32) -> &'static PacketInfo {
    let contract = || Contract::new(Schema::of::<u32>(), None, None);
    let location = Location { file: "src/packets.rs", line };
    Box::leak(Box::new(PacketInfo::new(Opcode::new(opcode), name, path, location, Shape::OneWay, contract)))
}

/// Every order of a few things.
fn orders<T: Copy>(items: &[T]) -> Vec<Vec<T>> {
    if items.len() <= 1 {
        return vec![items.to_vec()];
    }
    let mut all = Vec::new();
    for i in 0..items.len() {
        let mut rest = items.to_vec();
        let first = rest.remove(i);
        for mut order in orders(&rest) {
            order.insert(0, first);
            all.push(order);
        }
    }
    all
}

#[test]
fn the_program_s_packets_are_there_by_opcode_and_by_name() {
    let registry = Registry::global().unwrap();
    assert_eq!(registry.iter().map(|p| p.opcode.get()).collect::<Vec<_>>(), [0x0100, 0x1001, 0xFFFF]);
    let inner = registry.by_opcode(inner::Inner::OPCODE).unwrap();
    assert_eq!((inner.name, inner.path), ("Inner", "registry::inner::Inner"));
    assert!(inner.location.to_string().contains("registry.rs:"));
    assert!(std::ptr::eq(inner, registry.by_name("Inner").unwrap()));
    assert_eq!(registry.by_name("Highest").unwrap().shape, Shape::OneWay);
    for opcode in 0..=u16::MAX {
        let known = [0x0100, 0x1001, 0xFFFF].contains(&opcode);
        assert_eq!(registry.by_opcode(Opcode::new(opcode)).is_some(), known, "{opcode:#06x}");
    }
    assert!(registry.by_name("inner").is_none() && registry.by_name("").is_none());
}

#[test]
fn the_order_in_which_packets_are_linked_changes_nothing() {
    let packets =
        [info(3, "C", "c::C", 1), info(1, "A", "a::A", 2), info(2, "B", "b::B", 3), info(9, "D", "d::D", 4)];
    for order in orders(&packets) {
        let registry = Registry::of(order).unwrap();
        assert_eq!(registry.iter().map(|p| p.name).collect::<String>(), "ABCD");
    }
}

#[test]
fn a_duplicate_names_both_places_whatever_the_order() {
    let opcode = [info(7, "A", "a::A", 1), info(7, "B", "b::B", 2), info(8, "C", "c::C", 3)];
    let name = [info(7, "Same", "a::Same", 1), info(8, "Same", "b::Same", 2), info(9, "C", "c::C", 3)];
    // Two versions of one crate.
    let crates = [info(7, "A", "a::A", 1), info(7, "A", "a::A", 2)];
    for (packets, what, places) in [
        (&opcode[..], "opcode 0x0007", ["`a::A` at src/packets.rs:1", "`b::B` at src/packets.rs:2"]),
        (&name[..], "\"Same\"", ["`a::Same` at src/packets.rs:1", "`b::Same` at src/packets.rs:2"]),
        (&crates[..], "opcode 0x0007", ["`a::A` at src/packets.rs:1", "`a::A` at src/packets.rs:2"]),
    ] {
        for order in orders(packets) {
            let error = Registry::of(order).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
            let at: Vec<_> = places.iter().map(|place| error.find(place)).collect();
            assert!(at[0].is_some() && at[0] < at[1], "{error}");
        }
    }
}

#[test]
fn every_opcode_may_be_taken() {
    let all = (0..=u16::MAX).skip(0x0100).map(|opcode| {
        let name: &'static str = Box::leak(format!("P{opcode}").into_boxed_str());
        info(opcode, name, name, 1)
    });
    let registry = Registry::of(all).unwrap();
    assert_eq!(registry.iter().len(), 65_280);
    for opcode in 0x0100..=u16::MAX {
        assert_eq!(registry.by_opcode(Opcode::new(opcode)).unwrap().name, format!("P{opcode}"));
    }
    assert_eq!(registry.by_opcode(Opcode::new(0xFF)).map(|p| p.name), None);
}

#[test]
fn an_empty_registry_knows_nothing() {
    let registry = Registry::of([]).unwrap();
    assert_eq!(registry.iter().len(), 0);
    assert!((0..=u16::MAX).all(|opcode| registry.by_opcode(Opcode::new(opcode)).is_none()));
}

#[test]
fn controllers_are_found_with_where_they_are() {
    let found: Vec<_> = discovered().iter().map(|info| info.path).collect();
    assert_eq!(found, ["registry::Ends", "registry::Middle"]);
    assert!(discovered().iter().all(|info| info.location.to_string().contains("registry.rs:")));
    let mut builder = Router::builder();
    builder.discover();
    let router = builder.build().unwrap();
    let names: Vec<_> = router.handlers().map(|spec| spec.name).collect();
    assert_eq!(names, ["Ends::lowest", "Ends::highest"], "only those with a default");
}

#[test]
fn a_router_finds_its_handlers_and_nothing_else() {
    let mut builder = Router::builder();
    builder.add(Ends);
    let router = builder.build().unwrap();
    let found: Vec<_> =
        (0..=u16::MAX).filter(|&opcode| router.route(Opcode::new(opcode)).is_some()).collect();
    assert_eq!(found, [0x0100, 0xFFFF]);
    let empty = Router::empty();
    assert!((0..=u16::MAX).all(|opcode| empty.route(Opcode::new(opcode)).is_none()));
    let more = router.with(Middle).unwrap();
    assert_eq!((more.handlers().len(), router.handlers().len()), (3, 2));
    let twice = more.with(Middle).unwrap_err().to_string();
    assert_eq!(twice.matches("Middle::inner").count(), 2, "{twice}");
}
