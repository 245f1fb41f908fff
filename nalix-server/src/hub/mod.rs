//! All connections of a server, and their groups.

mod context;
mod events;
mod info;

use std::{fmt, hash::Hash, net::IpAddr, sync::Arc};

use nalix_core::{CloseReason, Connection, ConnectionId, Delivery, OneWay, limit::AddressKey};

use self::events::Watchers;
pub use self::{
    context::HubExt,
    events::{HubEvent, HubEvents},
    info::ConnectionInfo,
};
use crate::{
    Group, Sent,
    group::{Groups, deliver, leave_all, tell_away},
    registry::Registry,
};

/// The open connections of a server, and their groups. A handle, cheap to clone.
///
/// A handler gets it as `ctx.hub()` (see [`HubExt`]) or as an argument of its own, everybody else from
/// [`ServerHandle::hub`](crate::ServerHandle::hub).
///
/// ```
/// use nalix_server::{Hub, packet, packet_controller};
///
/// #[packet(opcode = 0x3f08, reply = u64)]
/// struct HowMany;
///
/// struct Census;
///
/// #[packet_controller]
/// impl Census {
///     #[packet]
///     fn how_many(&self, hub: Hub, _: HowMany) -> u64 {
///         hub.count() as u64
///     }
/// }
/// ```
#[derive(Clone)]
pub struct Hub {
    registry: Arc<Registry>,
    groups: Arc<Groups>,
    watchers: Arc<Watchers>,
    /// Whatever packets declare.
    delivery: Option<Delivery>,
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub")
            .field("connections", &self.count())
            .field("groups", &self.group_count())
            .field("delivery", &self.delivery)
            .finish()
    }
}

impl Hub {
    pub(crate) fn new(max_groups_per_connection: usize) -> Self {
        let registry = Arc::new(Registry::new());
        let groups = Arc::new(Groups::new(Arc::clone(&registry), max_groups_per_connection));
        Self { registry, groups, watchers: Arc::new(Watchers::new()), delivery: None }
    }

    /// The connection is open.
    pub(crate) fn enter(&self, connection: Connection) {
        info::remember(&connection);
        self.registry.insert(connection.clone());
        self.watchers.tell(|| HubEvent::Opened(connection));
    }

    /// The connection has ended, and its hooks have run.
    pub(crate) fn leave(&self, connection: &Connection) {
        self.registry.remove(connection.id());
        leave_all(connection);
        self.watchers.tell(|| HubEvent::Ended { id: connection.id(), reason: connection.close_reason() });
    }

    /// The connection's session has lost its link, or has another.
    pub(crate) fn link_changed(&self, connection: &Connection, there: bool) {
        tell_away(connection, there);
        self.watchers.tell(|| match there {
            true => HubEvent::Resumed(connection.clone()),
            false => HubEvent::Detached(connection.clone()),
        });
    }

    /// A connection was turned away since there are too many.
    pub(crate) fn full(&self) {
        self.watchers.full();
    }

    /// There is room for one more.
    pub(crate) fn not_full(&self) {
        self.watchers.not_full();
    }

    /// The open connection with this id. [`Hub::with_connection`] and [`Hub::contains`] take less time.
    #[inline]
    pub fn get(&self, id: ConnectionId) -> Option<Connection> {
        self.registry.get(id)
    }

    /// Lends the open connection with this id to `f`, which takes about half as long as to make and drop a handle of it.
    /// `None` if there is none.
    ///
    /// The connection stays among the open ones until `f` returns; if it ends meanwhile, its task waits for that, so `f`
    /// should be short and must not wait. It may use the hub and groups, and look up the same connection.
    ///
    /// ```
    /// # use nalix_server::{ConnectionId, Hub, packet};
    /// # #[packet(opcode = 0x3f0b)]
    /// # struct Nudge;
    /// fn nudge(hub: &Hub, id: ConnectionId) -> bool {
    ///     hub.with_connection(id, |connection| connection.try_send(&Nudge).is_ok()).unwrap_or(false)
    /// }
    /// ```
    #[inline]
    pub fn with_connection<T>(&self, id: ConnectionId, f: impl FnOnce(&Connection) -> T) -> Option<T> {
        self.registry.with(id, f)
    }

    /// Whether there is an open connection with this id.
    #[inline]
    pub fn contains(&self, id: ConnectionId) -> bool {
        self.registry.contains(id)
    }

    /// How many connections are open; those in the handshake are not counted.
    pub fn count(&self) -> usize {
        self.registry.count()
    }

    /// The open connections as of now, in no order.
    pub fn connections(&self) -> Vec<Connection> {
        self.registry.all()
    }

    /// Closes the connection with this id for the given reason, which its peer is told. Returns whether there is one.
    pub fn close(&self, id: ConnectionId, reason: CloseReason) -> bool {
        let found = self.get(id);
        if let Some(connection) = &found {
            connection.close_with(reason);
        }
        found.is_some()
    }

    /// Closes the connections that `unwanted` says, and returns how many.
    pub fn close_where(&self, reason: &CloseReason, mut unwanted: impl FnMut(&Connection) -> bool) -> usize {
        let mut closed = 0;
        for connection in self.connections().iter().filter(|&connection| unwanted(connection)) {
            connection.close_with(reason.clone());
            closed += 1;
        }
        closed
    }

    /// Closes the connections of an address, or of the /64 of IPv6 that it is in, and returns how many.
    pub fn close_address(&self, address: IpAddr, reason: &CloseReason) -> usize {
        let key = AddressKey::of(address);
        self.close_where(reason, |connection| {
            connection.peer_addr().is_some_and(|peer| AddressKey::of(peer.ip()) == key)
        })
    }

    /// Says who a connection's client is, as far as the server is concerned: a user's name, after a login. It is shown by
    /// [`Hub::info`], and the connection is not anonymous any more for [`WhenFull`](crate::WhenFull). A session that can be resumed keeps it. Returns what was said
    /// before.
    pub fn identify(&self, connection: &Connection, name: impl Into<Arc<str>>) -> Option<Arc<str>> {
        info::identify(connection, name.into())
    }

    /// Who a connection's client is, as [`Hub::identify`] was told.
    pub fn identity_of(&self, connection: &Connection) -> Option<Arc<str>> {
        info::identity_of(connection)
    }

    /// The open connections with their states, for operators, in no order.
    pub fn info(&self) -> Vec<ConnectionInfo> {
        let connections = self.connections();
        connections
            .iter()
            .map(|connection| ConnectionInfo::of(connection, Group::of(connection).len()))
            .collect()
    }

    /// Tells of every connection that comes or goes from now on, and when there is no room for one. Holds up to `capacity`
    /// events, at least one, until they are taken; see [`HubEvents`].
    ///
    /// ```
    /// # async fn f(hub: nalix_server::Hub) {
    /// use nalix_server::HubEvent;
    ///
    /// let mut events = hub.watch(1_024);
    /// loop {
    ///     match events.next().await {
    ///         HubEvent::Opened(connection) => println!("{} from {:?}", connection.id(), connection.peer_addr()),
    ///         HubEvent::Ended { id, reason } => println!("{id} has gone: {reason:?}"),
    ///         HubEvent::Full => println!("no room"),
    ///         HubEvent::Missed(n) => println!("too slow for {n} of them"),
    ///         _ => {}
    ///     }
    /// }
    /// # }
    /// ```
    pub fn watch(&self, capacity: usize) -> HubEvents {
        self.watchers.watch(capacity)
    }

    /// The same hub, to send to all in this way, whatever packets declare.
    #[must_use]
    pub fn with(&self, delivery: Delivery) -> Self {
        Self { delivery: Some(delivery), ..self.clone() }
    }

    /// Sends a one-way packet to all open connections, by the handle's [`Delivery`], or the packet's if the handle has none. It is
    /// encoded once.
    pub fn send_all<P: OneWay>(&self, packet: &P) -> Sent {
        deliver(packet, self.delivery, self.connections().iter())
    }

    /// Sends a one-way packet to the connections that `wanted` says.
    pub fn send_where<P: OneWay>(&self, packet: &P, mut wanted: impl FnMut(&Connection) -> bool) -> Sent {
        let connections = self.connections();
        deliver(packet, self.delivery, connections.iter().filter(|&connection| wanted(connection)))
    }

    /// The group of this name. Keys of any type do; equal values of different types name different groups, except that
    /// texts are texts, whether `&'static str`, `String`, `Cow<'static, str>`, `Arc<str>` or `Box<str>`.
    ///
    /// A key's `Hash` and `Eq` run under a lock, and must not touch groups.
    pub fn group<K>(&self, key: K) -> Group
    where
        K: Hash + Eq + Send + Sync + 'static,
    {
        Group::new(&self.groups, key)
    }

    /// How many groups there are: with members, handles or subscriptions.
    pub fn group_count(&self) -> usize {
        self.groups.count()
    }

    /// The groups that a connection is in, in no order.
    pub fn groups_of(&self, connection: &Connection) -> Vec<Group> {
        Group::of(connection)
    }

    /// Takes a connection out of all its groups, and returns how many they were. This happens by itself when it ends.
    pub fn leave_all(&self, connection: &Connection) -> usize {
        leave_all(connection)
    }
}
