//! Names and paths in URIs (RFC 3986, section 2.1).

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

/// Bytes that are encoded.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b':')
    .remove(b'@');

/// Bytes as part of a URI.
pub fn encoded(bytes: &[u8]) -> String {
    percent_encode(bytes, ENCODED).to_string()
}

/// The bytes that a part of a URI stands for. A `%` that two hexadecimal digits do not follow stands for itself.
pub fn decoded(part: &str) -> Vec<u8> {
    percent_decode_str(part).collect()
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
