//! The server's process: says where it listens, then answers a line with a line.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Instant,
};

use bytes::Bytes;
use nalix_core::{connection::Options, packet_controller};
use nalix_server::{HubEvent, Server};

use super::{DRAIN, Echo, Fetch, Outcome, PATIENCE, raise_limit};

struct Game;

#[packet_controller]
impl Game {
    #[packet]
    fn echo(&self, echo: Echo) -> Bytes {
        echo.data
    }

    #[packet]
    fn fetch(&self, fetch: Fetch) -> Bytes {
        vec![7; fetch.bytes as usize].into()
    }
}

pub(crate) fn serve() -> Outcome {
    raise_limit();
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
        let options = Options::default().handshake_timeout(PATIENCE).stall_timeout(PATIENCE).outbox(64 << 10);
        let server = Server::builder()
            .plaintext()
            .options(options)
            .max_connections(20_000)
            // All come from one address.
            .max_handshakes_per_address(20_000)
            .drain_timeout(DRAIN)
            .controller(Game)
            .tcp("127.0.0.1:0")
            .build()
            .await?;
        println!("{}", server.local_addr());
        let (handle, running) = server.spawn();
        let ended: Arc<Mutex<BTreeMap<String, usize>>> = Arc::default();
        let mut events = handle.hub().watch(100_000);
        let counting = Arc::clone(&ended);
        tokio::spawn(async move {
            loop {
                if let HubEvent::Ended { reason, .. } = events.next().await {
                    let code =
                        reason.map_or_else(|| "none".to_owned(), |reason| format!("{:?}", reason.code));
                    *counting.lock().expect("whole").entry(code).or_default() += 1;
                }
            }
        });
        let mut lines = tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(tokio::io::stdin()));
        while let Some(line) = lines.next_line().await? {
            if line == "stop" {
                break;
            }
            let slow = ended.lock().expect("whole").get("SlowConsumer").copied().unwrap_or_default();
            println!("{} {} {} {slow}", resident(), handle.connection_count(), handle.queued_bytes());
        }
        let began = Instant::now();
        handle.shutdown();
        let report = running.await??;
        println!("{} {} {}", began.elapsed().as_millis(), report.forced, handle.connection_count());
        Ok(())
    })
}

/// In bytes; 0 where that is not known.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap_or_default() * 1024
}
