//! Clients that get in each other's way, movers at work, and a model that knows what each read must
//! return: the write that arrived last before it.

use std::cell::RefCell;

use proptest::prelude::*;
use seekless_core::runtime::{Rng, rng};
use seekless_drive::Policy;

use super::*;

use crate::join::join_all;

/// The version of each sector, as requests arrive; 0 is never written, or zeroes.
struct Model {
    versions: Vec<u64>,
    last: u64,
}

struct Clients {
    borg: Rc<Borg>,
    model: RefCell<Model>,
    origin: u64,
}

impl Clients {
    /// A request, checked if it reads. What it must return is settled in the same poll in which the
    /// request is queued.
    async fn request(&self, kind: u64, at: Extent, fua: bool) {
        let how = Hints { fua, ..Hints::default() };
        let range = at.start.0 as usize..at.end().0 as usize;
        match kind {
            0..=3 => {
                let version = {
                    let mut model = self.model.borrow_mut();
                    model.last += 1;
                    let version = model.last;
                    model.versions[range].fill(version);
                    version
                };
                self.borg.write(at, stamped(at, version), how).await.unwrap();
            }
            4..=7 => {
                let expected = self.model.borrow().versions[range].to_vec();
                let got = self.borg.read(at, Buffer::zeroed(at.bytes()), how).await.unwrap().to_vec();
                for ((sector, bytes), version) in (at.start.0..).zip(got.chunks(512)).zip(expected) {
                    assert_eq!(bytes, content(sector, version), "sector {sector}");
                }
            }
            8 => self.borg.flush(how).await.unwrap(),
            9 => self.borg.discard(at, how).await.unwrap(),
            _ => {
                self.model.borrow_mut().versions[range].fill(0);
                self.borg.write_zeroes(at, how, Zeroes::default()).await.unwrap();
            }
        }
    }

    fn somewhere(&self, rng: &mut Rng) -> Extent {
        let most = if rng.chance(1, 6) { self.origin } else { 40.min(self.origin) };
        let sectors = 1 + rng.below(most);
        let sectors = if rng.chance(1, 2) { sectors.next_multiple_of(8) } else { sectors };
        let span = self.origin - sectors;
        let start = if rng.chance(1, 2) { rng.below(span + 1) } else { rng.below(8) * span / 8 };
        Extent::new(if rng.chance(1, 2) { start / 8 * 8 } else { start }, sectors)
    }

    async fn live(self: Rc<Self>, burst: u64, stands_aside: bool) {
        let mut rng = rng("client");
        for _ in 0..40 {
            if stands_aside && rng.chance(1, 3) {
                self.borg.writes.set(Writes { absorbs: rng.chance(1, 4), drains: false });
            }
            let requests = (0..=rng.below(burst)).map(|_| {
                let (kind, at) = (rng.below(11), self.somewhere(&mut rng));
                self.request(kind, at, rng.chance(1, 7))
            });
            join_all(requests.collect::<Vec<_>>()).await;
            self.check_the_segments();
            if rng.chance(1, 4) {
                sleep(Nanos(rng.below(30_000_000))).await;
            }
        }
    }

    async fn keep_moving(self: Rc<Self>) {
        let mut rng = rng("mover");
        for _ in 0..6 {
            if rng.chance(1, 4) {
                if let Err(error) = self.borg.drain_all(Account(1)).await {
                    assert_eq!(error.kind(), ErrorKind::Timeout, "clients wrote faster than pages moved");
                }
            } else {
                self.borg.reconfigure_now(Account(1)).await.unwrap();
            }
            sleep(Nanos(rng.below(60_000_000))).await;
        }
    }

    /// What is counted of segments is so.
    fn check_the_segments(&self) {
        let table = self.borg.store.table();
        for segment in 0..self.borg.store.layout().segments() {
            let slots = self.borg.store.layout().slots_of(segment);
            let held = slots.filter(|slot| table.map.page_at(*slot).is_some()).count();
            assert_eq!(table.segments.get(segment).valid as usize, held, "segment {segment}");
            let logged = segment >= self.borg.store.layout().read_cache;
            assert!(
                !logged || held == 0 || table.segments.get(segment).taken > 0,
                "segment {segment} is free"
            );
        }
    }
}

fn content(sector: u64, version: u64) -> Vec<u8> {
    if version == 0 { vec![0; 512] } else { stamp(sector, version) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever overlaps and whatever moves, every read returns the last write before it; and once
    /// the layer is detached, so does the disk itself.
    #[test]
    fn every_read_returns_the_last_write(
        seed in any::<u64>(),
        origin_pages in prop::sample::select(vec![6_u64, 24, 100, 700]),
        bopt_pages in prop::sample::select(vec![8_u64, 9, 14, 20, 33, 70, 150, 600, 1_100]),
        write_buffer in prop::sample::select(vec![0.0, 0.2, 0.5, 0.9, 1.0]),
        (clients, burst) in (1..7_u64, 1..5_u64),
        (merge, fcfs, logged, planned, stands_aside, copies_reads) in any::<(bool, bool, bool, bool, bool, bool)>(),
        background_share_pct in prop::sample::select(vec![1_u8, 20, 99]),
    ) {
        run(seed, async {
            let policy = if fcfs { Policy::Fcfs } else { Policy::CLook };
            let queue = QueueOptions { policy, merge, background_share_pct, ..QueueOptions::default() };
            let disk = Rc::new(Disk::new(0, &spec::find("wd2500aaks").unwrap(), queue));
            let origin = origin_pages * 8;
            let overwrite = if logged { Overwrite::Logged } else { Overwrite::InPlace };
            let placement = if planned { Placement::Planned } else { Placement::Kept };
            let copy_on_read = Bytes(if copies_reads { 1 << 20 } else { 0 });
            let options = Options { write_buffer, overwrite, placement, copy_on_read, ..Options::default() };
            let bopt = slice(&disk, origin, bopt_pages * 8);
            let borg = Borg::open_creating(slice(&disk, 0, origin), bopt, options, false).await.unwrap();
            let model = RefCell::new(Model { versions: vec![0; origin as usize], last: 0 });
            let world = Rc::new(Clients { borg: borg.clone(), model, origin });
            let tasks: Vec<_> = (0..clients).map(|_| spawn(world.clone().live(burst, stands_aside))).collect();
            let mover = spawn(world.clone().keep_moving());
            for task in tasks {
                task.await;
            }
            mover.await;
            world.request(4, Extent::new(0, origin), false).await;
            borg.detach().await.unwrap();
            assert!(borg.locks.is_empty());
            let all = disk.read(Extent::new(0, origin), Buffer::zeroed(origin * 512), Hints::default()).await.unwrap();
            for ((sector, bytes), version) in (0..).zip(all.to_vec().chunks(512)).zip(&world.model.borrow().versions) {
                assert_eq!(bytes, content(sector, *version), "origin, sector {sector}");
            }
        });
    }
}
