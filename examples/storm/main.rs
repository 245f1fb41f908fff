//! Five hundred clients whose server is killed and started again: they come back spread out, and each of them once.
//!
//!     cargo run --example storm

mod contracts;
mod crowd;
mod server;

use std::{
    error::Error,
    process::ExitCode,
    time::{Duration, Instant},
};

use contracts::{Count, ShoutOnce, There};
use crowd::Crowd;
use server::Process;

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args[..] {
        [] => run().await,
        // The other process, which is started by the one above.
        ["server", address] => server::serve(address).await.map(|()| true),
        ["-h" | "--help"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

const USAGE: &str = "usage: storm        (no arguments)";

const CLIENTS: usize = 500;
const MAX_DELAY: Duration = Duration::from_secs(3);
const AWAY: Duration = Duration::from_secs(4);

async fn run() -> Result<bool, Box<dyn Error>> {
    let mut process = Process::start("127.0.0.1:0")?;
    let address = process.address.clone();
    let crowd = Crowd::gather(&address, CLIENTS, MAX_DELAY).await?;
    println!("{CLIENTS} clients are connected to {address}; the server is killed, and away for {AWAY:?}");

    let killed = Instant::now();
    process.kill()?;
    tokio::time::sleep(AWAY).await;
    let _process = Process::start(&address)?;
    let took = crowd.all_back().await?;

    let attempts = crowd.attempts(killed);
    println!("{} attempts, by 100 ms since the server was killed:", attempts.len());
    show(&attempts);
    let (half, last) = (took[CLIENTS / 2], took[CLIENTS - 1]);
    println!("half of them were back {half:.2?} after it had started, and all after {last:.2?}");

    // Every one is there once, and hears what is said once.
    let there = crowd.speaker().request(Count).await?;
    let sent = crowd.speaker().request(ShoutOnce).await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let heard = crowd.have_heard(1);
    println!("the server counts {there:?}; one shout went to {sent}, and {heard} have heard it once");

    let all = CLIENTS as u64;
    Ok(there == There { connections: all, in_group: all }
        && (sent, heard) == (all, CLIENTS)
        && last <= MAX_DELAY + Duration::from_secs(1))
}

/// Prints how many there were in each tenth of a second.
fn show(attempts: &[Duration]) {
    let mut histogram = Vec::new();
    for at in attempts {
        let tenth = (at.as_millis() / 100) as usize;
        if histogram.len() <= tenth {
            histogram.resize(tenth + 1, 0usize);
        }
        histogram[tenth] += 1;
    }
    for (tenth, n) in histogram.iter().enumerate() {
        println!("{:>6} ms {n:>4} {}", tenth * 100, "#".repeat(n.div_ceil(10)));
    }
}
