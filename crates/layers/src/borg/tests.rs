//! BORG over a simulated disk with real bytes: every read returns the last write, whatever moves.

use std::collections::BTreeMap;

use proptest::prelude::*;
use seekless_core::runtime::{Runtime, rng, sleep, spawn};
use seekless_core::{Op, Slice};
use seekless_drive::{Disk, QueueOptions, spec};

use super::*;

const HOME: u64 = 8 * 2_000;

struct World {
    borg: Rc<Borg>,
    disk: Rc<Disk>,
}

fn world(options: Options, bopt_pages: u64) -> World {
    let disk = Rc::new(Disk::new(0, &spec::find("wd2500aaks").unwrap(), QueueOptions::default()));
    let slice = |start, sectors| Rc::new(Slice::new(disk.clone(), Extent::new(start, sectors)).unwrap());
    let borg = Borg::new(slice(0, HOME), slice(HOME, bopt_pages * 8), options).unwrap();
    World { borg: Rc::new(borg), disk }
}

fn run<T>(seed: u64, work: impl Future<Output = T>) -> T {
    Runtime::new(seed).run(work).unwrap()
}

/// 512 bytes that say which sector they are and of which version.
fn stamp(sector: u64, version: u64) -> Vec<u8> {
    let mut bytes = vec![0; 512];
    bytes[..8].copy_from_slice(&sector.to_le_bytes());
    bytes[8..16].copy_from_slice(&version.to_le_bytes());
    bytes
}

fn stamped(at: Extent, version: u64) -> Buffer {
    Buffer::from_vec((at.start.0..at.end().0).flat_map(|sector| stamp(sector, version)).collect())
}

/// One client that knows what it wrote: sectors of its own, and the version of each.
struct Client {
    borg: Rc<Borg>,
    own: std::ops::Range<u64>,
    versions: BTreeMap<u64, u64>,
}

impl Client {
    async fn step(&mut self, op: Op, at: Extent, version: u64) {
        let how = Hints { fua: version % 7 == 0, ..Hints::default() };
        match op {
            Op::Write => {
                self.borg.write(at, stamped(at, version), how).await.unwrap();
                self.versions.extend((at.start.0..at.end().0).map(|sector| (sector, version)));
            }
            Op::Flush => self.borg.flush(how).await.unwrap(),
            _ => self.check(at).await,
        }
    }

    async fn check(&self, at: Extent) {
        let got = self.borg.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await.unwrap().to_vec();
        for (sector, bytes) in (at.start.0..).zip(got.chunks(512)) {
            let expected = self.versions.get(&sector).map_or(vec![0; 512], |version| stamp(sector, *version));
            assert_eq!(bytes, expected, "sector {sector}");
        }
    }

    async fn live(mut self, requests: u64, name: &str) -> Client {
        let mut rng = rng(name);
        for version in 1..=requests {
            let sectors = 1 + rng.below(40);
            // Half of the requests go where half of the others went: something to learn.
            let span = self.own.end - self.own.start - sectors;
            let offset = if rng.chance(1, 2) { rng.below(span) } else { rng.below(8) * span / 8 };
            let op = [Op::Read, Op::Write, Op::Write, Op::Flush][rng.below(4) as usize];
            self.step(op, Extent::new(self.own.start + offset, sectors), version).await;
        }
        self
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Four clients write, read and flush while the layout is reconfigured again and again; what
    /// they read is what they wrote, during, after, and at home once the layer is detached.
    #[test]
    fn every_read_returns_the_last_write(
        seed in any::<u64>(),
        bopt_pages in 3..1_500_u64,
        write_buffer in prop::sample::select(vec![0.0, 0.2, 0.4, 0.9, 1.0]),
    ) {
        run(seed, async {
            let World { borg, disk } = world(Options { write_buffer, threshold: 1 }, bopt_pages);
            let clients: Vec<_> = (0..4)
                .map(|i| {
                    let own = i * HOME / 4..(i + 1) * HOME / 4;
                    let client = Client { borg: borg.clone(), own, versions: BTreeMap::new() };
                    spawn(client.live(120, "client"))
                })
                .collect();
            let mover = spawn({
                let borg = borg.clone();
                async move {
                    for _ in 0..4 {
                        borg.reconfigure(Account(1)).await.unwrap();
                        sleep(Nanos::from_millis(50)).await;
                    }
                }
            });
            let mut settled = Vec::new();
            for client in clients {
                settled.push(client.await);
            }
            mover.await;
            for client in &settled {
                client.check(Extent::new(client.own.start, client.own.end - client.own.start)).await;
            }
            borg.detach().await.unwrap();
            for client in &settled {
                for (sector, version) in &client.versions {
                    let at = Extent::new(*sector, 1);
                    let home = disk.read(at, Buffer::zeroed(512), Hints::default()).await.unwrap().to_vec();
                    assert_eq!(home, stamp(*sector, *version), "home, sector {sector}");
                }
            }
        });
    }
}

#[test]
fn a_full_write_buffer_sends_writes_home() {
    run(1, async {
        let World { borg, .. } = world(Options { write_buffer: 1.0, threshold: 1 }, 20);
        for page in 0..40 {
            let at = Extent::of_pages(page * 3, 1);
            borg.write(at, stamped(at, 1), Hints::default()).await.unwrap();
            borg.flush(Hints::default()).await.unwrap();
        }
        let counters: BTreeMap<_, _> = borg.counters().into_iter().collect();
        assert_eq!(counters["write_buffer_free"], 1, "of 19 pages: too few for a page and its map page");
        let (mapped, maps) = (counters["pages_mapped"], counters["map_pages_written"]);
        assert_eq!((mapped, maps), (9, 9), "each flushed run pays a map page");
    });
}

#[test]
fn what_repeats_is_served_from_the_bopt_after_a_reconfiguration() {
    run(1, async {
        let World { borg, disk } = world(Options::default(), 1_000);
        let scattered: Vec<Extent> = (0..50).map(|i| Extent::of_pages(i * 37 % 50 * 39, 1)).collect();
        let play = async |account| {
            for at in &scattered {
                let how = Hints { account: Account(account), ..Hints::default() };
                borg.read(*at, Buffer::hollow_sectors(8), how).await.unwrap();
            }
        };
        play(0).await;
        let report = borg.reconfigure(Account(1)).await.unwrap();
        assert_eq!(report.planned_pages, 50);
        let stages: Vec<_> = report.stages.iter().map(|stage| (stage.name, stage.pages)).collect();
        let expected = [("analyse", 50), ("plan", 50), ("outgoing", 0), ("relocate", 0), ("incoming", 50)];
        assert_eq!(stages, expected);
        play(2).await;
        assert_eq!(borg.served(Account(0)), Served { pages: 50, from_bopt: 0 });
        assert_eq!(borg.served(Account(2)), Served { pages: 50, from_bopt: 50 });
        let (before, after) = (disk.account(Account(0)).busy(), disk.account(Account(2)).busy());
        assert!(after.0 * 5 < before.0, "{after} against {before}");
        let error =
            futures_util::future::join(borg.reconfigure(Account(1)), borg.reconfigure(Account(1))).await.1;
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Invalid);
    });
}

#[test]
fn volumes_and_options_that_make_no_sense_are_refused() {
    run(1, async {
        let disk = Rc::new(Disk::new(0, &spec::find("wd2500aaks").unwrap(), QueueOptions::default()));
        let slice = |sectors| Rc::new(Slice::new(disk.clone(), Extent::new(0, sectors)).unwrap());
        let refused = |bopt_sectors, write_buffer| {
            let options = Options { write_buffer, threshold: 1 };
            let error =
                Borg::new(slice(HOME), slice(bopt_sectors), options).err().map(|error| error.to_string());
            error.unwrap_or_default()
        };
        assert!(refused(8, 0.4).contains("found a BOPT of 1 pages"));
        assert!(refused(8_000, 1.5).contains("write_buffer: found 1.5, expected 0 to 1"));
        assert_eq!(refused(8_000, 0.4), "");
    });
}
