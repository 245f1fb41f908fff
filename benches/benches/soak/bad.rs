//! Those who do not read, say nothing, or say garbage, in a process of their own.

use std::{
    error::Error,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::BytesMut;
use nalix_client::CloseCode;
use nalix_core::{
    connection::{Driver, Options, Serving, connect},
    controller::Router,
    handshake::{self, ClientSecurity, Contracts},
    link::{Link, tcp},
    record::RecordKind,
    session::Inbound,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    task::JoinSet,
};

use super::{Fetch, Outcome, PATIENCE, Plan, ROUND, raise_limit};

/// Shakes hands, asks for much, and reads none of it.
struct Deaf<L> {
    link: L,
    hears: Arc<AtomicBool>,
}

impl<L: Link> Link for Deaf<L> {
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<std::io::Result<usize>> {
        if self.hears.load(Relaxed) { self.link.poll_read(cx, buf) } else { Poll::Pending }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        self.link.poll_write(cx, bytes)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.link.poll_close(cx)
    }
}

async fn stalled(address: SocketAddr) -> Outcome {
    let hears = Arc::new(AtomicBool::new(true));
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // The system would read megabytes for it.
    socket.set_recv_buffer_size(ANSWER)?;
    let link = Deaf { link: tcp::link(socket.connect(address).await?)?, hears: Arc::clone(&hears) };
    let options = Options::default().resume_log(0).keep_alive(None).request_timeout(None);
    let contracts = Contracts::default();
    let established = connect(link, contracts, &ClientSecurity::Plaintext, &options).await?;
    hears.store(false, Relaxed);
    let (connection, driver) = Driver::new(established, Serving::from(Router::empty()), &options);
    let asking = async {
        let mut all = JoinSet::new();
        for _ in 0..QUESTIONS {
            let connection = connection.clone();
            all.spawn(async move { drop(connection.request(Fetch { bytes: ANSWER }).await) });
        }
        while all.join_next().await.is_some() {}
    };
    // Until the server hangs up.
    tokio::join!(driver, asking);
    Ok(())
}

/// Says this instead of a hello, and returns the code that it is told.
async fn stranger(address: SocketAddr, says: &[u8]) -> Outcome<Option<CloseCode>> {
    let mut stream = TcpStream::connect(address).await?;
    // It may be turned away before it has said everything.
    drop(stream.write_all(says).await);
    let mut inbound = Inbound::new(handshake::MAX_HELLO);
    loop {
        if let Ok(Some(record)) = inbound.next_record()
            && record.kind == RecordKind::Abort
        {
            return Ok(Some(handshake::read_abort(&record.body).code));
        }
        if !matches!(stream.read_buf(inbound.buffer()).await, Ok(n) if n > 0) {
            return Ok(None);
        }
    }
}

/// How many have come, and how many of those were told what they should be.
#[derive(Default)]
struct Told {
    rounds: usize,
    silent: usize,
    garbage: usize,
}

/// The process of the bad ones: waits for a line, says `rounds silent garbage` when they have been there, and ends at the next.
pub(crate) fn serve(plan: Plan, address: SocketAddr) -> Outcome {
    raise_limit();
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
        println!("ready");
        let mut lines = tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(tokio::io::stdin()));
        if lines.next_line().await?.is_some() {
            let (told, deaf) = rounds(plan, address).await?;
            println!("{} {} {}", told.rounds, told.silent, told.garbage);
            lines.next_line().await?;
            drop(deaf);
        }
        Ok(())
    })
}

/// Rounds of bad ones, of which the last has been closed before the storm is over.
async fn rounds(plan: Plan, address: SocketAddr) -> Outcome<(Told, JoinSet<Outcome>)> {
    let (began, mut told) = (Instant::now(), Told::default());
    loop {
        let round = Instant::now();
        let deaf = one_round(plan, address, &mut told).await?;
        told.rounds += 1;
        if began.elapsed() + ROUND * 2 + PATIENCE > plan.storm {
            return Ok((told, deaf));
        }
        tokio::time::sleep(ROUND.saturating_sub(round.elapsed())).await;
        // Drops those that do not read: the server has closed them, or is found not to have.
    }
}

async fn one_round(plan: Plan, address: SocketAddr, told: &mut Told) -> Outcome<JoinSet<Outcome>> {
    let mut deaf = JoinSet::new();
    let mut strangers = JoinSet::new();
    // They come one after the other, as others do.
    let bad = plan.stalled + plan.silent + plan.garbage;
    let pause = ARRIVING / u32::try_from(bad)?;
    for n in 0..bad {
        tokio::time::sleep(pause).await;
        if n >= plan.silent + plan.garbage {
            deaf.spawn(stalled(address));
            continue;
        }
        let (says, expected): (&[u8], _) = if n < plan.silent {
            (b"", CloseCode::HandshakeTimeout)
        } else {
            (b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", CloseCode::ProtocolError)
        };
        strangers.spawn(async move {
            Ok::<_, Box<dyn Error + Send + Sync>>((stranger(address, says).await?, expected))
        });
    }
    while let Some(done) = strangers.join_next().await {
        let (code, expected) = done??;
        if code == Some(expected) {
            match expected {
                CloseCode::HandshakeTimeout => told.silent += 1,
                _ => told.garbage += 1,
            }
        }
    }
    Ok(deaf)
}

/// The bytes of each answer that those who do not read have asked for, and how many they ask for: more than the system takes
/// for them, and far more than an outbox.
const ANSWER: u32 = 12_000;
const QUESTIONS: usize = 384;
/// Within how long the bad ones of a round arrive.
const ARRIVING: Duration = Duration::from_secs(3);
