//! The part of Rust's grammar that the rules need: a text without comments, strings and characters, or with comments
//! alone; the functions in it, and which of its lines are tests.

/// The text with every comment, string and character literal replaced by spaces. Lines and columns stay.
pub fn code_only(text: &str) -> String {
    blanked(text, |_| true, false)
}

/// The text with everything but comments replaced by spaces. Lines stay.
pub fn comments_only(text: &str) -> String {
    blanked(text, |literal| !literal.starts_with(b"//") && !literal.starts_with(b"/*"), true)
}

/// The text with spaces for all literals that `blank` selects, and with `code` for the text between literals.
fn blanked(text: &str, blank: impl Fn(&[u8]) -> bool, code: bool) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = literal_end(bytes, at);
        let (to, gone) = if end > at { (end, blank(&bytes[at..end])) } else { (at + 1, code) };
        for byte in &mut out[at..to] {
            if gone && *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = to;
    }
    String::from_utf8(out).expect("only whole characters were blanked")
}

/// Where the comment or literal that starts at `at` ends; `at` itself if none starts there.
fn literal_end(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    let in_a_word = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
    if rest.starts_with(b"//") {
        return at + rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
    }
    if rest.starts_with(b"/*") {
        return block_comment_end(bytes, at);
    }
    match rest[0] {
        b'"' => quoted_end(bytes, at + 1),
        b'r' if !in_a_word || (at > 0 && matches!(bytes[at - 1], b'b' | b'c')) => raw_end(bytes, at),
        b'\'' => character_end(bytes, at),
        _ => at,
    }
}

fn block_comment_end(bytes: &[u8], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0);
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    at
}

fn quoted_end(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// `r"..."`, `r#"..."#`; a name that starts with `r`, or `r#name`, is none.
fn raw_end(bytes: &[u8], start: usize) -> usize {
    let hashes = bytes[start + 1..].iter().take_while(|&&byte| byte == b'#').count();
    let open = start + 1 + hashes;
    if bytes.get(open) != Some(&b'"') {
        return start;
    }
    let mut close = vec![b'"'];
    close.resize(1 + hashes, b'#');
    let body = &bytes[open + 1..];
    let length = body.windows(close.len()).position(|window| window == close);
    length.map_or(bytes.len(), |length| open + 1 + length + close.len())
}

/// `'x'`, `'\n'`; a lifetime is none.
fn character_end(bytes: &[u8], start: usize) -> usize {
    if bytes.get(start + 1) == Some(&b'\\') {
        let rest = &bytes[(start + 3).min(bytes.len())..];
        return rest
            .iter()
            .position(|&byte| byte == b'\'')
            .map_or(bytes.len(), |length| start + 3 + length + 1);
    }
    // A character has at most four bytes.
    let first = std::str::from_utf8(&bytes[start + 1..(start + 5).min(bytes.len())])
        .map_or_else(|error| error.valid_up_to(), str::len);
    let character =
        std::str::from_utf8(&bytes[start + 1..start + 1 + first]).ok().and_then(|text| text.chars().next());
    match character {
        Some(character) if bytes.get(start + 1 + character.len_utf8()) == Some(&b'\'') => {
            start + 2 + character.len_utf8()
        }
        _ => start,
    }
}

/// A function with a body.
#[derive(Debug, PartialEq)]
pub struct Function {
    /// As written.
    pub name: String,
    /// The line of its `fn`, from 1.
    pub line: usize,
    /// From that line to its closing brace.
    pub lines: usize,
}

/// All functions with a body in `code`, which is blanked.
pub fn functions(code: &str) -> Vec<Function> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        if at > 0 && (code.as_bytes()[at - 1].is_ascii_alphanumeric() || code.as_bytes()[at - 1] == b'_') {
            continue;
        }
        let name: String =
            code[at + 3..].chars().take_while(|each| each.is_alphanumeric() || *each == '_').collect();
        let Some((start, end)) = body(code, at) else { continue };
        if name.is_empty() {
            continue;
        }
        let lines = code[at..end].matches('\n').count() + 1;
        debug_assert!(start < end);
        found.push(Function { name, line: line_of(code, at), lines });
    }
    found
}

/// The braces of the next body after `at`: from `{` to past its `}`. None if a `;` comes first.
fn body(code: &str, at: usize) -> Option<(usize, usize)> {
    let (mut depth, mut brackets, mut start) = (0_usize, 0_usize, None);
    for (offset, byte) in code.as_bytes()[at..].iter().enumerate() {
        match byte {
            b'(' | b'[' if start.is_none() => brackets += 1,
            b')' | b']' if start.is_none() => brackets = brackets.saturating_sub(1),
            b';' if start.is_none() && brackets == 0 => return None,
            b'{' => {
                start = start.or(Some(at + offset));
                depth += 1;
            }
            b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return start.map(|start| (start, at + offset + 1));
                }
            }
            _ => {}
        }
    }
    None
}

fn line_of(code: &str, at: usize) -> usize {
    code[..at].matches('\n').count() + 1
}

/// The first and last lines, from 1, of every item under `#[cfg(test)]` or `#[test]` in `code`, which is blanked.
pub fn test_ranges(code: &str) -> Vec<(usize, usize)> {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for mark in ["#[cfg(test)]", "#[test]"] {
        for (at, _) in code.match_indices(mark) {
            let end = body(code, at + mark.len()).map_or(at, |(_, end)| end);
            ranges.push((line_of(code, at), line_of(code, end)));
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_comments_are_blank() {
        let text = "let a = \"{ \\\" }\"; // {\n/* { /* { */ */ let b = '{'; let c: &'static str = r#\"{\"}\"#; '\\'' '\\n' 'é' x";
        let code = code_only(text);
        assert!(!code.contains('{') && !code.contains('"') && !code.contains('é'), "{code}");
        assert!(code.contains("&'static str") && code.ends_with('x'), "{code}");
        assert_eq!(code.len(), text.len());
        assert_eq!(code.matches('\n').count(), 1);
    }

    #[test]
    fn only_comments_are_left() {
        let text = "let a = \"// b\"; // c é\n/* d */ 'e' f\n";
        let comments = comments_only(text);
        assert_eq!(comments.split_whitespace().collect::<Vec<_>>(), ["//", "c", "é", "/*", "d", "*/"]);
        assert_eq!(comments.matches('\n').count(), 2);
    }

    #[test]
    fn functions_have_their_lines() {
        let code = "trait A { fn a(x: [u8; 2]); }\nimpl A for B {\n  fn a(x: [u8; 2])\n  where T: Fn() {\n    {}\n  }\n}\nconst fn b() {}\nlet f: fn (u8);\n";
        let expected = [("a", 3, 4), ("b", 8, 1)].map(|(name, line, lines)| Function {
            name: name.to_owned(),
            line,
            lines,
        });
        assert_eq!(functions(code), expected);
    }

    #[test]
    fn tests_are_found() {
        let code =
            "fn a() {}\n#[cfg(test)]\nmod tests {\n  fn b() {}\n}\nfn c() {}\n#[cfg(test)]\nmod tests;\n";
        assert_eq!(test_ranges(code), [(2, 5), (7, 7)]);
    }
}
