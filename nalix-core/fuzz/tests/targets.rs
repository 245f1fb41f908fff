//! The targets under bolero: as ordinary tests they run their corpora and random inputs for a second each; `.ci/fuzz` runs
//! them for longer, with feedback from coverage.

use bolero::check;

#[test]
fn values() {
    check!().with_max_len(4_096).for_each(nalix_fuzz::values);
}

#[test]
fn frames() {
    check!().with_max_len(16_384).for_each(nalix_fuzz::frames);
}

#[test]
fn handshake() {
    check!().with_max_len(4_096).for_each(nalix_fuzz::handshake);
}

#[test]
fn hello() {
    check!().with_max_len(4_096).for_each(nalix_fuzz::hello);
}

#[test]
fn sealed() {
    check!().with_max_len(4_096).for_each(nalix_fuzz::sealed);
}

#[test]
fn connection() {
    check!().with_max_len(2_048).for_each(nalix_fuzz::connection);
}

#[test]
fn exchange() {
    check!().with_max_len(2_048).for_each(nalix_fuzz::exchange);
}

#[test]
fn proxy() {
    check!().with_max_len(1_024).for_each(nalix_fuzz::proxy);
}
