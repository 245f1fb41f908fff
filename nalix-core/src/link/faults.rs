//! Links that fail on purpose, for tests: of this crate, and of whatever is built on it.
//!
//! A [`FaultyLink`] wraps any other. What it does is drawn from a seed, so a test that fails with one fails again with the same:
//! it cuts reads and writes into pieces, lets what comes take its time, and breaks after some bytes, with or without the other
//! side noticing. With paused time (`tokio::time::pause`) waiting takes no time. A [`Network`] is a place where clients dial and a
//! server accepts such links, again and again.
//!
//! ```
//! use std::time::Duration;
//!
//! use nalix_core::link::faults::{Faults, Network};
//!
//! // Each link breaks after at most 2,000 bytes in one direction; what is written arrives within 30 ms.
//! let faults = Faults::new(7).break_within(2_000).latency(Duration::ZERO..Duration::from_millis(30)).pieces(100);
//! let network = Network::new(faults);
//! let client_end = network.dial();
//! # drop(client_end);
//! ```

use std::{
    collections::VecDeque,
    fmt,
    future::Future,
    io,
    net::SocketAddr,
    ops::Range,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::{Buf, BytesMut};
use tokio::{
    sync::{Mutex as AsyncMutex, mpsc},
    time::{Instant, Sleep, sleep_until},
};

use super::{
    Link, Transport,
    memory::{self, MemoryLink},
};

/// What goes wrong on a link.
#[derive(Debug, Clone)]
pub struct Faults {
    seed: u64,
    pieces: usize,
    breaks: Option<usize>,
    half_open: u8,
    latency: Range<Duration>,
    bandwidth: Option<u64>,
    capacity: usize,
}

impl Faults {
    /// Nothing, until it is said. All that is random follows from `seed`.
    pub fn new(seed: u64) -> Self {
        let latency = Duration::ZERO..Duration::ZERO;
        let capacity = 64 * 1024;
        Self { seed, pieces: usize::MAX, breaks: None, half_open: 0, latency, bandwidth: None, capacity }
    }

    /// Each read and write carries a random number of bytes, at most so many.
    #[must_use]
    pub fn pieces(mut self, max: usize) -> Self {
        self.pieces = max.max(1);
        self
    }

    /// The link breaks when it has carried a random number of bytes in one direction, at most so many.
    #[must_use]
    pub fn break_within(mut self, bytes: usize) -> Self {
        self.breaks = Some(bytes);
        self
    }

    /// Of a hundred links that break, so many break for the side that has this end alone: the other hears nothing any more, and
    /// what it writes is lost.
    #[must_use]
    pub fn half_open(mut self, percent: u8) -> Self {
        self.half_open = percent.min(100);
        self
    }

    /// What comes is there after a random time in this range, in order.
    #[must_use]
    pub fn latency(mut self, range: Range<Duration>) -> Self {
        self.latency = range;
        self
    }

    /// How many bytes come in a second.
    #[must_use]
    pub fn bandwidth(mut self, bytes_per_second: u64) -> Self {
        self.bandwidth = Some(bytes_per_second.max(1));
        self
    }

    /// How many bytes a link takes that have not come yet, and a link of a [`Network`] in each direction before its writer has to
    /// wait. Default 64 KiB.
    #[must_use]
    pub fn capacity(mut self, bytes: usize) -> Self {
        self.capacity = bytes.max(1);
        self
    }
}

/// A link that fails on purpose.
pub struct FaultyLink<L> {
    link: Option<L>,
    faults: Faults,
    random: Random,
    switch: Arc<Switch<L>>,
    /// How many bytes it still carries, out and in.
    left: Option<(usize, usize)>,
    /// What has come, and when it is there.
    coming: VecDeque<(Instant, BytesMut)>,
    ended: bool,
    sleep: Option<Pin<Box<Sleep>>>,
}

/// Breaks a [`FaultyLink`] from outside. Cheap to clone.
pub struct Breaker<L>(Arc<Switch<L>>);

struct Switch<L> {
    state: Mutex<State<L>>,
}

struct State<L> {
    cut: bool,
    silent: bool,
    waker: Option<Waker>,
    /// The inner link, when only our side is to know that it is broken.
    limbo: Option<L>,
}

impl<L> Switch<L> {
    fn lock(&self) -> MutexGuard<'_, State<L>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, change: impl FnOnce(&mut State<L>)) {
        let waker = {
            let mut state = self.lock();
            change(&mut state);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<L> Breaker<L> {
    /// Breaks the link: both sides get an error.
    pub fn cut(&self) {
        self.0.set(|state| state.cut = true);
    }

    /// Nothing comes any more, and what is written goes nowhere. Neither side gets an error.
    pub fn go_silent(&self) {
        self.0.set(|state| state.silent = true);
    }

    /// What was written while the link was silent stays lost; from now on everything goes through.
    pub fn speak_again(&self) {
        self.0.set(|state| state.silent = false);
    }
}

impl<L> Clone for Breaker<L> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<L> fmt::Debug for Breaker<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Breaker")
    }
}

impl<L> fmt::Debug for FaultyLink<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyLink")
            .field("faults", &self.faults)
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

impl<L> FaultyLink<L> {
    /// Lets `link` fail.
    pub fn new(link: L, faults: Faults) -> Self {
        let mut random = Random::new(faults.seed);
        let left = faults.breaks.map(|max| {
            let n = random.below(max.saturating_add(1));
            if random.below(2) == 0 { (n, usize::MAX) } else { (usize::MAX, n) }
        });
        let state = State { cut: false, silent: false, waker: None, limbo: None };
        let switch = Arc::new(Switch { state: Mutex::new(state) });
        Self {
            link: Some(link),
            faults,
            random,
            switch,
            left,
            coming: VecDeque::new(),
            ended: false,
            sleep: None,
        }
    }

    /// To break it from outside.
    pub fn breaker(&self) -> Breaker<L> {
        Breaker(Arc::clone(&self.switch))
    }

    /// Whether it goes on, is silent, or is broken.
    fn look(&mut self, cx: &Context<'_>) -> io::Result<bool> {
        let mut state = self.switch.lock();
        if state.cut {
            self.link = None;
        }
        if self.link.is_none() {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        state.waker = Some(cx.waker().clone());
        Ok(state.silent)
    }

    fn broken<T>(&mut self) -> Poll<io::Result<T>> {
        if self.random.below(100) < usize::from(self.faults.half_open) {
            self.switch.lock().limbo = self.link.take();
        }
        self.link = None;
        Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))
    }

    /// When bytes are there that come now.
    fn arrival(&mut self, bytes: usize) -> Instant {
        let Range { start, end } = self.faults.latency;
        let spread = usize::try_from(end.saturating_sub(start).as_micros()).unwrap_or(usize::MAX);
        let wait = start + Duration::from_micros(self.random.below(spread.max(1)) as u64);
        let now = Instant::now();
        let last = self.coming.back().map_or(now, |(at, _)| *at);
        let pace = self
            .faults
            .bandwidth
            .map_or(Duration::ZERO, |rate| Duration::from_secs_f64(bytes as f64 / rate as f64));
        (now + wait).max(last) + pace
    }

    /// How many of so many bytes go at once.
    fn piece(&mut self, bytes: usize) -> usize {
        if self.faults.pieces == usize::MAX {
            bytes
        } else {
            bytes.min(1 + self.random.below(self.faults.pieces))
        }
    }
}

impl<L: Link> Link for FaultyLink<L> {
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<usize>> {
        if self.look(cx)? {
            return Poll::Pending;
        }
        // What has come and is not there yet is on its way: more than that many bytes do not fit on it.
        while !self.ended
            && self.coming.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() < self.faults.capacity
        {
            let Some(link) = &mut self.link else { break };
            let mut bytes = BytesMut::new();
            match link.poll_read(cx, &mut bytes)? {
                Poll::Ready(0) => self.ended = true,
                Poll::Ready(n) => {
                    let at = self.arrival(n);
                    self.coming.push_back((at, bytes));
                }
                Poll::Pending => break,
            }
        }
        let Some((at, bytes)) = self.coming.front_mut() else {
            return if self.ended { Poll::Ready(Ok(0)) } else { Poll::Pending };
        };
        if *at > Instant::now() {
            let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(*at)));
            if sleep.deadline() != *at {
                sleep.as_mut().reset(*at);
            }
            if sleep.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
        let len = bytes.len();
        let mut n = self.piece(len);
        if let Some((_, left)) = &mut self.left {
            n = n.min(*left);
            *left = left.saturating_sub(n);
            if n == 0 {
                return self.broken();
            }
        }
        if let Some((_, bytes)) = self.coming.front_mut() {
            buf.extend_from_slice(&bytes[..n]);
            bytes.advance(n);
        }
        if n == len {
            self.coming.pop_front();
        }
        Poll::Ready(Ok(n))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.look(cx)? {
            return Poll::Ready(Ok(bytes.len()));
        }
        let mut n = self.piece(bytes.len());
        if let Some((left, _)) = self.left {
            n = n.min(left);
            if n == 0 {
                return self.broken();
            }
        }
        let Some(link) = &mut self.link else { return self.broken() };
        let written = link.poll_write(cx, &bytes[..n]);
        if let (Poll::Ready(Ok(n)), Some((left, _))) = (&written, &mut self.left) {
            *left = left.saturating_sub(*n);
        }
        written
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.look(cx)? {
            return Poll::Ready(Ok(()));
        }
        match &mut self.link {
            Some(link) => link.poll_close(cx),
            None => Poll::Ready(Ok(())),
        }
    }

    fn set_max_unsent(&self, bytes: usize) {
        if let Some(link) = &self.link {
            link.set_max_unsent(bytes);
        }
    }

    fn peer_addr(&self) -> Option<SocketAddr> {
        self.link.as_ref().and_then(L::peer_addr)
    }

    fn local_addr(&self) -> Option<SocketAddr> {
        self.link.as_ref().and_then(L::local_addr)
    }

    fn transport(&self) -> Transport {
        self.link.as_ref().map_or(Transport::Other, L::transport)
    }
}

/// Where clients dial and a server accepts, within one process. Each link fails in its own way, which follows from the network's
/// seed and the number of the link. Cheap to clone.
#[derive(Clone)]
pub struct Network {
    inner: Arc<Inner>,
}

struct Inner {
    faults: Mutex<Faults>,
    made: AtomicUsize,
    dialed: mpsc::UnboundedSender<MemoryLink>,
    accepted: AsyncMutex<mpsc::UnboundedReceiver<MemoryLink>>,
    breakers: Mutex<Vec<Breaker<MemoryLink>>>,
    down: Mutex<bool>,
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").field("made", &self.made()).finish_non_exhaustive()
    }
}

impl Network {
    /// A network whose links have these faults, at the end of those who dial.
    pub fn new(faults: Faults) -> Self {
        let (dialed, accepted) = mpsc::unbounded_channel();
        Self {
            inner: Arc::new(Inner {
                faults: Mutex::new(faults),
                made: AtomicUsize::new(0),
                dialed,
                accepted: AsyncMutex::new(accepted),
                breakers: Mutex::default(),
                down: Mutex::default(),
            }),
        }
    }

    /// Makes a link, of which the other end is [accepted](Network::accept).
    ///
    /// # Errors
    /// [`io::ErrorKind::ConnectionRefused`] while the network is [down](Network::set_down).
    pub fn dial(&self) -> io::Result<FaultyLink<MemoryLink>> {
        if *lock(&self.inner.down) {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let number = self.inner.made.fetch_add(1, Ordering::Relaxed) as u64;
        let mut faults = lock(&self.inner.faults).clone();
        // Neighbouring seeds must not give neighbouring links.
        faults.seed = Random::new(faults.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).next();
        let (near, far) = memory::pair(faults.capacity);
        // The other end of the channel lives as long as `self`.
        drop(self.inner.dialed.send(far));
        let link = FaultyLink::new(near, faults);
        let mut breakers = lock(&self.inner.breakers);
        breakers.retain(|breaker| Arc::strong_count(&breaker.0) > 1);
        breakers.push(link.breaker());
        Ok(link)
    }

    /// Waits for the other end of the next link that is made. Cancel safe.
    pub async fn accept(&self) -> MemoryLink {
        match self.inner.accepted.lock().await.recv().await {
            Some(link) => link,
            // Not while `self` is there.
            None => std::future::pending().await,
        }
    }

    /// How many links have been made.
    pub fn made(&self) -> usize {
        self.inner.made.load(Ordering::Relaxed)
    }

    /// Breaks all links that there are.
    pub fn cut_all(&self) {
        for breaker in lock(&self.inner.breakers).iter() {
            breaker.cut();
        }
    }

    /// Lets nobody dial, or everybody again.
    pub fn set_down(&self, down: bool) {
        *lock(&self.inner.down) = down;
    }

    /// Gives links that are made from now on other faults.
    pub fn set_faults(&self, faults: Faults) {
        *lock(&self.inner.faults) = faults;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Numbers that look random and follow from a seed: SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", OOPSLA 2014). For tests, never for secrets.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The numbers of this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    #[allow(clippy::should_implement_trait, reason = "it never ends, and nobody iterates over it")]
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, or 0 if there is none.
    pub const fn below(&mut self, n: usize) -> usize {
        // The high half of a product is as evenly spread as the numbers are.
        ((self.next() as u128 * n as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    async fn read(link: &mut impl Link, n: usize) -> io::Result<Vec<u8>> {
        let mut buf = BytesMut::new();
        while buf.len() < n {
            if poll_fn(|cx| link.poll_read(cx, &mut buf)).await? == 0 {
                break;
            }
        }
        Ok(buf.to_vec())
    }

    async fn write(link: &mut impl Link, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let n = poll_fn(|cx| link.poll_write(cx, bytes)).await?;
            bytes = &bytes[n..];
        }
        Ok(())
    }

    #[test]
    fn random_numbers_are_those_of_the_paper() {
        let mut random = Random::new(1_234_567);
        assert_eq!([random.next(), random.next()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
        for n in [1, 2, 7, usize::MAX] {
            assert!((0..100).all(|_| random.below(n) < n));
        }
        assert_eq!(random.below(0), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn pieces_and_latency_change_nothing_but_when_it_comes() {
        let sent: Vec<u8> = (0..1_000u32).map(|n| n as u8).collect();
        let faults = Faults::new(3).pieces(7).latency(Duration::from_millis(10)..Duration::from_millis(50));
        let (near, mut far) = memory::pair(1 << 16);
        let mut link = FaultyLink::new(near, faults.bandwidth(10_000));
        let before = Instant::now();
        write(&mut far, &sent).await.unwrap();
        assert_eq!(read(&mut link, sent.len()).await.unwrap(), sent);
        let took = before.elapsed();
        assert!(took >= Duration::from_millis(100) && took < Duration::from_millis(200), "{took:?}");
        write(&mut link, &sent).await.unwrap();
        assert_eq!(read(&mut far, sent.len()).await.unwrap(), sent);
        drop(far);
        assert_eq!(read(&mut link, 1).await.unwrap(), b"", "the end comes through");
    }

    #[tokio::test(start_paused = true)]
    async fn a_link_breaks_where_its_seed_says() {
        let carried = async |seed| {
            let (near, mut far) = memory::pair(1 << 16);
            let mut link = FaultyLink::new(near, Faults::new(seed).break_within(500));
            write(&mut far, &[7; 1_000]).await.unwrap();
            let mut buf = BytesMut::new();
            let mut n = (0, 0);
            while n.0 < 1_000 && poll_fn(|cx| link.poll_read(cx, &mut buf)).await.is_ok() {
                n.0 = buf.len();
            }
            while n.1 < 1_000 && write(&mut link, &[7]).await.is_ok() {
                n.1 += 1;
            }
            n
        };
        let mut seen = std::collections::HashSet::new();
        for seed in 0..20 {
            let n = carried(seed).await;
            assert_eq!(n, carried(seed).await, "{seed}");
            assert!(n.0 <= 500 || n.1 <= 500, "{n:?}");
            seen.insert(n);
        }
        assert!(seen.len() > 15, "{seen:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_network_cuts_silences_and_goes_down() {
        let network = Network::new(Faults::new(1));
        let mut link = network.dial().unwrap();
        let mut far = network.accept().await;
        let breaker = link.breaker();
        breaker.go_silent();
        write(&mut link, b"lost").await.unwrap();
        write(&mut far, b"heard").await.unwrap();
        let nothing = tokio::time::timeout(Duration::from_secs(1), read(&mut link, 1)).await;
        assert!(nothing.is_err(), "{nothing:?}");
        breaker.speak_again();
        assert_eq!(read(&mut link, 5).await.unwrap(), b"heard");
        network.cut_all();
        assert!(write(&mut link, b"x").await.is_err() && read(&mut link, 1).await.is_err());
        assert_eq!(read(&mut far, 1).await.unwrap(), b"", "the other side notices");
        network.set_down(true);
        assert_eq!(network.dial().unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        network.set_down(false);
        assert!(network.dial().is_ok());
        assert_eq!(network.made(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn the_other_side_of_a_half_open_link_hears_nothing() {
        let (near, mut far) = memory::pair(1 << 16);
        let mut link = FaultyLink::new(near, Faults::new(1).break_within(0).half_open(100));
        write(&mut far, b"x").await.unwrap();
        while write(&mut link, b"x").await.is_ok() && read(&mut link, 1).await.is_ok() {}
        let nothing = tokio::time::timeout(Duration::from_secs(1), read(&mut far, 2)).await;
        assert!(nothing.is_err(), "{nothing:?}");
        write(&mut far, b"lost").await.unwrap();
    }
}
