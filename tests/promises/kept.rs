//! Crashes that once lost data, reduced and kept: each is replayed, and loses nothing any more.
//!
//! A file is named after its volume and the bug, as in `mapper.early-reuse.script`.

use seekless_lab::explore::case::Case;
use seekless_lab::explore::replay::replay;
use seekless_promises as common;

#[test]
fn what_was_mended_stays_mended() {
    let mut files: Vec<_> =
        std::fs::read_dir(common::folder("scripts")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        let case: Case = std::fs::read_to_string(&file).unwrap().parse().expect(&name);
        let volume = common::volume(name.split('.').next().unwrap());
        if let Some(finding) = replay(&volume, &case).finding {
            panic!("{name}: {}", finding.wrong);
        }
    }
}
