//! What has been sent and not been acknowledged, to be sent again on another link.

use std::{collections::VecDeque, fmt};

use super::Cover;

/// A sliding window over the bodies of the records that have been sent, before they were sealed.
///
/// Positions are numbers of bytes of frames since the session began; the records around them do not count. When more has been
/// written than there is room for, the oldest records go: what they held cannot be sent again, and a peer that has not had it
/// cannot resume. What has not been written yet is no reason for that, however much it is.
pub(super) struct ResendLog {
    bytes: VecDeque<u8>,
    records: VecDeque<Record>,
    /// Where the first byte that is kept stands.
    start: u64,
    /// Up to where the peer has acknowledged.
    acknowledged: u64,
    /// Up to where everything has been given to the link.
    written: u64,
    max: usize,
}

#[derive(Debug, Clone, Copy)]
struct Record {
    cover: Cover,
    len: usize,
}

/// The peer says that it has had what was not sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadPosition;

impl fmt::Debug for ResendLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResendLog")
            .field("start", &self.start)
            .field("len", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

impl ResendLog {
    /// Keeps at most so many bytes of what has been written.
    pub(super) fn new(max: usize) -> Self {
        Self { bytes: VecDeque::new(), records: VecDeque::new(), start: 0, acknowledged: 0, written: 0, max }
    }

    /// Where the next byte will stand.
    pub(super) fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// How many bytes are kept.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Keeps the body of a record.
    #[inline]
    pub(super) fn push(&mut self, cover: Cover, body: &[u8]) {
        if self.bytes.capacity() == 0 {
            // What most connections need, at once instead of in steps.
            self.bytes.reserve(FIRST_BYTES);
            self.records.reserve(FIRST_RECORDS);
        }
        self.bytes.extend(body);
        self.records.push_back(Record { cover, len: body.len() });
    }

    /// Everything that was taken before has been written, and what is here by now is taken.
    #[inline]
    pub(super) fn taken(&mut self) {
        while self.written.saturating_sub(self.start) > self.max as u64 {
            self.drop_first();
        }
        self.written = self.end();
    }

    /// The peer has had everything in front of `position`. An acknowledgement that says less than one before is no news: those
    /// that were on their way when a link was lost come again, behind what the peer has said when it came back.
    pub(super) fn acknowledge(&mut self, position: u64) -> Result<(), BadPosition> {
        if position > self.end() {
            return Err(BadPosition);
        }
        if position < self.acknowledged {
            return Ok(());
        }
        self.acknowledged = position;
        while let Some(first) = self.records.front()
            && self.start + first.len as u64 <= position
        {
            self.drop_first();
        }
        Ok(())
    }

    /// Gives back room that is not needed now. Whoever is busy needs it again in a moment.
    pub(super) fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
        self.records.shrink_to_fit();
    }

    /// Whether everything from `position` on is still here.
    pub(super) fn reaches(&self, position: u64) -> bool {
        (self.start.max(self.acknowledged)..=self.end()).contains(&position)
    }

    /// Calls `each` with what has to be sent again from `position` on, record by record.
    pub(super) fn replay(&mut self, position: u64, mut each: impl FnMut(Cover, &[u8])) {
        let mut at = self.start;
        let mut rest = &*self.bytes.make_contiguous();
        for record in &self.records {
            let (body, behind) = rest.split_at(record.len.min(rest.len()));
            let end = at + record.len as u64;
            if end > position {
                // It may have been handled in part.
                let had = position.saturating_sub(at) as usize;
                each(record.cover, &body[had..]);
            }
            (at, rest) = (end, behind);
        }
    }

    fn drop_first(&mut self) {
        if let Some(first) = self.records.pop_front() {
            self.bytes.drain(..first.len);
            self.start += first.len as u64;
        }
    }
}

/// Enough for what is sent until the peer acknowledges it, if nothing large is among it.
const FIRST_BYTES: usize = 8 * 1024;
const FIRST_RECORDS: usize = 128;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn replayed(log: &mut ResendLog, from: u64) -> Vec<u8> {
        let mut all = Vec::new();
        log.replay(from, |_, body| all.extend_from_slice(body));
        all
    }

    #[test]
    fn records_come_again_as_they_were_covered_and_the_first_without_what_was_handled() {
        let mut log = ResendLog::new(100);
        log.push(Cover::Plain, b"abc");
        log.push(Cover::Sealed, b"defg");
        log.acknowledge(2).unwrap();
        let mut seen = Vec::new();
        log.replay(2, |cover, body| seen.push((cover, body.to_vec())));
        assert_eq!(seen, [(Cover::Plain, b"c".to_vec()), (Cover::Sealed, b"defg".to_vec())]);
        assert_eq!(replayed(&mut log, 7), b"");
    }

    #[test]
    fn nobody_acknowledges_what_was_not_sent_and_an_acknowledgement_that_comes_again_is_no_news() {
        let mut log = ResendLog::new(100);
        log.push(Cover::Plain, b"abc");
        assert_eq!(log.acknowledge(4), Err(BadPosition));
        log.acknowledge(2).unwrap();
        assert_eq!(log.acknowledge(1), Ok(()));
        assert!(!log.reaches(1) && log.reaches(2) && log.reaches(3) && !log.reaches(4));
        log.acknowledge(3).unwrap();
        assert_eq!(log.len(), 0);
    }

    proptest! {
        /// Against the whole history.
        #[test]
        fn what_is_kept_is_the_end_of_what_was_sent(
            max in 0usize..200,
            steps in prop::collection::vec((prop::collection::vec(any::<u8>(), 1..40), 0u64..50, any::<bool>()), 1..60),
        ) {
            let mut log = ResendLog::new(max);
            let (mut sent, mut had) = (Vec::new(), 0u64);
            for (body, more, acknowledges) in steps {
                log.push(Cover::Plain, &body);
                log.taken();
                sent.extend_from_slice(&body);
                had = (had + more).min(sent.len() as u64);
                if acknowledges {
                    prop_assert_eq!(log.acknowledge(had), Ok(()));
                }
                prop_assert!(log.len() <= max + 40);
                prop_assert_eq!(log.end(), sent.len() as u64);
                for from in 0..=sent.len() as u64 {
                    if log.reaches(from) {
                        prop_assert_eq!(&replayed(&mut log, from), &sent[from as usize..]);
                    }
                }
                // Only what was acknowledged and the oldest may be missing.
                let missing = sent.len() - log.len();
                prop_assert!(missing as u64 <= had.max(sent.len().saturating_sub(max.saturating_sub(40)) as u64));
            }
        }
    }
}
