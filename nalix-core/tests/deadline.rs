//! Deadlines that nobody but the side that runs the handler keeps.

use std::{
    future::{IntoFuture, pending},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Waker},
    time::Duration,
};

use nalix_core::{
    connection::{Driver, Options, Serving, accept, connect},
    controller::Router,
    handshake::{ClientSecurity, Contracts, ServerSecurity},
    link::memory,
    packet, packet_controller,
    registry::Registry,
};

#[packet(opcode = 0x1001, reply = ())]
struct Hang;

struct Hanging(Arc<AtomicBool>);

#[packet_controller]
impl Hanging {
    #[packet]
    async fn hang(&self, _hang: Hang) {
        let _stopped = Stopped(Arc::clone(&self.0));
        pending::<()>().await;
    }
}

struct Stopped(Arc<AtomicBool>);

impl Drop for Stopped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The caller has lost interest without saying so, and nothing else comes in that would wake the handler's side.
#[tokio::test(start_paused = true)]
async fn the_first_deadline_of_a_connection_stops_its_handler() {
    let stopped = Arc::new(AtomicBool::new(false));
    let mut router = Router::builder();
    router.add(Hanging(Arc::clone(&stopped)));
    let serving = Serving::from(router.build().unwrap());

    let options = Options::default();
    let contracts = || Contracts::of(Registry::global().unwrap());
    let (near, far) = memory::pair(1024);
    let (near, far) = tokio::join!(
        connect(near, contracts(), &ClientSecurity::Plaintext, &options),
        accept(far, contracts(), &ServerSecurity::Plaintext, &options)
    );
    let (connection, client) = Driver::new(near.unwrap(), Serving::from(Router::empty()), &options);
    let (_server_side, server) = Driver::new(far.unwrap(), serving, &options);
    tokio::spawn(client);
    tokio::spawn(server);

    let mut request = pin!(connection.request(Hang).timeout(Duration::from_secs(1)).into_future());
    assert!(request.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    tokio::time::sleep(Duration::from_millis(900)).await;
    assert!(!stopped.load(Ordering::Relaxed), "stopped before its time");
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(stopped.load(Ordering::Relaxed), "still running");
}
