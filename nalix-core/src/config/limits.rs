//! Limits of decoding as a group of options. They are here since decoding knows nothing of configuration.

use super::{number, size};
use crate::wire::Limits;

crate::__section!(Limits {
    max_depth: |raw| number(raw, 0, u16::MAX.into()).map(|n| n as u16),
    max_empty_items: |raw| size(raw, 0, usize::MAX),
    memory_factor: |raw| size(raw, 0, usize::MAX),
    free_memory: |raw| size(raw, 0, usize::MAX),
});
