//! `docs/options.md` against the code: every option is there, with the default that it has.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Debug;

use nalix_client::{Client, ReconnectOptions};
use nalix_core::{
    handshake::{Pinned, Secured},
    limit::BreakerOptions,
    session::MAX_MESSAGE,
};
use nalix_server::{
    GuardOptions, Identity, Options, Sealing, SecurityOptions, Server, link::tcp::ListenOptions,
};

const DOC: &str = include_str!("../../docs/options.md");
const PROTOCOL: &str = include_str!("../../docs/protocol.md");

#[test]
fn every_option_is_documented_with_its_default() {
    assert_eq!(documented("Options"), fields(&Options::default()));
    assert_eq!(documented("GuardOptions"), fields(&GuardOptions::default()));
    assert_eq!(documented("SecurityOptions"), fields(&SecurityOptions::default()));
    assert_eq!(documented("BreakerOptions"), fields(&BreakerOptions::default()));
    assert_eq!(documented("ReconnectOptions"), fields(&ReconnectOptions::default()));
    assert_eq!(documented("ListenOptions"), fields(&ListenOptions::default()));
    assert_eq!(documented("Limits"), fields(&nalix_core::wire::Limits::DEFAULT));
}

/// Defaults that a builder does not show, since they count only with an identity.
#[test]
fn the_options_of_security_have_the_documented_defaults() {
    let secured = Secured::new(Identity::generate().unwrap());
    let text = format!("{secured:?}");
    let documented = documented("Secured");
    assert_eq!(documented.len(), 3);
    for (option, default) in documented {
        assert!(text.contains(&format!("{option}: {default}")), "{option} of {text}");
    }
    assert_eq!(Pinned::new(secured.identity.public_key()).sealing, Sealing::All);
    let limit = "0 to 1,073,741,824";
    assert_eq!(limit.split(' ').next_back().unwrap().replace(',', ""), MAX_MESSAGE.to_string());
    assert!(DOC.contains(limit) && PROTOCOL.contains("at most 1,073,741,824 in this implementation"));
}

/// Builders hold more than options; what the tables say of them must be true.
#[test]
fn the_options_of_builders_have_the_documented_defaults() {
    for (name, text) in [
        ("ServerBuilder", format!("{:?}", Server::builder())),
        ("ClientBuilder", format!("{:?}", Client::builder("tcp://localhost:1"))),
    ] {
        for (option, default) in documented(name) {
            assert!(text.contains(&format!("{option}: {default}")), "{option} of {text}");
        }
    }
}

/// Name and default of the options in the section about `ty`.
fn documented(ty: &str) -> Vec<(String, String)> {
    let (_, section) = DOC.split_once(&format!("## `{ty}`\n")).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let mut cells = row.split('|').skip(1).map(|cell| cell.trim().trim_matches('`').to_owned());
        (cells.next().unwrap(), cells.next().unwrap())
    })
    .collect()
}

/// Name and value of the fields of a struct of plain values, as `Debug` shows them.
fn fields(value: &impl Debug) -> Vec<(String, String)> {
    let text = format!("{value:?}");
    let (_, inside) = text.split_once(" { ").unwrap();
    let pairs = inside.trim_end_matches(" }").split(", ");
    pairs.map(|pair| pair.split_once(": ").unwrap()).map(|(a, b)| (a.to_owned(), b.to_owned())).collect()
}
