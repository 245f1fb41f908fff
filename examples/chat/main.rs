//! A chat: rooms with a limit on places, who comes and goes, what was said before, errors with a type.
//!
//!     cargo run --example chat                                       a conversation that writes itself
//!     cargo run --example chat -- server 127.0.0.1:7777              the server, until Ctrl-C
//!     cargo run --example chat -- client 127.0.0.1:7777 ada lobby    somebody who talks
//!
//! The client reads lines from the terminal, or from a pipe: `echo hello | cargo run --example chat -- client ...`.

mod client;
mod commands;
mod contracts;
mod input;
#[path = "../shared/interrupt.rs"]
mod interrupt;
mod names;
mod rooms;
mod screen;
mod script;
mod server;
mod size;
mod text;

use std::{error::Error, process::ExitCode};

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args[..] {
        [] => both().await,
        ["server", address] => serve(address).await,
        ["client", address, name, room] => client::run(address, name, room).await,
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

const USAGE: &str = "usage: chat [server ADDR | client ADDR NAME ROOM]        ADDR is host:port";

/// How many people a room has room for.
const CAPACITY: usize = 100;

async fn both() -> Result<(), Box<dyn Error>> {
    let server = server::build("127.0.0.1:0", 3).await?;
    let address = server.local_addr();
    println!("server: listening on {address}");
    let (handle, running) = server.spawn();

    script::play(address).await?;

    handle.shutdown();
    let report = running.await??;
    println!("server: stopped, {} connection(s) drained, {} cut off", report.drained, report.forced);
    Ok(())
}

async fn serve(address: &str) -> Result<(), Box<dyn Error>> {
    let server = server::build(address, CAPACITY).await?;
    println!("server: listening on {}, Ctrl-C stops it", server.local_addr());
    let report = server.run_until(interrupt::interrupted()).await?;
    println!("server: stopped, {} connection(s) drained, {} cut off", report.drained, report.forced);
    Ok(())
}
