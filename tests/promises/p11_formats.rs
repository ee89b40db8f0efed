//! Promise 11. Memory is bounded; old formats open, newer ones are refused with an error.
//!
//! Fault model: none. The disks hold volumes of earlier versions, stopped cleanly or killed after a flush; each opens,
//! has its data, is written to and stopped, and opens again. (Bounds on memory are
//! tested where the memory is.)

use std::collections::BTreeMap;
use std::io::Read;
use std::rc::Rc;

use seekless_core::runtime::Runtime;
use seekless_core::{BlockDevice, Buffer, Extent, Hints, PAGE_BYTES, Slice};
use seekless_drive::{Disk, QueueOptions, spec};
use seekless_layers::registry::{self, Below, Built};
use seekless_layers::{Borg, Lld};
use seekless_promises as common;

/// Layers with their options, as in the volume files of the images.
const LAYERS: [(&str, &str); 3] =
    [("mapper", ""), ("lld", "segment = \"32KiB\""), ("borg", "segment = \"16KiB\"\nwrite_buffer = 0.4")];

/// Contents of a file of an image, if there is one.
fn unpacked(version: &str, name: &str) -> Option<Vec<u8>> {
    let packed = std::fs::read(common::folder("images").join(version).join(format!("{name}.xz"))).ok()?;
    let mut bytes = Vec::new();
    liblzma::read::XzDecoder::new(&packed[..]).read_to_end(&mut bytes).expect(name);
    Some(bytes)
}

/// A disk that begins with these bytes, and is as large.
async fn disk(number: u32, bytes: Vec<u8>) -> Rc<dyn BlockDevice> {
    let disk = Rc::new(Disk::new(number, &spec::find("wd2500aaks").unwrap(), QueueOptions::default()));
    let all = Extent::new(0, bytes.len() as u64 / 512);
    let disk: Rc<dyn BlockDevice> = Rc::new(Slice::new(disk, all).unwrap());
    disk.write(all, Buffer::from_vec(bytes), Hints::default()).await.unwrap();
    disk
}

async fn opened(layer: &str, options: &str, below: &Below) -> Built {
    let options: toml::Table = toml::from_str(options).unwrap();
    let built = registry::find(layer).unwrap().build(below.clone(), &options).await;
    built.unwrap_or_else(|error| panic!("{layer}: {error}"))
}

async fn content(device: &dyn BlockDevice) -> Vec<u8> {
    let all = Extent::new(0, device.geometry().sectors);
    device.read(all, Buffer::zeroed(all.bytes()), Hints::default()).await.unwrap().to_vec()
}

/// The magic of a layer's format, and its version.
async fn format(layer: &str, below: &Below) -> Vec<u8> {
    let device = below.device("bopt").or_else(|_| below.one()).unwrap();
    let first = device.read(Extent::new(0, 1), Buffer::zeroed(512), Hints::default()).await.unwrap().to_vec();
    let version = match layer {
        "lld" => 16..20,
        "borg" => 52..56,
        _ => 8..8,
    };
    [&first[..8], &first[version]].concat()
}

/// The first page that differs.
fn differs(one: &[u8], other: &[u8]) -> Option<usize> {
    let pages = one.chunks(PAGE_BYTES as usize).zip(other.chunks(PAGE_BYTES as usize));
    pages.enumerate().find(|(_, (one, other))| one != other).map(|(page, _)| page)
}

#[test]
fn what_an_earlier_version_left_opens_and_holds_what_it_held() {
    let versions = std::fs::read_dir(common::folder("images")).unwrap();
    let versions: Vec<String> =
        versions.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    assert!(!versions.is_empty());
    for version in &versions {
        for (layer, options) in LAYERS {
            for ended in ["killed", "stopped"] {
                let name = format!("{layer}-{ended}");
                let image = |file: &str| unpacked(version, &format!("{name}.{file}"));
                let mut held = image("content").expect(&name);
                Runtime::new(1)
                    .run(async {
                        let mut devices = BTreeMap::new();
                        if let Some(bytes) = image("bopt") {
                            devices.insert("bopt".to_owned(), vec![disk(1, bytes).await]);
                        }
                        let create = false;
                        let below = Below {
                            over: vec![disk(0, image("disk").expect(&name)).await],
                            devices,
                            create,
                            timing_only: false,
                        };
                        let before = format(layer, &below).await;
                        for round in 1..=3_u8 {
                            let Built { device, layer: built } = opened(layer, options, &below).await;
                            let found = content(&*device).await;
                            assert_eq!(found.len(), held.len(), "{version}, {name}, opening {round}");
                            assert_eq!(differs(&found, &held), None, "{version}, {name}, opening {round}");
                            let at = Extent::of_pages(u64::from(round) * 9, 3);
                            let bytes = vec![round; at.bytes() as usize];
                            held[at.start.0 as usize * 512..][..bytes.len()].copy_from_slice(&bytes);
                            device.write(at, Buffer::from_vec(bytes), Hints::default()).await.unwrap();
                            if round == 1 {
                                device.flush(Hints::default()).await.unwrap();
                            } else {
                                built.stop().await.unwrap();
                            }
                            assert_eq!(
                                format(layer, &below).await,
                                before,
                                "{version}, {name}: it stays as it is"
                            );
                        }
                    })
                    .unwrap();
                println!("{version}, {name}: {} bytes, opened three times", held.len());
            }
        }
    }
}

#[test]
fn what_an_earlier_version_left_is_upgraded_and_holds_what_it_held() {
    for (layer, text) in LAYERS.into_iter().filter(|(layer, _)| *layer != "mapper") {
        for ended in ["killed", "stopped"] {
            let name = format!("{layer}-{ended}");
            let image = |file: &str| unpacked("2c2f9de", &format!("{name}.{file}"));
            let held = image("content").expect(&name);
            Runtime::new(1)
                .run(async {
                    let mut devices = BTreeMap::new();
                    if let Some(bytes) = image("bopt") {
                        devices.insert("bopt".to_owned(), vec![disk(1, bytes).await]);
                    }
                    let over = disk(0, image("disk").expect(&name)).await;
                    let below =
                        Below { over: vec![over.clone()], devices, create: false, timing_only: false };
                    let before = format(layer, &below).await;
                    let options: toml::Table = toml::from_str(text).unwrap();
                    for _ in 0..2 {
                        let options = toml::Value::Table(options.clone());
                        let upgraded = match below.device("bopt") {
                            Ok(bopt) => Borg::upgrade(over.clone(), bopt, options.try_into().unwrap()).await,
                            Err(_) => Lld::upgrade(over.clone(), options.try_into().unwrap()).await,
                        };
                        upgraded.unwrap_or_else(|error| panic!("{name}: {error}"));
                        assert_ne!(format(layer, &below).await, before, "{name}");
                        let Built { device, .. } = opened(layer, text, &below).await;
                        assert_eq!(differs(&content(&*device).await, &held), None, "{name}");
                    }
                })
                .unwrap();
        }
    }
}
