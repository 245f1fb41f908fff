//! Quotes of a market, for fast and slow readers on one connection: streams that wait for their readers, and subscriptions
//! that do not.
//!
//!     cargo run --example ticker                            both in one process
//!     cargo run --example ticker -- server 127.0.0.1:7777   the server alone, until Ctrl-C
//!     cargo run --example ticker -- client 127.0.0.1:7777   the client alone

mod client;
mod contracts;
#[path = "../shared/interrupt.rs"]
mod interrupt;
mod lags;
mod market;
#[path = "../shared/percentile.rs"]
mod percentile;
mod readers;
mod report;
mod server;
mod tape;

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args[..] {
        [] => both().await,
        ["server", address] => serve(address).await,
        ["client", address] => client::run(address).await,
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
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

const USAGE: &str = "usage: ticker [server ADDR | client ADDR]        ADDR is host:port";

async fn both() -> readers::Result<()> {
    let (server, _open) = server::build("127.0.0.1:0").await?;
    let address = server.local_addr();
    println!("server: listening on {address}, with a quote each {:?}", market::EVERY);
    let (handle, running) = server.spawn();

    client::run(&address.to_string()).await?;

    handle.shutdown();
    let report = running.await??;
    println!("server: stopped, {} connection(s) drained, {} cut off", report.drained, report.forced);
    Ok(())
}

async fn serve(address: &str) -> readers::Result<()> {
    let (server, _open) = server::build(address).await?;
    println!("server: listening on {}, Ctrl-C stops it", server.local_addr());
    let report = server.run_until(interrupt::interrupted()).await?;
    println!("server: stopped, {} connection(s) drained, {} cut off", report.drained, report.forced);
    Ok(())
}
