//! The server's half: it counts, and knows nothing of cuts.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use nalix_core::stream;
use nalix_server::{BuildError, Context, Identity, Server, Stream, packet_controller};

use crate::contracts::{Add, Down, Finish, Numbers, Seen, Up};

#[derive(Clone, Default)]
struct Counter {
    seen: Arc<Mutex<(Seen, bool)>>,
}

impl Counter {
    fn lock(&self) -> MutexGuard<'_, (Seen, bool)> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[packet_controller]
impl Counter {
    #[connected]
    fn hello(&self, ctx: &Context) {
        self.lock().0.greeted += 1;
        // Pushes as long as the client wants them.
        let (counter, connection) = (self.clone(), ctx.connection().clone());
        tokio::spawn(async move {
            while !counter.lock().1 {
                let n = counter.lock().0.down;
                if connection.send(&Down(n)).await.is_err() {
                    break;
                }
                counter.lock().0.down = n + 1;
                tokio::time::sleep(Duration::from_micros(300)).await;
            }
        });
    }

    #[packet]
    fn add(&self, _: Add) -> u64 {
        let seen = &mut self.lock().0;
        seen.added += 1;
        seen.added
    }

    #[packet]
    fn up(&self, Up(n): Up) {
        let seen = &mut self.lock().0;
        seen.up_wrong += u64::from(n != seen.up);
        seen.up += 1;
    }

    #[packet]
    fn numbers(&self, Numbers { count }: Numbers) -> impl Stream<Item = u64> + use<> {
        stream::iter(0..count)
    }

    #[packet]
    fn finish(&self, _: Finish) -> Seen {
        let mut seen = self.lock();
        seen.1 = true;
        seen.0.clone()
    }
}

/// A server that listens on a port of its own.
pub async fn build(identity: Identity) -> Result<Server, BuildError> {
    Server::builder().identity(identity).tcp("127.0.0.1:0").controller(Counter::default()).build().await
}
