//! What can be set about a connection.

use std::time::Duration;

use crate::{
    handshake::{Contracts, Lasting, Params},
    peer::StreamLimits,
    session::MAX_MESSAGE,
    setters::setters,
};

/// Limits and times of a connection. Both ends have their own; where they must agree, the smaller value counts.
///
/// Each is a field, and has a method of the same name that sets it and returns the rest as it was.
///
/// ```
/// # use std::time::Duration;
/// # use nalix_core::connection::Options;
/// let options = Options::default().max_calls(64).request_timeout(Duration::from_secs(5));
/// assert_eq!(options.max_calls, 64);
///
/// let mut patient = options.clone();
/// patient.request_timeout = None; // or `options.request_timeout(None)`
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// The longest message that this side takes, in bytes of its encoding. Default 16 MiB, at most
    /// [`MAX_MESSAGE`](crate::session::MAX_MESSAGE). The peer learns it in the handshake.
    ///
    /// Too low refuses honest packets (at their sender, with an error); too high lets one message take that much memory.
    pub max_message: usize,
    /// The longest message that this side sends, in bytes of its encoding, even if the peer takes longer ones. Default
    /// 16 MiB, at most [`MAX_MESSAGE`](crate::session::MAX_MESSAGE).
    ///
    /// Too low makes honest packets fail; too high lets one message take that much memory until it is written.
    pub max_send: usize,
    /// How many bytes the messages may have that come in fragments, those that are not whole yet and those whose handlers
    /// have not finished, all together; and those that come compressed in one frame and are longer than one. Default 64 MiB. Each
    /// counts with the length it announces, before it was compressed. As many again may the items of streams have that are over
    /// 16 KiB, while they come; a stream whose next item is beyond it ends with `ResourceExhausted`.
    ///
    /// What is beyond is refused: a request with `ResourceExhausted`, a one-way packet silently; an answer fails its call
    /// here. So that none of them is lost to slow handlers, the link is not read while one-way packets that wait for their
    /// handlers have more than half of it. Too low refuses large messages that come at the same time, and those beyond it always; too high lets each
    /// connection take that much memory. Zero refuses whatever does not fit a frame.
    pub reassembly: usize,
    /// How many calls of the peer's may be in flight here. Default 1,024, from 1 to 65,536.
    ///
    /// The peer makes further calls wait. Too low slows pipelining; too high lets each connection keep that many
    /// handlers running.
    pub max_calls: usize,
    /// How many one-way packets may wait for their handlers before the link is not read for a while. Default 1,024,
    /// at least 1.
    pub max_queued: usize,
    /// How many one-way packets wait for a [`Subscription`](crate::Subscription) that does not say otherwise. Default 256,
    /// at least 1.
    ///
    /// Too low loses packets in every burst, and the subscriber is told how many; too high lets a subscriber that has
    /// stopped reading keep that many decoded packets in memory.
    pub push_queue: usize,
    /// The largest window of a stream: how many bytes of items a peer may send on it before they are consumed here. Default
    /// 64 KiB, from 1 to 1 GiB.
    ///
    /// A stream starts with less, as far as [`stream_budget`](field@Self::stream_budget) asks for it, and grows while its items are
    /// consumed quickly. Too low makes each stream wait for a round trip after so many bytes; too high lets a few streams take
    /// the whole budget.
    pub stream_window: usize,
    /// How many bytes of items there may be that have not been consumed, over all streams together. Default 32 MiB.
    ///
    /// A quarter is shared out as the first windows of the peer's uploads, `max_calls` of them, and a quarter as those of the
    /// streams that come as answers; the other half is lent to the streams that are consumed quickly. So a stream that nobody
    /// reads takes nothing that another needs to go on. No more streams can be opened than have a first window, and
    /// no fewer than `max_calls`. Too low makes windows small, down to one byte; too high lets each connection take that much
    /// memory.
    pub stream_budget: usize,
    /// Whether messages may be compressed: those of packets marked `compress`, in either direction. Default `true`. The peer
    /// learns it in the handshake, and does not compress what it sends here if this side does not.
    ///
    /// `false` takes more bandwidth; `true` lets a peer make this side inflate a message of up to `max_message` bytes by
    /// sending a 255th of that.
    pub compression: bool,
    /// Senders wait once this many bytes wait to be written of the [`Priority`](crate::packet::Priority) of their packet.
    /// Default 1 MiB, at least 1.
    ///
    /// Too low makes senders wait for each flush; too high lets a peer that does not read take that much memory.
    pub outbox: usize,
    /// Packets that are sent as droppable are left out while this many bytes of their priority wait to be written, or as many
    /// as `outbox`. Of packets that wait and of which the oldest may be dropped ([`Delivery::DropOldest`](crate::Delivery)), they
    /// are while these have more bytes, as long as there are several. Default 64 KiB.
    ///
    /// Too low leaves packets out at every burst; too high lets a peer that reads slowly get them late. Zero leaves all of
    /// them out.
    pub drop_mark: usize,
    /// How many bytes the operating system may hold of a connection that it has not sent yet. Default 128 KiB, at least 1; the
    /// largest number leaves it to the system, which may take megabytes. It is TCP's `TCP_NOTSENT_LOWAT`, and has an effect on
    /// Linux and Android.
    ///
    /// What the system has taken goes before everything else, cannot be replaced by a later packet or be dropped, and counts for none of
    /// these limits. Too low wakes the connection for few bytes at a time; too high keeps urgent packets behind that many bytes
    /// when the network is slow, and lets each peer that does not read take that much memory.
    pub max_unsent: usize,
    /// How many packets of which only the latest counts may wait to be written, each of another key; and as many of which the
    /// oldest may be dropped. Default 1,024.
    ///
    /// Too low leaves keys out; too high lets a peer that does not read take more memory, though never more than
    /// `outbox` and `drop_mark` once more, or one packet of each kind. Zero leaves all of them out.
    pub max_latest: usize,
    /// How many bytes of large messages may wait to be written before they count against `outbox`, where small ones would
    /// have to wait, too. Default 64 MiB. Senders of large messages wait for room here, unless none waits yet. A message that
    /// goes to several connections counts in full for each of them, though they share its bytes. As many again may the items of
    /// handlers' streams have that are over 16 KiB and wait for credit; a stream whose next item is beyond it, and not the only
    /// one, ends with `ResourceExhausted`.
    ///
    /// Too low lets large answers hold up the calls beside them; too high lets a peer that does not read take that much
    /// memory.
    pub large_outbox: usize,
    /// How many packets that do not decode a peer may send before the connection is closed; one is forgiven each second.
    /// Default 100. The largest number means that none of them closes it.
    ///
    /// Too low throws out a client with a fault in one of its packets; too high lets a peer try out malformed packets at
    /// leisure. Zero closes at the first.
    pub max_malformed: u32,
    /// How long the handshake may take. Default 10 s. Zero refuses every connection.
    pub handshake_timeout: Duration,
    /// How long a close may take that this side has begun: writing what is left, and waiting for the peer to have
    /// read it. Default 1 s. Zero drops what has not been written.
    pub close_timeout: Duration,
    /// How long a peer may take nothing of what is to be written before the connection is dropped. Default 30 s.
    ///
    /// Too low drops peers on slow links; too high keeps dead ones. Zero drops at the first write that blocks.
    pub stall_timeout: Duration,
    /// After how long without anything from the peer it is sent a ping. Default 15 s, at least 100 ms; `None` sends none.
    ///
    /// Of two sides with the same interval, one sends the pings and the other waits a quarter longer. Too low costs
    /// traffic and wakes idle peers; too high notices late that a peer is gone, and lets routers on the way forget the
    /// connection. `None` never notices an idle peer that has gone without a word.
    pub keep_alive: Option<Duration>,
    /// How long a peer that has been sent a ping may say nothing at all before the connection is closed with
    /// [`CloseCode::KeepAliveTimeout`](crate::CloseCode). Default 15 s. While the link takes nothing, `stall_timeout`
    /// counts instead.
    ///
    /// Too low drops peers that are slow to answer, or that much is on its way to; too high keeps dead ones. Zero closes at
    /// the first ping.
    pub keep_alive_timeout: Duration,
    /// After how long without application traffic the connection is closed with
    /// [`CloseCode::IdleTimeout`](crate::CloseCode): no packet, answer or item in either direction, and no call or handler
    /// under way. Pings do not count. Default `None`: never.
    ///
    /// Too low closes connections that are still of use; too high keeps those that nobody uses. Zero closes as soon as
    /// nothing is under way.
    pub idle_timeout: Option<Duration>,
    /// How long a request waits for its answer unless it says otherwise. Streams and uploads have a timeout only if they
    /// are given one. Default 30 s; `None` waits for ever. Zero
    /// fails every request that does not say otherwise, before it is sent.
    pub request_timeout: Option<Duration>,
    /// How many bytes that were sent and are not acknowledged are kept, so that the session can go on over another link when its
    /// own is lost. Default 1 MiB. What waits to be written is kept besides, and bounded by `outbox`. The peer learns whether there are any in the handshake, and keeps as many of its own as it
    /// likes if it does, too.
    ///
    /// Too low makes sessions start anew that lose their link while much is on its way; too high lets each connection take that
    /// much memory. Zero lets sessions end with their links.
    pub resume_log: usize,
    /// How long a session is kept without a link. Default 30 s. The side that accepts decides; the other is told.
    ///
    /// Too low ends the sessions of clients that are away for longer; too high keeps what clients hold that never come back.
    /// Zero ends them at once.
    pub resume_grace: Duration,
    /// The longest that a handler may run for a request, whatever the caller allows. Default `None`: as long as the
    /// caller waits. Zero refuses every request.
    pub max_deadline: Option<Duration>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_message: 16 << 20,
            max_send: 16 << 20,
            reassembly: 64 << 20,
            max_calls: 1_024,
            max_queued: 1_024,
            push_queue: 256,
            stream_window: 64 << 10,
            stream_budget: 32 << 20,
            compression: true,
            outbox: 1 << 20,
            drop_mark: 64 * 1024,
            max_unsent: 128 * 1024,
            max_latest: 1_024,
            large_outbox: 64 << 20,
            max_malformed: 100,
            handshake_timeout: Duration::from_secs(10),
            close_timeout: Duration::from_secs(1),
            stall_timeout: Duration::from_secs(30),
            keep_alive: Some(Duration::from_secs(15)),
            keep_alive_timeout: Duration::from_secs(15),
            idle_timeout: None,
            request_timeout: Some(Duration::from_secs(30)),
            resume_log: 1 << 20,
            resume_grace: Duration::from_secs(30),
            max_deadline: None,
        }
    }
}

impl Options {
    /// The same options with every number inside its range.
    #[must_use]
    pub fn in_range(mut self) -> Self {
        self.max_message = self.max_message.min(MAX_MESSAGE);
        self.max_send = self.max_send.min(MAX_MESSAGE);
        self.max_calls = self.max_calls.clamp(1, 65_536);
        self.max_queued = self.max_queued.max(1);
        self.push_queue = self.push_queue.max(1);
        self.stream_window = self.stream_window.clamp(1, 1 << 30);
        self.outbox = self.outbox.max(1);
        self.max_unsent = self.max_unsent.max(1);
        self.keep_alive = self.keep_alive.map(|interval| interval.max(MIN_KEEP_ALIVE));
        self
    }

    /// What may be kept of streams.
    pub(super) fn streams(&self) -> StreamLimits {
        StreamLimits { window: self.stream_window, budget: self.stream_budget, assembly: self.reassembly }
    }

    /// What this side brings into the handshake.
    pub(super) fn params(&self, contracts: Contracts) -> Params {
        let window = self.streams().first_window(self.max_calls);
        let mut params = Params::new(self.max_message, self.max_calls, contracts).with_streams(window);
        (params.max_send, params.compression) = (self.max_send, self.compression);
        params.lasting = if self.resume_log > 0 { Lasting::New } else { Lasting::No };
        params
    }
}

/// Pings more often than this would be a load of their own.
const MIN_KEEP_ALIVE: Duration = Duration::from_millis(100);

#[cfg(feature = "serde")]
crate::__section!(Options {
    max_message: |raw| crate::config::size(raw, 0, MAX_MESSAGE),
    max_send: |raw| crate::config::size(raw, 0, MAX_MESSAGE),
    reassembly: |raw| crate::config::size(raw, 0, usize::MAX),
    max_calls: |raw| crate::config::size(raw, 1, 65_536),
    max_queued: |raw| crate::config::size(raw, 1, usize::MAX),
    push_queue: |raw| crate::config::size(raw, 1, usize::MAX),
    stream_window: |raw| crate::config::size(raw, 1, 1 << 30),
    stream_budget: |raw| crate::config::size(raw, 0, usize::MAX),
    compression: |raw| crate::config::flag(raw),
    outbox: |raw| crate::config::size(raw, 1, usize::MAX),
    drop_mark: |raw| crate::config::size(raw, 0, usize::MAX),
    max_unsent: |raw| crate::config::size(raw, 1, usize::MAX),
    max_latest: |raw| crate::config::size(raw, 0, usize::MAX),
    large_outbox: |raw| crate::config::size(raw, 0, usize::MAX),
    max_malformed: |raw| crate::config::number(raw, 0, u32::MAX.into()).map(|n| n as u32),
    handshake_timeout: |raw| crate::config::time(raw, Duration::ZERO),
    close_timeout: |raw| crate::config::time(raw, Duration::ZERO),
    stall_timeout: |raw| crate::config::time(raw, Duration::ZERO),
    keep_alive: |raw| crate::config::optional_time(raw, MIN_KEEP_ALIVE),
    keep_alive_timeout: |raw| crate::config::time(raw, Duration::ZERO),
    idle_timeout: |raw| crate::config::optional_time(raw, Duration::ZERO),
    request_timeout: |raw| crate::config::optional_time(raw, Duration::ZERO),
    resume_log: |raw| crate::config::size(raw, 0, usize::MAX),
    resume_grace: |raw| crate::config::time(raw, Duration::ZERO),
    max_deadline: |raw| crate::config::optional_time(raw, Duration::ZERO),
});

setters!(Options {
    max_message: usize,
    max_send: usize,
    reassembly: usize,
    max_calls: usize,
    max_queued: usize,
    push_queue: usize,
    stream_window: usize,
    stream_budget: usize,
    compression: bool,
    outbox: usize,
    drop_mark: usize,
    max_unsent: usize,
    max_latest: usize,
    large_outbox: usize,
    max_malformed: u32,
    handshake_timeout: Duration,
    close_timeout: Duration,
    stall_timeout: Duration,
    keep_alive: impl Into<Option<Duration>>,
    keep_alive_timeout: Duration,
    idle_timeout: impl Into<Option<Duration>>,
    request_timeout: impl Into<Option<Duration>>,
    resume_log: usize,
    resume_grace: Duration,
    max_deadline: impl Into<Option<Duration>>,
});

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever is set, the others stay as they were.
    #[test]
    fn each_setter_sets_its_own_field_and_no_other() {
        let secs = Duration::from_secs;
        let chained = Options::default()
            .max_message(1)
            .max_send(2)
            .reassembly(3)
            .max_calls(4)
            .max_queued(5)
            .push_queue(6)
            .stream_window(7)
            .stream_budget(17)
            .compression(false)
            .outbox(8)
            .drop_mark(9)
            .max_unsent(22)
            .max_latest(10)
            .large_outbox(11)
            .max_malformed(12)
            .handshake_timeout(secs(13))
            .close_timeout(secs(14))
            .stall_timeout(secs(15))
            .keep_alive(secs(17))
            .keep_alive_timeout(secs(18))
            .idle_timeout(secs(19))
            .request_timeout(None)
            .resume_log(20)
            .resume_grace(secs(21))
            .max_deadline(secs(16));
        let expected = Options {
            max_message: 1,
            max_send: 2,
            reassembly: 3,
            max_calls: 4,
            max_queued: 5,
            push_queue: 6,
            stream_window: 7,
            stream_budget: 17,
            compression: false,
            outbox: 8,
            drop_mark: 9,
            max_unsent: 22,
            max_latest: 10,
            large_outbox: 11,
            max_malformed: 12,
            handshake_timeout: secs(13),
            close_timeout: secs(14),
            stall_timeout: secs(15),
            keep_alive: Some(secs(17)),
            keep_alive_timeout: secs(18),
            idle_timeout: Some(secs(19)),
            request_timeout: None,
            resume_log: 20,
            resume_grace: secs(21),
            max_deadline: Some(secs(16)),
        };
        assert_eq!(chained, expected);
    }
}
