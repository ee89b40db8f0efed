//! Other servers' exports as components: ours over ours, directly and with nbdkit and its faults in between.

use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::raw::{FUA, Raw};
use crate::server::{KINDS, Server, skipped, succeeds, volume};

const EIO: u32 = 5;
const WRITE_ZEROES: u16 = 6;

#[test]
fn a_mapper_lies_over_the_export_of_another_server() {
    for kind in KINDS {
        let (near, far) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        volume(far.path(), "[component.m]\nram = \"32MiB\"\n", &[("m", "")]);
        let Some(other) = Server::start(far.path(), kind) else { continue };
        let components =
            format!("[component.far]\nnbd = \"{}\"\n[layer.mapper]\nover = \"far\"\n", other.uri("m"));
        volume(near.path(), &components, &[("mapper", "")]);
        let server = Server::start(near.path(), kind).unwrap();
        let mut raw = Raw::open(near.path(), "mapper");
        for page in 0..200_u8 {
            let flags = if page % 16 == 0 { FUA } else { 0 };
            assert_eq!(raw.write(flags, u64::from(page) << 12, &[page; 4096]).unwrap(), 0);
        }
        assert_eq!(raw.flush().unwrap(), 0);
        assert_eq!(raw.read(100 << 12, 4096).unwrap(), [100; 4096]);
        if let Some(said) = succeeds(
            "qemu-io",
            &["-f", "raw", "-c", "write -P 9 0 8M", "-c", "read -P 9 0 8M", &server.uri("mapper")],
        ) {
            assert!(said.contains("read 8388608/8388608"), "{said}");
        }
        // The other server ends: that is an error, but no wrong data; and the volume still stops.
        other.kill();
        raw.ask(crate::raw::READ, 0, 4, 100 << 12, 4096).unwrap();
        assert_eq!(raw.reply().unwrap(), (4, EIO));
        assert_eq!(raw.write(0, 0, &[1; 4096]).unwrap(), EIO);
        server.kill();
    }
}

#[test]
fn what_nbdkit_fails_below_fails_one_request() {
    for kind in KINDS {
        let (folder, far) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        volume(far.path(), "[component.m]\nram = \"16MiB\"\n", &[("m", "")]);
        let Some(below) = Server::start(far.path(), kind) else { continue };
        let socket = folder.path().join("far").display().to_string();
        let mut command = Command::new("nbdkit");
        command.args(["-f", "-U", &socket, "--filter=error", "--filter=delay", "nbd"]);
        command.arg(format!("uri={}", below.uri("m")));
        command.args(["error-pread=EIO", "error-pread-rate=20%", "delay-read=1ms"]);
        let Ok(mut other) = command.stderr(std::process::Stdio::null()).spawn() else {
            return skipped("nbdkit", "it is not installed");
        };
        while !std::path::Path::new(&socket).exists() {
            std::thread::sleep(Duration::from_millis(20));
        }
        volume(
            folder.path(),
            &format!("[component.far]\nnbd = \"nbd+unix:///?socket={socket}\"\n"),
            &[("far", "")],
        );
        if let Some(server) = Server::start(folder.path(), kind) {
            let mut raw = Raw::open(folder.path(), "far");
            assert_eq!(raw.write(FUA, 0, &vec![6; 1 << 20]).unwrap(), 0);
            let mut failed = 0;
            for page in 0..100 {
                raw.ask(crate::raw::READ, 0, page, page << 12, 4096).unwrap();
                match raw.reply().unwrap() {
                    (_, 0) => assert_eq!(raw.take(4096).unwrap(), [6; 4096]),
                    (_, error) => failed += u32::from(error == EIO),
                }
            }
            assert!((2..60).contains(&failed), "{kind}: {failed} of 100 fail");
            server.stop();
        }
        other.kill().unwrap();
        other.wait().unwrap();
        below.stop();
    }
}

#[test]
fn a_component_that_does_not_answer_in_time_is_an_error_in_time() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("far").display().to_string();
        let mut command = Command::new("nbdkit");
        command.args(["-f", "-U", &socket, "--filter=delay", "memory", "16M", "delay-read=3"]);
        let Ok(mut other) = command.stderr(std::process::Stdio::null()).spawn() else {
            return skipped("nbdkit", "it is not installed");
        };
        while !std::path::Path::new(&socket).exists() {
            std::thread::sleep(Duration::from_millis(20));
        }
        let far = format!("[component.far]\nnbd = \"nbd+unix:///?socket={socket}\"\ntimeout = \"300ms\"\n");
        volume(folder.path(), &far, &[("far", "")]);
        if let Some(server) = Server::start(folder.path(), kind) {
            let mut raw = Raw::open(folder.path(), "far");
            let began = std::time::Instant::now();
            raw.ask(crate::raw::READ, 0, 7, 0, 4096).unwrap();
            assert_eq!(raw.reply().unwrap(), (7, EIO), "{kind}");
            let took = began.elapsed();
            assert!(
                took >= Duration::from_millis(290) && took < Duration::from_millis(2_900),
                "{kind}: {took:?}"
            );
            // Quick requests are answered, and the late answer goes to no other request.
            assert_eq!(raw.write(FUA, 0, &[8; 4096]).unwrap(), 0);
            std::thread::sleep(Duration::from_secs(3).saturating_sub(began.elapsed()));
            assert_eq!(raw.write(FUA, 4096, &[9; 4096]).unwrap(), 0);
            server.stop();
        }
        other.kill().unwrap();
        other.wait().unwrap();
    }
}

/// Forwards all bytes between clients of `here` and the server at `there`; the bytes that the server sent.
fn counted(here: &Path, there: &Path) -> Arc<AtomicU64> {
    let (listener, there) = (UnixListener::bind(here).unwrap(), there.to_owned());
    let sent = Arc::<AtomicU64>::default();
    let count = sent.clone();
    let pass = |mut from: UnixStream, mut to: UnixStream, count: Arc<AtomicU64>| {
        std::thread::spawn(move || {
            let mut bytes = vec![0; 64 << 10];
            while let Ok(read @ 1..) = from.read(&mut bytes) {
                count.fetch_add(read as u64, Ordering::SeqCst);
                if to.write_all(&bytes[..read]).is_err() {
                    break;
                }
            }
            let _ = to.shutdown(std::net::Shutdown::Both);
        });
    };
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let server = UnixStream::connect(&there).unwrap();
            pass(client.try_clone().unwrap(), server.try_clone().unwrap(), Arc::default());
            pass(server, client, count.clone());
        }
    });
    sent
}

#[test]
fn holes_of_another_server_are_reported_and_take_no_bytes_on_the_way() {
    const MIB: u64 = 1 << 20;
    for kind in KINDS {
        let (near, far) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let disk = std::fs::File::create(far.path().join("disk.img")).unwrap();
        disk.set_len(16 * MIB).unwrap();
        disk.write_all_at(&vec![5; MIB as usize], 4 * MIB).unwrap();
        volume(far.path(), "[component.disk]\nfile = \"disk.img\"\n", &[("disk", "")]);
        let Some(other) = Server::start(far.path(), kind) else { continue };
        let between = near.path().join("between");
        let sent = counted(&between, &far.path().join("socket"));
        let uri = format!("nbd+unix:///disk?socket={}", between.display());
        volume(near.path(), &format!("[component.far]\nnbd = \"{uri}\"\n"), &[("far", "")]);
        let server = Server::start(near.path(), kind).unwrap();
        if let Some(said) = succeeds("nbdinfo", &["--map", &server.uri("far")]) {
            let words: Vec<&str> = said.split_whitespace().collect();
            let expected = "0 4194304 3 hole,zero 4194304 1048576 0 data 5242880 11534336 3 hole,zero";
            assert_eq!(words.join(" "), expected, "{kind}");
        }
        let mut raw = Raw::open(near.path(), "far");
        let mut taken = |at| {
            let before = sent.load(Ordering::SeqCst);
            let read = raw.read(at, MIB as u32).unwrap();
            (read, sent.load(Ordering::SeqCst) - before)
        };
        let (read, bytes) = taken(8 * MIB);
        assert!(read == vec![0; MIB as usize] && bytes < 1000, "{kind}: {bytes} bytes for a hole");
        let (read, bytes) = taken(4 * MIB - MIB / 2);
        assert!(read[..MIB as usize / 2].iter().all(|byte| *byte == 0), "{kind}");
        assert!(read[MIB as usize / 2..].iter().all(|byte| *byte == 5), "{kind}");
        assert!((MIB / 2..MIB / 2 + 1000).contains(&bytes), "{kind}: {bytes} bytes for half a MiB");
        server.stop();
        other.stop();
    }
}

/// nbdkit with these arguments at a socket; killed when dropped.
struct Nbdkit(std::process::Child);

impl Nbdkit {
    fn start(socket: &Path, arguments: &[&str]) -> Option<Nbdkit> {
        let mut command = Command::new("nbdkit");
        command.args(["-f", "-U"]).arg(socket).args(arguments).stderr(std::process::Stdio::null());
        let Ok(child) = command.spawn() else {
            skipped("nbdkit", "it is not installed");
            return None;
        };
        while UnixStream::connect(socket).is_err() {
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(Nbdkit(child))
    }
}

impl Drop for Nbdkit {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_export_that_ends_within_a_sector_is_served_to_its_end() {
    const BYTES: u64 = 1_000_700;
    for (kind, layer) in KINDS.iter().flat_map(|kind| [(kind, ""), (kind, "[layer.cache]\nover = \"far\"\n")])
    {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let far = folder.join("far");
        let Some(_other) = Nbdkit::start(&far, &["--filter=cow", "pattern", &BYTES.to_string()]) else {
            return;
        };
        // Looked for beside the volume file.
        let component = "[component.far]\nnbd = \"nbd+unix:///?socket=far\"\n";
        let top = if layer.is_empty() { "far" } else { "cache" };
        volume(folder, &format!("{component}{layer}"), &[(top, "")]);
        let Some(server) = Server::start(folder, kind) else { continue };
        let copied = |uri: &str| {
            let target = folder.join("target").display().to_string();
            let _ = std::fs::remove_file(&target);
            succeeds("nbdcopy", &[uri, &target])?;
            Some(std::fs::read(target).unwrap())
        };
        let direct = copied(&format!("nbd+unix:///?socket={}", far.display()));
        let Some((direct, ours)) = direct.zip(copied(&server.uri(top))) else { return };
        assert!(direct.len() as u64 == BYTES && direct == ours, "{kind} {top}: {} bytes", ours.len());
        let mut raw = Raw::open(folder, top);
        assert_eq!(raw.write(FUA, BYTES - 300, &[7; 300]).unwrap(), 0, "{kind} {top}");
        assert_eq!(raw.read(BYTES - 400, 400).unwrap()[100..], [7; 300], "{kind} {top}");
        raw.ask(crate::raw::READ, 0, 9, BYTES - 10, 11).unwrap();
        assert_eq!(raw.reply().unwrap(), (9, 22), "{kind} {top}: there is nothing behind the end");
        server.stop();
        let after = copied(&format!("nbd+unix:///?socket={}", far.display())).unwrap();
        assert!(after[..BYTES as usize - 300] == direct[..BYTES as usize - 300], "{kind} {top}");
        assert_eq!(after[BYTES as usize - 300..], [7; 300], "{kind} {top}");
    }
}

/// A server of a file of 8 MiB, in a folder of its own, and one of that server's export.
fn near_and_far(
    kind: &str,
    reconnect: &str,
) -> Option<(tempfile::TempDir, tempfile::TempDir, Server, Server)> {
    let (near, far) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    crate::sparse(&far.path().join("disk.img"), 8 << 20);
    volume(far.path(), "[component.disk]\nfile = \"disk.img\"\n", &[("disk", "")]);
    let other = Server::start(far.path(), kind)?;
    let uri = other.uri("disk");
    volume(near.path(), &format!("[component.far]\nnbd = \"{uri}\"\n{reconnect}\n"), &[("far", "")]);
    let server = Server::start(near.path(), kind)?;
    Some((near, far, other, server))
}

#[test]
fn a_server_that_comes_back_is_waited_for_and_what_was_not_flushed_is_reported() {
    for kind in KINDS {
        let Some((near, far, other, server)) = near_and_far(kind, "reconnect = \"20s\"") else { continue };
        let (mut raw, mut beside) = (Raw::open(near.path(), "far"), Raw::open(near.path(), "far"));
        assert_eq!((raw.write(0, 0, &[1; 4096]).unwrap(), raw.flush().unwrap()), (0, 0));
        other.kill();
        // Nothing was lost: only time has passed.
        raw.ask(crate::raw::READ, 0, 4, 0, 4096).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        let other = Server::start(far.path(), kind).unwrap();
        assert_eq!(raw.reply().unwrap(), (4, 0), "{kind}");
        assert_eq!(raw.take(4096).unwrap(), [1; 4096]);
        assert_eq!(raw.flush().unwrap(), 0, "{kind}: all was flushed");
        // Now writes may be lost.
        assert_eq!(raw.write(0, 4096, &[2; 4096]).unwrap(), 0);
        assert_eq!(beside.write(FUA, 8192, &[3; 4096]).unwrap(), 0);
        other.kill();
        let other = Server::start(far.path(), kind).unwrap();
        assert_eq!(raw.write(0, 12288, &[4; 4096]).unwrap(), 0, "{kind}: writes go on");
        assert_eq!(raw.flush().unwrap(), EIO, "{kind}: what was not flushed may be lost");
        assert_eq!(raw.write(0, 4096, &[2; 4096]).unwrap(), 0);
        assert_eq!((raw.flush().unwrap(), beside.flush().unwrap()), (0, 0), "{kind}: it was told");
        // Every client with writes gets the error.
        assert_eq!((raw.write(0, 0, &[5; 512]).unwrap(), beside.write(0, 512, &[6; 512]).unwrap()), (0, 0));
        other.kill();
        let other = Server::start(far.path(), kind).unwrap();
        assert_eq!(
            (beside.flush().unwrap(), raw.flush().unwrap(), raw.flush().unwrap()),
            (EIO, EIO, 0),
            "{kind}"
        );
        server.stop();
        other.stop();
    }
}

/// Unflushed writes of a server that is killed are lost: its cache is in its memory. Those that its client sends again
/// are all there, before the next read and the next flush.
#[test]
fn what_was_not_flushed_is_sent_again() {
    const PAGES: u64 = 48;
    for kind in KINDS {
        let (near, far) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        crate::sparse(&far.path().join("disk.img"), 8 << 20);
        let cached =
            "[component.disk]\nfile = \"disk.img\"\n[layer.cache]\nover = \"disk\"\nsize = \"4MiB\"\n";
        volume(far.path(), cached, &[("cache", "")]);
        let Some(mut other) = Server::start(far.path(), kind) else { continue };
        let far_away = format!("[component.far]\nnbd = \"{}\"\nreconnect = \"60s\"\n", other.uri("cache"));
        volume(near.path(), &format!("{far_away}resend = \"96KiB\"\n"), &[("far", "")]);
        let Some(server) = Server::start(near.path(), kind) else { continue };
        let (mut raw, mut beside) = (Raw::open(near.path(), "far"), Raw::open(near.path(), "far"));
        let mut expected = vec![0_u8; (PAGES << 12) as usize];
        let mut state = 7_u64;
        let mut random = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) % below
        };
        for round in 0..12_u8 {
            for step in 0..random(60) {
                let start = random(PAGES * 8) * 512;
                let bytes = (1 + random(40)).min(PAGES * 8 - start / 512) * 512;
                let range = start as usize..(start + bytes) as usize;
                let client = if step % 2 == 0 { &mut raw } else { &mut beside };
                match random(12) {
                    0 => assert_eq!(client.flush().unwrap(), 0),
                    1 => {
                        client.ask(WRITE_ZEROES, 0, step, start, bytes as u32).unwrap();
                        assert_eq!(client.reply().unwrap(), (step, 0));
                        expected[range].fill(0);
                    }
                    flags => {
                        let value = round * 16 + step as u8 % 13;
                        let flags = if flags == 2 { FUA } else { 0 };
                        assert_eq!(client.write(flags, start, &vec![value; bytes as usize]).unwrap(), 0);
                        expected[range].fill(value);
                    }
                }
            }
            other.kill();
            // Asked while there is no server.
            let waits = random(2) == 0;
            if waits {
                raw.ask(crate::raw::READ, 0, 99, 0, (PAGES << 12) as u32).unwrap();
            }
            other = Server::start(far.path(), kind).unwrap();
            let read = if waits {
                assert_eq!(raw.reply().unwrap(), (99, 0));
                raw.take((PAGES << 12) as usize).unwrap()
            } else {
                beside.read(0, (PAGES << 12) as u32).unwrap()
            };
            assert!(read == expected, "{kind}, round {round}");
            if random(2) == 0 {
                assert_eq!(
                    (raw.flush().unwrap(), beside.flush().unwrap()),
                    (0, 0),
                    "{kind}: nothing is lost"
                );
            }
        }
        server.stop();
        other.kill();
        let other = Server::start(far.path(), kind).unwrap();
        let read = Raw::open(far.path(), "cache").read(0, (PAGES << 12) as u32).unwrap();
        assert!(read == expected, "{kind}: a stop flushes");
        other.stop();
    }
}

/// A layer's write that is larger than the server takes goes in parts; the server may lose the first of them before it
/// answers the last one.
#[test]
fn a_server_that_is_gone_between_two_parts_of_a_write_is_reported() {
    const METHODS: [&str; 7] = [
        "get_size=echo 1M",
        "block_size=echo 1 4K 64K",
        "can_write=exit 0",
        "can_flush=exit 0",
        "pread=head -c $3 /dev/zero",
        "flush=exit 0",
        "pwrite=cat >/dev/null; [ $4 = 0 ] || [ -e killed ] || { touch killed; kill -9 $PPID; }",
    ];
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let (killed, far) = (folder.path().join("killed"), folder.path().join("far"));
        let methods = METHODS.map(|method| method.replace("killed", &killed.display().to_string()));
        let arguments: Vec<&str> = ["eval"].into_iter().chain(methods.iter().map(String::as_str)).collect();
        let Some(mut other) = Nbdkit::start(&far, &arguments) else { return };
        crate::sparse(&folder.path().join("fast.img"), 8 << 20);
        let components = "[component.far]\nnbd = \"nbd+unix:///?socket=far\"\nreconnect = \"20s\"\n\
                          [component.fast]\nfile = \"fast.img\"\n[layer.borg]\nover = \"far\"\nbopt = \"fast\"\n";
        volume(folder.path(), components, &[("borg", "")]);
        let Some(server) = Server::start(folder.path(), kind) else { continue };
        let mut raw = Raw::open(folder.path(), "borg");
        assert_eq!(raw.write(FUA, 0, &vec![7; 128 << 10]).unwrap(), 0);
        let drain = || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_seekless"));
            command.args(["volume", "tell"]).arg(folder.path().join("volume.toml")).args(["borg", "drain"]);
            command.stderr(std::process::Stdio::piped()).spawn().unwrap()
        };
        let drained = drain();
        other.0.wait().unwrap();
        assert!(killed.exists());
        std::fs::remove_file(&far).unwrap();
        let _other = Nbdkit::start(&far, &arguments).unwrap();
        let drained = drained.wait_with_output().unwrap();
        let why = String::from_utf8_lossy(&drained.stderr);
        assert!(!drained.status.success() && why.contains("may be lost"), "{kind}: {why}");
        // No flush of that server counts any more, until a start.
        server.kill();
        let server = Server::start(folder.path(), kind).unwrap();
        assert_eq!(
            Raw::open(folder.path(), "borg").read(0, 4096).unwrap(),
            [7; 4096],
            "{kind}: it is in the BOPT"
        );
        assert!(drain().wait().unwrap().success(), "{kind}");
        server.stop();
    }
}

#[test]
fn a_server_that_does_not_come_back_in_time_is_an_error_until_it_does() {
    for kind in KINDS {
        let Some((near, far, other, server)) = near_and_far(kind, "reconnect = \"500ms\"") else { continue };
        let mut raw = Raw::open(near.path(), "far");
        assert_eq!(raw.write(FUA, 0, &[1; 4096]).unwrap(), 0);
        other.kill();
        let began = std::time::Instant::now();
        raw.ask(crate::raw::READ, 0, 4, 0, 4096).unwrap();
        assert_eq!(raw.reply().unwrap(), (4, EIO), "{kind}");
        assert!(began.elapsed() >= Duration::from_millis(450), "{kind}: {:?}", began.elapsed());
        // An export of another size in its place is refused.
        crate::sparse(&far.path().join("disk.img"), 4 << 20);
        let other = Server::start(far.path(), kind).unwrap();
        std::thread::sleep(Duration::from_secs(3));
        raw.ask(crate::raw::READ, 0, 5, 0, 4096).unwrap();
        assert_eq!(raw.reply().unwrap(), (5, EIO), "{kind}: it is another");
        other.kill();
        crate::sparse(&far.path().join("disk.img"), 8 << 20);
        let other = Server::start(far.path(), kind).unwrap();
        let back = (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(100));
            raw.ask(crate::raw::READ, 0, 6, 0, 4096).unwrap();
            raw.reply().unwrap() == (6, 0) && raw.take(4096).is_ok()
        });
        assert!(back, "{kind}: it is found again");
        server.stop();
        other.stop();
    }
}
