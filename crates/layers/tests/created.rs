//! Creating a layer's metadata: a power failure within it leaves what opens as an empty volume, or what opening refuses
//! and creating completes.

use std::rc::Rc;

use seekless_core::runtime::Runtime;
use seekless_core::{BlockDevice, Buffer, Extent, Hints, IoError, PAGE_SECTORS, Slice};
use seekless_drive::{Disk, QueueOptions, spec};
use seekless_layers::fault::powercut::{self, Keep, PowerCut};
use seekless_layers::registry::{Below, Built, Entry, LAYERS};

/// Sectors of each device: 4 MiB.
const SECTORS: u64 = 1 << 13;

/// Options with which a layer fits on such devices.
fn options(name: &str) -> toml::Table {
    let text = match name {
        "alis" | "borg" | "dcd" | "lru" | "organpipe" | "smq" | "spindown" => "segment = '64KiB'",
        "lld" => "segment = '32KiB'",
        "raid4" => "unit = '16KiB'",
        "replicas" => "unit = '4KiB'",
        _ => "",
    };
    toml::from_str(text).unwrap()
}

/// The devices of a layer: those below it, then its own.
fn devices(entry: &Entry) -> Vec<Rc<dyn BlockDevice>> {
    let disk = Rc::new(Disk::new(0, &spec::find("wd2500aaks").unwrap(), QueueOptions::default()));
    let below = if entry.is_over_several() { 3 } else { 1 };
    let part = |number: usize| -> Rc<dyn BlockDevice> {
        let at = Extent::new(number as u64 * SECTORS, SECTORS);
        Rc::new(Slice::new(disk.clone(), at).unwrap())
    };
    (0..below + entry.devices.len()).map(part).collect()
}

fn below(entry: &Entry, devices: &[Rc<dyn BlockDevice>]) -> Below {
    let (over, own) = devices.split_at(devices.len() - entry.devices.len());
    let keys = entry.devices.iter().map(|key| (*key).to_owned());
    let devices = keys.zip(own.iter().map(|device| vec![device.clone()])).collect();
    Below { over: over.to_vec(), devices, create: false, timing_only: false }
}

async fn create(entry: &Entry, devices: &[Rc<dyn BlockDevice>]) -> Result<(), IoError> {
    let create = entry.create.unwrap();
    create(below(entry, devices), options(entry.name), false).await.map(drop)
}

async fn open(entry: &Entry, devices: &[Rc<dyn BlockDevice>]) -> Result<Built, IoError> {
    entry.build(below(entry, devices), &options(entry.name)).await
}

/// All of it reads as zeroes.
async fn is_empty(built: &Built) -> bool {
    let at = Extent::new(0, built.device.geometry().sectors.min(64 * PAGE_SECTORS));
    let read = built.device.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await.unwrap();
    read.to_vec().iter().all(|byte| *byte == 0)
}

/// Power fails at the `nth` request to one of the devices; whether the creation had ended.
async fn is_cut_short(entry: &Entry, target: usize, nth: u64, keep: Keep) -> bool {
    let durable = devices(entry);
    let cuts: Vec<Rc<PowerCut>> = (0..)
        .zip(&durable)
        .map(|(number, device)| {
            let nth = if number == target { nth } else { u64::MAX };
            Rc::new(PowerCut::new(device.clone(), powercut::Options { nth, keep }))
        })
        .collect();
    let volatile: Vec<Rc<dyn BlockDevice>> =
        cuts.iter().map(|cut| Rc::clone(cut) as Rc<dyn BlockDevice>).collect();
    let ended = create(entry, &volatile).await.is_ok();
    for cut in &cuts {
        cut.cut().await.unwrap();
    }
    let place = format!("{}: request {nth} of device {target}", entry.name);
    match open(entry, &durable).await {
        Ok(built) => {
            assert!(is_empty(&built).await, "{place}: found data in a new volume");
            return ended;
        }
        Err(error) => assert!(!ended, "{place}: created, but: {error}"),
    }
    create(entry, &durable).await.unwrap_or_else(|error| panic!("{place}: not completed: {error}"));
    let built = open(entry, &durable).await.unwrap_or_else(|error| panic!("{place}: {error}"));
    assert!(is_empty(&built).await, "{place}: found data in a new volume");
    ended
}

/// Baselines that are created as BORG is, with its code.
const AS_BORG: [&str; 6] = ["alis", "dcd", "lru", "organpipe", "smq", "spindown"];

#[test]
fn power_may_fail_at_any_request_of_a_creation() {
    for entry in LAYERS.iter().filter(|entry| entry.create.is_some() && !AS_BORG.contains(&entry.name)) {
        let there = entry.devices.len() + if entry.is_over_several() { 3 } else { 1 };
        for target in 0..there {
            let mut cut_short = 0;
            for nth in 1.. {
                let mut ended = true;
                for (seed, keep) in [(nth, Keep::Any), (nth, Keep::None)] {
                    let work = is_cut_short(entry, target, nth, keep);
                    ended &= Runtime::new(seed).run(work).unwrap();
                }
                if ended {
                    break;
                }
                cut_short += 1;
            }
            println!("{}: cut short at {cut_short} requests of device {target}", entry.name);
            assert!(cut_short > 1 || target < there - 1, "{}: nothing was created", entry.name);
        }
    }
}

/// A creation that was cut short does not excuse data on another disk in the place of one.
#[test]
fn an_unfinished_creation_overwrites_only_what_it_left() {
    for name in ["proximal", "raid4"] {
        let entry = seekless_layers::registry::find(name).unwrap();
        for nth in 1..40 {
            let work = async {
                let durable = devices(entry);
                let cut = PowerCut::new(durable[1].clone(), powercut::Options { nth, keep: Keep::All });
                let mut volatile = durable.clone();
                volatile[1] = Rc::new(cut);
                if create(entry, &volatile).await.is_ok() {
                    return;
                }
                let at = Extent::of_pages(0, 2);
                let data = Buffer::from_vec(vec![7; 8_192]);
                durable[0].write(at, data.clone(), Hints::default()).await.unwrap();
                let refused = create(entry, &durable).await.unwrap_err().to_string();
                assert!(refused.contains("found data"), "{name}, {nth}: {refused}");
                let there = durable[0].read(at, Buffer::zeroed(at.bytes()), Hints::default()).await.unwrap();
                assert_eq!(there.to_vec(), data.to_vec(), "{name}, {nth}");
            };
            Runtime::new(nth).run(work).unwrap();
        }
    }
}

/// Zeroes are not taken for a volume, and what lies there is not given up by accident.
#[test]
fn zeroes_are_refused_by_opening_and_contents_by_creating() {
    Runtime::new(1)
        .run(async {
            for entry in LAYERS.iter().filter(|entry| entry.create.is_some()) {
                let devices = devices(entry);
                let refused = open(entry, &devices).await.map(drop).unwrap_err().to_string();
                assert!(refused.contains("seekless volume create"), "{}: {refused}", entry.name);
                create(entry, &devices).await.unwrap();
                let refused = create(entry, &devices).await.unwrap_err().to_string();
                assert!(refused.contains("--replace"), "{}: {refused}", entry.name);
                open(entry, &devices).await.unwrap();
            }
        })
        .unwrap();
}
