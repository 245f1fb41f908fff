//! Type parameters, const parameters, lifetimes and where clauses, with the bounds that fields need.

use std::{collections::HashMap, fmt::Debug, hash::Hash, marker::PhantomData};

use nalix_core::{
    Wire,
    wire::{from_slice, to_vec},
};

#[derive(Debug, PartialEq, Wire)]
struct Pair<A: Clone = u8, B = String>
where
    A: Debug,
{
    a: A,
    b: B,
}

#[derive(Debug, PartialEq, Wire)]
struct Grid<T, const W: usize, const H: usize>([[T; W]; H]);

#[derive(Debug, PartialEq, Wire)]
struct Borrowed<'a, 'b, T> {
    text: &'a str,
    bytes: &'b [u8],
    items: Vec<T>,
}

#[derive(Debug, PartialEq, Wire)]
struct Id<T> {
    number: u64,
    of: PhantomData<T>,
    cached: PhantomData<fn() -> T>,
}

trait Kind {
    type Value;
}

#[derive(Debug, PartialEq)]
struct Numbers;

impl Kind for Numbers {
    type Value = u32;
}

#[derive(Wire)]
struct Associated<K: Kind> {
    value: K::Value,
    more: Vec<<K as Kind>::Value>,
}

#[derive(Debug, PartialEq, Wire)]
struct Skipping<T> {
    a: u8,
    #[wire(skip)]
    cache: T,
}

#[derive(Debug, PartialEq, Wire)]
struct Map<K: Eq + Hash, V> {
    map: HashMap<K, V>,
}

#[derive(Debug, PartialEq, Wire)]
enum Tree<T> {
    Leaf(T),
    Node(Box<Tree<T>>, Box<Tree<T>>),
    Many(Vec<Tree<T>>),
}

/// Not a wire type.
#[derive(Debug, PartialEq)]
struct Plain;

fn round_trip<'a, T: nalix_core::wire::Encode + nalix_core::wire::Decode<'a> + PartialEq + Debug>(
    value: &T,
    bytes: &'a mut Vec<u8>,
) {
    *bytes = to_vec(value).unwrap();
    assert_eq!(&from_slice::<T>(bytes).unwrap(), value);
}

fn is_wire<T: nalix_core::Wire>() {}

fn main() {
    round_trip(&Pair { a: 1u8, b: "b".to_string() }, &mut Vec::new());
    round_trip(&Grid([[1u16, 2, 3], [4, 5, 6]]), &mut Vec::new());
    round_trip(&Borrowed { text: "text", bytes: b"bytes", items: vec![1u8, 2] }, &mut Vec::new());
    round_trip(&Id::<Plain> { number: 1, of: PhantomData, cached: PhantomData }, &mut Vec::new());
    let associated = Associated::<Numbers> { value: 1, more: vec![2] };
    assert_eq!(to_vec(&associated).unwrap(), [1, 0, 0, 0, 1, 2, 0, 0, 0]);
    round_trip(&Skipping { a: 1, cache: () }, &mut Vec::new());
    round_trip(&Map { map: HashMap::from([(1u8, "one".to_string())]) }, &mut Vec::new());
    let leaf = |n| Box::new(Tree::Leaf(n));
    round_trip(&Tree::Many(vec![Tree::Node(leaf(1u8), leaf(2)), Tree::Leaf(3)]), &mut Vec::new());

    is_wire::<Pair<u8, Vec<String>>>();
    is_wire::<Id<Plain>>();
    is_wire::<Tree<Tree<u8>>>();
}
