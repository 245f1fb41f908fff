//! Two ends of a link in one process, for tests: a whole server and client without a socket.

use tokio::io::DuplexStream;

use super::{StreamLink, Transport};

/// One end of [`pair`].
pub type MemoryLink = StreamLink<DuplexStream>;

/// Two connected ends, each of which takes `capacity` bytes (at least 1) before its writer has to wait for the reader.
///
/// A small capacity cuts every record into pieces and finds hangs that a large one hides.
///
/// ```
/// let (client, server) = nalix_core::link::memory::pair(7);
/// ```
pub fn pair(capacity: usize) -> (MemoryLink, MemoryLink) {
    let (a, b) = tokio::io::duplex(capacity.max(1));
    let link = |end| StreamLink::new(end).with_transport(Transport::Memory);
    (link(a), link(b))
}
