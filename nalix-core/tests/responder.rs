//! The accepting side of the handshake: who the client is.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{sync::Arc, time::UNIX_EPOCH};

use bytes::Bytes;
use nalix_core::{
    Identity, PublicKey,
    handshake::{
        ClientSecurity, Contracts, Hello, Initiator, Params, Pinned, Responder, Secured, ServerSecurity,
        SessionId, SessionRecord,
    },
    record::{HEADER, Key},
};

#[test]
fn a_session_lends_its_key_to_no_hello_that_has_not_proven_its_secret() {
    let (server, client) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let security = ServerSecurity::Secured(Arc::new(Secured::new(server.clone())));
    let other = PublicKey::from_bytes([0x0c; 32]).unwrap();
    let mut session = SessionRecord::new(SessionId::from_bytes([1; 16]), Key::new([2; 32]), UNIX_EPOCH);
    session.peer_key = Some(other);
    let mut pinned = Pinned::new(server.public_key());
    for identity in [None, Some(client)] {
        pinned.identity = identity.clone();
        let params = || Params::new(1 << 20, 8, Contracts::default());
        let client = ClientSecurity::Secured(pinned.clone());
        let (_, record) = Initiator::start(params(), &client, &[]).unwrap();
        let hello = Hello::parse(&Bytes::from(record).slice(HEADER..)).unwrap();
        let responder = Responder::read(&hello, params(), &security, Some(&session)).unwrap();
        assert_eq!(responder.client_key(), identity.map(|identity| identity.public_key()));
    }
}
