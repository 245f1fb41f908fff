//! What a peer says when a connection opens or ends, and of calls that fail.

use bytes::Bytes;
use nalix_core::{
    Failure,
    frame::{Control, Metadata, decode_failure, encode_application, encode_status},
    handshake::{self, Contracts, Hello, HelloReply, MAX_HELLO_REPLY, Params, abort_body, read_abort},
    registry::Registry,
    wire::{Writer, to_vec},
};

/// The first byte chooses what the others are read as.
pub fn handshake(input: &[u8]) {
    let Some((&which, body)) = input.split_first() else { return };
    let body = &Bytes::copy_from_slice(body);
    match which % 6 {
        0 => hello(body),
        1 => reply(body),
        2 => abort(body),
        3 => control(body),
        4 => failure(body),
        _ => metadata(body),
    }
}

fn params() -> Params {
    Params::new(1 << 20, 1024, Contracts::of(Registry::global().unwrap()))
}

fn hello(body: &Bytes) {
    let Ok(hello) = Hello::parse(body) else { return };
    assert!(body.starts_with(&hello.body()));
    let Ok((reply, terms)) = handshake::accept(&hello, &params()) else { return };
    assert!(terms.max_message <= 1 << 20);
    let bytes = Bytes::from(reply.body());
    assert!(bytes.len() <= MAX_HELLO_REPLY);
    assert_eq!(HelloReply::parse(&bytes), Ok(reply.clone()));
    // Both sides have the same packets here, so whatever the fingerprints are, the contracts fit.
    assert!(handshake::finish(&reply, &params()).unwrap().is_some());
}

fn reply(body: &Bytes) {
    let Ok(reply) = HelloReply::parse(body) else { return };
    assert_eq!(HelloReply::parse(&reply.body().into()), Ok(reply.clone()));
    match handshake::finish(&reply, &params()) {
        Ok(Some(terms)) => assert!(terms.max_message <= 1 << 20),
        Ok(None) => assert_ne!(reply.version, handshake::VERSION),
        Err(mismatch) => assert!(!mismatch.to_string().is_empty()),
    }
}

fn abort(body: &Bytes) {
    let reason = read_abort(body);
    assert_eq!(read_abort(&abort_body(&reason).into()), reason);
}

fn control(body: &Bytes) {
    let Ok(message) = Control::decode(body) else { return };
    assert_eq!(Control::decode(&to_vec(&message).unwrap().into()), Ok(message));
}

fn failure(body: &Bytes) {
    let Ok(failure) = decode_failure(body) else { return };
    let mut out = Vec::new();
    let mut w = Writer::new(&mut out, body.len() + 1);
    match &failure {
        Failure::Application(error) => encode_application(&mut w, error),
        Failure::Status(status) => encode_status(&mut w, status),
    }
    w.finish().unwrap();
    assert_eq!(decode_failure(&out.into()), Ok(failure));
}

fn metadata(body: &Bytes) {
    let Ok((metadata, len)) = Metadata::split(body) else { return };
    assert!(len <= body.len());
    let mut out = Vec::new();
    metadata.encode(&mut out);
    assert_eq!(Metadata::split(&out), Ok((metadata, out.len())));
}
