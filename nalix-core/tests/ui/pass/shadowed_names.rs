//! Names that generated code might use mean something else here.

#![allow(dead_code, non_camel_case_types, unused_imports, unused_macros)]

use nalix_core::{packet, packet_controller};

type Result<T> = ::std::result::Result<T, ()>;

pub struct Option;
pub struct Vec;
pub struct String;
pub struct Box;
pub struct Arc;
pub struct Clone;
pub struct usize;
pub struct bool;
pub struct str;

#[derive(Debug, PartialEq)]
pub enum Mine {
    Ok,
    Err,
    Some,
    None,
}
pub use Mine::{Err, None, Ok, Some};

pub trait Send {}
pub trait Sync {}
pub trait Default {}
pub trait From {}

mod std {}
mod core {}
mod alloc {}
mod nalix_core_ {}

macro_rules! vec {
    ($($t:tt)*) => {
        compile_error!("shadowed")
    };
}
macro_rules! panic {
    ($($t:tt)*) => {
        compile_error!("shadowed")
    };
}
macro_rules! assert {
    ($($t:tt)*) => {
        compile_error!("shadowed")
    };
}
macro_rules! concat {
    ($($t:tt)*) => {
        compile_error!("shadowed")
    };
}
macro_rules! file {
    ($($t:tt)*) => {
        compile_error!("shadowed")
    };
}
macro_rules! line {
    ($($t:tt)*) => {
        compile_error!("shadowed")
    };
}

/// Methods with the names of ours, on every type.
pub trait Everywhere {
    fn encode(&self) {}
    fn decode(&self) {}
    fn describe(&self) {}
    fn put_varint(self)
    where
        Self: Sized,
    {
    }
    fn is_empty(self) -> u8
    where
        Self: Sized,
    {
        1
    }
    fn named(self)
    where
        Self: Sized,
    {
    }
    fn into_parts(self)
    where
        Self: Sized,
    {
    }
    fn respond(self)
    where
        Self: Sized,
    {
    }
    fn extract(self)
    where
        Self: Sized,
    {
    }
    fn discover(self)
    where
        Self: Sized,
    {
    }
    fn clone(self)
    where
        Self: Sized,
    {
    }
    fn wire_len(self)
    where
        Self: Sized,
    {
    }
}
impl<T> Everywhere for T {}

const OPCODE: u16 = 0x1001;

#[packet(opcode = OPCODE, reply = Pong, error = Failed)]
struct Ping {
    #[wire(max_len = 3)]
    text: ::std::string::String,
    #[wire(varint)]
    n: u32,
    #[wire(since = 2)]
    later: u8,
}

#[derive(::nalix_core::Wire)]
#[wire(extensible)]
struct Pong {
    a: u8,
    #[wire(skip)]
    b: u8,
}

#[derive(::nalix_core::Wire)]
enum Failed {
    Ok(u8),
    Err,
    None { w: u8, r: u8 },
}

struct Game;

#[packet_controller]
impl Game {
    #[packet]
    async fn ping(
        self: ::std::sync::Arc<Self>,
        _: ::nalix_core::State<u8>,
        ping: Ping,
    ) -> ::std::result::Result<Pong, Failed> {
        ::std::result::Result::Ok(Pong { a: ping.later, b: 0 })
    }

    #[connected]
    fn hello(&self, _: &::nalix_core::Context) {}
}

fn main() {
    let bytes = ::nalix_core::wire::to_vec(&Ping { text: "a".into(), n: 1, later: 9 }).unwrap();
    let ::std::result::Result::Ok(ping) = ::nalix_core::wire::from_slice::<Ping>(&bytes) else { return };
    assert_eq_(ping.later, 9);
}

fn assert_eq_(a: u8, b: u8) {
    if a != b {
        ::std::process::exit(1);
    }
}
