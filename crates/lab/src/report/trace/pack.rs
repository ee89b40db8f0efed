//! Many small numbers as text that a page can carry: variable-length bytes, then base64.

/// Appends `value`, seven bits a byte, the lowest first; the highest bit marks that more follow.
pub fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A difference as a number that is small for either sign: 0, -1, 1, -2 become 0, 1, 2, 3. It is below 2^63.
pub fn zigzag(from: u64, to: u64) -> u64 {
    if to >= from { (to - from) << 1 } else { ((from - to) << 1) - 1 }
}

/// Length of the text of `bytes` bytes.
pub fn base64_length(bytes: usize) -> usize {
    bytes.div_ceil(3) * 4
}

/// Base64 with the usual alphabet and padding.
pub fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(base64_length(bytes.len()));
    for three in bytes.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let letter = ALPHABET[(bits >> (18 - 6 * at)) as usize & 63];
            out.push(if at > three.len() as u32 { '=' } else { char::from(letter) });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_as_everybody_writes_it() {
        let cases = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        for (bytes, text) in cases {
            assert_eq!(base64(bytes.as_bytes()), text);
            assert_eq!(base64_length(bytes.len()), text.len());
        }
    }

    #[test]
    fn small_numbers_are_short() {
        let bytes = |value| {
            let mut out = Vec::new();
            varint(&mut out, value);
            out
        };
        assert_eq!(bytes(127), [127]);
        assert_eq!(bytes(300), [0xac, 2]);
        assert_eq!(bytes(u64::MAX).len(), 10);
        assert_eq!([(5, 5), (5, 4), (4, 5), (5, 3)].map(|(from, to)| zigzag(from, to)), [0, 1, 2, 3]);
    }
}
