//! Names and paths in URIs (RFC 3986, section 2.1).

/// Bytes as part of a URI.
pub fn encoded(bytes: &[u8]) -> String {
    let encode = |byte: &u8| match byte {
        b'/' | b'-' | b'.' | b'_' | b'~' | b':' | b'@' => char::from(*byte).to_string(),
        _ if byte.is_ascii_alphanumeric() => char::from(*byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    bytes.iter().map(encode).collect()
}

/// The bytes that a part of a URI stands for. A `%` that two hexadecimal digits do not follow stands for itself.
pub fn decoded(part: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let (mut bytes, mut left) = (Vec::with_capacity(part.len()), part.as_bytes());
    while let [first, rest @ ..] = left {
        let code = match rest {
            [high, low, ..] if *first == b'%' => digit(*high).zip(digit(*low)),
            _ => None,
        };
        bytes.push(code.map_or(*first, |(high, low)| 16 * high + low));
        left = if code.is_some() { &rest[2..] } else { rest };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            prop_assert_eq!(decoded(&encoded(&bytes)), bytes);
        }

        #[test]
        fn any_text_is_decoded(text in "[%0-9a-fgé]{0,12}") {
            let _ = decoded(&text);
        }
    }

    #[test]
    fn a_sign_without_digits_stands_for_itself() {
        assert_eq!(decoded("50%&%4x%20%"), b"50%&%4x %");
    }
}
