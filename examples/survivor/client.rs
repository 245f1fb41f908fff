//! The client's half: it counts, and goes on counting.

use std::{
    error::Error,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use nalix_client::{Client, PublicKey, ReconnectOptions, Session, SessionEvent};
use tokio::task::JoinSet;

use crate::{
    contracts::{Add, Down, Finish, Numbers, Seen, Up},
    cutter::Cutter,
};

/// How things went.
#[derive(Debug, Default)]
pub struct Report {
    pub resumed: u32,
    pub fresh: u32,
    /// Answers to calls, all of which must be different.
    pub answers: Vec<u64>,
    /// One-way packets sent.
    pub up: u64,
    /// Pushes that have come, and those of them that were not the next one.
    pub down: u64,
    pub down_wrong: u64,
    /// Items of streams, and those of them that were not the next one.
    pub items: u64,
    pub items_wrong: u64,
    pub seen: Seen,
}

/// Counts for so long, over connections that are cut.
pub async fn run(
    address: SocketAddr,
    key: PublicKey,
    cutter: &mut Cutter,
    time: Duration,
) -> Result<Report, Box<dyn Error>> {
    // Back at once, so that there are many cuts to see.
    let quick =
        ReconnectOptions::default().first_delay(Duration::from_millis(2)).max_delay(Duration::from_millis(5));
    // Listens from the very first push on, which may come before `connect` is done. How many have come, and how many of those
    // were not the next one.
    let pushes = Arc::new(Mutex::new((0, 0)));
    let counted = Arc::clone(&pushes);
    let session = Client::builder(format!("tcp://{address}"))
        .server_key(key)
        .reconnect(quick)
        .on::<Down>(move |push| {
            let (count, wrong) = &mut *counted.lock().unwrap_or_else(PoisonError::into_inner);
            *wrong += u64::from(push.0 != *count);
            *count += 1;
        })
        .connect()
        .await?;
    let mut events = session.events();
    let events = tokio::spawn(async move {
        let (mut resumed, mut fresh) = (0, 0);
        while let Some(event) = events.next().await {
            resumed += u32::from(event == SessionEvent::Resumed);
            fresh += u32::from(matches!(event, SessionEvent::Fresh { .. }));
        }
        (resumed, fresh)
    });

    cutter.begin();
    let until = Instant::now() + time;
    let (answers, up, (items, items_wrong)) =
        tokio::try_join!(call(&session, until), send(&session, until), read(&session, until))?;
    let seen = session.request(Finish).await?;

    let mut report = Report { answers, up, items, items_wrong, seen, ..Report::default() };
    // What the server has sent comes before its answer, in order, and is all here.
    (report.down, report.down_wrong) = *pushes.lock().unwrap_or_else(PoisonError::into_inner);
    session.close().await;
    (report.resumed, report.fresh) = events.await?;
    Ok(report)
}

/// Ten calls at a time, each of which changes something.
async fn call(session: &Session, until: Instant) -> Result<Vec<u64>, Box<dyn Error>> {
    let mut answers = Vec::new();
    let mut calls = JoinSet::new();
    while Instant::now() < until {
        for _ in 0..10 {
            let session = session.clone();
            calls.spawn(async move { session.request(Add).await });
        }
        while let Some(answer) = calls.join_next().await {
            answers.push(answer??);
        }
    }
    Ok(answers)
}

/// One-way packets, numbered.
async fn send(session: &Session, until: Instant) -> Result<u64, Box<dyn Error>> {
    let mut n = 0;
    while Instant::now() < until {
        session.send(&Up(n)).await?;
        n += 1;
        tokio::time::sleep(Duration::from_micros(100)).await;
    }
    Ok(n)
}

/// One stream after the other, each longer than a connection lasts.
async fn read(session: &Session, until: Instant) -> Result<(u64, u64), Box<dyn Error>> {
    let (mut items, mut wrong) = (0, 0);
    while Instant::now() < until {
        let mut stream = session.stream(Numbers { count: 20_000 }).await?;
        let mut expected = 0;
        while let Some(n) = stream.next().await {
            wrong += u64::from(n? != expected);
            expected += 1;
        }
        wrong += 20_000 - expected;
        items += expected;
    }
    Ok((items, wrong))
}
