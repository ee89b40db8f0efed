//! Contexts of block status: holes, places, and access counts.

use std::path::Path;

use crate::raw::Raw;
use crate::server::{KINDS, Server, succeeds, volume};

const MIB: u64 = 1 << 20;
const PAGE: u64 = 4096;

/// A mapper, BORG on two slices, and a bare file, over files.
fn on_each_kind(test: impl Fn(&Server)) {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in [("bare.img", 8 * MIB), ("slots.img", 16 * MIB), ("disk.img", 24 * MIB)] {
            crate::sparse(&folder.path().join(name), bytes);
        }
        let components = "
            [component.bare]
            file = \"bare.img\"
            [component.disk]
            file = \"disk.img\"
            [component.slots]
            file = \"slots.img\"
            [slice.bopt]
            of = \"disk\"
            size = \"8MiB\"
            [slice.home]
            of = \"disk\"
            at = \"8MiB\"
            [layer.borg]
            over = \"home\"
            bopt = \"bopt\"
            [layer.mapper]
            over = \"slots\"
        ";
        volume(folder.path(), components, &[("bare", ""), ("borg", ""), ("mapper", "")]);
        let Some(server) = Server::start(folder.path(), kind) else { continue };
        test(&server);
        server.stop();
    }
}

/// nbdinfo's output for a context: start, length and value of each part. `None` where there is no nbdinfo.
fn map(server: &Server, export: &str, context: &str) -> Option<Vec<(u64, u64, u64)>> {
    let said = succeeds("nbdinfo", &[&format!("--map={context}"), &server.uri(export)])?;
    let numbers = |line: &str| {
        let mut words = line.split_whitespace().map(|word| word.parse().unwrap());
        (words.next().unwrap(), words.next().unwrap(), words.next().unwrap())
    };
    Some(said.lines().map(numbers).collect())
}

#[test]
fn contexts_are_listed_where_there_is_something_to_tell() {
    on_each_kind(|server| {
        for (export, heat) in [("bare", false), ("borg", true), ("mapper", false)] {
            let Some(said) = succeeds("nbdinfo", &["--list", &server.uri(export)]) else { return };
            let of_this = said.split(&format!("export=\"{export}\"")).nth(1).unwrap();
            let of_this = of_this.split("export=\"").next().unwrap();
            assert!(of_this.contains("seekless:place"), "{said}");
            assert_eq!(of_this.contains("seekless:heat"), heat, "{export}: {said}");
        }
    });
}

#[test]
fn places_say_what_the_layers_moved() {
    let write = |server: &Server, export: &str, page: u64| {
        let mut raw = Raw::open(&server.folder, export);
        assert_eq!(raw.write(0, page * PAGE, &[5; 4 * PAGE as usize]).unwrap(), 0);
    };
    on_each_kind(|server| {
        for export in ["bare", "borg", "mapper"] {
            write(server, export, 100);
        }
        let Some(bare) = map(server, "bare", "seekless:place") else { return };
        assert_eq!(bare, [(0, 8 * MIB, 0)], "nothing is between the first component and its clients");
        let (start, len) = (100 * PAGE, 4 * PAGE);
        // The first writes go to the origin, while an empty BOPT is made.
        let borg = (0..50).find_map(|_| {
            write(server, "borg", 100);
            std::thread::sleep(std::time::Duration::from_millis(50));
            map(server, "borg", "seekless:place").filter(|parts| parts.len() > 1)
        });
        let borg = borg.expect("it absorbs writes");
        let rest = 16 * MIB - start - len;
        assert_eq!(borg, [(0, start, 1), (start, len, 0x101), (start + len, rest, 1)]);
        let mapper = map(server, "mapper", "seekless:place").unwrap();
        assert_eq!(mapper[..2], [(0, start, 0x200), (start, len, 0x102)]);
        assert_eq!((mapper.len(), mapper[2].2), (3, 0x200), "what was never written is nowhere");
    });
}

#[test]
fn heat_says_how_often_something_was_asked_for() {
    on_each_kind(|server| {
        let mut raw = Raw::open(&server.folder, "borg");
        for turn in 0..9 {
            raw.read(5 * MIB + turn * PAGE, PAGE as u32).unwrap();
        }
        raw.read(7 * MIB - 512, 1024).unwrap();
        let Some(heat) = map(server, "borg", "seekless:heat") else { return };
        let expected = [(0, 5, 0), (5, 1, 4), (6, 2, 1), (8, 8, 0)];
        assert_eq!(heat, expected.map(|(start, len, value)| (start * MIB, len * MIB, value)));
    });
}

#[test]
fn holes_that_follow_each_other_are_one() {
    on_each_kind(|server| {
        let mut raw = Raw::open(&server.folder, "bare");
        assert_eq!(raw.write(0, 4 * MIB, &vec![1; MIB as usize]).unwrap(), 0);
        let Some(said) = succeeds("nbdinfo", &["--map", &server.uri("bare")]) else { return };
        assert_eq!(said.lines().count(), 3, "{said}");
    });
}

/// A client with extended headers and all contexts of BORG.
fn extended(folder: &Path) -> Raw {
    let mut raw = Raw::connect(folder);
    raw.send(&3_u32.to_be_bytes()).unwrap();
    raw.option(11, &[]).unwrap();
    assert_eq!(raw.option_reply().unwrap().0, 1);
    let name = [&4_u32.to_be_bytes()[..], b"borg"].concat();
    let string = |text: &str| [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat();
    let queries = ["base:allocation", "seekless:place", "seekless:heat"].map(string).concat();
    raw.option(10, &[&name[..], &3_u32.to_be_bytes(), &queries].concat()).unwrap();
    for number in 1..=3_u32 {
        let (kind, data) = raw.option_reply().unwrap();
        assert_eq!((kind, &data[..4]), (4, &number.to_be_bytes()[..]));
    }
    assert_eq!(raw.option_reply().unwrap().0, 1);
    raw.option(7, &[&name[..], &[0, 0]].concat()).unwrap();
    let (_, message) = raw.option_reply().unwrap();
    assert!(message[10] & 0x10 != 0, "it says that it filters: {message:?}");
    assert_eq!(raw.option_reply().unwrap().0, 1);
    raw
}

/// A chunk of an extended reply: whether it is the last, its kind, and its data.
fn chunk(raw: &mut Raw) -> (bool, u16, Vec<u8>) {
    let header = raw.take(32).unwrap();
    assert_eq!(header[..4], 0x6e8a_278c_u32.to_be_bytes());
    let length = u64::from_be_bytes(header[24..32].try_into().unwrap());
    (header[5] == 1, u16::from_be_bytes([header[6], header[7]]), raw.take(length as usize).unwrap())
}

#[test]
fn block_status_tells_only_the_contexts_that_its_payload_names() {
    on_each_kind(|server| {
        let mut raw = extended(&server.folder);
        let ask = |raw: &mut Raw, length: u64, numbers: &[u32]| {
            let payload: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
            let payload = [&length.to_be_bytes()[..], &payload].concat();
            let header = [&0x21e4_1c71_u32.to_be_bytes()[..], &[0, 1 << 5, 0, 7], &[0; 16]].concat();
            raw.send(&[&header[..], &(payload.len() as u64).to_be_bytes(), &payload].concat()).unwrap();
        };
        for numbers in [&[2_u32][..], &[3, 1], &[1, 2, 3]] {
            ask(&mut raw, 2 * MIB, numbers);
            for (index, number) in numbers.iter().enumerate() {
                let (last, kind, data) = chunk(&mut raw);
                assert_eq!((last, kind), (index + 1 == numbers.len(), 6));
                assert_eq!(data[..4], number.to_be_bytes());
                let length = u64::from_be_bytes(data[8..16].try_into().unwrap());
                assert_eq!(length, 2 * MIB, "one part, as long as was asked for");
            }
        }
        let wrong: [(u64, &[u32]); 6] =
            [(MIB, &[4]), (MIB, &[2, 2]), (MIB, &[]), (MIB, &[1, 2, 3, 1]), (0, &[1]), (1 << 40, &[1])];
        for (length, numbers) in wrong {
            ask(&mut raw, length, numbers);
            let (last, kind, data) = chunk(&mut raw);
            assert_eq!((last, kind, data[3]), (true, 0x8001, 22), "{numbers:?}");
        }
        // And they stay in step.
        ask(&mut raw, MIB, &[1]);
        assert_eq!(chunk(&mut raw).1, 6);
    });
}
