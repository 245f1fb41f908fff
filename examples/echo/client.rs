//! The client's half.

use std::{error::Error, time::Instant};

use nalix_client::{Client, RequestError, Session, packet_controller};

use crate::{
    contracts::{CountMoves, Divide, Greet, Moved, Ping, WhoAreYou},
    histogram::Histogram,
};

/// What the client answers when it is asked.
struct ClientSide;

#[packet_controller]
impl ClientSide {
    #[packet]
    fn who(&self, question: WhoAreYou) -> String {
        if question.polite { "your humble client".to_owned() } else { "nobody".to_owned() }
    }
}

/// Connects, talks, measures, leaves.
pub async fn run(address: &str) -> Result<(), Box<dyn Error>> {
    let session =
        Client::builder(format!("tcp://{address}")).plaintext().controller(ClientSide).connect().await?;

    let pong = session.request(Ping { message: "hi".to_owned() }).await?;
    println!("client: a reply: {:?}", pong.message);

    let quotient = session.request(Divide { dividend: 84, divisor: 2 }).await?;
    println!("client: another reply: {quotient}");

    match session.request(Divide { dividend: 1, divisor: 0 }).await {
        Err(RequestError::Application(error)) => println!("client: a typed error: {error}"),
        other => return Err(format!("expected a typed error, got {other:?}").into()),
    }

    for step in 0_u8..3 {
        session.send(&Moved { x: f32::from(step), y: 0.5 }).await?;
    }
    println!("client: sent one-way packets, the server has seen {}", session.request(CountMoves).await?);

    println!("client: the server asked who this is, and says: {}", session.request(Greet).await?);

    match session.request(Ping { message: "x".repeat(2000) }).await {
        Err(error @ RequestError::Encode(_)) => println!("client: not sent: {error}"),
        other => return Err(format!("expected the message to be too long, got {other:?}").into()),
    }

    measure(&session).await?;
    let reason = session.close().await;
    println!("client: {reason}");
    Ok(())
}

/// Times one echo after the other.
async fn measure(session: &Session) -> Result<(), Box<dyn Error>> {
    const WARM_UP: usize = 500;
    const CALLS: usize = 5_000;
    let mut histogram = Histogram::default();
    let mut start = Instant::now();
    for i in 0..WARM_UP + CALLS {
        if i == WARM_UP {
            start = Instant::now();
        }
        let sent = Instant::now();
        session.request(Ping { message: "echo".to_owned() }).await?;
        if i >= WARM_UP {
            histogram.record(sent.elapsed());
        }
    }
    let elapsed = start.elapsed();
    println!("\n{CALLS} echoes, one after the other:\n{histogram}");
    println!("{:.0} calls per second\n", CALLS as f64 / elapsed.as_secs_f64());
    Ok(())
}
