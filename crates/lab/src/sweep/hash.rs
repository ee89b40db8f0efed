//! Content hashes: FNV-1a with 128 bits. They detect accidental changes and tell tasks apart; a person who tries can
//! find two contents with one hash.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

const OFFSET_BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

/// A hash of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hash(u128);

impl Hash {
    /// The hash of `bytes`.
    pub fn of(bytes: &[u8]) -> Hash {
        Hash(OFFSET_BASIS).with(bytes)
    }

    /// The hash of what was hashed before, followed by `bytes`.
    fn with(self, bytes: &[u8]) -> Hash {
        Hash(bytes.iter().fold(self.0, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME)))
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The hash of a file's content.
pub fn hash_file(path: &Path) -> io::Result<Hash> {
    let (mut file, mut hash, mut buffer) = (File::open(path)?, Hash(OFFSET_BASIS), vec![0; 1 << 16]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hash),
            count => hash = hash.with(&buffer[..count]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the test vectors of the algorithm's authors.
    #[test]
    fn hashes_are_those_of_fnv_1a() {
        assert_eq!(Hash::of(b"").to_string(), "6c62272e07bb014262b821756295c58d");
        assert_eq!(Hash::of(b"a").to_string(), "d228cb696f1a8caf78912b704e4a8964");
        assert_eq!(Hash::of(b"foobar").to_string(), "343e1662793c64bf6f0d3597ba446f18");
    }

    #[test]
    fn a_file_has_the_hash_of_its_bytes() {
        let bytes: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bytes");
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(hash_file(&path).unwrap(), Hash::of(&bytes));
    }
}
