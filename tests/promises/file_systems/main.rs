//! Promise 2, as file systems see it. Files that were synced are there after a power cut.
//!
//! Streams of requests of ext4 and xfs to their disks (`tests/promises/streams/`) are replayed through each layer, and
//! the power is cut at any moment, as in an exploration. The layer is opened on what is left; its contents go
//! into a file, the file system's own program repairs that, and each file that had been synced is looked for, with its
//! bytes. Fault model: that of explorations. ext4 needs no more than `e2fsck` and `debugfs`; xfs is mounted, and
//! examined only if `SEEKLESS_XFS` sets a number of states.

mod disk;
mod marks;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use seekless_lab::explore::conditions::{Conditions, Faults};
use seekless_lab::explore::restart::Opener;
use seekless_lab::explore::stream::{self, Stream};
use seekless_promises as common;
use seekless_volume::{Description, file};

use disk::{Kind, Unfit};
use marks::Files;

/// States of ext4, unless `SEEKLESS_STATES` sets their number.
const STATES: usize = 300;
/// Power cuts of one run of a stream.
const CUTS: usize = 10;

/// The volumes, each with its size for clients in MiB, besides the room of its layer.
fn volumes(mebibytes: u64) -> Vec<(&'static str, Description)> {
    let sectors = mebibytes * 2048;
    let text = |name: &'static str, room: u64, layer: &str| {
        let size = sectors * 512 + (room << 10);
        let top = if layer.is_empty() { "small" } else { name };
        let text = format!(
            "[component.disk]\ndrive = \"wd2500aaks\"\n[slice.small]\nof = \"disk\"\nsize = \"{size}B\"\n\
             {layer}\n[[export]]\ntop = \"{top}\"\n"
        );
        (name, file::parse(name, &text).unwrap_or_else(|error| panic!("{name}: {error}")))
    };
    let mapper = format!("[layer.mapper]\nover = \"small\"\nsize = \"{mebibytes}MiB\"");
    let lld = format!("[layer.lld]\nover = \"small\"\nsize = \"{mebibytes}MiB\"\nsegment = \"128KiB\"");
    let borg = format!(
        "[slice.bopt]\nof = \"disk\"\nat = \"{mebibytes}MiB\"\nsize = \"4616KiB\"\n\
         [layer.borg]\nover = \"small\"\nbopt = \"bopt\"\nsegment = \"64KiB\"\nwrite_buffer = 0.1\nidle_after = \"1ms\""
    );
    let cache = "[layer.cache]\nover = \"small\"\nsize = \"512KiB\"\nprewrite = true\nsettle = \"1ms\"\nexpire = \"4ms\"";
    let replicas =
        "[layer.replicas]\nover = \"small\"\nzone = \"512KiB\"\nunit = \"16KiB\"\nidle = \"0s\"\nleast = 1";
    let hot = "[layer.hot]\nover = \"small\"\nzone = \"512KiB\"\nunit = \"16KiB\"\nidle = \"0s\"\nleast = 1";
    let dedup = format!("[layer.dedup]\nover = \"small\"\nsize = \"{mebibytes}MiB\"\ncompress = \"lz4\"");
    vec![
        text("disk", 0, ""),
        text("cache", 0, cache),
        text("mapper", 512, &mapper),
        text("lld", 200 * (mebibytes + 1), &lld),
        text("borg", 0, &borg),
        text("dedup", 1 << 10, &dedup),
        text("hot", 1 << 10, hot),
        text("replicas", 1 << 10, replicas),
        several("hybrid", &hybrid(mebibytes)),
        several("proximal", &proximal(mebibytes)),
        several("raid4", &raid4(mebibytes)),
    ]
}

/// A volume of more than one component; the layer of its name is exported.
fn several(name: &'static str, text: &str) -> (&'static str, Description) {
    let text = format!("{text}[[export]]\ntop = \"{name}\"\n");
    (name, file::parse(name, &text).unwrap_or_else(|error| panic!("{name}: {error}")))
}

/// A drive called `name`, of which a part called `part` is used.
fn of_a_drive(name: &str, drive: &str, part: &str, kibibytes: u64) -> String {
    format!(
        "[component.{name}]\ndrive = \"{drive}\"\n\
         [slice.{part}]\nof = \"{name}\"\nsize = \"{kibibytes}KiB\"\n"
    )
}

/// Units move between the devices at any pause.
fn hybrid(mebibytes: u64) -> String {
    let devices = of_a_drive("disk", "wd2500aaks", "slow", (mebibytes + 1) << 10)
        + &of_a_drive("ssd", "intel-x25-v", "fast", 2 << 10);
    devices + "[layer.hybrid]\nover = \"slow\"\nfast = \"fast\"\nunit = \"16KiB\"\nidle = \"0s\"\n"
}

/// The staging area is small: it is destaged often.
fn proximal(mebibytes: u64) -> String {
    let devices = of_a_drive("disk", "wd2500aaks", "data", (mebibytes + 4) << 10)
        + &of_a_drive("ssd", "intel-x25-v", "flash", 2 << 10);
    let layer = "[layer.proximal]\nover = \"data\"\nflash = \"flash\"\nrange = \"256KiB\"\nreserve = 0.03\n\
                 direct = \"64KiB\"\ndestage_below = 0.2\n";
    devices + layer
}

/// Three members and parity, without a log, so that what is not flushed may be lost. A quarter of the members holds
/// checksums, at this unit.
fn raid4(mebibytes: u64) -> String {
    let member = |name: &str, kibibytes: u64| of_a_drive(name, "wd2500aaks", &format!("m{name}"), kibibytes);
    let devices: String = ["a", "b", "c", "p"].iter().map(|name| member(name, mebibytes * 512)).collect();
    let layer = "[layer.raid4]\nover = [\"ma\", \"mb\", \"mc\"]\nparity = \"mp\"\nunit = \"16KiB\"\n";
    devices + layer
}

/// A stream that ships with these tests.
fn shipped(name: &str) -> Stream {
    let packed = File::open(common::folder("streams").join(format!("{name}.xz"))).expect(name);
    let mut bytes = Vec::new();
    liblzma::read::XzDecoder::new(packed).read_to_end(&mut bytes).expect(name);
    Stream::parse(&bytes).expect(name)
}

/// How a stream is examined.
struct Look<'a> {
    kind: &'a Kind,
    stream: &'a Stream,
    /// Folder of the images.
    folder: &'a Path,
    /// The examined states, by their volume.
    seen: BTreeSet<(&'static str, u64)>,
}

impl Look<'_> {
    /// Examines `states` states of a run of this volume, whose conditions are drawn from the seed; the first violation.
    fn run(&mut self, (name, volume): &(&'static str, Description), seed: u64) -> Result<(), Unfit> {
        let opener = Opener::new(Cow::Borrowed(volume));
        let drawn = Conditions::drawn(seed, volume.components.len() as u32, None);
        let conditions = Conditions { faults: Faults::default(), ..drawn };
        // Every other disk has FUA.
        let with_fua = (seed % 2 == 0).then(|| self.stream.with_fua());
        let stream = with_fua.as_ref().unwrap_or(self.stream);
        let wrong = |place: &str, why: String| Unfit::Wrong(format!("{name}, seed {seed}, {place}: {why}"));
        let replayed = stream::replay(&opener, stream, conditions).map_err(|why| wrong("replayed", why))?;
        for cut in replayed.cuts(&opener, "mounted", CUTS, seed) {
            if !self.seen.insert((name, cut.hash)) {
                continue;
            }
            let files = Files::of(&cut.marks).map_err(|why| wrong(&cut.place, why))?;
            let bytes = stream::recovered(&opener, &cut.images, stream.sectors);
            let bytes = bytes.map_err(|why| wrong(&cut.place, why.to_string()))?;
            let found = self.kind.repaired(&bytes, self.folder, &|root| files.judge(root));
            found.map_err(|unfit| match unfit {
                Unfit::Wrong(why) => wrong(&cut.place, why),
                unfit @ Unfit::Skipped(_) => unfit,
            })?;
        }
        Ok(())
    }
}

/// Different states of all volumes, some of each run.
fn explored(kind: &Kind, states: usize) {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let stream = shipped(kind.name);
    let mut look = Look { kind, stream: &stream, folder: folder.path(), seen: BTreeSet::new() };
    let volumes = volumes(stream.sectors / 2048);
    for (seed, volume) in (1..).zip(volumes.iter().cycle()) {
        match look.run(volume, seed) {
            Ok(()) => {}
            Err(Unfit::Skipped(why)) => return eprintln!("skipped: {} after power cuts: {why}", kind.name),
            Err(Unfit::Wrong(why)) => panic!("{why}"),
        }
        if look.seen.len() >= states {
            let count = look.seen.len();
            return println!("{}: {count} states of {seed} runs of {} volumes", kind.name, volumes.len());
        }
    }
}

fn number_from(name: &str) -> Option<usize> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name}: found '{text}', expected a number")))
}

#[test]
fn ext4_has_what_it_synced_after_power_cuts() {
    explored(&disk::EXT4, number_from("SEEKLESS_STATES").unwrap_or(STATES));
}

#[test]
fn xfs_has_what_it_synced_after_power_cuts() {
    match number_from("SEEKLESS_XFS") {
        Some(states) => explored(&disk::XFS, states),
        None => eprintln!("skipped: xfs after power cuts: it is mounted, which `make soak` does"),
    }
}

/// A check that cannot fail is useless: a disk that never got a flush loses synced files.
#[test]
fn a_file_system_that_does_not_flush_is_found_out() {
    let folder = tempfile::tempdir().unwrap();
    let mut stream = shipped("ext4");
    stream.actions.retain(|asked| !matches!(asked, stream::Action::Flush));
    let mut look = Look { kind: &disk::EXT4, stream: &stream, folder: folder.path(), seen: BTreeSet::new() };
    // Some of them: without flushes a volume takes several times as long.
    for volume in volumes(stream.sectors / 2048).into_iter().step_by(3) {
        let components = volume.1.components.len() as u32;
        let is_cached = |seed: &u64| Conditions::drawn(*seed, components, None).uncached == 0;
        // A seed without FUA, and with write caches.
        let seed = (1..99).step_by(2).find(is_cached).expect("a seed");
        match look.run(&volume, seed) {
            Err(Unfit::Skipped(why)) => return eprintln!("skipped: ext4 without flushes: {why}"),
            Err(Unfit::Wrong(why)) => println!("{why}"),
            Ok(()) => panic!("{}: found nothing wrong without flushes", volume.0),
        }
    }
}
