//! The server, which is a process of its own, so that it can be killed.

use std::{
    error::Error,
    io::{self, BufRead, BufReader},
    process::{Child, Command, Stdio},
};

use nalix_server::{Context, Hub, HubExt, Server, packet_controller};

use crate::contracts::{Count, Shout, ShoutOnce, There};

struct Crowd;

#[packet_controller]
impl Crowd {
    #[connected]
    fn hello(&self, ctx: &Context) {
        ctx.group("crowd").join(ctx);
    }

    #[packet]
    fn count(&self, hub: Hub, _: Count) -> There {
        There { connections: hub.count() as u64, in_group: hub.group("crowd").count() as u64 }
    }

    #[packet]
    fn shout_once(&self, ctx: &Context, _: ShoutOnce) -> u64 {
        ctx.group("crowd").send(&Shout).queued as u64
    }
}

/// Serves until it is killed, and says where.
pub async fn serve(address: &str) -> Result<(), Box<dyn Error>> {
    let server = Server::builder().plaintext().tcp(address).controller(Crowd).build().await?;
    println!("{}", server.local_addr());
    server.run().await?;
    Ok(())
}

/// A server in a process of its own.
pub struct Process {
    child: Child,
    pub address: String,
}

impl Process {
    /// Starts one, and waits until it listens.
    pub fn start(address: &str) -> io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["server", address])
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        Ok(Self { child, address: line.trim().to_owned() })
    }

    /// Kills it, so that it has no time for a word.
    pub fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may be dead already.
        drop(self.kill());
    }
}
