//! Files that options name.

use std::io::Read;

use seekless_core::Size;

use crate::Refused;

/// The bytes of the file that this option names, `most` of them; `expected` says what it should be.
///
/// # Errors
/// No regular file, one that is larger, or one that cannot be read.
pub fn read(option: &'static str, file: &str, most: u64, expected: &str) -> Result<Vec<u8>, Refused> {
    let refused = |found: &str| Refused::new(option, format!("'{file}': {found}"), expected);
    let unreadable = |error: std::io::Error| refused(&error.to_string());
    // Others may have no end, or wait for a writer.
    if !std::fs::metadata(file).map_err(unreadable)?.is_file() {
        return Err(refused("no regular file"));
    }
    let (mut bytes, open) = (Vec::new(), std::fs::File::open(file).map_err(unreadable)?);
    open.take(most + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > most {
        return Err(refused(&format!("more than {}", Size(most))));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_or_is_too_large_is_refused() {
        let folder = std::env::temp_dir();
        let of =
            |file: &str, most| read("module", file, most, "a module").map_err(|refused| refused.to_string());
        for (file, most, words) in [
            ("/dev/zero", 1 << 20, "'/dev/zero': no regular file"),
            (folder.to_str().unwrap(), 1 << 20, "no regular file"),
            ("/nowhere", 1, "No such file"),
            (concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"), 10, "more than 10 B"),
        ] {
            let refused = of(file, most).unwrap_err();
            assert!(refused.contains(words) && refused.contains("expected a module"), "{refused}");
        }
        assert!(of(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"), 1 << 20).is_ok());
    }
}
