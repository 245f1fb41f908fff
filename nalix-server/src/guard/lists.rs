//! Which networks are let in, and which not.

use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use super::cidr::{Cidr, number};
use crate::sync::RwLock;

/// Networks to look an address up in, in a time that goes with the logarithm of their number.
#[derive(Debug, Default)]
pub(super) struct NetSet {
    nets: Vec<Cidr>,
    /// First and last addresses, in order and apart from each other.
    v4: Vec<(u128, u128)>,
    v6: Vec<(u128, u128)>,
}

impl NetSet {
    pub(super) fn new(nets: Vec<Cidr>) -> Self {
        let ranges =
            |is_v4| merged(nets.iter().filter(|net| net.first().is_ipv4() == is_v4).map(|net| net.range()));
        let (v4, v6) = (ranges(true), ranges(false));
        Self { nets, v4, v6 }
    }

    pub(super) fn contains(&self, address: IpAddr) -> bool {
        let (is_v4, n) = number(address);
        let ranges = if is_v4 { &self.v4 } else { &self.v6 };
        // The last that begins here or before.
        let at = ranges.partition_point(|&(first, _)| first <= n);
        at.checked_sub(1).is_some_and(|at| n <= ranges[at].1)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.nets.is_empty()
    }

    pub(super) fn nets(&self) -> &[Cidr] {
        &self.nets
    }
}

fn merged(ranges: impl Iterator<Item = (u128, u128)>) -> Vec<(u128, u128)> {
    let mut ranges: Vec<_> = ranges.collect();
    ranges.sort_unstable();
    let mut merged: Vec<(u128, u128)> = Vec::new();
    for (first, last) in ranges {
        match merged.last_mut() {
            Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
            _ => merged.push((first, last)),
        }
    }
    merged
}

/// The lists that are in force, and may be exchanged at any time.
#[derive(Debug)]
pub(super) struct Lists {
    /// Whether there is anything on them.
    any: AtomicBool,
    current: RwLock<Arc<Both>>,
}

#[derive(Debug, Default)]
pub(super) struct Both {
    pub(super) allow: NetSet,
    pub(super) deny: NetSet,
}

impl Lists {
    pub(super) fn new(allow: Vec<Cidr>, deny: Vec<Cidr>) -> Self {
        let lists = Self { any: AtomicBool::new(false), current: RwLock::new(Arc::default()) };
        lists.set(allow, deny);
        lists
    }

    /// Both change at once: nobody sees the one list of before beside the other of now.
    pub(super) fn set(&self, allow: Vec<Cidr>, deny: Vec<Cidr>) {
        let both = Both { allow: NetSet::new(allow), deny: NetSet::new(deny) };
        let any = !(both.allow.is_empty() && both.deny.is_empty());
        let both = Arc::new(both);
        let mut current = self.current.write();
        let old = std::mem::replace(&mut *current, both);
        self.any.store(any, Ordering::Release);
        drop(current);
        drop(old);
    }

    pub(super) fn current(&self) -> Arc<Both> {
        Arc::clone(&self.current.read())
    }

    /// Whether an address is let in: it is not denied, and it is allowed, if only some are.
    #[inline]
    pub(super) fn admit(&self, address: IpAddr) -> bool {
        if !self.any.load(Ordering::Acquire) {
            return true;
        }
        let both = self.current.read();
        !both.deny.contains(address) && (both.allow.is_empty() || both.allow.contains(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nets(texts: &[&str]) -> Vec<Cidr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn denied_wins_over_allowed_and_without_a_list_all_are() {
        let lists = Lists::new(Vec::new(), Vec::new());
        assert!(lists.admit(ip("10.0.0.1")));
        lists.set(nets(&["10.0.0.0/8"]), nets(&["10.0.0.1"]));
        assert!(!lists.admit(ip("10.0.0.1")) && !lists.admit(ip("::ffff:10.0.0.1")));
        assert!(lists.admit(ip("10.0.0.2")) && !lists.admit(ip("11.0.0.1")) && !lists.admit(ip("::1")));
        lists.set(Vec::new(), nets(&["::/0"]));
        assert!(!lists.admit(ip("::1")) && lists.admit(ip("10.0.0.1")));
        assert_eq!(lists.current().deny.nets(), nets(&["::/0"]));
        lists.set(Vec::new(), Vec::new());
        assert!(lists.admit(ip("::1")));
    }

    /// Numbers that look random, the same in each run (G. Marsaglia's xorshift64).
    struct Numbers(u64);

    impl Numbers {
        fn next(&mut self) -> u64 {
            for (left, n) in [(true, 13), (false, 7), (true, 17)] {
                self.0 ^= if left { self.0 << n } else { self.0 >> n };
            }
            self.0
        }

        fn below(&mut self, n: usize) -> usize {
            (self.next() % n as u64) as usize
        }
    }

    /// Against looking at each of them, near their ends, where mistakes are.
    #[test]
    fn a_set_holds_what_one_of_its_networks_holds() {
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
        let mut held = [0, 0];
        for _ in 0..500 {
            let nets: Vec<Cidr> = (0..1 + numbers.below(20))
                .map(|_| {
                    // Few bits differ, so that networks touch and overlap.
                    let (bits, prefix) = (numbers.next() as u32 & 0xf0f0_000f, numbers.below(33) as u8);
                    let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
                    match numbers.below(2) {
                        0 => Cidr::new(IpAddr::V4((bits & mask).into()), prefix).unwrap(),
                        _ => {
                            let bits = u128::from(bits & mask) << 96;
                            Cidr::new(IpAddr::V6(bits.into()), prefix).unwrap()
                        }
                    }
                })
                .collect();
            let set = NetSet::new(nets.clone());
            for _ in 0..50 {
                let net = nets[numbers.below(nets.len())];
                let (first, last) = net.range();
                let end = if numbers.below(2) == 0 { first } else { last };
                let at = end.wrapping_add(numbers.below(5) as u128).wrapping_sub(2);
                let address = match net.first() {
                    IpAddr::V4(_) => IpAddr::V4((at as u32).into()),
                    IpAddr::V6(_) => IpAddr::V6(at.into()),
                };
                let expected = nets.iter().any(|net| net.contains(address));
                assert_eq!(set.contains(address), expected, "{address} in {nets:?}");
                held[usize::from(expected)] += 1;
            }
        }
        assert!(held[0] > 1_000 && held[1] > 1_000, "{held:?}");
    }
}
