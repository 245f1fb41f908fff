//! The text form of a server's address.

use nalix_core::connection::ConnectError;

/// Where a server is, and how to get there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    /// `tcp://host:port`.
    Tcp(String),
}

impl Address {
    pub(crate) fn parse(address: &str) -> Result<Self, ConnectError> {
        let bad = |what| ConnectError::Address { address: address.to_owned(), what };
        let Some((scheme, rest)) = address.split_once("://") else {
            return Err(bad("it has no scheme, such as tcp://host:port"));
        };
        match scheme {
            "tcp" => {}
            _ => return Err(bad("its scheme is not tcp")),
        }
        let host_port = rest.strip_suffix('/').unwrap_or(rest);
        let Some((host, port)) = host_port.rsplit_once(':') else {
            return Err(bad("it has no port"));
        };
        if host.is_empty() {
            return Err(bad("it has no host"));
        }
        if host.contains(':') && !(host.starts_with('[') && host.ends_with(']')) {
            return Err(bad("an IPv6 address must stand in brackets"));
        }
        match port.parse::<u16>() {
            Ok(0) => return Err(bad("port 0 cannot be connected to")),
            Ok(_) => {}
            Err(_) => return Err(bad("its port is not a number from 1 to 65535")),
        }
        Ok(Address::Tcp(host_port.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_parse() {
        for good in
            ["tcp://127.0.0.1:7777", "tcp://[::1]:7777", "tcp://example.org:1", "tcp://localhost:65535/"]
        {
            assert!(Address::parse(good).is_ok(), "{good}");
        }
    }

    #[test]
    fn bad_addresses_say_what_is_wrong() {
        for (bad, what) in [
            ("127.0.0.1:7777", "no scheme"),
            ("http://127.0.0.1:7777", "scheme is not tcp"),
            ("tcp://127.0.0.1", "no port"),
            ("tcp://:7777", "no host"),
            ("tcp://::1:7777", "brackets"),
            ("tcp://localhost:0", "port 0"),
            ("tcp://localhost:65536", "not a number"),
            ("tcp://localhost:http", "not a number"),
            ("", "no scheme"),
        ] {
            let error = Address::parse(bad).unwrap_err().to_string();
            assert!(error.contains(what), "{bad}: {error}");
        }
    }
}
