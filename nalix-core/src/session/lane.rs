//! Frames that wait for their turn among those of other priorities.

use std::collections::VecDeque;

use super::Cover;
use crate::{
    CallId,
    frame::{FrameKind, Head},
};

/// Frames of one priority, in their order: whole, but for the records that they will go in.
#[derive(Default)]
pub(super) struct Lane {
    bytes: Vec<u8>,
    /// Where the first of them starts.
    at: usize,
    frames: VecDeque<Queued>,
    /// Bytes of those that are to be sent.
    len: usize,
    /// How many frames have ever been put here, and how many have left.
    pub(super) put: u64,
    pub(super) left: u64,
    /// How many of them belong to uploads of ours.
    uploads: usize,
}

#[derive(Clone, Copy)]
struct Queued {
    cover: Cover,
    len: u32,
    role: Role,
}

/// What a frame is to its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The request of a call of ours. As long as it waits, the peer knows nothing of the call.
    Request(CallId),
    /// A part of the upload of a call of ours.
    Upload(CallId),
    /// Part of an answer, or of no call at all.
    Other,
    /// Nothing: it is not to be sent any more.
    Void,
}

impl Role {
    fn of(head: Head) -> Self {
        match head.kind {
            FrameKind::Request => Role::Request(head.id),
            FrameKind::Item | FrameKind::End if head.upload => Role::Upload(head.id),
            _ => Role::Other,
        }
    }
}

/// A frame whose turn it is.
pub(super) struct Next<'a> {
    pub(super) cover: Cover,
    pub(super) role: Role,
    pub(super) bytes: &'a [u8],
}

impl Lane {
    /// Puts a frame behind the others, which `write` appends to what it is given and must not fail to.
    pub(super) fn push(&mut self, cover: Cover, head: Head, write: impl FnOnce(&mut Vec<u8>)) {
        // Room that the first ones have left is used again when it is more than what the others take.
        if self.at > self.bytes.len() / 2 {
            self.bytes.drain(..self.at);
            self.at = 0;
        }
        let before = self.bytes.len();
        write(&mut self.bytes);
        let len = self.bytes.len() - before;
        let role = Role::of(head);
        self.uploads += usize::from(matches!(role, Role::Upload(_)));
        // One frame is far below 4 GiB.
        self.frames.push_back(Queued { cover, len: len as u32, role });
        self.len += len;
        self.put += 1;
    }

    /// Takes the first frame out.
    pub(super) fn pop(&mut self) -> Option<Next<'_>> {
        loop {
            let Queued { cover, len, role } = self.frames.pop_front()?;
            let start = self.at;
            self.at += len as usize;
            self.left += 1;
            if role == Role::Void {
                continue;
            }
            self.len -= len as usize;
            self.uploads -= usize::from(matches!(role, Role::Upload(_)));
            return Some(Next { cover, role, bytes: &self.bytes[start..self.at] });
        }
    }

    /// How many bytes wait.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Takes back what belongs to a call of ours: its upload, and with `request` the request. Returns whether that was here.
    pub(super) fn forget(&mut self, id: CallId, request: bool) -> bool {
        if self.frames.is_empty() || (!request && self.uploads == 0) {
            return false;
        }
        let mut found = false;
        for frame in &mut self.frames {
            match frame.role {
                Role::Upload(of) if of == id => self.uploads -= 1,
                Role::Request(of) if of == id && request => found = true,
                _ => continue,
            }
            frame.role = Role::Void;
            self.len -= frame.len as usize;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Opcode;

    fn push(lane: &mut Lane, head: Head, byte: u8) {
        lane.push(Cover::Plain, head, |out| out.extend_from_slice(&[byte; 10]));
    }

    fn all(lane: &mut Lane) -> Vec<u8> {
        std::iter::from_fn(|| lane.pop().map(|next| next.bytes[0])).collect()
    }

    #[test]
    fn what_a_call_has_here_is_taken_back_and_nothing_else() {
        let mut lane = Lane::default();
        let (one, two) = (CallId::new(1), CallId::new(2));
        for (head, byte) in [
            (Head::request(one, Opcode::new(0x1001)), 1),
            (Head::request(two, Opcode::new(0x1001)), 2),
            (Head::of_upload(FrameKind::Item, one), 3),
            // Of a call of the peer's.
            (Head::of_call(FrameKind::Item, one), 4),
            (Head::of_upload(FrameKind::Item, two), 5),
            (Head::of_upload(FrameKind::End, one), 6),
            (Head::notify(Opcode::new(0x3001)), 7),
        ] {
            push(&mut lane, head, byte);
        }
        assert!(!lane.forget(two, false), "it has been sent, for all that is known");
        assert!(lane.forget(one, true));
        assert_eq!((lane.len(), lane.uploads), (30, 0));
        assert!(!lane.forget(one, true));
        assert_eq!(all(&mut lane), [2, 4, 7]);
        assert_eq!((lane.put, lane.left, lane.len()), (7, 7, 0));
    }

    #[test]
    fn memory_does_not_grow_while_it_is_never_empty() {
        let mut lane = Lane::default();
        for n in 0..10_000u32 {
            push(&mut lane, Head::notify(Opcode::new(0x3001)), n as u8);
            if n >= 100 {
                assert_eq!(lane.pop().unwrap().bytes, [(n - 100) as u8; 10]);
            }
        }
        assert_eq!(lane.len(), 1_000);
        assert!(lane.bytes.capacity() < 5_000, "{}", lane.bytes.capacity());
    }
}
