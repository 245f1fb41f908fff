//! Lines that are typed, or come through a pipe.

use std::{
    io::{self, BufRead},
    thread,
};

use tokio::sync::mpsc;

/// Reads stdin to its end, on a thread of its own. One of the runtime's would keep the program from ending until
/// somebody presses Enter.
pub fn lines() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(1);
    thread::spawn(move || {
        let mut stdin = io::stdin().lock();
        let mut line = Vec::new();
        loop {
            line.clear();
            match stdin.read_until(b'\n', &mut line) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => {
                    eprintln!("cannot read what is typed: {error}");
                    break;
                }
            }
            if sender.blocking_send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                break;
            }
        }
    });
    receiver
}
