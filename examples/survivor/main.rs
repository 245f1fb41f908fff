//! A client that counts while its connection is cut over and over: nothing is lost, and nothing is done twice.
//!
//!     cargo run --example survivor            for three seconds
//!     cargo run --example survivor -- 60      for a minute

mod client;
mod contracts;
mod cutter;
mod server;

use std::{collections::BTreeSet, error::Error, process::ExitCode, time::Duration};

use nalix_server::Identity;

use client::Report;
use cutter::Cutter;

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let seconds = match args[..] {
        [] => Some(3),
        ["-h" | "--help"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        [seconds] => seconds.parse().ok(),
        _ => None,
    };
    let Some(seconds) = seconds else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match run(Duration::from_secs(seconds)).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

const USAGE: &str = "usage: survivor [SECONDS]";

async fn run(time: Duration) -> Result<bool, Box<dyn Error>> {
    let identity = Identity::generate()?;
    let key = identity.public_key();
    let server = server::build(identity).await?;
    let address = server.local_addr();
    let (handle, running) = server.spawn();
    let mut cutter = Cutter::start(address).await?;

    println!("counting for {time:?} over a network that cuts every connection within 43 ms");
    let report = client::run(cutter.address, key, &mut cutter, time).await?;
    let good = show(&report, cutter.cuts());

    drop(cutter);
    handle.shutdown();
    running.await??;
    Ok(good)
}

/// Prints what has happened, and returns whether all is well.
fn show(report: &Report, cuts: u32) -> bool {
    let Report { resumed, fresh, answers, up, down, down_wrong, items, items_wrong, seen } = report;
    println!("{cuts} connections were cut; the session went on {resumed} times and began anew {fresh} times");

    let different: BTreeSet<_> = answers.iter().collect();
    let calls = answers.len() as u64;
    let rows = [
        ("calls that add one", calls, seen.added, calls - different.len() as u64),
        ("one-way packets to the server", *up, seen.up, seen.up_wrong),
        ("pushes to the client", seen.down, *down, *down_wrong),
        ("items of streams", *items, *items, *items_wrong),
    ];
    println!("{:<32}{:>10}{:>10}{:>8}{:>18}", "", "sent", "arrived", "lost", "twice, or astray");
    let mut good = *fresh == 0 && seen.greeted == 1;
    for (what, sent, arrived, wrong) in rows {
        let lost = sent.saturating_sub(arrived);
        println!("{what:<32}{sent:>10}{arrived:>10}{lost:>8}{wrong:>18}");
        good &= sent == arrived && wrong == 0;
    }
    println!("{}", if good { "nothing is lost, and nothing is doubled" } else { "SOMETHING IS WRONG" });
    good
}
