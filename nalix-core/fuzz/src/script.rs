//! Inputs that are instructions: what to do, and how to change what has come of it.

/// Instructions to be read one after the other. Behind their end come zeros.
#[derive(Clone)]
pub(crate) struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    pub(crate) fn new(input: &'a [u8]) -> Self {
        Self(input)
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((&byte, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        byte
    }

    /// A number below `n`, or zero.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        usize::from(self.byte()) % n.max(1)
    }

    /// One of these.
    pub(crate) fn one_of<T: Copy, const N: usize>(&mut self, choices: [T; N]) -> T {
        choices[self.below(N)]
    }

    pub(crate) fn short(&mut self) -> usize {
        usize::from(u16::from_le_bytes([self.byte(), self.byte()]))
    }

    /// As many of the bytes that are left as the next two say.
    pub(crate) fn bytes(&mut self) -> &'a [u8] {
        let n = self.short().min(self.0.len());
        let (bytes, rest) = self.0.split_at(n);
        self.0 = rest;
        bytes
    }

    pub(crate) fn is_done(&self) -> bool {
        self.0.is_empty()
    }

    /// Changes bytes as the rest of the script says, which may leave them as they were.
    pub(crate) fn change(&mut self, bytes: &mut Vec<u8>) {
        while !self.is_done() {
            let what = self.byte();
            // From either end, so that both are within reach of small numbers.
            let at = self.short() % (bytes.len() + 1);
            let at = if what & 0x80 == 0 { at } else { bytes.len() - at };
            match what % 5 {
                0 => {
                    let bit = 1 << self.below(8);
                    bytes.get_mut(at).into_iter().for_each(|byte| *byte ^= bit);
                }
                1 => bytes.insert(at, self.byte()),
                2 if at < bytes.len() => drop(bytes.remove(at)),
                2 => {}
                3 => bytes.truncate(at),
                _ => {
                    let byte = self.byte();
                    bytes.get_mut(at).into_iter().for_each(|old| *old = byte);
                }
            }
        }
    }
}
