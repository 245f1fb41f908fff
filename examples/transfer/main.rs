//! Large files, up and down beside small calls on the same connection.
//!
//!     cargo run --example transfer                                             both in one process
//!     cargo run --example transfer -- server 127.0.0.1:7777                    the server, until Ctrl-C
//!     cargo run --example transfer -- send 127.0.0.1:7777 picture.png          a file up
//!     cargo run --example transfer -- get 127.0.0.1:7777 picture.png copy.png  and down
//!
//! The server keeps files in a folder that it removes when it ends.

mod calls;
mod client;
mod contracts;
mod crc;
mod demo;
mod folder;
#[path = "../shared/interrupt.rs"]
mod interrupt;
mod latencies;
mod names;
#[path = "../shared/percentile.rs"]
mod percentile;
mod progress;
mod server;

use std::{error::Error, path::Path, process::ExitCode};

use crate::{contracts::Content, folder::TempFolder, interrupt::interrupted};

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args[..] {
        [] => unless_interrupted(demo::run()).await,
        ["server", address] => serve(address).await,
        ["send", address, file] => unless_interrupted(send(address, Path::new(file))).await,
        ["get", address, name, file] => unless_interrupted(get(address, name, Path::new(file))).await,
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

const USAGE: &str = "\
usage: transfer [server ADDR | send ADDR FILE | get ADDR NAME FILE]        ADDR is host:port";

/// Bytes that a file may have which the server stores.
const LIMIT: u64 = 256 << 20;

type Outcome = Result<(), Box<dyn Error>>;

async fn serve(address: &str) -> Outcome {
    let folder = TempFolder::new()?;
    let server = server::build(address, folder.path(), LIMIT).await?;
    println!("server: listening on {}, Ctrl-C stops it", server.local_addr());
    println!("server: files of at most {} MiB go to {}", LIMIT >> 20, folder.path().display());
    let report = server.run_until(interrupted()).await?;
    println!("server: stopped, {} connection(s) drained, {} cut off", report.drained, report.forced);
    Ok(())
}

async fn send(address: &str, file: &Path) -> Outcome {
    let session = client::connect(address).await?;
    let Content { size, crc } = client::send(&session, file).await?;
    println!("sent {}, {size} bytes with the checksum {crc:08x}", file.display());
    session.close().await;
    Ok(())
}

async fn get(address: &str, name: &str, file: &Path) -> Outcome {
    let session = client::connect(address).await?;
    let Content { size, crc } = client::get(&session, name, file).await?;
    println!("got {}, {size} bytes with the checksum {crc:08x}", file.display());
    session.close().await;
    Ok(())
}

/// Lets go of what runs when the process is asked to stop, so that no temporary file is left behind.
async fn unless_interrupted(run: impl Future<Output = Outcome>) -> Outcome {
    tokio::select! {
        outcome = run => outcome,
        () = interrupted() => Err("interrupted".into()),
    }
}
