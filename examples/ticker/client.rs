//! The client's half: several readers on one connection.

use std::time::Duration;

use nalix_client::{Client, Options};
use tokio::time::Instant;

use crate::{
    contracts::{Pace, Subscribe, Symbol},
    readers,
    report::Report,
};

/// How long the readers read.
const DURATION: Duration = Duration::from_secs(3);

/// What a slow reader does with each quote takes so long.
const WORK: Duration = Duration::from_millis(5);

/// Bytes that may be on their way to each reader. Few, since what is on its way gets old there; a stream over a longer
/// distance needs more.
pub const WINDOW: usize = 512;

/// Connects, lets the readers read, and tells what they got.
pub async fn run(address: &str) -> readers::Result<()> {
    let options = Options::default().stream_window(WINDOW);
    let session = Client::builder(format!("tcp://{address}")).plaintext().options(options).connect().await?;
    println!("client: reads for {DURATION:?}. Those who are slow take {WORK:?} for each quote\n");

    let end = Instant::now() + DURATION;
    let spawn = |reader, pace, work| tokio::spawn(readers::stream(session.clone(), reader, pace, work, end));
    let fast = spawn(0, Pace::Every, Duration::ZERO);
    let slow = spawn(1, Pace::Every, WORK);
    let latest = spawn(2, Pace::Latest, WORK);
    let pushed = tokio::spawn(readers::subscription(session.clone(), WORK, end));
    session.request(Subscribe { symbol: Symbol::Gold }).await?;
    let calls = readers::calls(session.clone(), end).await?;
    let (fast, slow, latest, pushed) = (fast.await??, slow.await??, latest.await??, pushed.await??);

    println!("{}\n", Report { fast, slow, latest, pushed, calls });
    println!("client: {}", session.close().await);
    Ok(())
}
