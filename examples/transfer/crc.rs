//! The checksum that zip files have, CRC-32. It finds what breaks on the way, not what somebody changes on purpose: that
//! is what encryption is for.

use std::{
    io::{self, Read},
    path::Path,
};

use crate::contracts::Content;

/// Adds up a content piece by piece.
#[derive(Clone, Copy)]
pub struct Sum {
    size: u64,
    crc: u32,
}

impl Sum {
    pub fn new() -> Self {
        Self { size: 0, crc: !0 }
    }

    pub fn add(&mut self, piece: &[u8]) {
        self.size += piece.len() as u64;
        self.crc = piece
            .iter()
            .fold(self.crc, |crc, &byte| TABLE[((crc ^ u32::from(byte)) & 0xff) as usize] ^ (crc >> 8));
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    pub fn content(&self) -> Content {
        Content { size: self.size, crc: !self.crc }
    }
}

/// Reads a file to its end. Blocks the thread.
pub fn of_file(path: &Path) -> io::Result<Content> {
    let mut file = std::fs::File::open(path)?;
    let mut sum = Sum::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(sum.content()),
            Ok(n) => sum.add(&buffer[..n]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// What each byte does to the rest of the sum.
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut value = i as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { (value >> 1) ^ 0xedb8_8320 } else { value >> 1 };
            bit += 1;
        }
        table[i] = value;
        i += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_crc_32_however_the_content_is_cut() {
        let of = |pieces: &[&[u8]]| {
            let mut sum = Sum::new();
            pieces.iter().for_each(|piece| sum.add(piece));
            sum.content()
        };
        assert_eq!(of(&[]), Content { size: 0, crc: 0 });
        // The value that catalogues of such sums give for checking.
        assert_eq!(of(&[b"123456789"]), Content { size: 9, crc: 0xcbf4_3926 });
        assert_eq!(of(&[b"1234", b"", b"56789"]), of(&[b"123456789"]));
        assert_ne!(of(&[b"123456780"]), of(&[b"123456789"]));
    }
}
