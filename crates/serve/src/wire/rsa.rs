//! The length of an RSA key, read from its file: the TLS library does not say why it refuses one.

use rustls::pki_types::PrivateKeyDer;

/// Bits of the shortest accepted key.
const SHORTEST: usize = 2048;
/// `rsaEncryption`: 1.2.840.113549.1.1.1.
const RSA: [u8; 9] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];

const INTEGER: u8 = 0x02;
const OCTETS: u8 = 0x04;
const NAME: u8 = 0x06;
const SEQUENCE: u8 = 0x30;

/// Why a key cannot be used, if it is an RSA key of an unsupported length.
pub fn refused(key: &PrivateKeyDer<'_>) -> Option<String> {
    let bits = match key {
        PrivateKeyDer::Pkcs1(key) => modulus_bits(key.secret_pkcs1_der()),
        PrivateKeyDer::Pkcs8(key) => modulus_bits(inner(key.secret_pkcs8_der())?),
        _ => None,
    }?;
    if bits < SHORTEST {
        Some(format!("an RSA key of {bits} bits, which is too short: expected one of 2048, 3072 or 4096"))
    } else if ![2048, 3072, 4096].contains(&bits) {
        Some(format!("an RSA key of {bits} bits, expected one of 2048, 3072 or 4096"))
    } else {
        None
    }
}

/// Takes the next element off `bytes`, if it is of this kind.
fn element<'a>(bytes: &mut &'a [u8], kind: u8) -> Option<&'a [u8]> {
    let (&[found, short], rest) = bytes.split_first_chunk()?;
    let (length, rest) = match usize::from(short) {
        length @ 0..=0x7f => (length, rest),
        more @ 0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(more - 0x80)?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let (element, rest) = rest.split_at_checked(length)?;
    *bytes = rest;
    (found == kind).then_some(element)
}

/// The PKCS #1 key within a PKCS #8 key; `None` if it is not RSA.
fn inner(mut key: &[u8]) -> Option<&[u8]> {
    let mut whole = element(&mut key, SEQUENCE)?;
    element(&mut whole, INTEGER)?;
    let mut algorithm = element(&mut whole, SEQUENCE)?;
    (element(&mut algorithm, NAME)? == RSA).then_some(())?;
    element(&mut whole, OCTETS)
}

/// Bits of the modulus of a PKCS #1 key.
fn modulus_bits(mut key: &[u8]) -> Option<usize> {
    let mut whole = element(&mut key, SEQUENCE)?;
    element(&mut whole, INTEGER)?;
    let modulus = element(&mut whole, INTEGER)?;
    let first = modulus.iter().position(|byte| *byte != 0)?;
    Some(8 * (modulus.len() - first) - modulus[first].leading_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(kind: u8, content: &[u8]) -> Vec<u8> {
        let [high, low] = (content.len() as u16).to_be_bytes();
        [&[kind, 0x82, high, low], content].concat()
    }

    /// An RSA key with a modulus of `bits` bits, as far as it is parsed.
    fn key(bits: usize) -> Vec<u8> {
        let modulus: Vec<u8> = std::iter::once(0).chain(std::iter::repeat_n(0x80, bits / 8)).collect();
        put(SEQUENCE, &[put(INTEGER, &[0]), put(INTEGER, &modulus), put(INTEGER, &[1, 0, 1])].concat())
    }

    #[test]
    fn the_length_of_a_key_is_found() {
        let wrapped = |key: &[u8], name: &[u8]| {
            let algorithm = put(SEQUENCE, &put(NAME, name));
            put(SEQUENCE, &[put(INTEGER, &[0]), algorithm, put(OCTETS, key)].concat())
        };
        let refusal = |bits| {
            let plain = refused(&PrivateKeyDer::Pkcs1(key(bits).into()));
            let inside = refused(&PrivateKeyDer::Pkcs8(wrapped(&key(bits), &RSA).into()));
            assert_eq!(plain, inside);
            plain
        };
        assert!(refusal(1024).is_some_and(|why| why.contains("1024 bits, which is too short")));
        assert!(refusal(2432).is_some_and(|why| why.contains("of 2432 bits, expected one of 2048")));
        assert_eq!([2048, 3072, 4096].map(refusal), [None, None, None]);
        assert_eq!(refused(&PrivateKeyDer::Pkcs8(wrapped(&key(1024), &[1, 2]).into())), None, "another kind");
    }

    #[test]
    fn any_bytes_are_a_key_or_none() {
        let whole = key(2432);
        for end in 0..whole.len() {
            let _ = modulus_bits(&whole[..end]);
            let mut bytes = whole.clone();
            bytes[end] ^= 0xff;
            let _ = (modulus_bits(&bytes), inner(&bytes));
        }
    }
}
