//! Five hundred clients, and what happens to them.

use std::{
    error::Error,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use nalix_client::{Client, ReconnectOptions, Session, SessionEvent};
use tokio::task::JoinSet;

use crate::contracts::Shout;

pub struct Crowd {
    members: Vec<Member>,
    attempts: Arc<Mutex<Vec<Instant>>>,
}

struct Member {
    session: Session,
    shouts: Arc<AtomicU32>,
}

impl Crowd {
    /// Connects so many, with delays of at most `max_delay`.
    pub async fn gather(address: &str, count: usize, max_delay: Duration) -> Result<Self, Box<dyn Error>> {
        let attempts = Arc::new(Mutex::new(Vec::new()));
        let mut members = Vec::new();
        for _ in 0..count {
            let shouts = Arc::new(AtomicU32::new(0));
            let heard = Arc::clone(&shouts);
            let session = Client::builder(format!("tcp://{address}"))
                .plaintext()
                .reconnect(ReconnectOptions::default().max_delay(max_delay))
                .on::<Shout>(move |_| {
                    heard.fetch_add(1, Ordering::Relaxed);
                })
                .connect()
                .await?;
            tokio::spawn(note_attempts(session.events(), Arc::clone(&attempts)));
            members.push(Member { session, shouts });
        }
        Ok(Self { members, attempts })
    }

    /// One of them.
    pub fn speaker(&self) -> &Session {
        &self.members[0].session
    }

    /// Waits until all are back, and returns how long each has taken from now on.
    pub async fn all_back(&self) -> Result<Vec<Duration>, Box<dyn Error>> {
        let since = Instant::now();
        let mut waiting = JoinSet::new();
        for Member { session, .. } in &self.members {
            let session = session.clone();
            waiting.spawn(async move { session.connected().await.map(|()| since.elapsed()) });
        }
        let mut took = Vec::new();
        while let Some(back) = waiting.join_next().await {
            took.push(back??);
        }
        took.sort_unstable();
        Ok(took)
    }

    /// When attempts were made, since then.
    pub fn attempts(&self, since: Instant) -> Vec<Duration> {
        let attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        attempts.iter().map(|at| at.saturating_duration_since(since)).collect()
    }

    /// How many have heard so many shouts.
    pub fn have_heard(&self, shouts: u32) -> usize {
        self.members.iter().filter(|member| member.shouts.load(Ordering::Relaxed) == shouts).count()
    }
}

/// On this machine an attempt succeeds or fails at once.
async fn note_attempts(mut events: nalix_client::Events, attempts: Arc<Mutex<Vec<Instant>>>) {
    while let Some(event) = events.next().await {
        if matches!(event, SessionEvent::Failed { .. } | SessionEvent::Fresh { .. } | SessionEvent::Resumed) {
            attempts.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
        }
    }
}
