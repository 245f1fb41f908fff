//! Entries in numbered places, strung on lists.

/// Entries that keep their place, and their address, from [`Slab::insert`] to [`Slab::remove`]. Neither moves
/// an entry: a secret that moves leaves a copy behind that nobody wipes.
#[derive(Debug)]
pub(super) struct Slab<T> {
    chunks: Vec<Box<[Option<T>]>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(super) const fn new() -> Self {
        Self { chunks: Vec::new(), free: Vec::new() }
    }

    pub(super) fn insert(&mut self, value: T) -> u32 {
        if self.free.is_empty() {
            let first = (self.chunks.len() * CHUNK) as u32;
            self.chunks.push((0..CHUNK).map(|_| None).collect());
            self.free.extend((first..first + CHUNK as u32).rev());
        }
        let at = self.free.pop().unwrap_or_default();
        *self.slot(at) = Some(value);
        at
    }

    /// Drops an entry where it lies.
    pub(super) fn remove(&mut self, at: u32) {
        *self.slot(at) = None;
        self.free.push(at);
    }

    pub(super) fn get(&self, at: u32) -> Option<&T> {
        self.chunks.get(at as usize / CHUNK)?[at as usize % CHUNK].as_ref()
    }

    pub(super) fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.chunks.get_mut(at as usize / CHUNK)?[at as usize % CHUNK].as_mut()
    }

    fn slot(&mut self, at: u32) -> &mut Option<T> {
        &mut self.chunks[at as usize / CHUNK][at as usize % CHUNK]
    }
}

/// The first and last entry of a list.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct List {
    pub(super) first: Option<u32>,
    last: Option<u32>,
}

/// An entry's neighbours on one list.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Links {
    before: Option<u32>,
    pub(super) after: Option<u32>,
}

impl List {
    /// Puts an entry at the end. `links` says which of its links are those of this list.
    pub(super) fn push<T>(&mut self, slab: &mut Slab<T>, at: u32, links: fn(&mut T) -> &mut Links) {
        if let Some(entry) = slab.get_mut(at) {
            *links(entry) = Links { before: self.last, after: None };
        }
        match self.last.and_then(|last| slab.get_mut(last)) {
            Some(last) => links(last).after = Some(at),
            None => self.first = Some(at),
        }
        self.last = Some(at);
    }

    /// Takes an entry out of the list that it is on.
    pub(super) fn unlink<T>(&mut self, slab: &mut Slab<T>, at: u32, links: fn(&mut T) -> &mut Links) {
        let Some(Links { before, after }) = slab.get_mut(at).map(|entry| *links(entry)) else { return };
        match before.and_then(|before| slab.get_mut(before)) {
            Some(entry) => links(entry).after = after,
            None => self.first = after,
        }
        match after.and_then(|after| slab.get_mut(after)) {
            Some(entry) => links(entry).before = before,
            None => self.last = before,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }
}

const CHUNK: usize = 64;
