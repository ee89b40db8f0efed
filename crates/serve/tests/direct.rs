//! Direct reads of files and devices: their content, their duration, refused devices.
#![cfg(target_os = "linux")]

use std::io::Write;
use std::path::Path;

use seekless_core::runtime::{Runtime, now, sleep};
use seekless_core::{BlockDevice, Buffer, ErrorKind, Extent, Hints, Nanos};
use seekless_serve::{Admission, AdmissionError, DirectFile, Target};

const ANYTHING: Admission = Admission { any_kind: true, writes: false };
const WRITES: Admission = Admission { any_kind: true, writes: true };

/// A file of 64 KiB on a file system that may lack direct I/O.
fn file() -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let bytes: Vec<u8> = (0..65_536_u32).map(|index| (index / 512) as u8).collect();
    file.write_all(&bytes).unwrap();
    file
}

#[test]
fn reads_are_direct_and_take_their_time() {
    let file = file();
    let target = match Target::open(file.path(), ANYTHING) {
        Err(AdmissionError::NotDirect { path }) => {
            eprintln!("left out: {} is on a file system without direct reads", path.display());
            return;
        }
        target => target.unwrap(),
    };
    assert_eq!((target.sectors, target.logical_bytes), (128, 4096));
    let runtime = Runtime::new(1);
    let done = runtime.run(async {
        sleep(Nanos::from_millis(3)).await;
        let device = DirectFile::new(target);
        let read =
            |start, sectors, buffer| device.read(Extent::new(start, sectors), buffer, Hints::default());
        let bytes = read(16, 8, Buffer::zeroed(4096)).await.unwrap().to_vec();
        assert!((0..8).all(|sector| bytes[sector * 512] == 16 + sector as u8), "{bytes:?}");
        assert!(now() > Nanos::from_millis(3), "a read takes no time");
        // A sleep advances both clocks.
        let before = now();
        sleep(Nanos::from_millis(20)).await;
        read(0, 128, Buffer::hollow(65_536)).await.unwrap();
        assert!(now().since(before) > Nanos::from_millis(20));
        for (start, sectors) in [(1, 8), (0, 7), (120, 16), (0, 0)] {
            let error = read(start, sectors, Buffer::hollow_sectors(sectors)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        }
        let written = device.write(Extent::new(0, 8), Buffer::zeroed(4096), Hints::default()).await;
        assert_eq!(written.unwrap_err().kind(), ErrorKind::ReadOnly);
        let discarded = device.discard(Extent::new(0, 8), Hints::default()).await;
        assert_eq!(discarded.unwrap_err().kind(), ErrorKind::ReadOnly);
    });
    done.unwrap();
}

#[test]
fn writes_are_direct_where_they_were_asked_for() {
    let file = file();
    let before = std::fs::read(file.path()).unwrap();
    let target = match Target::open(file.path(), WRITES) {
        Err(AdmissionError::NotDirect { path }) => {
            eprintln!("left out: {} is on a file system without direct reads", path.display());
            return;
        }
        target => target.unwrap(),
    };
    let done = Runtime::new(1).run(async {
        let device = DirectFile::new(target);
        let write =
            |start, sectors, buffer| device.write(Extent::new(start, sectors), buffer, Hints::default());
        // Writes back the data that was read.
        for start in [0, 48, 120] {
            let at = Extent::new(start, 8);
            let held = device.read(at, Buffer::zeroed(4096), Hints::default()).await.unwrap();
            let asked = now();
            device.write(at, held, Hints { fua: true, ..Hints::default() }).await.unwrap();
            assert!(now() > asked, "a write takes no time");
        }
        assert_eq!(std::fs::read(file.path()).unwrap(), before);
        write(16, 8, Buffer::from_vec(vec![0xa5; 4096])).await.unwrap();
        for (start, sectors) in [(1, 8), (0, 7), (120, 16)] {
            let error = write(start, sectors, Buffer::zeroed(sectors * 512)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        }
        for buffer in [Buffer::hollow(4096), Buffer::zeroed(512)] {
            assert_eq!(write(0, 8, buffer).await.unwrap_err().kind(), ErrorKind::Invalid);
        }
    });
    done.unwrap();
    let mut expected = before;
    expected[16 * 512..24 * 512].fill(0xa5);
    assert_eq!(std::fs::read(file.path()).unwrap(), expected);
}

#[test]
fn what_is_no_spinning_disk_is_refused() {
    let message = |path: &str| Target::open(Path::new(path), Admission::default()).unwrap_err().to_string();
    let file = file();
    let file = file.path().to_str().unwrap();
    for (path, words) in [
        ("/proc", ["/proc", "a folder"]),
        ("/dev/null", ["/dev/null", "neither a disk nor a file"]),
        (file, [file, "found a file"]),
    ] {
        let error = message(path);
        assert!(words.iter().all(|word| error.contains(word)) && error.contains("/dev/sdb"), "{error}");
    }
    assert!(message("/dev/nonexistent").contains("No such file"));
    assert!(matches!(Target::open(Path::new("/proc"), ANYTHING).unwrap_err(), AdmissionError::NoDisk { .. }));
}

/// The disk of the running system is in use, flash, or not visible from here: it is never opened.
#[test]
fn the_disk_of_the_running_system_is_refused() {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let sources = mounts.lines().filter_map(|line| line.split(' ').next());
    let mut tried = 0;
    for source in sources.filter(|source| source.starts_with("/dev/")) {
        for admission in [Admission::default(), ANYTHING] {
            let error = Target::open(Path::new(source), admission).unwrap_err();
            eprintln!("{error}");
            tried += 1;
        }
    }
    if tried == 0 {
        eprintln!("left out: no device here is mounted");
    }
}
