//! A server that protects itself, and a client that runs into each of its policies. Both say what they see.
//!
//!     cargo run --example guarded                            both in one process
//!     cargo run --example guarded -- server 127.0.0.1:7777   the server alone, until Ctrl-C
//!     cargo run --example guarded -- client 127.0.0.1:7777   the client alone

mod client;
mod contracts;
#[path = "../shared/interrupt.rs"]
mod interrupt;
mod server;

use std::{error::Error, process::ExitCode};

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

const USAGE: &str = "usage: guarded [server ADDR | client ADDR]        ADDR is host:port";

async fn both() -> Result<(), Box<dyn Error>> {
    let server = server::build("127.0.0.1:0").await?;
    let address = server.local_addr();
    println!("server: listening on {address}");
    let (handle, running) = server.spawn();

    client::run(&address.to_string()).await?;

    handle.shutdown();
    let report = running.await??;
    println!("server: stopped, {} connection(s) drained, {} cut off", report.drained, report.forced);
    Ok(())
}

async fn serve(address: &str) -> Result<(), Box<dyn Error>> {
    let server = server::build(address).await?;
    println!("server: listening on {}, Ctrl-C stops it", server.local_addr());
    let report = server.run_until(interrupt::interrupted()).await?;
    println!("server: stopped, {} connection(s) drained, {} cut off", report.drained, report.forced);
    Ok(())
}
