//! What the macros accept and refuse, one file for each rule, named after it. The `.stderr` files are what a user reads.
//!
//! Messages of the compiler change between versions: `TRYBUILD=overwrite cargo test -p nalix-core --test ui` writes them
//! anew, and the difference is to be read before it is kept.

#[test]
fn ui() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/pass/*.rs");
    cases.compile_fail("tests/ui/fail/*.rs");
}
