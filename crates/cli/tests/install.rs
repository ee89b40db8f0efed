//! What `scripts/install` installs: each link of an installed page leads to a file that is there too.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The Markdown files below a folder.
fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            pages(&entry, found);
        } else if entry.extension().is_some_and(|extension| extension == "md") {
            found.push(entry);
        }
    }
}

/// Targets of a page's links to other files, which are relative to it.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let files = targets.map(|target| target.split('#').next().unwrap_or_default());
    files.filter(|file| !file.is_empty() && !file.contains("://") && !file.contains([' ', '`', '"']))
}

#[test]
fn links_of_installed_pages_lead_somewhere() {
    let to = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/install");
    let installed = Command::new(script).arg(env!("CARGO_BIN_EXE_seekless")).arg(to.path()).output().unwrap();
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    let mut all = Vec::new();
    pages(&to.path().join("share/doc/seekless"), &mut all);
    let (mut seen, mut broken) = (0, Vec::new());
    for page in &all {
        let (text, folder) = (fs::read_to_string(page).unwrap(), page.parent().unwrap());
        for link in links(&text) {
            seen += 1;
            if !folder.join(link).exists() {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(broken.is_empty() && seen > 300, "{seen} links: {broken:#?}");
}
