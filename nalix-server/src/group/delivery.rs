//! One packet to many connections.

use nalix_core::{Connection, Delivery, Encoded, OneWay, SendError, error::EncodeError};

/// To how many connections a packet went.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Sent {
    /// It is in the outbox of this many.
    pub queued: usize,
    /// It was left out for this many, as its [`Delivery`] allows.
    pub skipped: usize,
    /// So many packets that came before it were dropped for it, over all connections: [`Delivery::DropOldest`].
    pub dropped: usize,
    /// This many were closed since their outbox is full.
    pub slow: usize,
    /// This many could not take it: their connection has ended, is not encrypted though the packet must be, or has a lower
    /// message limit than the packet is long.
    pub failed: usize,
    /// Why it went to nobody, if it cannot be encoded. That is traced as an error, too.
    pub error: Option<EncodeError>,
}

/// Encodes a packet once, for the first who gets it, and puts it into every outbox. Without a `delivery`, that which the packet
/// declares counts.
pub(crate) fn deliver<'a, P: OneWay>(
    packet: &P,
    delivery: Option<Delivery>,
    to: impl Iterator<Item = &'a Connection>,
) -> Sent {
    let delivery = delivery.unwrap_or(P::DELIVERY);
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
        match connection.try_send_as(delivery, encoded) {
            Ok(dropped) => {
                sent.queued += 1;
                sent.dropped += dropped;
            }
            Err(SendError::Full) if delivery == Delivery::Reliable => sent.slow += 1,
            Err(SendError::Full) => sent.skipped += 1,
            Err(_) => sent.failed += 1,
        }
    }
    sent
}
