//! Who is where, and what has been said. Knows nothing of connections: whoever talks is a key.

use std::{
    collections::{BTreeMap, HashMap, VecDeque, hash_map::Entry},
    hash::Hash,
};

use crate::{
    contracts::{JoinError, Line, NotInRoom, SayError},
    names,
};

/// Lines that a room remembers.
pub const HISTORY: usize = 50;

/// All rooms that somebody is in. One that the last has left is forgotten, with what was said there, so that there are
/// never more rooms than people.
pub struct Rooms<K> {
    capacity: usize,
    rooms: HashMap<String, Room>,
    places: HashMap<K, Place>,
}

/// Where somebody is, and under which name.
#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    pub room: String,
    pub name: String,
}

#[derive(Default)]
struct Room {
    /// By the name in small letters, so that nobody can pass for another.
    present: BTreeMap<String, String>,
    history: VecDeque<Line>,
}

impl<K: Hash + Eq> Rooms<K> {
    /// Each room has room for `capacity` people.
    pub fn new(capacity: usize) -> Self {
        Self { capacity, rooms: HashMap::new(), places: HashMap::new() }
    }

    /// Lets somebody in, and returns what has been said, oldest first.
    pub fn enter(&mut self, who: K, name: &str, room: &str) -> Result<Vec<Line>, JoinError> {
        names::check(name).map_err(JoinError::BadName)?;
        names::check(room).map_err(JoinError::BadRoom)?;
        let place = match self.places.entry(who) {
            Entry::Occupied(place) => return Err(JoinError::AlreadyIn { room: place.get().room.clone() }),
            Entry::Vacant(place) => place,
        };
        let key = name.to_lowercase();
        if let Some(there) = self.rooms.get(room) {
            if there.present.contains_key(&key) {
                return Err(JoinError::NameTaken { name: name.to_owned(), room: room.to_owned() });
            }
            if there.present.len() >= self.capacity {
                return Err(JoinError::RoomFull { room: room.to_owned(), limit: self.capacity as u32 });
            }
        }
        let there = self.rooms.entry(room.to_owned()).or_default();
        there.present.insert(key, name.to_owned());
        place.insert(Place { room: room.to_owned(), name: name.to_owned() });
        Ok(there.history.iter().cloned().collect())
    }

    /// Lets somebody out, and returns where that was.
    pub fn leave(&mut self, who: &K) -> Result<Place, NotInRoom> {
        let place = self.places.remove(who).ok_or(NotInRoom)?;
        if let Some(there) = self.rooms.get_mut(&place.room) {
            there.present.remove(&place.name.to_lowercase());
            if there.present.is_empty() {
                self.rooms.remove(&place.room);
            }
        }
        Ok(place)
    }

    /// Remembers what somebody says, and returns the room in which it is heard.
    pub fn say(&mut self, who: &K, text: String) -> Result<(String, Line), SayError> {
        let Place { room, name } = self.places.get(who).ok_or(NotInRoom)?;
        if text.trim().is_empty() {
            return Err(SayError::Empty);
        }
        if text.contains(char::is_control) {
            return Err(SayError::ControlCharacter);
        }
        let line = Line { from: name.clone(), text };
        if let Some(there) = self.rooms.get_mut(room) {
            if there.history.len() == HISTORY {
                there.history.pop_front();
            }
            there.history.push_back(line.clone());
        }
        Ok((room.clone(), line))
    }

    /// The names of those in the room of `who`.
    pub fn present(&self, who: &K) -> Result<Vec<String>, NotInRoom> {
        let place = self.places.get(who).ok_or(NotInRoom)?;
        let there = self.rooms.get(&place.room).ok_or(NotInRoom)?;
        Ok(there.present.values().cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lobby() -> Rooms<u32> {
        let mut rooms = Rooms::new(2);
        assert_eq!(rooms.enter(1, "ada", "lobby"), Ok(vec![]));
        rooms
    }

    #[test]
    fn those_who_come_later_are_told_what_was_said() {
        let mut rooms = lobby();
        rooms.say(&1, "hello".into()).unwrap();
        let line = Line { from: "ada".into(), text: "hello".into() };
        assert_eq!(rooms.enter(2, "bob", "lobby"), Ok(vec![line]));
        assert_eq!(rooms.present(&1), Ok(vec!["ada".into(), "bob".into()]));
        assert_eq!(rooms.enter(3, "eve", "cellar"), Ok(vec![]), "other rooms hear nothing");
    }

    #[test]
    fn a_room_forgets_the_oldest_line() {
        let mut rooms = lobby();
        for n in 0..=HISTORY {
            rooms.say(&1, n.to_string()).unwrap();
        }
        let history = rooms.enter(2, "bob", "lobby").unwrap();
        assert_eq!((history.len(), history[0].text.as_str()), (HISTORY, "1"));
    }

    #[test]
    fn a_name_is_taken_whatever_its_case_until_its_owner_leaves() {
        let mut rooms = lobby();
        let taken = JoinError::NameTaken { name: "ADA".into(), room: "lobby".into() };
        assert_eq!(rooms.enter(2, "ADA", "lobby"), Err(taken));
        assert_eq!(rooms.leave(&2), Err(NotInRoom), "the refused is nowhere");
        rooms.leave(&1).unwrap();
        assert!(rooms.enter(2, "ADA", "lobby").is_ok());
    }

    #[test]
    fn a_full_room_takes_nobody_until_somebody_leaves() {
        let mut rooms = lobby();
        rooms.enter(2, "bob", "lobby").unwrap();
        let full = || JoinError::RoomFull { room: "lobby".into(), limit: 2 };
        assert_eq!(rooms.enter(3, "eve", "lobby"), Err(full()));
        assert_eq!(rooms.leave(&2), Ok(Place { room: "lobby".into(), name: "bob".into() }));
        assert!(rooms.enter(3, "eve", "lobby").is_ok());
    }

    #[test]
    fn somebody_is_in_one_room_at_a_time() {
        let mut rooms = lobby();
        assert_eq!(rooms.enter(1, "ada", "cellar"), Err(JoinError::AlreadyIn { room: "lobby".into() }));
        assert_eq!(rooms.present(&1), Ok(vec!["ada".into()]));
    }

    #[test]
    fn an_empty_room_is_forgotten() {
        let mut rooms = lobby();
        rooms.say(&1, "hello".into()).unwrap();
        rooms.leave(&1).unwrap();
        assert!(rooms.rooms.is_empty() && rooms.places.is_empty());
        assert_eq!(rooms.enter(2, "bob", "lobby"), Ok(vec![]));
    }

    #[test]
    fn what_cannot_be_said_is_not_remembered() {
        let mut rooms = lobby();
        assert_eq!(rooms.say(&2, "hello".into()), Err(SayError::NotInRoom(NotInRoom)));
        assert_eq!(rooms.say(&1, " \t".into()), Err(SayError::Empty));
        assert_eq!(rooms.say(&1, "\u{1b}[2J".into()), Err(SayError::ControlCharacter));
        assert_eq!(rooms.enter(2, "bob", "lobby"), Ok(vec![]));
    }
}
