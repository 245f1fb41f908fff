//! Small calls beside the large ones.

use std::time::{Duration, Instant};

use nalix_client::{RequestError, Session};
use tokio::{sync::oneshot, task::JoinHandle, time::sleep};

use crate::{contracts::Ping, latencies::Latencies};

/// Calls that are made one after the other, on a task of their own, until they are stopped.
pub struct Calls {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<Latencies, RequestError>>,
}

impl Calls {
    /// Makes them on a connection that may have other things to do.
    pub fn start(session: &Session) -> Self {
        let (stop, mut stopped) = oneshot::channel();
        let session = session.clone();
        let task = tokio::spawn(async move {
            let mut latencies = Latencies::default();
            // Also when nobody is left who could say so.
            while let Err(oneshot::error::TryRecvError::Empty) = stopped.try_recv() {
                let asked = Instant::now();
                session.request(Ping).await?;
                latencies.record(asked.elapsed());
                sleep(PAUSE).await;
            }
            Ok(latencies)
        });
        Self { stop, task }
    }

    /// Stops them, and tells how long they took.
    pub async fn stop(self) -> Result<Latencies, Box<dyn std::error::Error>> {
        // They may have failed, and stopped by themselves.
        let _ = self.stop.send(());
        Ok(self.task.await??)
    }
}

const PAUSE: Duration = Duration::from_millis(1);
