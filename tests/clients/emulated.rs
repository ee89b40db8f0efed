//! Components with the timing of a drive: their response times, and that their data is right.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::raw::Raw;
use crate::server::{KINDS, Server, client, serve, volume};
use crate::{noise, sparse};

const DRIVE: &str = "wd2500aaks";
const SECTORS: u64 = 488_397_168;
const READS: u64 = 40;

/// Places all over the drive, in pages, the same every time.
fn places() -> Vec<u64> {
    (1..=READS).map(|number| number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (SECTORS / 8)).collect()
}

/// Time of the simulated drive to read them one after the other.
fn predicted(folder: &Path) -> Duration {
    let mut trace = String::new();
    for (number, page) in places().iter().enumerate() {
        writeln!(trace, "8,0 0 {number} 0.{number:09} {number} Q R {} + 8 [reads]", page * 8).unwrap();
    }
    let file = folder.join("reads.blkparse");
    std::fs::write(&file, trace).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_seekless"));
    command.args(["lab", "run", "--layer", "none", "--pace", "closed", "--outstanding", "1", "--json"]);
    let output = command.args(["--drive", DRIVE, "--trace"]).arg(file).output().unwrap();
    let message: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    Duration::from_secs_f64(message["elapsed_s"].as_f64().unwrap())
}

#[test]
fn an_emulated_drive_takes_the_time_that_the_simulated_one_does() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        sparse(&folder.join("disk.img"), SECTORS * 512);
        volume(
            folder,
            &format!("[component.disk]\nfile = \"disk.img\"\nemulate = \"{DRIVE}\"\n"),
            &[("disk", "")],
        );
        let Some(server) = Server::start(folder, kind) else { continue };
        let mut raw = Raw::open(folder, "disk");
        let began = Instant::now();
        for page in places() {
            raw.read(page << 12, 4096).unwrap();
        }
        let (took, model) = (began.elapsed(), predicted(folder));
        // A busy machine answers late, and nothing answers early. The accuracy on an idle one is
        // measured by scripts/emulated.
        assert!(took > model.mul_f64(0.97) && took < model * 3, "{kind}: {took:?}, the model says {model:?}");
        for (number, page) in places().into_iter().enumerate() {
            assert_eq!(raw.write(0, page << 12, &[number as u8 + 1; 4096]).unwrap(), 0);
        }
        assert_eq!(raw.flush().unwrap(), 0);
        for (number, page) in places().into_iter().enumerate() {
            assert_eq!(raw.read(page << 12, 4096).unwrap(), [number as u8 + 1; 4096], "{kind}: {number}");
        }
        server.stop();
    }
}

#[test]
fn what_cannot_be_emulated_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (keys, words) in [
        ("ram = \"1MiB\"\nemulate = \"wd2500aak\"", ["component.disk.emulate", "'wd2500aak'"]),
        ("ram = \"1MiB\"\nscheduler = \"sptf\"", ["component.disk", "emulate = "]),
        ("ram = \"1MiB\"\ndepth = 4\nscheduler = \"sptf\"", ["component.disk.scheduler", "c-look"]),
        ("ram = \"1MiB\"\ndepth = 0", ["component.disk.depth", "1 to 65536"]),
        ("ram = \"1MiB\"\ndepth = 4\nfreeblock = \"paper\"", ["component.disk", "no key of freeblock"]),
        ("ram = \"1MiB\"\ndepth = 4\nanticipation = \"2\"", ["component.disk.anticipation", "2ms"]),
        ("ram = \"1MiB\"\nemulate = \"wd2500aaks\"\ndepth = 99", ["component.disk.depth", "1 to 32"]),
        ("file = \"large.img\"\nemulate = \"wd2500aaks\"", ["component.disk.emulate", "at least as large"]),
    ] {
        sparse(&folder.join("large.img"), (SECTORS + 8) * 512);
        volume(folder, &format!("[component.disk]\n{keys}\n"), &[("disk", "")]);
        let output = serve(folder, "threads").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{keys}\n{said}");
        assert!(words.iter().all(|word| said.contains(word)), "{words:?} for {keys}\n{said}");
    }
}

/// Any program can copy within the head's waits, through an export of its own: beside a busy foreground, with
/// an idle drive that may be used, and with one that may not, where each request waits for its deadline.
#[test]
fn a_backup_goes_on_for_free_through_an_export_of_its_own() {
    const BYTES: usize = 8 << 20;
    let scan = "name = \"scan\"\nclass = \"free\"\nread_only = true";
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let data = noise(BYTES, 3);
        std::fs::write(folder.join("disk.img"), &data).unwrap();
        for (idle, busy) in [("0s", true), ("20ms", false), ("0s", false)] {
            let drive = "emulate = \"quantum-atlas-10k\"\nfreeblock = \"weighted\"";
            let disk =
                format!("[component.disk]\nfile = \"disk.img\"\n{drive}\nidle_delay_limit = \"{idle}\"\n");
            volume(folder, &disk, &[("disk", ""), ("disk", scan)]);
            let Some(server) = Server::start(folder, kind) else { continue };
            let over = Arc::new(AtomicBool::new(false));
            let (until, place) = (over.clone(), folder.to_owned());
            let foreground = busy.then(|| {
                std::thread::spawn(move || {
                    let (mut raw, mut reads) = (Raw::open(&place, "disk"), 0_u64);
                    while !until.load(Ordering::Relaxed) {
                        reads += 1;
                        let page = reads.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (BYTES as u64 >> 12);
                        raw.read(page << 12, 4096).unwrap();
                    }
                    reads
                })
            });
            let (backup, began) = (folder.join("backup.img"), Instant::now());
            let copied = client("nbdcopy", &[&server.uri("scan"), &backup.display().to_string()]);
            let took = began.elapsed();
            over.store(true, Ordering::Relaxed);
            let reads = foreground.map(|thread| thread.join().unwrap());
            let Some(copied) = copied else { return };
            assert!(copied.status.success(), "{kind}: {}", String::from_utf8_lossy(&copied.stderr));
            assert_eq!(std::fs::read(&backup).unwrap(), data, "{kind}, idle {idle}, busy {busy}");
            assert!(reads.is_none_or(|reads| reads > 20), "{reads:?} reads");
            assert!(busy || idle != "0s" || took > Duration::from_secs(4), "{kind}: {took:?}");
            eprintln!("{kind}, idle {idle}, busy {busy}: {took:?} beside {reads:?} reads");
            server.stop();
        }
    }
}
