//! The server's half.

use std::sync::{Mutex, MutexGuard, PoisonError};

use nalix_server::{
    BuildError, CloseReason, ConnectionId, Context, Failure, HubExt, Server, Stream, packet_controller,
    stream,
};

use crate::{
    contracts::{Event, Join, JoinError, Leave, Line, NotInRoom, Say, SayError, Who},
    rooms::Rooms,
};

/// Each room of the chat is a group of the framework's, of the same name: that is how events find their way. Who has
/// which name, and what was said, is in [`Rooms`].
///
/// Events are sent while that is locked, which waits for nothing. So everybody sees them in the order in which they
/// happened, and whoever joins gets everything either as history or as an event.
struct Chat {
    rooms: Mutex<Rooms<ConnectionId>>,
}

#[packet_controller]
impl Chat {
    #[packet]
    fn join(&self, ctx: &Context, join: Join) -> Result<impl Stream<Item = Line>, Failure<JoinError>> {
        let mut rooms = self.rooms();
        let history = rooms.enter(ctx.id(), &join.name, &join.room)?;
        let group = ctx.group(join.room);
        if let Err(refused) = group.join(ctx).ok() {
            drop(rooms.leave(&ctx.id()));
            return Err(refused.into());
        }
        group.send_except(&Event::Joined { name: join.name }, ctx);
        Ok(stream::iter(history))
    }

    #[packet]
    fn say(&self, ctx: &Context, say: Say) -> Result<(), SayError> {
        let mut rooms = self.rooms();
        let (room, line) = rooms.say(&ctx.id(), say.text)?;
        ctx.group(room).send_except(&Event::Said(line), ctx);
        Ok(())
    }

    #[packet]
    fn who(&self, ctx: &Context, _: Who) -> Result<Vec<String>, NotInRoom> {
        self.rooms().present(&ctx.id())
    }

    #[packet]
    fn leave(&self, ctx: &Context, _: Leave) -> Result<(), NotInRoom> {
        let mut rooms = self.rooms();
        let place = rooms.leave(&ctx.id())?;
        let group = ctx.group(place.room);
        group.leave(ctx);
        group.send(&Event::Left { name: place.name });
        Ok(())
    }

    /// However the connection has ended, the others are told. It has left its group already.
    #[disconnected]
    fn gone(&self, ctx: &Context, _: &CloseReason) {
        let mut rooms = self.rooms();
        if let Ok(place) = rooms.leave(&ctx.id()) {
            ctx.group(place.room).send(&Event::Left { name: place.name });
        }
    }
}

impl Chat {
    fn rooms(&self) -> MutexGuard<'_, Rooms<ConnectionId>> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A server that listens on `address`, with `capacity` places in each room.
///
/// Everything travels in the clear, to keep the example short; the example `secure` shows what to do about that.
pub async fn build(address: &str, capacity: usize) -> Result<Server, BuildError> {
    let chat = Chat { rooms: Mutex::new(Rooms::new(capacity)) };
    Server::builder().plaintext().tcp(address).controller(chat).build().await
}
