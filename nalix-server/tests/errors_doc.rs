//! `docs/errors.md` against the code: every variant and every code has its row.

use std::fmt::Debug;

use nalix_server::{CloseCode, Code};

const DOC: &str = include_str!("../../docs/errors.md");

#[test]
fn every_variant_is_documented() {
    let core = concat!(
        include_str!("../../nalix-core/src/peer/error.rs"),
        include_str!("../../nalix-core/src/connection/establish/error.rs"),
        include_str!("../../nalix-core/src/controller/handlers.rs"),
        include_str!("../src/error.rs"),
        include_str!("../src/guard/cidr.rs"),
    );
    for name in [
        "RequestError",
        "StreamError",
        "SendError",
        "ConnectError",
        "BuildError",
        "RouterError",
        "ParseCidrError",
    ] {
        let rows = rows(&format!("## `{name}`"));
        let documented: Vec<&str> = rows.iter().map(|row| row[0].trim_matches('`')).collect();
        assert_eq!(documented, variants(core, name), "{name}");
    }
}

#[test]
fn every_code_is_documented() {
    let codes = (0..=u16::MAX).map(Code::from_u16).filter(|code| !matches!(code, Code::Other(_)));
    check_codes("## Status codes", codes.map(|code| (code.to_u16(), code)));
    let codes = (0..=u16::MAX).map(CloseCode::from_u16).filter(|code| !matches!(code, CloseCode::Other(_)));
    check_codes("## Close codes", codes.map(|code| (code.to_u16(), code)));
}

fn check_codes(section: &str, codes: impl Iterator<Item = (u16, impl Debug)>) {
    let documented: Vec<_> =
        rows(section).iter().map(|row| format!("{} {}", row[0], row[1].trim_end_matches(" *"))).collect();
    let known: Vec<_> = codes.map(|(number, code)| format!("{number} `{code:?}`")).collect();
    assert_eq!(documented, known);
}

/// The cells of the table in a section, without its head.
fn rows(section: &str) -> Vec<Vec<&'static str>> {
    let (_, text) = DOC.split_once(&format!("{section}\n")).unwrap_or_else(|| panic!("no section {section}"));
    let text = text.split("\n## ").next().unwrap_or(text);
    let rows = text.lines().filter(|line| line.starts_with('|')).skip(2);
    rows.map(|row| row.split('|').skip(1).map(str::trim).collect()).collect()
}

/// The variants of an enum in the source, which is formatted: they stand four spaces in.
fn variants<'s>(source: &'s str, name: &str) -> Vec<&'s str> {
    let start = source.find(&format!("pub enum {name}")).unwrap_or_else(|| panic!("no enum {name}"));
    let lines = source[start..].lines().skip(1).take_while(|line| *line != "}");
    let names = lines
        .filter_map(|line| line.strip_prefix("    "))
        .filter(|line| line.starts_with(char::is_uppercase));
    names.map(|line| line.split(|c: char| !c.is_alphanumeric()).next().unwrap_or(line)).collect()
}
