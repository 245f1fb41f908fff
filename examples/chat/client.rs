//! The client for people, and for pipes.

use std::{
    error::Error,
    fmt,
    future::IntoFuture,
    io::{self, IsTerminal, Stdout},
    ops::ControlFlow,
    pin::pin,
    time::Duration,
};

use nalix_client::{Client, Lagged, Session, SessionEvent, SessionState, StreamError, Subscription};

use crate::{
    commands::{Command, HELP},
    contracts::{Event, Join, JoinError, Leave, Line, Say, Who},
    input,
    interrupt::interrupted,
    screen::Screen,
    size::Width,
};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Connects, enters the room, and talks until the input ends.
pub async fn run(address: &str, name: &str, room: &str) -> Outcome<()> {
    let session = Client::builder(format!("tcp://{address}")).plaintext().connect().await?;
    // Before the room is entered, so that no event is lost.
    let events = session.subscribe::<Event>();
    let width = Width::new();
    let screen = if io::stdin().is_terminal() && io::stdout().is_terminal() {
        Screen::terminal(io::stdout(), format!("{name}> "), width.columns())
    } else {
        Screen::plain(io::stdout())
    };
    let mut talk = Talk { session, events, screen, name: name.to_owned(), room: None, refused: 0 };
    talk.enter(room).await??;
    let done = tokio::select! {
        done = talk.run(width) => done,
        () = interrupted() => Ok(()),
    };
    talk.screen.end()?;
    talk.session.close().await;
    done
}

struct Talk {
    session: Session,
    events: Subscription<Event>,
    screen: Screen<Stdout>,
    name: String,
    /// Where they are.
    room: Option<String>,
    refused: usize,
}

impl Talk {
    async fn run(&mut self, mut width: Width) -> Outcome<()> {
        let mut lines = input::lines();
        let mut connection = self.session.events();
        self.screen.prompt()?;
        if self.screen.is_terminal() {
            self.screen.line(HELP)?;
        }
        loop {
            tokio::select! {
                line = lines.recv() => match line {
                    Some(line) => {
                        self.screen.prompt()?;
                        if self.obey(Command::parse(&line)).await?.is_break() {
                            break;
                        }
                    }
                    None => break,
                },
                event = self.events.next() => match event {
                    Some(event) => self.show(event)?,
                    None => return Err(self.session.closed().await.into()),
                },
                Some(event) = connection.next() => self.reconnect(event).await?,
                () = width.changed() => self.screen.resize(width.columns()),
            }
        }
        match self.refused {
            0 => Ok(()),
            _ if self.screen.is_terminal() => Ok(()),
            n => Err(format!("{n} line(s) were refused").into()),
        }
    }

    async fn obey(&mut self, command: Command<'_>) -> Outcome<ControlFlow<()>> {
        match command {
            Command::Nothing => {}
            Command::Quit => return Ok(ControlFlow::Break(())),
            Command::Help => self.screen.line(HELP)?,
            Command::Unknown(line) => self.refuse(format!("{line:?} is no command; there are {HELP}"))?,
            Command::Join { room } => {
                if let Err(error) = self.enter(room).await? {
                    self.refuse(error)?;
                }
            }
            Command::Leave => match self.answer(self.session.request(Leave)).await? {
                Ok(()) => {
                    self.room = None;
                    self.screen.line("* you have left")?;
                }
                Err(error) => self.refuse(error)?,
            },
            Command::Who => match self.answer(self.session.request(Who)).await? {
                Ok(names) => self.screen.line(&format!("* here are {}", names.join(", ")))?,
                Err(error) => self.refuse(error)?,
            },
            Command::Say(text) => {
                match self.answer(self.session.request(Say { text: text.to_owned() })).await? {
                    // On a terminal it is where it was typed.
                    Ok(()) if self.screen.is_terminal() => {}
                    Ok(()) => self.screen.line(&format!("{}: {text}", self.name))?,
                    Err(error) => self.refuse(error)?,
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Enters a room, and shows what was said in it before. What happens meanwhile is shown after that.
    async fn enter(&mut self, room: &str) -> Outcome<Result<(), StreamError<JoinError>>> {
        let join = Join { name: self.name.clone(), room: room.to_owned() };
        let mut history = self.session.stream(join).timeout(PATIENCE).await?;
        while let Some(line) = history.next().await {
            match line {
                Ok(Line { from, text }) => self.screen.line(&format!("{from}: {text}"))?,
                Err(error) => return Ok(Err(error)),
            }
        }
        self.screen.line(&format!("* you are in {room}"))?;
        self.room = Some(room.to_owned());
        Ok(Ok(()))
    }

    /// The connection is lost, or there again. On a fresh session, the server does not know any more where they were.
    async fn reconnect(&mut self, event: SessionEvent) -> Outcome<()> {
        match event {
            SessionEvent::Lost(reason) => self.screen.line(&format!("* {reason}"))?,
            SessionEvent::Resumed => self.screen.line("* the connection is back, and nothing was missed")?,
            SessionEvent::Fresh { .. } => {
                self.screen.line("* the connection is back")?;
                if let Some(room) = self.room.take()
                    && let Err(error) = self.enter(&room).await?
                {
                    self.refuse(error)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Waits for an answer, and shows what happens meanwhile.
    async fn answer<T>(&mut self, request: impl IntoFuture<Output = T>) -> Outcome<T> {
        let mut answer = pin!(request.into_future());
        loop {
            tokio::select! {
                answer = &mut answer => return Ok(answer),
                Some(event) = self.events.next() => self.show(event)?,
            }
        }
    }

    fn show(&mut self, event: Result<impl AsRef<Event>, Lagged>) -> io::Result<()> {
        match event.as_ref().map(AsRef::as_ref) {
            Ok(Event::Said(Line { from, text })) => self.screen.line(&format!("{from}: {text}")),
            Ok(Event::Joined { name }) => self.screen.line(&format!("* {name} has joined")),
            Ok(Event::Left { name }) => self.screen.line(&format!("* {name} has left")),
            Err(lagged) => self.screen.line(&format!("* {lagged}")),
        }
    }

    /// Tells why something was not done. Fails if nothing can be done any more.
    fn refuse(&mut self, why: impl fmt::Display) -> Outcome<()> {
        match self.session.state() {
            SessionState::Closed(reason) => Err(reason.into()),
            _ => {
                self.refused += 1;
                Ok(self.screen.line(&format!("* {why}"))?)
            }
        }
    }
}

/// How long entering a room may take. Streams have no limit by themselves, since many have no end.
const PATIENCE: Duration = Duration::from_secs(30);
