//! How many descriptors the process may have.

/// Says so if the process may have fewer descriptors than the server may have links: accepting will pause long before it is full.
pub(crate) fn warn_if_short(max_connections: usize) {
    if let Some(limit) = limit().filter(|&limit| is_short(max_connections, limit)) {
        tracing::warn!(
            max_connections,
            descriptor_limit = limit,
            "max_connections is above the number of descriptors that the process may have: raise the limit (`ulimit -n`) or \
             lower max_connections"
        );
    }
}

fn is_short(max_connections: usize, limit: u64) -> bool {
    u64::try_from(max_connections).is_ok_and(|max| max > limit)
}

/// The soft limit, which counts. `None` if there is none, or it is not known here.
#[cfg(unix)]
fn limit() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

#[cfg(not(unix))]
fn limit() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_links_as_descriptors_are_not_above() {
        assert!(!is_short(0, 0) && !is_short(1_024, 1_024) && is_short(1_025, 1_024));
        assert!(is_short(usize::MAX, 1 << 20) && !is_short(usize::MAX, u64::MAX));
    }
}
