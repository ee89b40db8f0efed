//! Clients that are malformed, silent, slow or gone: each affects itself alone.

use std::time::{Duration, Instant};

use crate::raw::{FUA, READ, Raw, WRITE};
use crate::server::{KINDS, Server, volume};

const EINVAL: u32 = 22;
const ENOSPC: u32 = 28;

/// 64 MiB of memory, on both kinds of reactors, and a correct client that runs all the time.
fn beside_a_good_one(test: impl Fn(&Server)) {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        volume(folder.path(), "[component.memory]\nram = \"64MiB\"\n", &[("memory", "")]);
        let Some(server) = Server::start(folder.path(), kind) else { continue };
        let mut good = Raw::open(&server.folder, "memory");
        assert_eq!(good.write(0, 63 << 20, &[9; 4096]).unwrap(), 0);
        test(&server);
        let began = Instant::now();
        assert_eq!(good.read(63 << 20, 4096).unwrap(), [9; 4096]);
        assert!(
            began.elapsed() < Duration::from_secs(2),
            "{kind}: the good client waited {:?}",
            began.elapsed()
        );
        drop(good);
        server.stop();
    }
}

#[test]
fn requests_that_make_no_sense_are_answered_and_step_is_kept() {
    beside_a_good_one(|server| {
        let mut raw = Raw::with_block_sizes(&server.folder, "memory");
        let end = 64_u64 << 20;
        for (command, flags, offset, length, error) in [
            (READ, 0, 0, 0, EINVAL),
            (READ, 0, end - 512, 1024, EINVAL),
            (READ, 0, u64::MAX - 511, 1024, EINVAL),
            (READ, 0, 0, (32 << 20) + 512, EINVAL),
            (READ, 1 << 9, 0, 512, EINVAL),
            (4, 0, end, 512, ENOSPC),
            (6, 0, end - 512, 1024, ENOSPC),
            (7, 0, 0, 512, EINVAL),
            (77, 0, 0, 512, EINVAL),
        ] {
            raw.ask(command, flags, 5, offset, length).unwrap();
            assert_eq!(raw.reply().unwrap(), (5, error), "command {command} at {offset}+{length}");
        }
        // Their payload is skipped.
        assert_eq!(raw.write(0, end - 100, &[1; 512]).unwrap(), ENOSPC);
        assert_eq!(raw.write(1 << 3, 0, &[1; 512]).unwrap(), EINVAL);
        assert_eq!(raw.write(FUA, end - 512, &[1; 1024]).unwrap(), ENOSPC);
        assert_eq!(raw.write(0, 0, &vec![1; (33 << 20) + 512]).unwrap(), EINVAL);
        assert_eq!(raw.write(FUA, 0, &[2; 1024]).unwrap(), 0);
        assert_eq!(raw.read(0, 1024).unwrap(), [2; 1024]);
    });
}

#[test]
fn bytes_that_are_no_request_end_their_client() {
    beside_a_good_one(|server| {
        let mut raw = Raw::open(&server.folder, "memory");
        raw.send(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
        assert!(raw.take(1).is_err(), "it is sent away");
        let mut raw = Raw::connect(&server.folder);
        raw.send(b"\0\0\0\x03 this is no option at all").unwrap();
        assert!(raw.take(1).is_err());
        let mut raw = Raw::connect(&server.folder);
        raw.send(&[0xff; 4]).unwrap();
        assert!(raw.take(1).is_err(), "flags that nobody knows");
    });
}

#[test]
fn options_that_make_no_sense_are_refused_and_step_is_kept() {
    beside_a_good_one(|server| {
        let mut raw = Raw::connect(&server.folder);
        raw.send(&3_u32.to_be_bytes()).unwrap();
        let (unsupported, policy, invalid, unknown, too_big) =
            (1_u32 << 31 | 1, 1 << 31 | 2, 1 << 31 | 3, 1 << 31 | 6, 1 << 31 | 9);
        let name =
            |name: &str, rest: &[u8]| [&(name.len() as u32).to_be_bytes(), name.as_bytes(), rest].concat();
        for (option, data, kind) in [
            (99, vec![1, 2, 3], unsupported),
            (5, vec![], policy),
            (3, vec![0], invalid),
            (7, vec![0, 0], invalid),
            (7, vec![0xff; 8], invalid),
            (7, name("memory", &[0, 2, 0, 3]), invalid),
            (7, name("none", &[0, 0]), unknown),
            (6, name("x".repeat(5000).as_str(), &[0, 0]), unknown),
            (10, name("memory", &[0, 0, 0, 0]), invalid),
            (8, vec![0; 70_000], too_big),
            (8, vec![], 1),
            (10, name("memory", &[0xff; 4]), invalid),
            (10, name("memory", &[0, 0, 0, 1, 0, 0, 0, 3, b'a', b':', b'b']), 1),
        ] {
            raw.option(option, &data).unwrap();
            assert_eq!(raw.option_reply().unwrap().0, kind, "option {option}");
        }
        raw.option(7, &name("memory", &[0, 0])).unwrap();
        assert_eq!(raw.option_reply().unwrap().0, 3);
        assert_eq!(raw.option_reply().unwrap().0, 1);
        raw.option(2, &[]).unwrap();
        assert!(raw.take(1).is_err(), "options are over");
    });
}

#[test]
fn clients_that_vanish_at_any_byte_are_forgotten() {
    beside_a_good_one(|server| {
        for sent in [0, 1, 27, 28, 29, 28 + 4095] {
            let mut raw = Raw::open(&server.folder, "memory");
            let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
            bytes.extend([0, 0, 0, 1]);
            bytes.extend([0; 16]);
            bytes.extend(4096_u32.to_be_bytes());
            bytes.extend([7; 4096]);
            raw.send(&bytes[..sent]).unwrap();
        }
        // And one that requests much and does not wait for it.
        let mut raw = Raw::open(&server.folder, "memory");
        for cookie in 0..8 {
            raw.ask(READ, 0, cookie, 0, 8 << 20).unwrap();
        }
    });
}

#[test]
fn a_client_that_takes_no_replies_is_not_read_from_for_ever() {
    beside_a_good_one(|server| {
        let mut raw = Raw::open(&server.folder, "memory");
        raw.socket.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
        let before = memory_of(server);
        // A thousand times 8 MiB, none of which it takes; at some point its requests are not read either.
        let asked = (0..100_000).take_while(|cookie| raw.ask(READ, 0, *cookie, 0, 8 << 20).is_ok()).count();
        assert!(asked < 100_000, "somewhere it ends");
        let grown = memory_of(server).saturating_sub(before);
        assert!(grown < 300 << 10, "it holds {grown} KiB");
        let mut other = Raw::open(&server.folder, "memory");
        assert_eq!(other.write(0, 0, &vec![3; 65536]).unwrap(), 0);
        // When it takes them after all, it gets them.
        for _ in 0..20 {
            assert_eq!(raw.reply().unwrap().1, 0);
            raw.take(8 << 20).unwrap();
        }
    });
}

#[test]
fn a_client_that_sends_half_a_write_holds_nobody_up() {
    beside_a_good_one(|server| {
        let halves: Vec<Raw> = (0..20)
            .map(|_| {
                let mut raw = Raw::open(&server.folder, "memory");
                raw.ask(WRITE, 0, 1, 0, 32 << 20).unwrap();
                raw.send(&[1; 1000]).unwrap();
                raw
            })
            .collect();
        let mut other = Raw::open(&server.folder, "memory");
        assert_eq!(other.write(FUA, 8 << 20, &vec![3; 65536]).unwrap(), 0);
        drop(halves);
        assert_eq!(other.read(8 << 20, 65536).unwrap(), vec![3; 65536]);
    });
}

/// Resident memory of a server, in KiB.
pub fn memory_of(server: &Server) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
