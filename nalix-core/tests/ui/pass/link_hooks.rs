//! Hooks for the links of a session, async or not, on their own and beside the others.

use nalix_core::{CloseReason, Context, packet_controller};

struct Watch;

#[packet_controller]
impl Watch {
    #[detached]
    fn away(&self, ctx: &Context, why: &CloseReason) {
        drop((ctx.id(), why.code));
    }

    #[resumed]
    async fn back(&self, _ctx: &Context) {}
}

struct All;

#[packet_controller]
impl All {
    #[connected]
    fn hello(&self, _: &Context) {}

    #[detached]
    async fn detached(&self, _: &Context, _: &CloseReason) {}

    #[resumed]
    fn resumed(&self, _: &Context) {}

    #[disconnected]
    fn bye(&self, _: &Context, _: &CloseReason) {}
}

fn main() {}
