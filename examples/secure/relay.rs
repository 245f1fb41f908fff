//! Somebody on the way between client and server, who can do what he likes with the bytes.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, tcp},
    task::JoinHandle,
};

/// What he does.
#[derive(Debug, Clone, Copy)]
pub enum Attack {
    /// Nothing: he counts.
    None,
    /// Says in the client's name that it wants no encryption.
    StripHello,
    /// Answers in the server's name that the connection is not encrypted.
    StripReply,
    /// Changes one bit of the server's first encrypted record.
    FlipBit,
}

/// Takes connections until it is dropped.
pub struct Relay {
    pub address: SocketAddr,
    sent: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Relay {
    /// Stands between its own address and the server's.
    pub async fn start(server: SocketAddr, attack: Attack) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let sent = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&sent);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let count = Arc::clone(&count);
                // One side that goes away, as they do here, is no reason to complain.
                tokio::spawn(async move { carry(client, server, attack, &count).await });
            }
        });
        Ok(Self { address, sent, task })
    }

    /// How many records clients have sent.
    pub fn sent_by_client(&self) -> usize {
        self.sent.load(Ordering::Relaxed)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn carry(client: TcpStream, server: SocketAddr, attack: Attack, count: &AtomicUsize) -> io::Result<()> {
    let server = TcpStream::connect(server).await?;
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let there = pass(from_client, to_server, |i, record| {
        count.fetch_add(1, Ordering::Relaxed);
        if matches!(attack, Attack::StripHello) && i == 0 {
            // A record begins with four bytes of header; this one goes on with "nalix", two versions and the way.
            record[11] = 0;
        }
    });
    let back = pass(from_server, to_client, |i, record| match attack {
        // Version 1, messages of 1 MiB, 1,024 calls, not sealed, by no cipher, nothing differs, no ticket.
        Attack::StripReply if i == 0 => *record = vec![2, 13, 0, 0, 1, 0, 0, 16, 0, 0, 4, 0, 0, 0, 0, 0, 0],
        Attack::FlipBit if i == 1 => record[4] ^= 1,
        _ => {}
    });
    tokio::try_join!(there, back).map(drop)
}

/// Passes records on, changed as the attacker likes. He is told the number of each.
async fn pass(
    mut from: tcp::OwnedReadHalf,
    mut to: tcp::OwnedWriteHalf,
    mut change: impl FnMut(usize, &mut Vec<u8>),
) -> io::Result<()> {
    for i in 0.. {
        let mut record = vec![0; 4];
        match from.read_exact(&mut record).await {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            done => done?,
        };
        let len = u32::from_le_bytes([record[1], record[2], record[3], 0]) as usize;
        record.resize(4 + len, 0);
        from.read_exact(&mut record[4..]).await?;
        change(i, &mut record);
        to.write_all(&record).await?;
    }
    to.shutdown().await
}
