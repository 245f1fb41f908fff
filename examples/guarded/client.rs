//! A client that runs into everything the server has put up, and says what it is told.

use std::{error::Error, fmt::Display, time::Duration};

use nalix_client::{Client, ConnectError, RequestError, Session};
use nalix_core::Advice;

use crate::contracts::{AskBroken, BanMe, Login, OpenVault, Position, Post, Search, Secret};

pub type Outcome = Result<(), Box<dyn Error>>;

pub async fn run(address: &str) -> Outcome {
    let session = connect(address).await?;

    println!("\n-- permission");
    let post = |text: &str| Post { text: text.to_owned() };
    tell("posts without a login", session.request(post("hello")).await);
    tell("logs in with a wrong password", session.request(login("ada", "?")).await);
    tell("logs in", session.request(login("ada", "lovelace")).await);
    tell("posts", session.request(post("hello")).await);
    tell("wants to ban somebody", session.request(BanMe { seconds: 1 }).await);

    println!("\n-- rate, for the user and not for the connection");
    let second = connect(address).await?;
    tell("logs in once more", second.request(login("ada", "lovelace")).await);
    tell("posts over the second connection", second.request(post("one")).await);
    tell("posts over the first", session.request(post("two")).await);
    let refused = second.request(post("three")).await;
    let wait = retry_after(&refused);
    tell("posts over the second", refused);
    if let Some(wait) = wait {
        tokio::time::sleep(wait).await;
        tell("posts again when it was told to", second.request(post("four")).await);
    }

    println!("\n-- size, transport, encryption, a condition");
    tell("posts 1,000 bytes", session.request(post(&"x".repeat(1_000))).await);
    tell("sends over TCP what is for UDP", session.request(Position).await);
    tell("asks for what must be encrypted", session.request(Secret).await);
    tell("opens the vault", session.request(OpenVault).await);

    println!("\n-- concurrency and time");
    let search = |takes| session.request(Search { takes });
    let (first, second_search, third) =
        tokio::join!(search(100).into_future(), search(100).into_future(), search(100).into_future());
    tell("searches", first);
    tell("searches at the same time, and waits for its turn", second_search);
    tell("searches at the same time, behind both", third);
    tell("searches for too long", search(5_000).await);

    println!("\n-- a handler that keeps failing");
    for _ in 0..3 {
        tell("asks what is broken", session.request(AskBroken).await);
    }

    println!("\n-- connections");
    let mut more = Vec::new();
    let refused = loop {
        match connect(address).await {
            Ok(one) => more.push(one),
            Err(error) => break error,
        }
    };
    println!("client: {} connections of this address, then: {refused}", 2 + more.len());
    for one in more {
        one.close().await;
    }
    tell("logs in as an administrator", session.request(login("root", "hunter2")).await);
    tell("bans itself for a second", session.request(BanMe { seconds: 1 }).await);
    tell("goes on over the connection that it has", session.request(OpenVault).await);
    match connect(address).await {
        Ok(_) => println!("client: connects nevertheless"),
        Err(error) => println!("client: connects anew: {error}"),
    }
    session.close().await;
    second.close().await;
    Ok(())
}

fn login(name: &str, password: &str) -> Login {
    Login { name: name.to_owned(), password: password.to_owned() }
}

async fn connect(address: &str) -> Result<Session, ConnectError> {
    // What is refused is to be seen, and not to be tried again.
    Client::builder(format!("tcp://{address}")).plaintext().no_reconnect().connect().await
}

fn tell<T, E: Display>(what: &str, result: Result<T, RequestError<E>>) {
    match result {
        Ok(_) => println!("client: {what}: done"),
        Err(RequestError::Status(status)) => {
            let advice = match status.advice {
                Advice::None => String::new(),
                advice => format!(" (advice: {advice:?})"),
            };
            println!("client: {what}: {:?}, {}{advice}", status.code, status.message);
        }
        Err(RequestError::Application(error)) => println!("client: {what}: {error}"),
        Err(error) => println!("client: {what}: {}", short(&error)),
    }
}

fn short<E: Display>(error: &RequestError<E>) -> String {
    match error {
        RequestError::EncryptionRequired => "not sent, since the connection is not encrypted".to_owned(),
        RequestError::Timeout => "no answer in time".to_owned(),
        _ => "failed".to_owned(),
    }
}

fn retry_after<T, E>(result: &Result<T, RequestError<E>>) -> Option<Duration> {
    match result {
        Err(RequestError::Status(status)) => match status.advice {
            Advice::Retry { after } => after,
            _ => None,
        },
        _ => None,
    }
}
