//! Compares nalix with a raw tokio echo, tonic and tarpc over loopback TCP.
//!
//! `cargo run --release -p nalix-benches --features peers -- --help` lists the options. The server of a peer runs in a
//! child process of this same binary, the clients in this one; the peers take turns within every case, so that a noisy
//! machine disturbs all of them alike. Read the ratios, not the absolute numbers.

mod alloc;
mod args;
mod bounds;
mod case;
mod child;
mod compare;
mod cores;
mod counters;
mod load;
mod measure;
mod peers;
mod report;
mod server;
mod target;

use std::process::ExitCode;

use crate::args::Command;

/// What every fallible step here returns: an error is only ever printed.
type Error = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    let done = match Command::from_env() {
        Ok(Command::Compare(options)) => compare::run(&options),
        Ok(Command::Serve(options)) => server::run(&options),
        Ok(Command::Help) => {
            print!("{}", args::HELP);
            Ok(true)
        }
        Err(error) => {
            eprintln!("compare: {error}\n\n{}", args::HELP);
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("compare: {error}");
            ExitCode::FAILURE
        }
    }
}
