//! Descriptions of types: fingerprints, comparison by the rules of growth, printing, and their own encoding.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use nalix_core::{
    schema::{
        Contract, Def, Describe, Field, Fields, Fingerprint, Schema, SchemaBuilder, Type, TypeKey, Variant,
        compare,
    },
    wire::{from_slice, to_vec},
};

/// `#[packet] struct Join { name: String, player: Player, seen: Vec<Item> }`, by hand.
struct Join;
struct Player;
struct Item;
struct Tree;

impl Describe for Join {
    fn describe(schema: &mut SchemaBuilder) -> Type {
        schema.named(TypeKey::of::<Self>(file!(), line!(), column!()), |schema| {
            let name = Field::new("name", String::describe(schema)).max_len(32);
            let player = Field::new("player", Player::describe(schema));
            let seen = Field::new("seen", Vec::<Item>::describe(schema)).since(2);
            Def::structure("Join", Fields::new(vec![name, player, seen]))
        })
    }
}

impl Describe for Player {
    fn describe(schema: &mut SchemaBuilder) -> Type {
        schema.named(TypeKey::of::<Self>(file!(), line!(), column!()), |schema| {
            let hp = Field::new("hp", Type::varint("u32"));
            let bag = Field::new("bag", HashMap::<u16, Option<Item>>::describe(schema)).since(3).max_len(9);
            Def::structure("Player", Fields::new(vec![hp, bag]).extensible())
        })
    }
}

impl Describe for Item {
    fn describe(schema: &mut SchemaBuilder) -> Type {
        schema.named(TypeKey::of::<Self>(file!(), line!(), column!()), |schema| {
            let worth = Field::new("worth", u64::describe(schema));
            let inside = Field::new("0", Vec::<Item>::describe(schema));
            let variants = vec![
                Variant::new("Dust", Fields::default()),
                Variant::new("Coin", Fields::new(vec![worth])),
                Variant::new("Box", Fields::new(vec![inside, Field::new("1", <[u8; 4]>::describe(schema))])),
            ];
            Def::enumeration("Item", variants, false)
        })
    }
}

impl Describe for Tree {
    fn describe(schema: &mut SchemaBuilder) -> Type {
        schema.named(TypeKey::of::<Self>(file!(), line!(), column!()), |schema| {
            let left = Field::new("left", Option::<Box<Tree>>::describe(schema));
            let right = Field::new("right", Option::<Box<Tree>>::describe(schema));
            Def::structure("Tree", Fields::new(vec![left, right]))
        })
    }
}

fn join() -> Contract {
    let error = Some(Schema::of::<Result<(u8, bool), String>>());
    Contract::new(Schema::of::<Join>(), Some(Schema::of::<u32>()), error)
}

/// A contract of one struct with these fields.
fn of_struct(fields: Fields) -> Contract {
    of_defs(vec![Def::structure("Packet", fields)])
}

/// A contract whose root is the first definition.
fn of_defs(defs: Vec<Def>) -> Contract {
    let mut schema = Schema::default();
    (schema.defs, schema.root) = (defs, Type::Named(0));
    Contract::new(schema, None, None)
}

fn fields<const N: usize>(types: [(&str, &'static str, u32); N]) -> Fields {
    let field = |(name, ty, since)| Field::new(name, Type::primitive(ty)).since(since);
    Fields::new(types.map(field).into())
}

#[test]
fn types_of_one_layout_have_one_description() {
    let same = |types: &[Type]| types.windows(2).all(|pair| pair[0] == pair[1]);
    macro_rules! types {
        ($($t:ty),*) => { [$(Schema::of::<$t>().root),*] };
    }
    assert!(same(&types!(Vec<u8>, Bytes, [u8], &[u8], Cow<'_, [u8]>, Arc<[u8]>, VecDeque<u8>)));
    assert!(same(&types!(String, str, &str, Cow<'_, str>, Box<str>, Arc<str>)));
    assert!(same(&types!(u32, Box<u32>, Arc<u32>, &u32)));
    assert!(same(&types!(HashMap<u8, bool>, BTreeMap<u8, bool>)));
    assert!(!same(&types!(HashSet<u8>, Vec<u8>)));
    assert!(!same(&types!((u8, u8), [u8; 2])));
    assert!(!same(&types!(Duration, IpAddr)));
}

/// The numbers are part of the protocol: another implementation computes the same.
#[test]
fn fingerprints_are_fixed() {
    let of = |contract: &Contract| Fingerprint::of(contract).to_string();
    assert_eq!(of(&Contract::default()), "deabd0e138f5824a");
    assert_eq!(
        of(&Contract::new(Schema::of::<u32>(), Some(Schema::of::<String>()), None)),
        "bacfb684288a7bb2"
    );
    assert_eq!(of(&Contract::new(Schema::of::<Tree>(), None, None)), "a1aa3790300968b2");
    assert_eq!(of(&join()), "75d654bf9af69908");
}

#[test]
fn fingerprints_ignore_names_of_types_lengths_and_order() {
    let ping = |name, definition: usize, max_len| {
        let mut field = Field::new("who", Type::Named(definition));
        field.max_len = max_len;
        let packet = Def::structure(name, Fields::new(vec![field]));
        let who = Def::structure("Who", fields([("id", "u32", 1)]));
        let unused = Def::structure("Unused", Fields::default());
        match definition {
            1 => of_defs(vec![packet, who]),
            _ => of_defs(vec![packet, unused, who]),
        }
    };
    let one = Fingerprint::of(&ping("Ping", 1, None));
    assert_eq!(one, Fingerprint::of(&ping("Renamed", 1, None)));
    assert_eq!(one, Fingerprint::of(&ping("Ping", 1, Some(7))));
    assert_eq!(one, Fingerprint::of(&ping("Ping", 2, None)));
}

#[test]
fn fingerprints_see_everything_else() {
    let base = || fields([("a", "u8", 1), ("b", "u16", 1)]);
    let variants = |names: [&str; 2]| names.map(|name| Variant::new(name, Fields::default())).to_vec();
    let contracts = [
        Contract::default(),
        of_struct(base()),
        of_struct(base().exact()),
        of_struct(base().extensible()),
        of_struct(fields([("a", "u8", 1), ("c", "u16", 1)])),
        of_struct(fields([("b", "u16", 1), ("a", "u8", 1)])),
        of_struct(fields([("a", "u8", 1), ("b", "u32", 1)])),
        of_struct(fields([("a", "u8", 1), ("b", "u16", 2)])),
        of_struct(fields([("a", "u8", 1)])),
        Contract::new(of_struct(base()).packet, Some(Schema::default()), None),
        Contract::new(of_struct(base()).packet, None, Some(Schema::default())),
        of_defs(vec![Def::enumeration("Packet", variants(["A", "B"]), false)]),
        of_defs(vec![Def::enumeration("Packet", variants(["A", "B"]), true)]),
        of_defs(vec![Def::enumeration("Packet", variants(["B", "A"]), false)]),
        of_struct(Fields::new(vec![Field::new("a", Type::varint("u8"))])),
        of_struct(Fields::new(vec![Field::new("a", Type::Option(Box::new(Type::primitive("u8"))))])),
        of_struct(Fields::new(vec![Field::new("a", Type::Array(Box::new(Type::primitive("u8")), 1))])),
        of_struct(Fields::new(vec![Field::new("a", Type::Array(Box::new(Type::primitive("u8")), 2))])),
    ];
    let distinct: HashSet<_> = contracts.iter().map(Fingerprint::of).collect();
    assert_eq!(distinct.len(), contracts.len());
}

#[test]
fn contracts_travel() {
    for contract in [Contract::default(), join(), Contract::new(Schema::of::<Tree>(), None, None)] {
        let bytes = to_vec(&contract).unwrap();
        assert_eq!(from_slice::<Contract>(&bytes), Ok(contract));
    }
    let everything = Schema::of::<(u8, Vec<Option<[HashMap<u8, HashSet<String>>; 2]>>, ())>();
    assert_eq!(from_slice(&to_vec(&everything).unwrap()), Ok(everything));
}

#[test]
fn equal_contracts_fit() {
    assert_eq!(compare(&join(), &join()), Ok(()));
    let tree = Contract::new(Schema::of::<Tree>(), None, None);
    assert_eq!(compare(&tree, &tree), Ok(()));
}

/// The difference as seen from both sides.
fn differ(ours: &Contract, theirs: &Contract) -> [String; 2] {
    [compare(ours, theirs), compare(theirs, ours)].map(|result| result.unwrap_err().to_string())
}

fn fit(ours: &Contract, theirs: &Contract) {
    assert_eq!(compare(ours, theirs), Ok(()));
    assert_eq!(compare(theirs, ours), Ok(()));
}

#[test]
fn packets_may_grow_by_fields_with_since() {
    let old = of_struct(fields([("a", "u8", 1)]));
    fit(&old, &of_struct(fields([("a", "u8", 1), ("b", "u16", 2), ("c", "u16", 3)])));
    assert_eq!(
        differ(&old, &of_struct(fields([("a", "u8", 1), ("b", "u16", 1)]))),
        [
            "packet: field `b` is missing here and has no `since`",
            "packet: field `b` is missing there and has no `since`"
        ]
    );
    assert_eq!(
        differ(&old, &of_struct(fields([("a", "u8", 1), ("b", "u16", 2)]).exact()))[1],
        "packet: field `b` is missing there and the packet is exact"
    );
    fit(&old, &of_struct(fields([("a", "u8", 1)]).exact()));
}

#[test]
fn replies_and_errors_may_grow() {
    let grown = |extra: bool| {
        let list = if extra { fields([("a", "u8", 1), ("b", "u8", 2)]) } else { fields([("a", "u8", 1)]) };
        let schema = of_struct(list).packet;
        Contract::new(Schema::default(), Some(schema.clone()), Some(schema))
    };
    fit(&grown(false), &grown(true));
}

#[test]
fn nested_types_grow_if_extensible_only() {
    let nested = |inner: Fields| {
        let field = Field::new("player", Type::Seq(Box::new(Type::Named(1))));
        of_defs(vec![Def::structure("Packet", Fields::new(vec![field])), Def::structure("Player", inner)])
    };
    let (old, new) = (fields([("hp", "u32", 1)]), fields([("hp", "u32", 1), ("mp", "u32", 2)]));
    fit(&nested(old.clone().extensible()), &nested(new.clone().extensible()));
    assert_eq!(
        differ(&nested(old.clone()), &nested(new))[0],
        "packet.player[]: field `mp` is missing here and the type is neither at top level nor extensible"
    );
    assert_eq!(
        differ(&nested(old.clone()), &nested(old.clone().extensible())),
        ["packet.player[]: extensible there, not here", "packet.player[]: extensible here, not there"]
    );
    assert_eq!(
        differ(&nested(old), &nested(fields([("hp", "u64", 1)]))),
        ["packet.player[].hp: u32 here, u64 there", "packet.player[].hp: u64 here, u32 there"]
    );
}

/// A packet that holds itself is nested there, and nested it may not grow.
#[test]
fn recursive_packets_do_not_grow() {
    let tree = |extra: bool| {
        let mut list = vec![Field::new("children", Type::Seq(Box::new(Type::Named(0))))];
        if extra {
            list.push(Field::new("label", Type::primitive("str")).since(2));
        }
        of_struct(Fields::new(list))
    };
    assert_eq!(
        differ(&tree(false), &tree(true))[0],
        "packet.children[]: field `label` is missing here and the type is neither at top level nor extensible"
    );
}

#[test]
fn enums_may_grow_at_the_end() {
    let event = |names: &[&str]| {
        let variants = names.iter().map(|name| Variant::new(*name, fields([("id", "u8", 1)]))).collect();
        let event = Def::enumeration("Event", variants, false);
        let field = Field::new("event", Type::Option(Box::new(Type::Named(1))));
        of_defs(vec![Def::structure("Packet", Fields::new(vec![field])), event])
    };
    fit(&event(&["Born"]), &event(&["Born", "Died"]));
    assert_eq!(
        differ(&event(&["Born", "Died"]), &event(&["Died", "Born"]))[0],
        "packet.event: variant 0 is `Born` here and `Died` there"
    );
}

#[test]
fn differences_name_their_place() {
    let ab = of_struct(fields([("a", "u8", 1), ("b", "u8", 1)]));
    let ac = of_struct(fields([("a", "u8", 1), ("c", "u8", 1)]));
    assert_eq!(differ(&ab, &ac)[0], "packet: field 2 is `b` here and `c` there");

    let reply = |reply: Option<Schema>| Contract::new(Schema::default(), reply, None);
    assert_eq!(
        differ(&reply(None), &reply(Some(Schema::of::<u32>()))),
        ["contract: reply is none here, u32 there", "contract: reply is u32 here, none there"]
    );
    assert_eq!(
        differ(&reply(Some(Schema::of::<Vec<Player>>())), &reply(Some(Schema::of::<(u8, Join)>())))[0],
        "reply: seq<Player> here, tuple<u8, Join> there"
    );
    assert_eq!(
        differ(&reply(Some(Schema::of::<Player>())), &reply(Some(Schema::of::<Item>())))[0],
        "reply: a struct here, an enum there"
    );
    assert_eq!(
        differ(
            &reply(Some(Schema::of::<HashMap<u8, (u8, u16)>>())),
            &reply(Some(Schema::of::<HashMap<u8, (u8, u32)>>()))
        )[0],
        "reply[].1: u16 here, u32 there"
    );
    let shouting = of_struct(fields([("a\n", "u8", 1)]));
    assert_eq!(differ(&shouting, &ab)[0], r"packet: field 1 is `a\n` here and `a` there");
}

/// A peer may send a chain of any length; it is walked, not climbed into.
#[test]
fn long_chains_of_types_are_no_danger() {
    let chain = |len: usize, last: &'static str| {
        let link = |next| Def::structure("Link", Fields::new(vec![Field::new("next", next)]));
        let links = (1..len).map(|n| link(Type::Option(Box::new(Type::Named(n)))));
        of_defs(links.chain([link(Type::primitive(last))]).collect())
    };
    let (a, b) = (chain(200_000, "u8"), chain(200_000, "u16"));
    assert_ne!(Fingerprint::of(&a), Fingerprint::of(&b));
    let difference = compare(&a, &b).unwrap_err();
    assert_eq!(difference.what, "u8 here, u16 there");
    assert!(difference.path.starts_with("packet.next.next"));
    assert!(a.to_string().starts_with("packet Link#0"));
}

#[test]
fn contracts_print_much_as_they_were_written() {
    let expected = "\
packet Join

struct Join {
    #[wire(max_len = 32)] name: str,
    player: Player,
    #[wire(since = 2)] seen: seq<Item>,
}

extensible struct Player {
    hp: varint<u32>,
    #[wire(since = 3, max_len = 9)] bag: map<u16, option<Item>>,
}

enum Item {
    Dust,
    Coin { worth: u64 },
    Box { 0: seq<Item>, 1: [u8; 4] },
}

reply u32

error Result

enum Result {
    Ok { 0: tuple<u8, bool> },
    Err { 0: str },
}";
    assert_eq!(join().to_string(), expected);
    let exact = of_struct(Fields::default().exact());
    assert_eq!(exact.to_string(), "packet Packet\n\nexact struct Packet {}");
    let twins = Def::structure("Twin", Fields::new(vec![Field::new("other", Type::Named(1))]));
    let twins = of_defs(vec![twins, Def::structure("Twin", Fields::default())]);
    assert_eq!(
        twins.to_string(),
        "packet Twin#0\n\nstruct Twin#0 {\n    other: Twin#1,\n}\n\nstruct Twin#1 {}"
    );
}
