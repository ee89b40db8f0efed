//! Numbers in few bytes: seven bits a byte, the lowest first, the highest bit set in all but the last.
//!
//! Invariant: no bytes make a reader panic; malformed ones are an error with their place.

use std::fmt;

/// The longest number: ten bytes.
pub const LONGEST: usize = 10;

/// Appends a number.
pub fn put(code: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        code.push(number as u8 | 0x80);
        number >>= 7;
    }
    code.push(number as u8);
}

/// Appends a difference: near ones, in both directions, take few bytes.
pub fn put_step(code: &mut Vec<u8>, from: u32, to: u32) {
    let step = i64::from(to) - i64::from(from);
    put(code, step.unsigned_abs() << 1 | u64::from(step < 0));
}

/// Malformed bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// Offset of what was found.
    at: usize,
    expected: &'static str,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "found something else at byte {}, expected {}", self.at, self.expected)
    }
}

/// Reads what was put.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    code: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// From the first byte on.
    pub fn new(code: &'a [u8]) -> Reader<'a> {
        Reader { code, at: 0 }
    }

    /// Whether all was read.
    pub fn is_at_end(&self) -> bool {
        self.at >= self.code.len()
    }

    /// The error if something else than this was found here.
    pub fn unfit(&self, expected: &'static str) -> Unfit {
        Unfit { at: self.at, expected }
    }

    /// `Ok` if this holds.
    pub fn ensure(&self, holds: bool, expected: &'static str) -> Result<(), Unfit> {
        if holds { Ok(()) } else { Err(self.unfit(expected)) }
    }

    /// The next number.
    pub fn number(&mut self) -> Result<u64, Unfit> {
        let mut number = 0;
        for (&byte, index) in self.code.iter().skip(self.at).take(LONGEST).zip(0..) {
            // Of the tenth byte one bit is left.
            self.ensure(index < 9 || byte < 2, "a number of 64 bits")?;
            number |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                self.at += index + 1;
                return Ok(number);
            }
        }
        Err(self.unfit("a number"))
    }

    /// The next number, of 32 bits.
    pub fn word(&mut self) -> Result<u32, Unfit> {
        let fits = u32::try_from(self.number()?);
        fits.map_err(|_| self.unfit("a number of 32 bits"))
    }

    /// The number that is the next difference from `from`.
    pub fn step(&mut self, from: u32) -> Result<u32, Unfit> {
        let step = self.number()?;
        let from = u64::from(from);
        let to = if step & 1 == 0 { from.checked_add(step >> 1) } else { from.checked_sub(step >> 1) };
        to.and_then(|to| u32::try_from(to).ok()).ok_or(self.unfit("a number of 32 bits"))
    }

    /// A count of things of which each takes at least `bytes` bytes.
    pub fn count(&mut self, bytes: usize) -> Result<usize, Unfit> {
        let (count, left) = (self.number()?, self.code.len() - self.at);
        self.ensure(count <= (left / bytes) as u64, "as many as there is room for")?;
        Ok(count as usize)
    }

    /// The next bytes.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Unfit> {
        let bytes = self.code.get(self.at..self.at + count).ok_or(self.unfit("more bytes"))?;
        self.at += count;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_put_is_read(numbers in prop::collection::vec(any::<u64>(), 0..20), steps in any::<(u32, u32)>()) {
            let mut code = Vec::new();
            for number in &numbers {
                put(&mut code, *number);
            }
            put_step(&mut code, steps.0, steps.1);
            let mut reader = Reader::new(&code);
            for number in numbers {
                prop_assert_eq!(reader.number(), Ok(number));
            }
            prop_assert_eq!(reader.step(steps.0), Ok(steps.1));
            prop_assert!(reader.is_at_end() && reader.number().is_err());
        }

        #[test]
        fn any_bytes_are_numbers_or_not(code in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut reader = Reader::new(&code);
            while reader.number().is_ok() {}
            let mut reader = Reader::new(&code);
            while reader.step(5).is_ok() {}
            let mut reader = Reader::new(&code);
            prop_assert!(reader.count(1).is_err() || reader.is_at_end() || reader.bytes(1).is_ok());
        }
    }

    #[test]
    fn what_is_too_long_is_no_number() {
        let too_long = [0xff; 11];
        assert!(Reader::new(&too_long).number().is_err());
        let largest = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(Reader::new(&largest).number(), Ok(u64::MAX));
        assert_eq!(
            Reader::new(&[0xff]).number().unwrap_err().to_string(),
            "found something else at byte 0, expected a number"
        );
    }
}
