//! What peers that encrypt have to show.

use std::sync::mpsc;

use bytes::Bytes;

use crate::{
    Error,
    case::{Suite, Work},
    load::{Client, Peer, Ready},
    target::Target,
};

/// `Secured` is `Plain` with encryption: clients in the clear get no answer from its servers, and clients that expect
/// another server, or none, don't either.
pub(super) async fn tells_servers_apart<Plain: Peer, Secured: Peer>() {
    let (one, other) = (start::<Secured>(), start::<Secured>());
    assert_eq!(echo::<Secured>(one.clone()).await.unwrap(), 5);
    echo::<Plain>(one.clone()).await.expect_err("a call in the clear was answered");
    let impostor = Target { trust: other.trust, ..one };
    echo::<Secured>(impostor).await.expect_err("a server that isn't the one expected was accepted");
    let unknown = Target { trust: Vec::new(), ..one };
    echo::<Secured>(unknown).await.expect_err("a server that nobody knows was accepted");
    let plain = Target { trust: one.trust, ..start::<Plain>() };
    echo::<Secured>(plain).await.expect_err("a server in the clear was accepted");
}

fn start<P: Peer>() -> Target {
    let (bound, target) = mpsc::channel();
    tokio::spawn(P::serve(Ready::new(bound), Suite::Echo));
    tokio::task::block_in_place(|| target.recv().unwrap())
}

async fn echo<P: Peer>(target: Target) -> Result<usize, Error> {
    P::connect(target, Work::Echo { payload: 5 }).await?.echo(&Bytes::from_static(b"hello")).await
}
