//! Groups of connections.

mod ask;
mod delivery;
mod key;
mod member;
mod memberships;
mod presence;
mod room;
mod table;

use std::{any::Any, fmt, hash::Hash, sync::Arc, time::Duration};

use nalix_core::{Connection, Delivery, OneWay, Request, Status};

pub use self::{
    ask::{Answer, Ask},
    delivery::Sent,
    member::{Member, Members},
    presence::{Presence, PresenceEvent},
};
pub(crate) use self::{
    delivery::deliver,
    memberships::{leave_all, tell_away},
    table::Groups,
};
use self::{presence::Queue, room::Room};

/// Connections that are sent to together: a room, a channel, a world.
///
/// A handle, cheap to make and to clone; all handles made from equal keys are of one group. A group is there as long as
/// it has members, handles or subscriptions, and takes no memory then. Members leave by themselves when their connection
/// ends, before the `#[disconnected]` hooks run.
///
/// What one task sends to a group arrives in that order at every member, if it is sent with the same [`Delivery`], and but
/// that packets of over 16 KiB go in fragments, which later ones that are shorter or more urgent may overtake. A packet is
/// encoded once, however many members there are, and the bytes of one over 16 KiB are shared by all for whom they wait.
/// Nothing here waits, except the answers to [`Group::ask`].
///
/// ```
/// use nalix_server::{Context, HubExt, packet, packet_controller};
///
/// #[packet(opcode = 0x3f01)]
/// struct Say {
///     text: String,
/// }
///
/// struct Chat;
///
/// #[packet_controller]
/// impl Chat {
///     #[connected]
///     fn hello(&self, ctx: &Context) {
///         ctx.group("lobby").join(ctx);
///     }
///
///     #[packet]
///     fn say(&self, ctx: &Context, say: Say) {
///         ctx.group("lobby").send_except(&say, ctx);
///     }
/// }
/// ```
#[derive(Clone)]
pub struct Group {
    room: Arc<Room>,
    /// Whatever packets declare.
    delivery: Option<Delivery>,
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Group");
        if let Some(text) = self.room.key.text() {
            debug.field("key", &text);
        }
        debug.field("members", &self.count()).field("delivery", &self.delivery).finish()
    }
}

/// Two handles are equal if they are of one group.
impl PartialEq for Group {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.room, &other.room)
    }
}

impl Eq for Group {}

/// What has become of a wish to join a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Join {
    /// It is a member now.
    Joined,
    /// It was one before.
    Already,
    /// It is in as many groups as
    /// [`max_groups_per_connection`](crate::ServerBuilder::max_groups_per_connection) allows.
    TooMany,
    /// The connection has ended, or is none of this server's.
    Closed,
}

impl Join {
    /// Whether it is a member, for handlers that can do nothing about a refusal.
    ///
    /// ```
    /// # use nalix_server::{Context, HubExt, Status, packet, packet_controller};
    /// # #[packet(opcode = 0x1f03, reply = ())]
    /// # struct Enter { room: String }
    /// # struct Chat;
    /// # #[packet_controller]
    /// # impl Chat {
    /// #[packet]
    /// fn enter(&self, ctx: &Context, enter: Enter) -> Result<(), Status> {
    ///     ctx.group(enter.room).join(ctx).ok()
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// A [`Status`] of code `ResourceExhausted` for [`Join::TooMany`], and of `FailedPrecondition` for [`Join::Closed`].
    pub fn ok(self) -> Result<(), Status> {
        match self {
            Join::Joined | Join::Already => Ok(()),
            Join::TooMany => {
                Err(Status::resource_exhausted("the connection is in as many groups as it may be in", None))
            }
            Join::Closed => {
                Err(Status::failed_precondition("the connection has ended, or is of another server"))
            }
        }
    }
}

/// As [`Join::ok`].
impl From<Join> for Result<(), Status> {
    fn from(join: Join) -> Self {
        join.ok()
    }
}

impl Group {
    pub(crate) fn new<K>(groups: &Arc<Groups>, key: K) -> Self
    where
        K: Hash + Eq + Send + Sync + 'static,
    {
        Self { room: groups.room(key), delivery: None }
    }

    /// The groups that a connection is in, in no order.
    pub(crate) fn of(connection: &Connection) -> Vec<Self> {
        let rooms = memberships::of(connection).into_iter();
        rooms.map(|room| Self { room, delivery: None }).collect()
    }

    /// The key that the group was made from, if that is a `K`. If it is a text, it is of the type that the first handle was
    /// made from; [`Group::text`] does not ask which.
    pub fn key<K: 'static>(&self) -> Option<&K> {
        self.room.key.value().downcast_ref()
    }

    /// The key, if it is a text.
    pub fn text(&self) -> Option<&str> {
        self.room.key.text()
    }

    /// The same group, to be sent to in this way, whatever packets declare.
    ///
    /// ```
    /// # use nalix_server::{Delivery, Group, packet};
    /// # #[packet(opcode = 0x3f02)]
    /// # struct Placed { id: u64, x: f32, y: f32 }
    /// fn placed(world: &Group, placed: &Placed) {
    ///     world.with(Delivery::Latest(placed.id)).send(placed);
    /// }
    /// ```
    #[must_use]
    pub fn with(&self, delivery: Delivery) -> Self {
        Self { room: Arc::clone(&self.room), delivery: Some(delivery) }
    }

    /// Lets a connection in. It stays until it leaves or ends.
    pub fn join(&self, connection: &Connection) -> Join {
        self.room.join(connection, None)
    }

    /// Lets a connection in, with a value that the group keeps for it: [`Member::metadata`]. A member's is replaced.
    pub fn join_with<T: Send + Sync + 'static>(&self, connection: &Connection, metadata: T) -> Join {
        self.room.join(connection, Some(Arc::new(metadata)))
    }

    /// Gives a member another value to keep. Returns whether it is a member.
    pub fn set_metadata<T: Send + Sync + 'static>(&self, connection: &Connection, metadata: T) -> bool {
        self.room.set_metadata(connection.id(), Arc::new(metadata) as Arc<dyn Any + Send + Sync>)
    }

    /// Lets a connection out. Returns whether it was a member. What is sent after this has returned does not reach it; what
    /// others are just sending may.
    pub fn leave(&self, connection: &Connection) -> bool {
        self.room.leave(connection)
    }

    /// Whether a connection is a member.
    pub fn contains(&self, connection: &Connection) -> bool {
        self.room.contains(connection.id())
    }

    /// What the group knows of a connection, if it is a member.
    pub fn member(&self, connection: &Connection) -> Option<Member> {
        self.room.member(connection.id())
    }

    /// The members as of now.
    pub fn members(&self) -> Members {
        self.room.members()
    }

    /// How many members there are.
    pub fn count(&self) -> usize {
        self.room.members().len()
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// Sends a one-way packet to all members, by the handle's [`Delivery`], or the packet's if the handle has none.
    pub fn send<P: OneWay>(&self, packet: &P) -> Sent {
        deliver(packet, self.delivery, self.members().iter().map(Member::connection))
    }

    /// Sends a one-way packet to all members but one, most often the one who has caused it.
    pub fn send_except<P: OneWay>(&self, packet: &P, except: &Connection) -> Sent {
        let members = self.members();
        let others = members.iter().map(Member::connection).filter(|&connection| connection != except);
        deliver(packet, self.delivery, others)
    }

    /// Sends a one-way packet to the members that `wanted` says.
    ///
    /// ```
    /// # use nalix_server::{Group, packet};
    /// # #[packet(opcode = 0x3f03)]
    /// # struct Goal { by: u8 }
    /// struct Team(u8);
    ///
    /// fn tell_the_team(field: &Group, goal: &Goal) {
    ///     field.send_where(goal, |member| member.metadata::<Team>().is_some_and(|team| team.0 == goal.by));
    /// }
    /// ```
    pub fn send_where<P: OneWay>(&self, packet: &P, mut wanted: impl FnMut(&Member) -> bool) -> Sent {
        let members = self.members();
        let wanted = members.iter().filter(|&member| wanted(member)).map(Member::connection);
        deliver(packet, self.delivery, wanted)
    }

    /// Asks all members at once, and gathers what they answer within the time given. One that fails, or has not answered by
    /// then, is among the answers with its error. Who are members counts when the future is first polled.
    ///
    /// ```
    /// # use nalix_server::{Group, packet};
    /// # use std::time::Duration;
    /// #[packet(opcode = 0x3f04, reply = bool)]
    /// struct AreYouReady;
    ///
    /// # async fn f(group: Group) -> Result<(), Box<dyn std::error::Error>> {
    /// let answers = group.ask(&AreYouReady, Duration::from_secs(5)).await?;
    /// let ready = answers.iter().filter(|answer| matches!(answer.result, Ok(true))).count();
    /// # Ok(()) }
    /// ```
    ///
    /// The future fails only if the packet cannot be encoded.
    pub fn ask<P: Request>(&self, packet: &P, within: Duration) -> Ask<P> {
        Ask::new(Arc::clone(&self.room), packet, within)
    }

    /// Who comes and goes from now on, with the members as of now: a [`Stream`](futures_core::Stream), which can also be
    /// waited for by hand. At most `capacity` events wait to be taken, at least 1;
    /// too few are lost at every burst, too many keep what the members who have gone held.
    ///
    /// ```
    /// # use nalix_server::{Group, PresenceEvent};
    /// # async fn f(group: Group) {
    /// let (members, mut presence) = group.watch(256);
    /// println!("{} are here", members.len());
    /// loop {
    ///     match presence.next().await {
    ///         PresenceEvent::Joined(member) => println!("{} has come", member.id()),
    ///         PresenceEvent::Left(member) => println!("{} has gone", member.id()),
    ///         PresenceEvent::Missed(n) => println!("{n} more; now {} are here", group.count()),
    ///         _ => {}
    ///     }
    /// }
    /// # }
    /// ```
    pub fn watch(&self, capacity: usize) -> (Members, Presence) {
        let queue = Arc::new(Queue::new(capacity));
        let members = self.room.watch(Arc::clone(&queue));
        (members, Presence::new(Arc::clone(&self.room), queue))
    }
}
