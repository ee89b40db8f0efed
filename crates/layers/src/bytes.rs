//! Encoding: numbers as bytes, and checksums.

use seekless_core::{Buffer, PAGE_BYTES, checksum};

/// A number of 32 bits; zero past the end.
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes)
}

/// A number of 64 bits; zero past the end.
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// A number of 128 bits; zero past the end.
pub fn u128_at(bytes: &[u8], at: usize) -> u128 {
    bytes.get(at..at + 16).and_then(|bytes| bytes.try_into().ok()).map_or(0, u128::from_le_bytes)
}

/// Copies bytes.
pub fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// Checksum of all bytes, with the four at `at` taken as zeroes.
pub fn sum_but(bytes: &[u8], at: usize) -> u32 {
    let sum = checksum::crc32c_append(checksum::crc32c(&bytes[..at]), &[0; 4]);
    checksum::crc32c_append(sum, &bytes[at + 4..])
}

/// Checksum of a page; a hollow one is taken as zeroes.
pub fn sum_of_page(page: &Buffer) -> u32 {
    const ZEROES: [u8; PAGE_BYTES as usize] = [0; PAGE_BYTES as usize];
    if page.is_hollow() { checksum::crc32c(&ZEROES) } else { page.look(checksum::crc32c) }
}
