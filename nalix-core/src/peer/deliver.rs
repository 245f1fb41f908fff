//! Sending one-way packets in the way that they, or those who send them, have chosen.

use super::{Connection, SendError, send};
use crate::packet::{Delivery, Encoded, OneWay};

impl Connection {
    /// Sends a one-way packet that may be dropped before it is written, for others of this kind that come later: so many
    /// wait as [`Options::max_latest`](crate::connection::Options) says, of as many bytes as
    /// [`drop_mark`](crate::connection::Options) says (one that is alone may be longer). When there are more, the oldest go, of
    /// whatever type. Returns how many went for this one.
    ///
    /// Those that wait go at the next write, whatever else waits: what is sent this way arrives in order, as far as it arrives, but its
    /// order to others is not kept, and the priority of those that fit a frame has no effect.
    ///
    /// # Errors
    /// [`SendError::Full`] if one of the two options is zero, else as [`Connection::send`].
    pub fn try_send_drop_oldest<P: OneWay>(&self, packet: &Encoded<P>) -> Result<usize, SendError> {
        send::try_send_drop_oldest(&self.shared, packet)
    }

    /// Sends a one-way packet without waiting, in the way that `delivery` says, whatever the packet declares. Returns how many
    /// others were dropped for it, which only [`Delivery::DropOldest`] does.
    ///
    /// # Errors
    /// [`SendError::Full`] if it has been left out, or with [`Delivery::Reliable`] if the connection was closed since there
    /// was no room; else as [`Connection::send`].
    pub fn try_send_as<P: OneWay>(
        &self,
        delivery: Delivery,
        packet: &Encoded<P>,
    ) -> Result<usize, SendError> {
        send::try_send_as(&self.shared, delivery, packet)
    }

    /// Sends a one-way packet without waiting, in the way that it declares: `#[packet(delivery = "...")]`, or else
    /// [`Delivery::Reliable`]. [`Connection::try_send_as`] overrides that.
    ///
    /// ```
    /// # use nalix_core::{Connection, packet};
    /// #[packet(opcode = 0x3f0c, delivery = "drop_oldest")]
    /// struct Line {
    ///     text: String,
    /// }
    ///
    /// fn say(connection: &Connection, text: String) {
    ///     match connection.push(&Line { text }) {
    ///         Ok(0) => {}
    ///         Ok(dropped) => println!("{dropped} older lines will not be read"),
    ///         Err(error) => println!("{error}"),
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`Connection::try_send_as`].
    pub fn push<P: OneWay>(&self, packet: &P) -> Result<usize, SendError> {
        self.try_send_as(P::DELIVERY, &Encoded::new(packet)?)
    }
}
