//! The child process: serves one peer and answers the parent's questions about what that costs.
//!
//! The parent writes lines to standard input, one answer line each: `reset` starts counting, `report` tells what was
//! used since. The end of input ends the process, so that none is left behind when the parent dies.

use std::{
    io::{self, BufRead, Write},
    sync::mpsc,
};

use crate::{
    Error,
    alloc::Allocated,
    args::Serve,
    cores::Cores,
    load::Ready,
    measure::{Usage, raise_descriptor_limit},
};

/// Serves until standard input ends.
pub(crate) fn run(options: &Serve) -> Result<bool, Error> {
    raise_descriptor_limit();
    let cores = Cores::start(options.flavour, options.pin)?;
    // A port of its own for every core, not one shared by all: the kernel would spread a few connections unevenly,
    // and differently for every peer.
    let mut ready = String::from("ready");
    for core in cores.handles() {
        let (bound, target) = mpsc::channel();
        let serving = (options.peer.serve)(Ready::new(bound), options.suite);
        core.spawn(async move {
            if let Err(error) = serving.await {
                eprintln!("compare serve: {error}");
                std::process::exit(1);
            }
        });
        ready.push_str(&format!(" {}", target.recv()?));
    }
    answer(&ready)?;
    obey(&mut io::stdin().lock())?;
    // Not by way of dropping the runtimes: a peer that doesn't end in time must not keep the process alive.
    std::process::exit(0);
}

/// Neither waiting for a line nor answering `reset` allocates what is counted, so that counts hold the peer's allocations only.
fn obey(commands: &mut impl BufRead) -> Result<(), Error> {
    let mut start = Usage::default();
    let mut line = String::with_capacity(64);
    while commands.read_line(&mut line)? > 0 {
        match line.trim_end() {
            "reset" => {
                start = Usage::now()?;
                // Looking at how much memory there is has allocated.
                start.allocated = Allocated::now();
                answer("ok")?;
            }
            "report" => {
                let used = Usage::now()?.since(&start);
                answer(&used.to_line())?;
            }
            other => return Err(format!("unknown command `{other}`").into()),
        }
        line.clear();
    }
    Ok(())
}

fn answer(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(line.as_bytes())?;
    out.write_all(b"\n")?;
    out.flush()
}
