//! What secured connections do for those who use them, and what whoever is on the way gets to see and do.
//!
//!     cargo run --example secure

mod contracts;
mod relay;
mod server;

use std::{collections::HashMap, error::Error, fs, io, net::SocketAddr, path::PathBuf, process::ExitCode};

use nalix_client::{Client, ClientBuilder, Identity, PublicKey};
use nalix_server::ServerHandle;

use contracts::{Recall, Remember, Whisper, WhoAmI};
use relay::{Attack, Relay};
use server::Friends;

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        [] => {}
        ["-h" | "--help"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    }
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

const USAGE: &str = "usage: secure        (no arguments)";

type Outcome = Result<(), Box<dyn Error>>;

async fn run() -> Outcome {
    // Real programs keep these files where only they can read them. Whoever has `server.key` is the server.
    let folder = Folder::new()?;
    let identity = Identity::load_or_generate(folder.path.join("server.key"))?;
    let ada = Identity::load_or_generate(folder.path.join("ada.key"))?;

    let key = identity.public_key();
    let friends = Friends { names: HashMap::from([(ada.public_key(), "Ada".to_owned())]) };
    let server = server::build(identity, friends).await?;
    let address = server.local_addr();
    println!("server: my key is {key}");
    let (handle, running) = server.spawn();

    keys(address, key, ada).await?;
    attacks(address, key).await?;
    resumption(address, key, &handle).await?;

    handle.shutdown();
    running.await??;
    Ok(())
}

fn client(address: SocketAddr, key: PublicKey) -> ClientBuilder {
    Client::builder(format!("tcp://{address}")).server_key(key)
}

/// Who proves what to whom.
async fn keys(address: SocketAddr, key: PublicKey, ada: Identity) -> Outcome {
    println!("\n-- keys");
    let session = client(address, key).connect().await?;
    println!("a client that pins the key: I am {}", session.request(WhoAmI).await?);
    let answer = session.request(Whisper { secret: "open sesame".to_owned() }).await?;
    println!("a packet that travels encrypted or not at all: {answer}");

    let session = client(address, key).identity(ada).connect().await?;
    println!("a client with an identity: I am {}", session.request(WhoAmI).await?);

    let other = Identity::generate()?.public_key();
    println!("a client that pins another key: {}", failure(client(address, other).connect().await)?);
    let plain = Client::builder(format!("tcp://{address}")).plaintext();
    println!("a client that does not encrypt: {}", failure(plain.connect().await)?);
    Ok(())
}

/// What somebody on the way can do, which is to break the connection.
async fn attacks(server: SocketAddr, key: PublicKey) -> Outcome {
    println!("\n-- somebody on the way");
    let relay = Relay::start(server, Attack::StripHello).await?;
    let outcome = client(relay.address, key).connect().await;
    println!("asks for no encryption in the client's name: {}", failure(outcome)?);

    let relay = Relay::start(server, Attack::StripReply).await?;
    let outcome = client(relay.address, key).connect().await;
    println!("answers without encryption in the server's name: {}", failure(outcome)?);

    let relay = Relay::start(server, Attack::FlipBit).await?;
    let session = client(relay.address, key).connect().await?;
    println!("changes one bit of an answer: {}", failure(session.request(WhoAmI).await)?);
    Ok(())
}

/// A client that goes away and comes back.
async fn resumption(server: SocketAddr, key: PublicKey, handle: &ServerHandle) -> Outcome {
    println!("\n-- coming back");
    let session = client(server, key).connect().await?;
    session.request(Remember { note: "buy milk".to_owned() }).await?;
    let ticket = session.ticket().ok_or("the server keeps sessions")?.clone();
    session.close().await;
    println!("the client leaves a note, goes away and keeps a ticket");

    let relay = Relay::start(server, Attack::None).await?;
    let (session, note) = client(relay.address, key).resume(ticket.clone()).connect_with(Recall).await?;
    let (note, sent) = (note?, relay.sent_by_client());
    println!("with the ticket: resumed is {}, the note is {note:?},", session.is_resumed());
    println!("    and the client had sent {sent} record(s) when it had the answer");
    let next = session.ticket().ok_or("there is a ticket for the next time")?.clone();

    let again = client(server, key).resume(ticket).connect().await?;
    let note = again.request(Recall).await?;
    println!("with the same ticket again: resumed is {}, the note is {note:?}", again.is_resumed());

    for connection in handle.connections() {
        if let Some(session) = connection.resumption() {
            handle.revoke(session.session_id()).await?;
        }
    }
    let (session, note) = client(server, key).resume(next).connect_with(Recall).await?;
    println!("with the next ticket, revoked meanwhile: resumed is {},", session.is_resumed());
    match note {
        Ok(note) => println!("    the note is {note:?}"),
        Err(error) => println!("    the request that went along: {error}"),
    }
    Ok(())
}

/// What a user is told.
fn failure<T, E: Error>(outcome: Result<T, E>) -> Result<E, &'static str> {
    outcome.err().ok_or("something has worked that must not")
}

/// A folder for key files, removed at the end.
struct Folder {
    path: PathBuf,
}

impl Folder {
    fn new() -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("nalix-secure-{}", std::process::id()));
        fs::create_dir(&path)?;
        Ok(Self { path })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("{} is left behind: {error}", self.path.display());
        }
    }
}
