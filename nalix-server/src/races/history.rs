//! What has happened to one group, and whether it could have happened one after the other.

use crate::Join;

/// Something that was done between two moments, with what came of it.
#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) begin: usize,
    pub(super) end: usize,
    pub(super) act: Act,
}

/// Connections are numbers here.
#[derive(Debug, Clone)]
pub(super) enum Act {
    Join(usize, Join),
    /// And whether it was in, where that is known.
    Leave(usize, Option<bool>),
    /// The connection has ended.
    Ended(usize),
    /// These were the members, in any order.
    Saw(Vec<usize>),
}

/// Who has come or gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Came(usize),
    Went(usize),
}

#[derive(Debug, Clone, Default)]
struct State {
    members: Vec<usize>,
    /// Which connections have ended, and when that was over.
    ended: Vec<(usize, usize)>,
    changes: Vec<Change>,
}

/// Whether the records, put into some order that keeps to their times, lead from the members at first to those at last by
/// exactly these changes.
pub(super) fn adds_up(first: &[usize], records: &[Record], changes: &[Change], last: &[usize]) -> bool {
    let state = State { members: sorted(first), ..State::default() };
    go_on(&state, records, &mut vec![false; records.len()], changes, &sorted(last))
}

fn go_on(state: &State, records: &[Record], done: &mut [bool], changes: &[Change], last: &[usize]) -> bool {
    if done.iter().all(|done| *done) {
        return state.changes == changes && state.members == last;
    }
    let left = |done: &[bool]| (0..records.len()).filter(|&n| !done[n]).collect::<Vec<_>>();
    let left = left(done);
    // Nobody's act comes behind one that began when it was over.
    let limit = left.iter().map(|&n| records[n].end).min().unwrap_or(usize::MAX);
    for n in left.into_iter().filter(|&n| records[n].begin <= limit) {
        let Some(next) = state.after(&records[n]) else { continue };
        if !changes.starts_with(&next.changes) {
            continue;
        }
        done[n] = true;
        if go_on(&next, records, done, changes, last) {
            return true;
        }
        done[n] = false;
    }
    false
}

impl State {
    /// The state behind an act; `None` if that could not have had this outcome here.
    fn after(&self, record: &Record) -> Option<Self> {
        let mut next = self.clone();
        match &record.act {
            Act::Join(who, outcome) => {
                let is_in = self.members.contains(who);
                let ended = self.ended.iter().find(|(ended, _)| ended == who);
                let fits = match outcome {
                    Join::Closed => ended.is_some(),
                    // It is looked at before the group, and may end in between: it has not left yet.
                    _ if ended.is_some_and(|(_, end)| *end < record.begin) => false,
                    Join::Already => is_in,
                    _ => !is_in,
                };
                if *outcome == Join::Joined {
                    next.members = sorted(&[&self.members[..], &[*who]].concat());
                    next.changes.push(Change::Came(*who));
                }
                fits.then_some(next)
            }
            Act::Leave(who, was_in) => {
                let is_in = self.members.contains(who);
                if is_in {
                    next.members.retain(|member| member != who);
                    next.changes.push(Change::Went(*who));
                }
                was_in.is_none_or(|was_in| was_in == is_in).then_some(next)
            }
            Act::Ended(who) => {
                next.ended.push((*who, record.end));
                Some(next)
            }
            Act::Saw(members) => (sorted(members) == self.members).then_some(next),
        }
    }
}

fn sorted(members: &[usize]) -> Vec<usize> {
    let mut members = members.to_vec();
    members.sort_unstable();
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(begin: usize, end: usize, act: Act) -> Record {
        Record { begin, end, act }
    }

    #[test]
    fn what_overlaps_may_have_come_in_either_order_and_nothing_else() {
        let join = record(0, 4, Act::Join(0, Join::Joined));
        for (begin, end, saw, possible) in
            [(1, 2, vec![], true), (1, 2, vec![0], true), (5, 6, vec![0], true), (5, 6, vec![], false)]
        {
            let records = [join.clone(), record(begin, end, Act::Saw(saw.clone()))];
            assert_eq!(adds_up(&[], &records, &[Change::Came(0)], &[0]), possible, "{begin} {saw:?}");
        }
        assert!(!adds_up(&[], std::slice::from_ref(&join), &[], &[0]), "nobody was told");
        assert!(!adds_up(&[], std::slice::from_ref(&join), &[Change::Came(0); 2], &[0]), "told twice");
        assert!(!adds_up(&[], &[join], &[Change::Came(0)], &[]), "lost");
    }

    #[test]
    fn an_outcome_that_does_not_fit_any_order_is_found() {
        let ended = record(0, 1, Act::Ended(0));
        let late = record(2, 3, Act::Join(0, Join::Joined));
        assert!(!adds_up(&[], &[ended, late], &[Change::Came(0)], &[0]));
        let twice = [record(0, 9, Act::Leave(0, Some(true))), record(0, 9, Act::Leave(0, Some(true)))];
        assert!(!adds_up(&[0], &twice, &[Change::Went(0)], &[]));
    }
}
