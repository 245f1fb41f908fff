//! A conversation that writes itself.

use std::{error::Error, fmt, net::SocketAddr, time::Duration};

use nalix_client::{Client, RequestError, Session, StreamError, Subscription};
use tokio::time::timeout;

use crate::contracts::{Event, Join, JoinError, Leave, Line, NotInRoom, Say, SayError, Who};

type Outcome = Result<(), Box<dyn Error>>;

/// Plays it on a server with three places in each room.
pub async fn play(server: SocketAddr) -> Outcome {
    let mut ada = Person::new("ada", server).await?;
    let mut bob = Person::new("bob", server).await?;
    let mut eve = Person::new("eve", server).await?;
    let zoe = Person::new("zoë", server).await?;

    println!("\n-- two meet");
    ada.joins("lobby").await?;
    ada.says("is anybody here?").await?;
    bob.joins("lobby").await?;
    ada.sees().await?;
    bob.says("just me").await?;
    ada.sees().await?;

    println!("\n-- what is refused");
    let not_in_room = |error: &_| matches!(error, RequestError::Application(SayError::NotInRoom(NotInRoom)));
    eve.may_not_say("can you hear me?", not_in_room).await?;
    let name_taken = |error: &_| matches!(error, StreamError::Application(JoinError::NameTaken { .. }));
    eve.may_not_join_as("Ada", "lobby", name_taken).await?;
    let bad_name = |error: &_| matches!(error, StreamError::Application(JoinError::BadName(_)));
    eve.may_not_join_as("\u{1b}[2J", "lobby", bad_name).await?;
    zoe.joins("lobby").await?;
    ada.sees().await?;
    bob.sees().await?;
    let room_full = |error: &_| matches!(error, StreamError::Application(JoinError::RoomFull { .. }));
    eve.may_not_join_as("eve", "lobby", room_full).await?;

    println!("\n-- one goes, another takes the place");
    let here = zoe.session.request(Who).await?;
    zoe.tells(format_args!("here are {}", here.join(", ")));
    // One whose link is cut keeps the place for as long as the server waits for the session to go on.
    zoe.session.close().await;
    ada.sees().await?;
    bob.sees().await?;
    eve.joins("lobby").await?;
    ada.sees().await?;
    bob.sees().await?;

    println!("\n-- everybody sees the same");
    eve.says("what a nice lobby").await?;
    bob.says("it is the only one").await?;
    for _ in 0..2 {
        ada.sees().await?;
    }
    bob.sees().await?;
    eve.sees().await?;
    ada.session.request(Leave).await?;
    bob.sees().await?;
    eve.sees().await?;

    println!();
    Ok(())
}

/// Somebody with a screen, whose lines begin with the name.
struct Person {
    name: &'static str,
    session: Session,
    events: Subscription<Event>,
}

impl Person {
    async fn new(name: &'static str, server: SocketAddr) -> Result<Self, Box<dyn Error>> {
        let session = Client::builder(format!("tcp://{server}")).plaintext().connect().await?;
        let events = session.subscribe();
        Ok(Self { name, session, events })
    }

    async fn joins(&self, room: &str) -> Outcome {
        let mut history =
            self.session.stream(Join { name: self.name.to_owned(), room: room.to_owned() }).await?;
        self.tells(format_args!("[joins {room}]"));
        while let Some(line) = history.next().await {
            let Line { from, text } = line?;
            self.tells(format_args!("{from}: {text}   (before)"));
        }
        Ok(())
    }

    async fn says(&self, text: &str) -> Outcome {
        self.session.request(Say { text: text.to_owned() }).await?;
        self.tells(format_args!("{}: {text}", self.name));
        Ok(())
    }

    /// Shows the next thing that happens.
    async fn sees(&mut self) -> Outcome {
        let event =
            timeout(Duration::from_secs(10), self.events.next()).await?.ok_or("the session is over")??;
        match &*event {
            Event::Said(Line { from, text }) => self.tells(format_args!("{from}: {text}")),
            Event::Joined { name } => self.tells(format_args!("* {name} has joined")),
            Event::Left { name } => self.tells(format_args!("* {name} has left")),
        }
        Ok(())
    }

    async fn may_not_say(
        &self,
        text: &str,
        expected: impl FnOnce(&RequestError<SayError>) -> bool,
    ) -> Outcome {
        match self.session.request(Say { text: text.to_owned() }).await {
            Err(error) if expected(&error) => self.tells(format_args!("{text} ... {error}")),
            other => return Err(format!("an error of another kind was expected, not {other:?}").into()),
        }
        Ok(())
    }

    async fn may_not_join_as(
        &self,
        name: &str,
        room: &str,
        expected: impl FnOnce(&StreamError<JoinError>) -> bool,
    ) -> Outcome {
        let mut history = self.session.stream(Join { name: name.to_owned(), room: room.to_owned() }).await?;
        match history.next().await {
            Some(Err(error)) if expected(&error) => {
                self.tells(format_args!("[joins {room} as {name:?}] ... {error}"));
            }
            other => return Err(format!("an error of another kind was expected, not {other:?}").into()),
        }
        Ok(())
    }

    fn tells(&self, what: fmt::Arguments<'_>) {
        println!("  {:>3} | {what}", self.name);
    }
}
