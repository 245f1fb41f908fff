//! Options from files and from the environment.

#![cfg(feature = "serde")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use nalix_client::{ClientOptions, ReconnectOptions};
use nalix_core::config::{Section, from_vars};
use nalix_server::{Options, Server, ServerOptions, link::tcp::ListenOptions};

const DOC: &str = include_str!("../../docs/options.md");

#[test]
fn a_file_sets_what_it_mentions_and_nothing_else() {
    let text = r#"
        max_connections = 1000
        drain_timeout = "5s"
        [connection]
        max_message = "1 MiB"
        outbox = 4096
        compression = false
        request_timeout = "none"
        keep_alive = "250ms"
        [listen]
        dual_stack = false
    "#;
    let options: ServerOptions = toml::from_str(text).unwrap();
    let mut expected = ServerOptions::default();
    (expected.max_connections, expected.drain_timeout) = (1_000, Duration::from_secs(5));
    (expected.connection.max_message, expected.connection.outbox) = (1 << 20, 4_096);
    (expected.connection.compression, expected.connection.request_timeout) = (false, None);
    expected.connection.keep_alive = Some(Duration::from_millis(250));
    expected.listen.dual_stack = false;
    assert_eq!(options, expected);
    let shown = format!("{:?}", Server::builder().configure(options));
    assert!(shown.contains("max_connections: 1000") && shown.contains("outbox: 4096"), "{shown}");
}

#[test]
fn an_unknown_key_is_an_error_that_lists_the_known_ones() {
    let error = toml::from_str::<ServerOptions>("max_conections = 5").unwrap_err().to_string();
    assert!(error.contains("max_conections") && error.contains("max_connections"), "{error}");
    let error = toml::from_str::<ServerOptions>("[connection]\noutboxx = 5").unwrap_err().to_string();
    assert!(error.contains("outboxx") && error.contains("`outbox`"), "{error}");
}

#[test]
fn values_out_of_range_or_of_another_kind_are_errors_that_name_the_option() {
    for (text, option) in [
        ("max_calls = 0", "max_calls"),
        ("max_calls = 65537", "max_calls"),
        ("max_message = \"2 GiB\"", "max_message"),
        ("outbox = -1", "negative"),
        ("outbox = 1.5", "number"),
        ("max_malformed = 4294967296", "max_malformed"),
        ("keep_alive = \"1ms\"", "keep_alive"),
        ("idle_timeout = 5", "unit"),
        ("compression = \"maybe\"", "compression"),
        ("handshake_timeout = \"none\"", "handshake_timeout"),
    ] {
        let error = toml::from_str::<Options>(text).unwrap_err().to_string();
        assert!(error.contains(option), "{text}: {error}");
    }
}

fn vars(vars: &[(&str, &str)]) -> Vec<(String, String)> {
    vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn the_environment_changes_what_the_file_has_said() {
    let mut options: ServerOptions = toml::from_str("max_connections = 1000\nmax_handshakes = 5").unwrap();
    let set = vars(&[
        ("NALIX_MAX_CONNECTIONS", "7"),
        ("NALIX_CONNECTION__MAX_MESSAGE", "16 KiB"),
        ("NALIX_CONNECTION__KEEP_ALIVE", "none"),
        ("NALIX_LISTEN__SHARED_PORT", "true"),
        ("PATH", "/bin"),
    ]);
    from_vars(&mut options, set).unwrap();
    assert_eq!((options.max_connections, options.max_handshakes), (7, 5));
    assert_eq!((options.connection.max_message, options.connection.keep_alive), (16 << 10, None));
    assert!(options.listen.shared_port);

    for (name, value, says) in [
        ("NALIX_MAX_CONECTIONS", "7", "max_connections"),
        ("NALIX_CONNECTION__OUTBOX", "0", "outbox"),
        ("NALIX_CONNECTION", "0", "group of options"),
        ("NALIX_OUTBOX__X", "0", "outbox"),
        ("NALIX_DRAIN_TIMEOUT", "5", "drain_timeout"),
    ] {
        let error = from_vars(&mut options, vars(&[(name, value)])).unwrap_err().to_string();
        assert!(error.contains(says), "{name}: {error}");
    }
}

/// What can be set in a file is what is documented.
#[test]
fn every_field_of_a_file_is_documented() {
    let documented = |ty: &str| -> Vec<&str> {
        let (_, section) = DOC.split_once(&format!("## `{ty}`\n")).unwrap();
        let section = section.split("\n## ").next().unwrap();
        section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect()
    };
    assert_eq!(Options::FIELDS, documented("Options"));
    assert_eq!(ListenOptions::FIELDS, documented("ListenOptions"));
    assert_eq!(ReconnectOptions::FIELDS, documented("ReconnectOptions"));
    assert_eq!(ClientOptions::FIELDS, ["connect_timeout", "connection", "reconnect"]);
    let builder = documented("ServerBuilder");
    let fields = ServerOptions::FIELDS.iter().filter(|field| !["connection", "listen"].contains(field));
    fields.for_each(|field| assert!(builder.contains(field), "{field}"));
}
