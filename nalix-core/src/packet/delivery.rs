//! What becomes of packets for slow receivers.

/// What happens to a one-way packet whose receiver does not read as fast as it is sent to. None of them waits, so a receiver that
/// is stuck delays nobody.
///
/// A packet declares its own: `#[packet(opcode = ..., delivery = "drop_oldest")]`. It counts for
/// [`Connection::push`](crate::Connection::push), and for groups and the hub of a server, unless they are told another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Delivery {
    /// It arrives, or its receiver loses the connection: one whose [`outbox`](crate::connection::Options) is full is closed as
    /// [`CloseCode::SlowConsumer`](crate::CloseCode), and so is one for which as many bytes of large packets wait as
    /// [`large_outbox`](crate::connection::Options) says. The reason says how many packets were left
    /// out: this one, and those that its class allowed. It is a member until its driver has written the goodbye or given up on that
    /// ([`close_timeout`](crate::connection::Options)). The default.
    #[default]
    Reliable,
    /// It is left out for receivers with [`Options::drop_mark`](field@crate::connection::Options::drop_mark) bytes waiting or more, and counted
    /// there: [`Connection::left_out`](crate::Connection::left_out).
    Droppable,
    /// It waits beside the outbox, and when more wait there than
    /// [`Options::max_latest`](field@crate::connection::Options::max_latest) or bytes than
    /// [`Options::drop_mark`](field@crate::connection::Options::drop_mark), the oldest of them are dropped, of whatever type, and
    /// counted in the same place. For what is news: whoever comes late to it has missed the beginning.
    ///
    /// As below, these are written after all others that wait by then; among themselves they keep their order.
    DropOldest,
    /// It replaces the packet of the same type and key that waits for the receiver, whoever sent that. For what is worth
    /// nothing once the next is there, such as where something is; the key says what. What is replaced is counted, too.
    ///
    /// Packets that wait this way are written after all others that wait by then, so their order to others is not kept.
    /// Nor is a new key taken beyond [`Options::max_latest`](field@crate::connection::Options::max_latest).
    Latest(u64),
}
