//! A bad network: everything that goes through is cut off every few dozen milliseconds, wherever it is.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::broadcast,
    task::JoinSet,
};

/// Carries connections, until it is dropped.
pub struct Cutter {
    pub address: SocketAddr,
    cut: broadcast::Sender<()>,
    cuts: Arc<AtomicU32>,
    tasks: JoinSet<()>,
}

impl Cutter {
    /// Stands between its own address and the server's, and cuts nothing yet.
    pub async fn start(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let cut = broadcast::Sender::new(1);
        let cuts = Arc::new(AtomicU32::new(0));
        let mut tasks = JoinSet::new();
        let (told, counted) = (cut.clone(), Arc::clone(&cuts));
        tasks.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (mut told, counted) = (told.subscribe(), Arc::clone(&counted));
                tokio::spawn(async move {
                    tokio::select! {
                        // Both sockets are dropped in the middle of whatever they carry.
                        _ = told.recv() => {
                            counted.fetch_add(1, Ordering::Relaxed);
                        }
                        _ = carry(client, server) => {}
                    }
                });
            }
        });
        Ok(Self { address, cut, cuts, tasks })
    }

    /// Cuts all connections again and again, with pauses that are never the same.
    pub fn begin(&mut self) {
        let cut = self.cut.clone();
        self.tasks.spawn(async move {
            for n in 0u64.. {
                tokio::time::sleep(Duration::from_micros(3_000 + n * 7_919 % 40_000)).await;
                drop(cut.send(()));
            }
        });
    }

    /// How many connections have been cut.
    pub fn cuts(&self) -> u32 {
        self.cuts.load(Ordering::Relaxed)
    }
}

async fn carry(mut client: TcpStream, server: SocketAddr) -> io::Result<()> {
    let mut server = TcpStream::connect(server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    copy_bidirectional(&mut client, &mut server).await.map(drop)
}
