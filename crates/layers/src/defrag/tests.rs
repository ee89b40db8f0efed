//! What moves where, by a map of files that changes, and a fragmented file of a real file system. Crashes are explored
//! in `tests/promises`.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use seekless_core::device::Place;
use seekless_core::runtime::{Runtime, now, sleep};
use seekless_core::{Account, Buffer, Extent, Hints, Layer, Nanos, PAGE_BYTES, PAGE_SECTORS, Slice};
use seekless_drive::{Disk, QueueOptions, spec};

use super::*;
use crate::under_test::{values, write};

/// Pages before the zone: of a small volume.
const METADATA: u64 = 4;

/// A folder that is removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("seekless-defrag-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> String {
        let file = self.0.join(name);
        std::fs::write(&file, contents).unwrap();
        file.display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn device(pages: u64) -> Rc<dyn BlockDevice> {
    let disk = Disk::new(0, &spec::find("wd2500aaks").unwrap(), QueueOptions::default());
    Rc::new(Slice::new(Rc::new(disk), Extent::of_pages(0, pages)).unwrap())
}

async fn open(device: &Rc<dyn BlockDevice>, options: &str) -> Result<Rc<Placed>, IoError> {
    let options: Options = toml::from_str(options).unwrap();
    options.check().unwrap();
    super::open(device.clone(), &options, true, false).await
}

/// Where each page is on the disk, from the start of the zone.
fn places(volume: &Placed) -> Vec<u64> {
    let mut all = Vec::new();
    volume.places(Extent::new(0, volume.geometry().sectors), &mut |part, place| {
        let Place::On { at, .. } = place else { panic!("a page is nowhere") };
        all.extend((0..part.sectors / PAGE_SECTORS).map(|page| at.0 / PAGE_SECTORS + page));
    });
    all.iter().map(|page| page - METADATA).collect()
}

fn in_a_world<T>(work: impl Future<Output = T>) -> T {
    Runtime::new(1).run(work).unwrap()
}

#[test]
fn files_in_pieces_move_into_the_zone_in_their_order_and_back() {
    let folder = Folder::new("moves");
    let map = folder.write("map", "/a: 30 10-11\n/whole: 3-5\n/b: 20 5");
    in_a_world(async {
        let device = device(METADATA + 8 + 40);
        let options = format!("zone = '32KiB'\nwhen = 'asked'\nextents = '{map}'");
        let volume = open(&device, &options).await.unwrap();
        for page in 0..40 {
            write(&*volume, page * PAGE_SECTORS, 8, page as u8).await.unwrap();
        }
        let check = async || {
            for page in 0..40 {
                assert_eq!(values(&*volume, Extent::of_pages(page, 1)).await.unwrap(), [page as u8; 8]);
            }
        };
        let at = |pages: [usize; 5]| pages.map(|page| places(&volume)[page]);
        let moved = volume.reconfigure(Account::default()).await.unwrap().unwrap();
        assert_eq!((moved.copied_pages, at([30, 10, 11, 20, 5])), (5, [0, 1, 2, 3, 4]));
        assert_eq!(places(&volume)[3], 8 + 3, "a file of one piece stays");
        check().await;
        // Another map: what is there and should not be leaves first.
        std::fs::write(&map, "/b: 20 5\n/a: 30 10").unwrap();
        volume.command("reconfigure", Hints::default()).await.unwrap();
        assert_eq!(at([20, 5, 30, 10, 11]), [0, 1, 2, 3, 8 + 11]);
        assert_eq!(volume.reconfigure(Account::default()).await.unwrap().unwrap().copied_pages, 0);
        check().await;
        std::fs::write(&map, "/b: 20 x").unwrap();
        let error = volume.command("reconfigure", Hints::default()).await.unwrap_err().to_string();
        assert!(error.contains("extents: found line 1: 'x', expected a number of a block"), "{error}");
        volume.command("undo", Hints::default()).await.unwrap();
        assert_eq!(places(&volume), (8..48).collect::<Vec<u64>>());
        check().await;
        assert!(volume.command("move", Hints::default()).await.is_err());
    });
}

#[test]
fn files_move_in_pauses_and_stay_over_a_stop() {
    let folder = Folder::new("pauses");
    let map = folder.write("map", "/a: 8 1");
    in_a_world(async {
        let device = device(METADATA + 8 + 40);
        let options = format!("zone = '32KiB'\nidle = '1ms'\nextents = '{map}'");
        let volume = open(&device, &options).await.unwrap();
        sleep(Nanos::from_millis(5_000)).await;
        assert!(!volume.is_moving());
        let then = places(&volume);
        assert_eq!([then[8], then[1]], [0, 1]);
        volume.stop().await.unwrap();
        drop(volume);
        // Without a map everything moves back.
        let volume = open(&device, "zone = '32KiB'\nidle = '1ms'").await.unwrap();
        assert_eq!(places(&volume), then);
        sleep(Nanos::from_millis(5_000)).await;
        assert_eq!(places(&volume), (8..48).collect::<Vec<u64>>());
    });
    in_a_world(async {
        let error =
            open(&device(52), "zone = '32KiB'\nextents = '/there/is/none'").await.map(drop).unwrap_err();
        assert!(error.to_string().contains("/there/is/none"), "{error}");
    });
    for (text, key) in [("block = '3KiB'", "block"), ("unit = '1KiB'", "unit")] {
        let options: Options = toml::from_str(text).unwrap();
        assert!(options.check().unwrap_err().to_string().contains(key), "{text}");
    }
}

/// Runs a program, which may be outside a user's path; `None` if it is missing.
fn run(program: &str, arguments: &[&str]) -> Option<String> {
    let run = |program: &str| Command::new(program).args(arguments).stderr(Stdio::null()).output();
    let output = run(program).or_else(|_| run(&format!("/usr/sbin/{program}"))).ok()?;
    assert!(output.status.success(), "{program} {arguments:?}");
    Some(String::from_utf8(output.stdout).unwrap())
}

/// An image of ext4 with a file in pieces, and the map of it.
fn fragmented(folder: &Folder) -> Option<(Vec<u8>, String)> {
    let image = folder.write("image", "");
    std::fs::File::options().write(true).open(&image).unwrap().set_len(16 << 20).unwrap();
    run("mkfs.ext4", &["-q", "-F", "-b", "4096", "-O", "^has_journal", &image])?;
    let small = folder.write("small", [7; 16 << 10]);
    let bytes: Vec<u8> = (0..2_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let large = folder.write("large", bytes);
    // Every other one of many small files makes way for a large one.
    let mut script: Vec<String> = (0..231).map(|number| format!("write {small} s{number}")).collect();
    script.extend((0..231).step_by(2).map(|number| format!("rm s{number}")));
    script.push(format!("write {large} large\n"));
    let script = folder.write("script", script.join("\n"));
    run("debugfs", &["-w", "-f", &script, &image])?;
    let blocks = run("debugfs", &["-R", "blocks /large", &image])?;
    Some((std::fs::read(&image).unwrap(), format!("/large: {blocks}")))
}

#[test]
fn a_fragmented_file_of_ext4_is_read_with_fewer_seeks() {
    let folder = Folder::new("ext4");
    let Some((image, map)) = fragmented(&folder) else {
        return println!("skipped: mkfs.ext4 or debugfs is missing");
    };
    let blocks: Vec<u64> =
        map.trim_start_matches("/large:").split_whitespace().map(|word| word.parse().unwrap()).collect();
    let map = folder.write("map", map);
    in_a_world(async {
        let device = device((16 << 20) / PAGE_BYTES + 1_024);
        let options = format!("zone = '3MiB'\nwhen = 'asked'\nextents = '{map}'");
        let volume = open(&device, &options).await.unwrap();
        for (page, bytes) in (0..).zip(image.chunks(PAGE_BYTES as usize)) {
            let bytes = Buffer::from_vec(bytes.to_vec());
            volume.write(Extent::of_pages(page, 1), bytes, Hints::default()).await.unwrap();
        }
        volume.flush(Hints::default()).await.unwrap();
        // The pieces, and how long it takes to read them one after the other.
        let read = async || {
            let places = places(&volume);
            let jumps =
                blocks.windows(2).filter(|two| places[two[0] as usize] + 1 != places[two[1] as usize]);
            let (seeks, begin) = (jumps.count(), now());
            for block in &blocks {
                let at = Extent::of_pages(*block, 1);
                let read = volume.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await.unwrap();
                let start = (*block * PAGE_BYTES) as usize;
                assert_eq!(read.to_vec(), image[start..start + PAGE_BYTES as usize], "block {block}");
            }
            (seeks, now().since(begin))
        };
        let before = read().await;
        volume.command("reconfigure", Hints::default()).await.unwrap();
        let after = read().await;
        println!(
            "{} blocks: {} seeks and {} before, {} and {} after",
            blocks.len(),
            before.0,
            before.1,
            after.0,
            after.1
        );
        assert!(before.0 > 100 && after.0 == 0, "seeks: {before:?}, {after:?}");
        assert!(after.1 < before.1, "{before:?}, {after:?}");
        // Everything else is as it was, too.
        for (page, bytes) in (0..).zip(image.chunks(PAGE_BYTES as usize)) {
            let at = Extent::of_pages(page, 1);
            let read = volume.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await.unwrap();
            assert_eq!(read.to_vec(), bytes, "block {page}");
        }
    });
}
