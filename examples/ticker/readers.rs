//! Those who read quotes, fast or slowly.

use std::{error::Error, time::Duration};

use nalix_client::{Queue, Session};
use tokio::time::{Instant, sleep, timeout_at};

use crate::{
    contracts::{Made, Pace, Ping, Quote, Symbol, Watch},
    lags::Lags,
};

/// What has become of a reader.
#[derive(Default)]
pub struct Outcome {
    pub skipped: u64,
    /// How old the quotes were when they were read.
    pub lags: Lags,
    /// How many the server had sent by then, or had ready to be sent.
    pub made: u64,
}

/// An error that may come from another task.
pub type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Reads a stream until `end`, and takes `work` for each quote.
pub async fn stream(
    session: Session,
    reader: u8,
    pace: Pace,
    work: Duration,
    end: Instant,
) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut ticks = session.stream(Watch { symbol: Symbol::Gold, pace, reader }).await?;
    while let Some(tick) = before(end, ticks.next()).await {
        let tick = tick.ok_or("the server has ended the stream")??;
        outcome.skipped += tick.skipped;
        outcome.lags.record(age(&tick.quote));
        work_for(work).await;
    }
    outcome.made = session.request(Made { reader }).await?;
    Ok(outcome)
}

/// Reads what the server pushes until `end`, in the same way.
pub async fn subscription(session: Session, work: Duration, end: Instant) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    // The connection waits for no subscriber: it puts the newest quote where the one before has not been taken.
    let mut quotes = session.subscribe_with::<Quote>(Queue::latest());
    while let Some(quote) = before(end, quotes.next()).await {
        outcome.lags.record(age(&*quote.ok_or("the session is over")??));
        work_for(work).await;
    }
    outcome.skipped = quotes.missed();
    outcome.made = outcome.lags.count() as u64 + outcome.skipped;
    Ok(outcome)
}

/// Makes small calls, one each millisecond, until `end`. How late their answers are is all there is to tell.
pub async fn calls(session: Session, end: Instant) -> Result<Lags> {
    let mut lags = Lags::default();
    while Instant::now() < end {
        let asked = Instant::now();
        session.request(Ping).await?;
        lags.record(asked.elapsed());
        sleep(Duration::from_millis(1)).await;
    }
    Ok(lags)
}

/// What comes before `end`. (A timeout alone would go on for as long as something is there at once.)
async fn before<T>(end: Instant, next: impl Future<Output = T>) -> Option<T> {
    if Instant::now() >= end { None } else { timeout_at(end, next).await.ok() }
}

/// Stands for a screen that is drawn, or a file that is written.
async fn work_for(work: Duration) {
    if !work.is_zero() {
        sleep(work).await;
    }
}

/// Both sides' clocks must agree for that to mean something. Here they are one.
fn age(quote: &Quote) -> Duration {
    quote.at.elapsed().unwrap_or_default()
}
