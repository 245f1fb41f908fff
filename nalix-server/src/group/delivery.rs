//! One packet to many connections.

use nalix_core::{Connection, Encoded, OneWay, SendError, error::EncodeError};

/// What happens to a packet whose receiver does not read as fast as it is sent to. None of them waits, so a receiver that
/// is stuck delays nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Delivery {
    /// It arrives, or its receiver loses the connection: one whose [`outbox`](crate::Options::outbox) is full is closed as
    /// [`CloseCode::SlowConsumer`](crate::CloseCode), and so is one for which as many bytes of large packets wait as
    /// [`large_outbox`](crate::Options::large_outbox) says. The reason says how many packets were left
    /// out: this one, and those that its class allowed. It is a member until its driver has written the goodbye or given up on that
    /// ([`close_timeout`](crate::Options::close_timeout)). The default.
    #[default]
    Reliable,
    /// It is left out for receivers with [`Options::drop_mark`](field@crate::Options::drop_mark) bytes waiting or more, and counted
    /// there: [`Connection::left_out`].
    Droppable,
    /// It replaces the packet of the same type and key that waits for the receiver, whoever sent that. For what is worth
    /// nothing once the next is there, such as where something is; the key says what. What is replaced is counted, too.
    ///
    /// Packets that wait this way are written after all others that wait by then, so their order to others is not kept.
    /// Nor is a new key taken beyond [`Options::max_latest`](field@crate::Options::max_latest).
    Latest(u64),
}

/// To how many connections a packet went.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Sent {
    /// It is in the outbox of this many.
    pub queued: usize,
    /// It was left out for this many, as its [`Delivery`] allows.
    pub skipped: usize,
    /// This many were closed since their outbox is full.
    pub slow: usize,
    /// This many could not take it: their connection has ended, is not encrypted though the packet must be, or has a lower
    /// message limit than the packet is long.
    pub failed: usize,
    /// Why it went to nobody, if it cannot be encoded. That is traced as an error, too.
    pub error: Option<EncodeError>,
}

/// Encodes a packet once, for the first who gets it, and puts it into every outbox.
pub(crate) fn deliver<'a, P: OneWay>(
    packet: &P,
    delivery: Delivery,
    to: impl Iterator<Item = &'a Connection>,
) -> Sent {
    let mut sent = Sent::default();
    let mut encoded = None;
    for connection in to {
        let encoded = match &mut encoded {
            Some(encoded) => encoded,
            none => match Encoded::new(packet) {
                Ok(encoded) => none.insert(encoded),
                Err(error) => {
                    tracing::error!(packet = P::NAME, %error, "a packet cannot be encoded");
                    sent.error = Some(error);
                    return sent;
                }
            },
        };
        let result = match delivery {
            Delivery::Reliable => connection.try_send_or_close(encoded),
            Delivery::Droppable => connection.try_send_droppable(encoded),
            Delivery::Latest(key) => connection.try_send_latest(key, encoded),
        };
        match result {
            Ok(()) => sent.queued += 1,
            Err(SendError::Full) if delivery == Delivery::Reliable => sent.slow += 1,
            Err(SendError::Full) => sent.skipped += 1,
            Err(_) => sent.failed += 1,
        }
    }
    sent
}
