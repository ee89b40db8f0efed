//! Promise 6, for sectors that cannot be read: after a clean stop a volume opens although one sector of its metadata is
//! unreadable, and all that is readable is as it was written. The sector is written anew, by the opening or with the
//! next write of its structure, so that the drive replaces it.
//!
//! Fault model: each sector of the device, one at a time, until it is written. A client's sector that is unreadable is
//! an error to the client, and to no other request.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use seekless_core::device::io;
use seekless_core::runtime::{Rng, Runtime};
use seekless_core::{
    BlockDevice, Buffer, ErrorKind, Extent, Geometry, Hints, IoError, IoFuture, Slice, Zeroes,
};
use seekless_drive::{Disk, QueueOptions, spec};
use seekless_layers::registry::{self, Below, Built};

/// Pages that clients write to.
const CLIENTS: u64 = 24;

/// A device of which one sector may be unreadable until it is written.
struct Pending {
    below: Rc<dyn BlockDevice>,
    sector: Cell<Option<u64>>,
}

impl Pending {
    fn written(&self, at: Extent) {
        self.sector.set(self.sector.get().filter(|sector| !at.overlaps(Extent::new(*sector, 1))));
    }
}

impl BlockDevice for Pending {
    fn below(&self) -> Option<&dyn BlockDevice> {
        Some(&*self.below)
    }

    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        let lost = self.sector.get().map(|sector| Extent::new(sector, 1)).filter(|lost| at.overlaps(*lost));
        io(async move {
            match lost {
                Some(lost) => {
                    Err(IoError::new(ErrorKind::Medium, "pending", Some(lost), "unreadable".to_owned()))
                }
                None => self.below.read(at, into, how).await,
            }
        })
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        self.written(at);
        self.below.write(at, from, how)
    }

    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        self.written(at);
        self.below.write_zeroes(at, how, zeroes)
    }
}

/// A layer over parts of one disk, by key; `over` is first.
struct Volume {
    layer: &'static str,
    options: toml::Table,
    disk: Rc<Pending>,
    parts: Vec<(&'static str, u64)>,
}

impl Volume {
    fn new(layer: &'static str, options: &str, parts: &[(&'static str, u64)]) -> Volume {
        let disk = Disk::new(0, &spec::find("wd2500aaks").unwrap(), QueueOptions::default());
        let pages = parts.iter().map(|(_, pages)| pages).sum();
        let below = Rc::new(Slice::new(Rc::new(disk), Extent::of_pages(0, pages)).unwrap());
        let disk = Rc::new(Pending { below, sector: Cell::new(None) });
        Volume { layer, options: toml::from_str(options).unwrap(), disk, parts: parts.to_vec() }
    }

    async fn open(&self, create: bool) -> Result<Built, IoError> {
        let (mut over, mut devices, mut first) = (Vec::new(), BTreeMap::new(), 0);
        for &(key, pages) in &self.parts {
            let part: Rc<dyn BlockDevice> =
                Rc::new(Slice::new(self.disk.clone(), Extent::of_pages(first, pages)).unwrap());
            first += pages;
            if key == "over" {
                over.push(part);
            } else {
                devices.entry(key.to_owned()).or_insert_with(Vec::new).push(part);
            }
        }
        let below = Below { over, devices, create, timing_only: false };
        registry::find(self.layer).unwrap().build(below, &self.options).await
    }

    /// The contents of each client's page; `None` if it cannot be read.
    async fn held(device: &dyn BlockDevice) -> Vec<Option<Vec<u8>>> {
        let mut held = Vec::new();
        for page in 0..CLIENTS {
            let read = device.read(Extent::of_pages(page, 1), Buffer::zeroed(4096), Hints::default()).await;
            held.push(match read {
                Ok(bytes) => Some(bytes.to_vec()),
                Err(error) => {
                    assert!(error.is_medium_error(), "{error}");
                    None
                }
            });
        }
        held
    }

    /// Random writes and a clean stop; then each sector in turn cannot be read. Returns in how many cases a page of a
    /// client could not be read, and in how many the sector was written anew by the next stop.
    async fn lose_each_sector(self, seed: u64) -> (u64, u64) {
        let mut rng = Rng::seeded(seed);
        let mut expected = vec![vec![0; 4096]; CLIENTS as usize];
        let Built { device, layer } = self.open(true).await.unwrap();
        for round in 0..60 {
            let page = rng.below(CLIENTS);
            let bytes: Vec<u8> = (0..4096).map(|_| rng.bits() as u8).collect();
            expected[page as usize].clone_from(&bytes);
            device.write(Extent::of_pages(page, 1), Buffer::from_vec(bytes), Hints::default()).await.unwrap();
            if round % 4 == 0 {
                device.flush(Hints::default()).await.unwrap();
            }
        }
        layer.stop().await.unwrap();
        drop((device, layer));
        let whole = Extent::new(0, self.disk.geometry().sectors);
        let kept =
            self.disk.below.read(whole, Buffer::zeroed(whole.bytes()), Hints::default()).await.unwrap();
        let (mut lost, mut repaired) = (0, 0);
        for sector in 0..whole.sectors {
            self.disk.below.write(whole, kept.clone(), Hints::default()).await.unwrap();
            self.disk.sector.set(Some(sector));
            let opened = self.open(false).await;
            let Built { device, layer } =
                opened.unwrap_or_else(|error| panic!("{}, sector {sector}: {error}", self.layer));
            let held = Volume::held(&*device).await;
            for (page, (held, expected)) in held.iter().zip(&expected).enumerate() {
                assert!(
                    held.as_ref().is_none_or(|held| held == expected),
                    "{}, sector {sector}: page {page} is another one",
                    self.layer
                );
            }
            let gone = held.iter().filter(|held| held.is_none()).count();
            assert!(gone <= 1, "{}, sector {sector}: {gone} pages cannot be read", self.layer);
            lost += gone as u64;
            // Writes go on, and another stop and start finds all of them.
            device
                .write(Extent::of_pages(3, 1), Buffer::from_vec(vec![7; 4096]), Hints::default())
                .await
                .unwrap();
            layer.stop().await.unwrap();
            drop((device, layer));
            repaired += u64::from(gone == 0 && self.disk.sector.get().is_none());
            let Built { device, .. } = self.open(false).await.unwrap();
            assert_eq!(
                Volume::held(&*device).await[3],
                Some(vec![7; 4096]),
                "{}, sector {sector}",
                self.layer
            );
            self.disk.sector.set(None);
        }
        (lost, repaired)
    }
}

/// Layers with metadata in two copies, and the pages of their devices.
#[test]
fn an_unreadable_sector_of_metadata_is_repaired() {
    type Case = (&'static str, &'static str, &'static [(&'static str, u64)]);
    let cases: [Case; 5] = [
        ("borg", "segment = '16KiB'\nwrite_buffer = 0.5", &[("over", 64), ("bopt", 96)]),
        ("mapper", "size = '160KiB'", &[("over", 80)]),
        ("lld", "size = '96KiB'\nsegment = '32KiB'", &[("over", 80)]),
        ("dedup", "", &[("over", 80)]),
        ("hot", "zone = '20KiB'\nunit = '4KiB'", &[("over", 80)]),
    ];
    for (layer, options, parts) in cases {
        let volume = Volume::new(layer, options, parts);
        let (lost, repaired) = Runtime::new(1).run(volume.lose_each_sector(1)).unwrap();
        println!("{layer}: {lost} sectors were of a client's page, {repaired} were written anew");
        assert!(lost > 0 && repaired > 0, "{layer}");
    }
}
