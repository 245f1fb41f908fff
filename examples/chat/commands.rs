//! What can be typed.

#[derive(Debug, PartialEq)]
pub enum Command<'a> {
    Say(&'a str),
    Join { room: &'a str },
    Leave,
    Who,
    Help,
    Quit,
    Nothing,
    Unknown(&'a str),
}

pub const HELP: &str = "/join ROOM, /leave, /who, /quit; everything else is said";

impl<'a> Command<'a> {
    pub fn parse(line: &'a str) -> Self {
        let line = line.trim();
        let mut words = line.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (None, ..) => Command::Nothing,
            (Some("/join"), Some(room), None) => Command::Join { room },
            (Some("/leave"), None, _) => Command::Leave,
            (Some("/who"), None, _) => Command::Who,
            (Some("/help"), None, _) => Command::Help,
            (Some("/quit"), None, _) => Command::Quit,
            (Some(word), ..) if word.starts_with('/') => Command::Unknown(line),
            _ => Command::Say(line),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_said_unless_they_are_commands() {
        for (line, command) in [
            ("hello there\r\n", Command::Say("hello there")),
            ("and/or", Command::Say("and/or")),
            ("  \t", Command::Nothing),
            (" /join  lobby ", Command::Join { room: "lobby" }),
            ("/join", Command::Unknown("/join")),
            ("/join two rooms", Command::Unknown("/join two rooms")),
            ("/leave", Command::Leave),
            ("/who", Command::Who),
            ("/who is that?", Command::Unknown("/who is that?")),
            ("/help", Command::Help),
            ("/quit", Command::Quit),
            ("/dance", Command::Unknown("/dance")),
        ] {
            assert_eq!(Command::parse(line), command, "{line:?}");
        }
    }
}
