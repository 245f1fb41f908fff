//! The contracts, and the server's handlers.

use std::{sync::OnceLock, time::Duration};

use bytes::Bytes;
use nalix_core::{Wire, packet, packet_controller};
use nalix_server::{Context, Delivery, HubExt};

use crate::{
    counters::{self, ENCODES, SKIPPED},
    peers::{
        countdown::{Countdown, Numbered},
        users::{self, Hello, User},
    },
};

#[packet(opcode = 0x1003, reply = Bytes)]
pub(super) struct Echo {
    pub(super) data: Bytes,
}

#[packet(opcode = 0x1002, reply = i32)]
pub(super) struct Sum {
    pub(super) a: i32,
    pub(super) b: i32,
}

#[packet(opcode = 0x1004, reply = Option<User>)]
pub(super) struct GetUser {
    pub(super) id: i64,
}

#[packet(opcode = 0x1005, reply = HelloReply)]
pub(super) struct SayHello {
    pub(super) request: Hello,
}

#[derive(Debug, Wire)]
pub(super) struct HelloReply {
    pub(super) response: Hello,
}

#[packet(opcode = 0x1006, stream = Item)]
pub(super) struct GetItems {
    pub(super) items: u32,
    pub(super) size: u32,
}

#[derive(Debug, Wire)]
pub(crate) struct Item {
    pub(crate) index: i64,
    pub(crate) data: Bytes,
}

/// The same, lent.
#[derive(Debug, Wire)]
pub(crate) struct ItemRef<'a> {
    pub(crate) index: i64,
    pub(crate) data: &'a [u8],
}

impl Numbered for Item {
    #[inline]
    fn new(number: i64, data: Bytes) -> Self {
        Self { index: number, data }
    }
}

#[packet(opcode = 0x1007, reply = u64)]
pub(super) struct Store {
    pub(super) data: Bytes,
}

#[packet(opcode = 0x1008, reply = Bytes)]
pub(super) struct Fetch {
    pub(super) size: u32,
}

/// Makes the connection a member of the group.
#[packet(opcode = 0x1009, reply = ())]
pub(super) struct Join {
    /// Whether it is the one that will be stuck.
    pub(super) stuck: bool,
}

/// Sends so many [`Pushed`]s of so many bytes to the group, and says in how many outboxes they are.
#[packet(opcode = 0x100a, reply = u64)]
pub(super) struct Push {
    pub(super) first: u64,
    pub(super) burst: u32,
    pub(super) size: u32,
}

/// Sends to those who will be stuck until nothing moves any more.
#[packet(opcode = 0x100b, reply = ())]
pub(super) struct Clog;

#[packet(opcode = 0x100c)]
pub(super) struct Pushed {
    #[wire(with = counted)]
    pub(super) round: u64,
    pub(super) data: Bytes,
}

/// Handlers whose policies everybody meets.
#[derive(Debug)]
pub(super) struct Guarded;

#[packet_controller]
impl Guarded {
    #[packet(rate = "100000000/s", burst = 1000000, max_size = 65536)]
    fn echo(&self, echo: Echo) -> Bytes {
        echo.data
    }

    #[packet(rate = "100000000/s", burst = 1000000, max_size = 65536)]
    fn sum(&self, sum: Sum) -> i32 {
        sum.a.wrapping_add(sum.b)
    }
}

/// Handlers that are done when they return.
#[derive(Debug, Default)]
pub(super) struct Functions {
    /// How the group is sent to.
    pub(super) delivery: Delivery,
}

#[packet_controller]
impl Functions {
    #[packet]
    fn echo(&self, echo: Echo) -> Bytes {
        echo.data
    }

    #[packet]
    fn sum(&self, sum: Sum) -> i32 {
        sum.a.wrapping_add(sum.b)
    }

    #[packet]
    fn get_user(&self, get: GetUser) -> Option<User> {
        Some(users::user(get.id))
    }

    #[packet]
    fn say_hello(&self, say: SayHello) -> HelloReply {
        HelloReply { response: say.request }
    }

    #[packet]
    fn get_items(&self, get: GetItems) -> Countdown<Item> {
        Countdown::new(get.items, get.size)
    }

    #[packet]
    fn store(&self, store: Store) -> u64 {
        store.data.len() as u64
    }

    #[packet]
    fn fetch(&self, fetch: Fetch) -> Bytes {
        static DATA: OnceLock<Bytes> = OnceLock::new();
        let size = fetch.size as usize;
        let data = DATA.get_or_init(|| vec![0xA5; size].into());
        data.slice(..size.min(data.len()))
    }

    #[packet]
    fn join(&self, ctx: &Context, join: Join) {
        ctx.group(MEMBERS).join(ctx);
        if join.stuck {
            ctx.group(STUCK).join(ctx);
        }
    }

    #[packet]
    fn push(&self, ctx: &Context, push: Push) -> u64 {
        let group = ctx.group(MEMBERS).with(self.delivery);
        let data = Bytes::from(vec![0; (push.size as usize).saturating_sub(BESIDE_DATA)]);
        let mut queued = 0;
        for round in push.first..push.first.saturating_add(push.burst.into()) {
            let sent = group.send(&Pushed { round, data: data.clone() });
            counters::add(&SKIPPED, sent.skipped as u64);
            queued += sent.queued as u64;
        }
        queued
    }

    #[packet]
    async fn clog(&self, ctx: &Context, _: Clog) {
        let stuck = ctx.group(STUCK).with(Delivery::Droppable);
        let filler = Pushed { round: u64::MAX, data: vec![0; 8 * 1024].into() };
        let mut full = 0;
        while full < STILL {
            if stuck.send(&filler).queued > 0 {
                full = 0;
            } else {
                // Perhaps the kernel takes more.
                full += 1;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }
}

/// Handlers that are futures.
#[derive(Debug)]
pub(super) struct Futures;

#[packet_controller]
impl Futures {
    #[packet]
    async fn echo(&self, echo: Echo) -> Bytes {
        echo.data
    }

    #[packet]
    async fn sum(&self, sum: Sum) -> i32 {
        sum.a.wrapping_add(sum.b)
    }
}

/// A number like any other, that counts how often it is encoded.
mod counted {
    use nalix_core::{
        error::DecodeError,
        schema::{Describe, SchemaBuilder, Type},
        wire::{Decode, Encode, Reader, Writer},
    };

    use super::{ENCODES, counters};

    pub(super) fn encode(value: &u64, w: &mut Writer<'_>) {
        counters::add(&ENCODES, 1);
        value.encode(w);
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<u64, DecodeError> {
        u64::decode(r)
    }

    pub(super) fn describe(schema: &mut SchemaBuilder) -> Type {
        u64::describe(schema)
    }
}

/// Those who are sent to.
const MEMBERS: &str = "members";
/// The one of them that is stuck.
const STUCK: &str = "stuck";
/// Bytes of [`Pushed`] besides its data: the number, and the length of the data.
const BESIDE_DATA: usize = 9;
/// How many times in a row there is no room until everything is taken to be full.
const STILL: u32 = 20;
