//! The groups that a connection is in.

use std::sync::Arc;

use nalix_core::Connection;

use super::room::Room;
use crate::sync::{Guard, Mutex};

/// Kept with each connection that has ever joined a group.
#[derive(Debug, Default)]
pub(super) struct Memberships(Mutex<Vec<Arc<Room>>>);

impl Memberships {
    pub(super) fn lock(&self) -> Guard<'_, Vec<Arc<Room>>> {
        self.0.lock()
    }
}

/// The groups that a connection is in.
pub(super) fn of(connection: &Connection) -> Vec<Arc<Room>> {
    connection.get::<Memberships>().map(|memberships| memberships.lock().clone()).unwrap_or_default()
}

/// Tells those who watch its groups that a connection has lost its link, or has another.
pub(crate) fn tell_away(connection: &Connection, there: bool) {
    let Some(memberships) = connection.get::<Memberships>() else { return };
    let list = memberships.lock();
    let after: Vec<_> = list.iter().map(|room| room.tell_away(connection.id(), there)).collect();
    drop(list);
    for after in after {
        after.run();
    }
}

/// Takes a connection out of all its groups, and returns how many they were. If it has ended, it never joins one again.
pub(crate) fn leave_all(connection: &Connection) -> usize {
    let Some(memberships) = connection.get::<Memberships>() else { return 0 };
    let mut list = memberships.lock();
    let rooms = std::mem::take(&mut *list);
    let after: Vec<_> = rooms.iter().map(|room| room.remove(connection.id())).collect();
    drop(list);
    for after in after {
        after.run();
    }
    rooms.len()
}
