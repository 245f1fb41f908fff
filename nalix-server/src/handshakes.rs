//! How many handshakes may go on at once, in total and from one address.

use std::{
    collections::{HashMap, hash_map::Entry},
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use nalix_core::{Advice, CloseCode, CloseReason, limit::AddressKey};

/// Handshakes that have not come to their end.
#[derive(Debug)]
pub(crate) struct Handshakes {
    max: usize,
    max_per_address: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    total: usize,
    per_address: HashMap<AddressKey, usize>,
}

impl Handshakes {
    pub(crate) fn new(max: usize, max_per_address: usize) -> Self {
        Self { max, max_per_address, state: Mutex::default() }
    }

    /// Counts a handshake in, until the guard is dropped. Links without an address count in the total only.
    ///
    /// # Errors
    /// The reason to turn the link away for.
    pub(crate) fn begin(self: &Arc<Self>, peer: Option<SocketAddr>) -> Result<Handshake, CloseReason> {
        let address = peer.map(|peer| AddressKey::of(peer.ip()));
        let mut state = self.lock();
        if state.total >= self.max {
            return Err(too_many("too many handshakes at once"));
        }
        if let Some(address) = address {
            let count = state.per_address.entry(address).or_default();
            if *count >= self.max_per_address {
                return Err(too_many("too many handshakes at once from this address"));
            }
            *count += 1;
        }
        state.total += 1;
        drop(state);
        Ok(Handshake { handshakes: Arc::clone(self), address })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A handshake that goes on.
#[derive(Debug)]
pub(crate) struct Handshake {
    handshakes: Arc<Handshakes>,
    address: Option<AddressKey>,
}

impl Drop for Handshake {
    fn drop(&mut self) {
        let mut state = self.handshakes.lock();
        state.total -= 1;
        if let Some(address) = self.address
            && let Entry::Occupied(mut count) = state.per_address.entry(address)
        {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

fn too_many(message: &'static str) -> CloseReason {
    CloseReason::new(CloseCode::LimitExceeded, message)
        .with_advice(Advice::Retry { after: Some(std::time::Duration::from_secs(1)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(ip: &str) -> Option<SocketAddr> {
        Some(SocketAddr::new(ip.parse().unwrap(), 1))
    }

    #[test]
    fn an_address_that_is_at_its_limit_leaves_room_for_others() {
        let handshakes = Arc::new(Handshakes::new(3, 2));
        let first = handshakes.begin(from("10.0.0.1")).unwrap();
        // The same address, as a dual-stack socket shows it.
        let second = handshakes.begin(from("::ffff:10.0.0.1")).unwrap();
        assert!(handshakes.begin(from("10.0.0.1")).is_err());
        let third = handshakes.begin(from("10.0.0.2")).unwrap();
        assert!(handshakes.begin(from("10.0.0.3")).is_err());
        drop((first, third));
        assert!(handshakes.begin(from("10.0.0.1")).is_ok());
        drop(second);
        assert!(handshakes.lock().per_address.is_empty());
        assert_eq!(handshakes.lock().total, 0);
    }

    #[test]
    fn all_addresses_of_a_slash_64_count_as_one() {
        let handshakes = Arc::new(Handshakes::new(10, 1));
        let first = handshakes.begin(from("2001:db8:0:1::1")).unwrap();
        assert!(handshakes.begin(from("2001:db8:0:1:ffff::2")).is_err());
        assert!(handshakes.begin(from("2001:db8:0:2::1")).is_ok());
        drop(first);
    }

    #[test]
    fn links_without_an_address_count_in_the_total() {
        let handshakes = Arc::new(Handshakes::new(1, 1));
        let first = handshakes.begin(None).unwrap();
        assert!(handshakes.begin(None).is_err());
        drop(first);
        assert!(handshakes.begin(None).is_ok());
    }
}
