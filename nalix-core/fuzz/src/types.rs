//! Values of every kind that the derive makes.

use std::collections::{BTreeMap, HashMap};

use nalix_core::{Wire, packet};

#[derive(Debug, Clone, Copy, PartialEq, Wire)]
pub(crate) struct Point(i32, #[wire(varint)] i64);

#[derive(Debug, PartialEq, Wire)]
pub(crate) enum Shape {
    Nothing,
    Circle { centre: Point, radius: u16 },
    Polygon(#[wire(max_len = 8)] Vec<Point>),
    Group(Vec<Shape>),
    Named(String, Box<Shape>),
}

#[derive(Debug, PartialEq, Wire)]
#[wire(extensible)]
pub(crate) struct Grown {
    name: String,
    #[wire(since = 2)]
    tags: Vec<String>,
    #[wire(since = 3, default = seven)]
    level: u8,
    #[wire(skip)]
    cache: Option<u8>,
}

fn seven() -> u8 {
    7
}

#[derive(Debug, PartialEq, Wire)]
#[wire(extensible)]
pub(crate) enum Choice {
    No,
    Yes(Grown),
}

#[derive(Debug, PartialEq, Wire)]
#[wire(max_depth = 12)]
pub(crate) struct Tree {
    value: u8,
    children: Vec<Tree>,
}

#[derive(Debug, PartialEq, Wire)]
pub(crate) struct Many<T, const N: usize> {
    grid: [T; N],
    by_name: BTreeMap<String, Option<T>>,
    by_number: HashMap<u16, T>,
}

/// A packet that borrows.
#[packet(opcode = 0x1001, reply = String, compress = 64)]
#[derive(Debug, PartialEq)]
pub(crate) struct Borrowed<'a> {
    pub(crate) text: &'a str,
    pub(crate) data: &'a [u8],
    #[wire(max_len = 4)]
    pub(crate) few: Vec<&'a str>,
}

/// A packet without a byte too many.
#[packet(opcode = 0x1002, exact)]
#[derive(Debug, PartialEq)]
pub(crate) struct Exact {
    shape: Shape,
    choice: Option<Choice>,
}

/// A packet that has grown.
#[packet(opcode = 0x1003, reply = Choice, error = Shape, compress = 0)]
#[derive(Debug, PartialEq)]
pub(crate) struct Open {
    pub(crate) id: u8,
    #[wire(since = 2)]
    more: Option<u32>,
}

/// A packet that must come sealed.
#[packet(opcode = 0x1004, reply = [u8; 8], encrypt)]
#[derive(Debug, PartialEq)]
pub(crate) struct Secret;

/// A packet that is answered with a stream.
#[packet(opcode = 0x1005, stream = Vec<u8>, error = Shape)]
#[derive(Debug, PartialEq)]
pub(crate) struct Walk {
    pub(crate) count: u8,
    pub(crate) size: u16,
}

/// A packet with an upload.
#[packet(opcode = 0x1006, upload = Shape, reply = u32)]
#[derive(Debug, PartialEq)]
pub(crate) struct Gather {
    pub(crate) most: u8,
}

/// A packet with a stream in both directions.
#[packet(opcode = 0x1007, upload = Vec<u8>, stream = Vec<u8>)]
#[derive(Debug, PartialEq)]
pub(crate) struct Mirror;

/// The same, to come sealed.
#[packet(opcode = 0x1008, upload = Vec<u8>, stream = Vec<u8>, encrypt)]
#[derive(Debug, PartialEq)]
pub(crate) struct SecretMirror;
