//! How often something may happen: rates, the buckets that keep them, buckets by key, what an address counts as, and circuit
//! breakers.
//!
//! Nothing in here has a clock or a lock that is held for long: time is a parameter, and whoever calls decides what a
//! refusal means.

mod address;
mod breaker;
mod bucket;
mod keyed;
mod levels;
mod places;
mod rate;

pub(crate) use self::levels::Levels;
pub use self::{
    address::AddressKey,
    breaker::{Breaker, BreakerOptions, Passed},
    bucket::{Bucket, Refused},
    keyed::KeyedLimiter,
    places::{Full, Place, Places},
    rate::{ParseRateError, Rate},
};
