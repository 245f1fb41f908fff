//! A hello of before, sent once more by somebody who has recorded it and has none of the keys.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use nalix_core::{
    Identity, Sealing,
    connection::{self, ConnectError, Options},
    error::ProtocolError,
    handshake::{ClientSecurity, Contracts, Initiator, Params, Pinned, Secured, ServerSecurity},
    link::StreamLink,
    record::{self, RecordKind},
};
use tokio::io::{AsyncWriteExt, duplex};

#[tokio::test(start_paused = true)]
async fn a_record_in_the_clear_does_not_confirm_a_recorded_hello() {
    for sealing in [Sealing::Marked, Sealing::All] {
        let (server, client) = (Identity::generate().unwrap(), Identity::generate().unwrap());
        let mut pinned = Pinned::new(server.public_key());
        (pinned.identity, pinned.sealing) = (Some(client), sealing);
        let params = Params::new(1 << 20, 8, Contracts::default());
        let (_, hello) = Initiator::start(params, &ClientSecurity::Secured(pinned), &[]).unwrap();

        let mut secured = Secured::new(server);
        secured.sealing = sealing;
        let security = ServerSecurity::Secured(Arc::new(secured));
        let (mut replay, theirs) = duplex(1 << 16);
        replay.write_all(&hello).await.unwrap();
        // An empty ping: what a connection without secrets might begin with.
        replay.write_all(&record::build(RecordKind::Plain, &[9, 0])).await.unwrap();
        replay.shutdown().await.unwrap();
        let (link, options) = (StreamLink::new(theirs), Options::default());
        let error = connection::accept(link, Contracts::default(), &security, &options).await.unwrap_err();
        assert!(
            matches!(error, ConnectError::Protocol(ProtocolError::Unsealed { .. })),
            "{sealing:?}: {error:?}"
        );
    }
}
