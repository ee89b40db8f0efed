//! A page in pieces: commands, files, output, tables, and their marks in comments.

use std::path::Path;

/// A Markdown file.
pub struct Page {
    /// From the root of the checkout.
    pub name: String,
    /// In the order of the page.
    pub blocks: Vec<Block>,
}

/// A mark in a comment: the words before a colon, and those after it.
pub type Mark = (String, String);

/// A piece of a page. Lines count from 1.
#[derive(Debug, PartialEq)]
pub enum Block {
    /// Lines for readers to type.
    Commands { line: usize, text: String, marks: Vec<Mark> },
    /// A fenced block of TOML, with its name in its first line, `# NAME.toml`; or one that a mark names.
    File { line: usize, name: Option<String>, text: String },
    /// A fenced block without a language.
    Output { line: usize, text: String, marks: Vec<Mark> },
    /// A table or a paragraph after a mark.
    Marked { line: usize, text: String, marks: Vec<Mark> },
    /// `the server is stopped`.
    Stop,
}

/// The words of a comment.
fn mark(line: &str) -> Option<Mark> {
    let words = line.strip_prefix("<!--")?.strip_suffix("-->")?.trim();
    let (name, rest) = words.split_once(": ").unwrap_or((words, ""));
    Some((name.to_owned(), rest.to_owned()))
}

/// The text after a mark's name, if it is among these.
pub fn marked<'a>(marks: &'a [Mark], name: &str) -> Option<&'a str> {
    marks.iter().find(|(found, _)| found == name).map(|(_, rest)| rest.as_str())
}

/// A fenced block's file name.
fn file_name(text: &str) -> Option<String> {
    let name = text.lines().next()?.strip_prefix("# ")?;
    let is_one = name.strip_suffix(".toml").is_some_and(|stem| !stem.contains([' ', '/']));
    is_one.then(|| name.to_owned())
}

/// A fenced block without a language: after `$` are commands, the rest is their output.
fn fenced(line: usize, text: &str, marks: Vec<Mark>) -> Vec<Block> {
    let Some(command) = text.strip_prefix("$ ") else {
        return vec![Block::Output { line, text: text.to_owned(), marks }];
    };
    let (command, output) = command.split_once('\n').unwrap_or((command, ""));
    let (shown, about): (Vec<Mark>, Vec<Mark>) =
        marks.into_iter().partition(|(name, _)| name.starts_with("printed"));
    let commands = Block::Commands { line, text: format!("{command}\n"), marks: about };
    vec![commands, Block::Output { line: line + 1, text: output.to_owned(), marks: shown }]
}

impl Page {
    /// A page of the checkout.
    pub fn read(root: &Path, name: &str) -> Page {
        let text = std::fs::read_to_string(root.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        Page { name: name.to_owned(), blocks: blocks(&text) }
    }
}

/// The pieces of a page's text.
fn blocks(text: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut marks: Vec<Mark> = Vec::new();
    let mut lines = text.lines().zip(1..).peekable();
    let mut paragraph = false;
    while let Some((first, line)) = lines.next() {
        let started = !std::mem::replace(&mut paragraph, !first.is_empty());
        if let Some(mark) = mark(first) {
            paragraph = false;
            if mark.0 == "the server is stopped" {
                found.push(Block::Stop);
            } else {
                marks.push(mark);
            }
        } else if let Some(language) = first.strip_prefix("```") {
            let inside = std::iter::from_fn(|| lines.next().filter(|(text, _)| !text.starts_with("```")));
            let text: String = inside.flat_map(|(text, _)| [text, "\n"]).collect();
            match language {
                "toml" => found.push(Block::File { line, name: file_name(&text), text }),
                "" if marked(&marks, "file").is_some() => {
                    let marks = std::mem::take(&mut marks);
                    found.push(Block::File { line, name: marked(&marks, "file").map(str::to_owned), text });
                }
                "" => found.extend(fenced(line, &text, std::mem::take(&mut marks))),
                _ => {}
            }
            paragraph = false;
        } else if let Some(command) = first.strip_prefix("    ").filter(|_| started) {
            let mut text = format!("{command}\n");
            while let Some((more, _)) = lines.next_if(|(text, _)| text.starts_with("    ")) {
                text.push_str(&more[4..]);
                text.push('\n');
            }
            found.push(Block::Commands { line, text, marks: std::mem::take(&mut marks) });
            paragraph = false;
        } else if !first.is_empty() && !marks.is_empty() {
            let mut text = format!("{first}\n");
            while let Some((more, _)) = lines.next_if(|(text, _)| !text.is_empty()) {
                text.push_str(more);
                text.push('\n');
            }
            found.push(Block::Marked { line, text, marks: std::mem::take(&mut marks) });
            paragraph = false;
        }
    }
    found
}

#[test]
fn a_page_falls_into_its_pieces() {
    let text = "# A\n\nText\n    that goes on.\n\n<!-- not run: root -->\n\n    sudo a   # b\n    c\n\n```toml\n# v.toml\na = 1\n```\n\n\
        <!-- the server is stopped -->\n<!-- fails -->\n<!-- printed above, but for: s -->\n```\n$ d\ne\n```\n\n\
        <!-- printed by: f -->\n| a |\n|---|\n\nb\n";
    let of = |name: &str, rest: &str| vec![(name.to_owned(), rest.to_owned())];
    let expected = [
        Block::Commands { line: 8, text: "sudo a   # b\nc\n".to_owned(), marks: of("not run", "root") },
        Block::File { line: 11, name: Some("v.toml".to_owned()), text: "# v.toml\na = 1\n".to_owned() },
        Block::Stop,
        Block::Commands { line: 19, text: "d\n".to_owned(), marks: of("fails", "") },
        Block::Output { line: 20, text: "e\n".to_owned(), marks: of("printed above, but for", "s") },
        Block::Marked { line: 25, text: "| a |\n|---|\n".to_owned(), marks: of("printed by", "f") },
    ];
    assert_eq!(blocks(text), expected);
}
