//! What a peer says when a connection opens or ends, and of calls that fail.

use std::time::UNIX_EPOCH;

use bytes::Bytes;
use nalix_core::{
    Failure,
    frame::{Control, MAX_KEY, Metadata, decode_failure, encode_application, encode_status},
    handshake::{
        Answer, ClientSecurity, Contracts, Hello, Initiator, MAX_HELLO, Params, Responder, ServerSecurity,
        abort_body, read_abort,
    },
    record,
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
    assert_eq!(hello.body(), body[..]);
    let Ok(responder) = Responder::read(&hello, params(), &ServerSecurity::Plaintext, None) else { return };
    let Ok(accepted) = responder.accept(None, None) else { return };
    assert!(accepted.terms.message_in == 1 << 20);
    assert!(accepted.reply.len() <= record::HEADER + MAX_HELLO);
    let reply = Bytes::from(accepted.reply).slice(record::HEADER..);
    // Both sides have the same packets here, so whatever the fingerprints are, the contracts fit.
    assert!(initiator().finish(&reply, UNIX_EPOCH).is_ok());
}

fn reply(body: &Bytes) {
    let Ok(answer) = Answer::parse(body) else { return };
    assert_eq!(Answer::parse(&answer.to_bytes().into()), Ok(answer.clone()));
    match initiator().finish(body, UNIX_EPOCH) {
        Ok(connected) => assert!(connected.terms.message_in == 1 << 20),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn initiator() -> Initiator {
    Initiator::start(params(), &ClientSecurity::Plaintext, &[]).unwrap().0
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
    let Ok(block) = Metadata::split(body) else { return };
    assert!(block.len <= body.len());
    let mut out = Vec::new();
    let entries = block.entries();
    match &entries {
        None => block.metadata.encode(&mut out),
        Some(entries) => {
            assert!(entries.iter().all(|(key, _)| !key.is_empty() && key.len() <= MAX_KEY));
            block.metadata.encode_with(entries, &mut out);
        }
    }
    assert!(out.len() <= block.len, "nothing is longer than it was read");
    let again = Metadata::split(&out).unwrap();
    assert_eq!((again.metadata, again.len, again.entries()), (block.metadata, out.len(), entries));
}
