//! Virtual machines over vhost-user, without a machine: all requests, what no driver should do, and servers that are
//! killed. [`crate::guest`] has real ones.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::attached::run;
use crate::machine::{DISCARD, ENTRIES, FLUSH, IN, MOST, Machine, NAME, OUT, WRITE_ZEROES};
use crate::raw::Raw;
use crate::server::{KINDS, Server, serve, volume};
use crate::{noise, sparse};

/// The volume file: a file, BORG over memory, and the file again for reading.
fn machines(folder: &Path) {
    sparse(&folder.join("disk.img"), 64 << 20);
    let components = "
        [component.disk]
        file = \"disk.img\"
        [component.fast]
        ram = \"96MiB\"
        [slice.home]
        of = \"fast\"
        size = \"64MiB\"
        [slice.bopt]
        of = \"fast\"
        at = \"64MiB\"
        [layer.borg]
        over = \"home\"
        bopt = \"bopt\"
    ";
    let read_only = "name = \"fixed\"\nread_only = true\nvhost = \"unix:fixed\"";
    let exports = [("disk", "vhost = \"unix:disk\""), ("borg", "vhost = \"unix:borg\""), ("disk", read_only)];
    volume(folder, components, &exports);
}

/// Address, bytes, flags and next of a descriptor.
type Descriptor = (u64, u32, u16, u16);

fn range(sector: u64, sectors: u32, flags: u32) -> Vec<u8> {
    [&sector.to_le_bytes()[..], &sectors.to_le_bytes(), &flags.to_le_bytes()].concat()
}

#[test]
fn a_machine_reads_writes_flushes_discards_and_zeroes() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        machines(folder);
        let Some(server) = Server::start(folder, kind) else { continue };
        assert!(server.began_with("serving disk") && server.began_with("to a virtual machine at unix:"));
        for export in ["disk", "borg"] {
            let mut machine = Machine::connect(&folder.join(export), 2);
            let space = machine.config(0, 60);
            assert_eq!(u64::from_le_bytes(space[..8].try_into().unwrap()), (64 << 20) / 512);
            assert_eq!(machine.config(32, 1), [1], "write back");
            let data = noise(MOST, 5);
            assert_eq!(machine.request(0, OUT, 7, &data, 0).0, 0);
            assert_eq!(machine.request(1, IN, 7, &[], MOST as u32), (0, data.clone()), "by the other ring");
            assert_eq!(machine.request(0, FLUSH, 0, &[], 0).0, 0);
            let (status, name) = machine.request(0, NAME, 0, &[], 20);
            assert!(status == 0 && name.starts_with(format!("{export}\0").as_bytes()), "{name:?}");
            let clients = Raw::open(folder, export).read(7 * 512, 4096).unwrap();
            assert_eq!(clients, data[..4096], "clients of NBD see it");
            let ranges = [range(8, 8, 0), range(24, 8, 1)].concat();
            assert_eq!(machine.request(0, WRITE_ZEROES, 0, &ranges, 0).0, 0);
            let (_, now) = machine.request(0, IN, 7, &[], 32 * 512);
            for (sector, part) in (7..).zip(now.chunks(512)) {
                let zeroed = (8..16).contains(&sector) || (24..32).contains(&sector);
                let then = &data[(sector - 7) * 512..][..512];
                assert!(if zeroed { part == [0; 512] } else { part == then }, "{export}: sector {sector}");
            }
            assert_eq!(machine.request(0, DISCARD, 0, &range(40, 8, 0), 0).0, 0);
            // Many at once, answered in any order.
            for number in 0..32 {
                machine.submit(
                    number % 2,
                    number as u16 / 2 * 4,
                    (OUT, 1000 + number as u64),
                    &[number as u8; 512],
                    0,
                );
            }
            while machine.pending() > 0 {
                for ring in 0..2 {
                    assert!(machine.answers(ring).iter().all(|(_, status, _)| *status == 0));
                }
            }
            let (_, all) = machine.request(1, IN, 1000, &[], 32 * 512);
            assert!(all.chunks(512).enumerate().all(|(number, part)| part == [number as u8; 512]));
            assert_eq!(machine.stop_ring(1), 2 + 16, "heads that the ring gave");
            let status = run(folder, &["status", "--json"]);
            let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
            let mut exports = status["exports"].as_array().unwrap().iter();
            assert!(exports.any(|found| found["vhost"] == format!("unix:{export}")), "{status}");
        }
        let last = server.stop();
        assert!(last.contains(", 0 of them with an error"), "{last}");
    }
}

#[test]
fn what_a_device_cannot_do_fails_alone() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        machines(folder);
        let Some(server) = Server::start(folder, kind) else { continue };
        let mut machine = Machine::connect(&folder.join("disk"), 1);
        let end = (64 << 20) / 512;
        let cases: [(u32, u64, Vec<u8>, u32, u8); 13] = [
            (IN, end, vec![], 512, 1),
            (IN, end - 1, vec![], 1024, 1),
            (IN, u64::MAX, vec![], 512, 1),
            (IN, 0, vec![], 511, 1),
            (IN, 0, vec![], 0, 1),
            (OUT, end, vec![1; 512], 0, 1),
            (OUT, 0, vec![1; 100], 0, 1),
            (NAME, 0, vec![], 19, 1),
            (DISCARD, 0, range(end, 1, 0), 0, 1),
            (DISCARD, 0, range(0, 8, 1), 0, 2),
            (WRITE_ZEROES, 0, range(0, 1 << 20, 0), 0, 1),
            (WRITE_ZEROES, 0, vec![0; 15], 0, 1),
            (77, 0, vec![], 0, 2),
        ];
        for (kind, sector, data, room, status) in cases {
            assert_eq!(machine.request(0, kind, sector, &data, room).0, status, "{kind} at {sector}");
        }
        assert_eq!(machine.request(0, OUT, 0, &[9; 512], 0).0, 0, "the next request is carried out");
        let mut fixed = Machine::connect(&folder.join("fixed"), 1);
        assert!(fixed.features & 1 << 5 != 0 && fixed.features & 1 << 13 == 0, "it is read-only");
        assert_eq!(fixed.request(0, OUT, 0, &[1; 512], 0).0, 1);
        assert_eq!(fixed.request(0, WRITE_ZEROES, 0, &range(0, 8, 0), 0).0, 1);
        assert_eq!(fixed.request(0, IN, 0, &[], 512), (0, vec![9; 512]));
        drop((machine, fixed));
        server.stop();
    }
}

/// A chain that cannot be answered stops its ring; a message that cannot be ends the connection. Neither affects
/// others.
#[test]
fn what_is_malformed_stops_no_more_than_itself() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        machines(folder);
        let Some(mut server) = Server::start(folder, kind) else { continue };
        let said = |server: &mut Server, words: &str| {
            let line = server.line();
            assert!(line.contains(words), "no '{words}' in {line}");
        };
        let outside = (1 << 40, 16, 1, 1);
        let chains: [(&[Descriptor], &str); 5] = [
            (&[outside], "0x10000000000, expected memory of the guest"),
            (&[(0, 16, 1, 0)], "no end of the chain"),
            (&[(0, 16, 0, 0)], "no byte to write, expected one for the status"),
            (&[(0, 16, 2, 0)], "0 bytes to read, expected a header of 16"),
            (&[(0, 16, 1, 500)], "found 500, expected below 128"),
        ];
        for (chain, words) in chains {
            let mut machine = Machine::connect(&folder.join("disk"), 2);
            for (index, descriptor) in (0..).zip(chain) {
                machine.describe(1, index, *descriptor);
            }
            machine.offer(1, 0);
            assert!(machine.has_failed(1), "{words}");
            said(&mut server, words);
            assert_eq!(machine.request(0, OUT, 0, &[7; 512], 0).0, 0, "the other ring goes on");
        }
        let messages: [(u32, &[u8], &str); 5] = [
            (99, &[], "found request 99"),
            (5, &[0; 8], "found 0 regions"),
            (2, &u64::MAX.to_ne_bytes(), "SET_FEATURES: found features"),
            (12, &0_u64.to_ne_bytes(), "SET_VRING_KICK: found 0 descriptors, expected 1"),
            (25, &[0; 12], "SET_CONFIG"),
        ];
        for (request, payload, words) in messages {
            let machine = Machine::connect(&folder.join("disk"), 1);
            machine.send(request, payload, &[]).unwrap();
            assert!(machine.is_closed(), "{words}");
            said(&mut server, words);
        }
        // A second machine, while one is connected; and one that says half a word.
        let mut machine = Machine::connect(&folder.join("disk"), 1);
        let second = UnixStream::connect(folder.join("disk")).unwrap();
        assert_eq!(std::io::Read::read(&mut &second, &mut [0]).unwrap(), 0);
        said(&mut server, "found another virtual machine that is connected to disk");
        assert_eq!(machine.request(0, IN, 0, &[], 512), (0, vec![7; 512]));
        std::io::Write::write_all(&mut &machine.socket, &[1, 0, 0, 0, 1, 0]).unwrap();
        drop(machine);
        said(&mut server, "it is gone");
        let mut machine = Machine::connect(&folder.join("disk"), 1);
        assert_eq!(machine.request(0, IN, 0, &[], 512), (0, vec![7; 512]));
        drop(machine);
        server.stop();
    }
}

/// Requests of two rings, and a server that is killed again and again while they are in flight.
#[test]
fn each_request_is_answered_once_whatever_is_killed() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        sparse(&folder.join("disk.img"), 64 << 20);
        let components = "
            [component.disk]
            file = \"disk.img\"
            [layer.delay]
            over = \"disk\"
            exponential = \"2ms\"
        ";
        volume(folder, components, &[("delay", "vhost = \"unix:machine\"")]);
        let Some(mut server) = Server::start(folder, kind) else { continue };
        let mut machine = Machine::connect(&folder.join("machine"), 2);
        machine.set_write_back(false);
        let (mut number, mut state) = (0_u64, 1_u64);
        let mut written = vec![0_u64; 2 * usize::from(ENTRIES)];
        let mut unanswered = 0;
        for round in 0..12 {
            let until = std::time::Instant::now() + Duration::from_millis(20 + 7 * round);
            while std::time::Instant::now() < until {
                for ring in 0..2 {
                    while let Some(head) = machine.free(ring) {
                        (number, state) =
                            (number + 1, state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
                        // Each head has sectors of its own.
                        let place = ring * usize::from(ENTRIES) + usize::from(head);
                        if state >> 62 == 0 {
                            machine.submit(ring, head, (IN, place as u64 * 8), &[], 4096);
                        } else {
                            written[place] = number;
                            let data = number.to_le_bytes().repeat(512);
                            machine.submit(ring, head, (OUT, place as u64 * 8), &data, 0);
                        }
                    }
                    answered(&mut machine, ring, &written);
                }
            }
            unanswered += machine.pending();
            server.kill();
            server = Server::start(folder, kind).unwrap();
            machine.reconnect(&folder.join("machine"));
            assert_eq!(machine.config(32, 1), [0], "write through, as chosen before");
        }
        assert!(unanswered > 20, "{unanswered} requests were in flight when servers were killed");
        let limit = std::time::Instant::now() + Duration::from_secs(20);
        while machine.pending() > 0 {
            assert!(std::time::Instant::now() < limit, "{} requests are not answered", machine.pending());
            (0..2).for_each(|ring| answered(&mut machine, ring, &written));
        }
        assert!(number > 500, "{number} requests");
        drop(machine);
        server.stop();
        let disk = std::fs::read(folder.join("disk.img")).unwrap();
        for (place, number) in written.iter().enumerate().filter(|(_, number)| **number > 0) {
            assert_eq!(
                disk[place * 4096..][..4096],
                number.to_le_bytes().repeat(512),
                "{kind}: place {place}"
            );
        }
    }
}

/// Takes the answers of a ring: none has failed, and a read returned the bytes that its head wrote last.
fn answered(machine: &mut Machine, ring: usize, written: &[u64]) {
    for (head, status, data) in machine.answers(ring) {
        assert_eq!(status, 0, "head {head}");
        let expected = written[ring * usize::from(ENTRIES) + usize::from(head)];
        assert!(data.chunks(8).all(|part| part == expected.to_le_bytes()), "head {head}");
    }
}

/// A server that gets a signal to stop answers what it took, and the machine goes on with the next one.
#[test]
fn a_machine_survives_a_server_that_is_stopped() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        machines(folder);
        let Some(server) = Server::start(folder, kind) else { continue };
        let mut machine = Machine::connect(&folder.join("disk"), 2);
        assert_eq!(machine.request(1, OUT, 8, &[3; 4096], 0).0, 0);
        machine.submit(0, 0, (IN, 8), &[], 4096);
        server.stop();
        let server = Server::start(folder, kind).unwrap();
        machine.submit(1, 0, (IN, 8), &[], 4096);
        machine.reconnect(&folder.join("disk"));
        for ring in 0..2 {
            assert_eq!(machine.wait(ring), [(0, 0, vec![3; 4096])]);
        }
        assert_eq!(machine.pending(), 0);
        drop(machine);
        server.stop();
    }
}

#[test]
fn a_socket_for_machines_that_cannot_be_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let cases = [
        ("vhost = \"tcp:127.0.0.1:1\"", ["export.m.vhost", "expected unix:/PATH"]),
        ("vhost = \"here\"", ["export.m.vhost", "'here'"]),
        ("nbd = \"unix:a\"\nvhost = \"unix:a\"", ["export.m.vhost", "another export has"]),
    ];
    for (keys, words) in cases {
        std::fs::write(
            folder.join("volume.toml"),
            format!("[component.m]\nram = \"1MiB\"\n[[export]]\ntop = \"m\"\n{keys}\n"),
        )
        .unwrap();
        let output = serve(folder, "threads").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && words.iter().all(|word| said.contains(word)), "{keys}: {said}");
    }
    let output = serve(folder, "threads").args(["--log-inputs", "inputs"]).output().unwrap();
    assert!(!output.status.success());
    std::fs::write(
        folder.join("volume.toml"),
        "[component.m]\nram = \"1MiB\"\n[[export]]\ntop = \"m\"\nvhost = \"unix:a\"\n",
    )
    .unwrap();
    let output = serve(folder, "threads").arg("--log-inputs").arg(folder.join("inputs")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("--log-inputs: found a virtual machine's socket"), "{said}");
}
