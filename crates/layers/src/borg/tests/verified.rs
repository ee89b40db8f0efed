//! What reads that verify do with sectors that cannot be read, of clean pages, of dirty ones, and while clients write.

use proptest::prelude::*;
use seekless_core::runtime::rng;

use super::*;
use crate::borg::verifier::Verified;
use crate::fault::error;

/// A device that can be made to have bad sectors.
#[derive(Default)]
struct Medium {
    bad: RefCell<std::collections::BTreeSet<u64>>,
    /// Writes do not make them well.
    worn_out: Cell<bool>,
    /// A write that makes some well takes a while.
    slow: Cell<bool>,
}

impl Medium {
    fn spoil(&self, at: Extent) {
        self.bad.borrow_mut().extend(at.start.0..at.end().0);
    }

    fn is_well(&self) -> bool {
        self.bad.borrow().is_empty()
    }
}

impl Fault for Rc<Medium> {
    fn meet(&self, op: Op, at: Extent, _: u64) -> Act {
        let mut bad = self.bad.borrow_mut();
        match op {
            Op::Read if bad.range(at.start.0..at.end().0).next().is_some() => {
                Act::Fail(IoError::new(ErrorKind::Medium, "test", Some(at), "a bad sector"))
            }
            Op::Write if !self.worn_out.get() => {
                let before = bad.len();
                bad.retain(|&sector| !at.overlaps(Extent::new(sector, 1)));
                let slow = self.slow.get() && bad.len() < before;
                if slow { Act::Wait(Nanos::from_millis(200)) } else { Act::Pass }
            }
            _ => Act::Pass,
        }
    }
}

/// Pages 10 to 12 and 40 have clean copies, of version 1 as their copies.
struct Both {
    borg: Rc<Borg>,
    origin: Rc<Medium>,
    bopt: Rc<Medium>,
    /// The devices past their media.
    below: [Rc<Slice>; 2],
}

impl Both {
    async fn new(options: Options) -> Both {
        let disk = disk();
        let below = [slice(&disk, 0, ORIGIN), slice(&disk, ORIGIN, 400 * 8)];
        let (origin, bopt) = (Rc::<Medium>::default(), Rc::<Medium>::default());
        let device = |below: &Rc<Slice>, medium: &Rc<Medium>| -> Rc<dyn BlockDevice> {
            Rc::new(Faulty::new(below.clone(), medium.clone()))
        };
        let borg = formatted(device(&below[0], &origin), device(&below[1], &bopt), options).await;
        for page in [10, 11, 12, 40] {
            let at = Extent::of_pages(page, 1);
            write(&*below[0], at, 1).await;
            read(&*borg, at).await;
        }
        borg.reconfigure_now(Account(1)).await.unwrap();
        Both { borg, origin, bopt, below }
    }

    /// Where a page's copy is.
    fn copy(&self, page: u64) -> Extent {
        let slot = self.borg.store.slot_of(page).unwrap();
        Extent::of_pages(self.borg.store.layout().page(slot), 1)
    }

    async fn verify(&self, at: Extent) -> Result<Vec<u8>, IoError> {
        let how = Hints { class: Class::Free, verify: true, ..Hints::default() };
        self.borg.read(at, Buffer::zeroed(at.bytes()), how).await.map(Buffer::into_vec)
    }

    /// The origin repaired, copies repaired, not repaired, differing.
    fn verified(&self) -> [u64; 4] {
        let Verified { origin_repaired, copies_repaired, unrepaired, differing, .. } =
            self.borg.verifier.found();
        [origin_repaired, copies_repaired, unrepaired, differing]
    }
}

const PAGES: Extent = Extent { start: Lba(8 * 8), sectors: 6 * 8 };

#[test]
fn bad_sectors_of_origin_and_copy_are_repaired_from_each_other() {
    run(1, async {
        let both = Both::new(Options::default()).await;
        // Of page 10 the third sector on the origin and the fourth of the copy; all of page 12 on the origin.
        both.origin.spoil(Extent::new(82, 1));
        both.bopt.spoil(Extent { start: both.copy(10).start + 3, sectors: 1 });
        both.origin.spoil(Extent::of_pages(12, 1));
        let got = both.verify(PAGES).await.unwrap();
        assert_eq!(got[2 * 4_096..5 * 4_096], stamped(Extent::of_pages(10, 3), 1).to_vec());
        assert_eq!(both.verified(), [9, 1, 0, 0]);
        assert!(both.origin.is_well() && both.bopt.is_well());
        assert_eq!(read(&*both.below[0], PAGES).await, got);
        both.verify(PAGES).await.unwrap();
        assert_eq!(both.verified(), [9, 1, 0, 0], "there is nothing left to do");
        assert!(both.borg.locks.is_empty());
    });
}

#[test]
fn what_has_one_copy_or_two_bad_ones_is_an_error() {
    run(1, async {
        let both = Both::new(Options::default()).await;
        both.origin.spoil(Extent::new(8 * 8 + 1, 1));
        assert_eq!(both.verify(PAGES).await.unwrap_err().kind(), ErrorKind::Medium);
        assert!(both.verify(Extent { start: Lba(8 * 9), ..PAGES }).await.is_ok());
        // The same sector of both copies of page 11, and another one that can be repaired all the same.
        both.origin.spoil(Extent::new(8 * 11 + 5, 2));
        both.bopt.spoil(Extent { start: both.copy(11).start + 5, sectors: 1 });
        assert_eq!(both.verify(Extent::of_pages(11, 1)).await.unwrap_err().kind(), ErrorKind::Medium);
        assert_eq!(both.verified(), [1, 0, 0, 0]);
        assert_eq!(both.borg.verifier.found().unreadable, 2);
    });
}

#[test]
fn of_a_dirty_page_only_the_copy_counts() {
    run(1, async {
        for options in [Options::default(), in_place()] {
            let both = Both::new(options).await;
            let at = Extent::of_pages(11, 1);
            write(&*both.borg, at, 7).await;
            both.origin.spoil(at);
            assert_eq!(both.verify(at).await.unwrap(), stamped(at, 7).to_vec());
            assert!(!both.origin.is_well(), "the origin is stale: it is written when the copy is drained");
            both.bopt.spoil(both.copy(11));
            assert!(both.verify(at).await.is_err());
            both.origin.bad.borrow_mut().clear();
            assert!(both.verify(at).await.is_err(), "and is never what the copy is written from");
            assert_eq!(both.verified(), [0; 4]);
        }
    });
}

#[test]
fn what_differs_is_reported_and_left_alone() {
    run(1, async {
        let both = Both::new(Options::default()).await;
        let one = Extent::new(8 * 12 + 4, 1);
        write(&*both.below[0], one, 5).await;
        // Of the page, what cannot be read is repaired, and what differs is not.
        both.origin.spoil(Extent::new(8 * 12 + 6, 1));
        let got = both.verify(PAGES).await.unwrap();
        assert_eq!(got[4 * 4_096..5 * 4_096], stamped(Extent::of_pages(12, 1), 1).to_vec());
        assert_eq!(both.verified(), [1, 0, 0, 1]);
        assert_eq!(read(&*both.below[0], one).await, stamped(one, 5).to_vec());
    });
}

#[test]
fn what_cannot_be_repaired_is_kept_where_it_can_be_read() {
    run(1, async {
        let both = Both::new(Options::default()).await;
        let page = Extent::of_pages(40, 1);
        both.origin.worn_out.set(true);
        both.origin.spoil(Extent::new(8 * 40, 1));
        assert_eq!(both.verify(page).await.unwrap(), stamped(page, 1).to_vec());
        assert_eq!(both.verified(), [0, 0, 1, 0]);
        assert!(both.borg.drain_all(Account(1)).await.is_ok());
        assert_eq!(
            read(&*both.below[0], page).await,
            stamped(page, 1).to_vec(),
            "written, though it is worn out"
        );
        let both = Both::new(Options::default()).await;
        both.bopt.worn_out.set(true);
        both.bopt.spoil(both.copy(40));
        assert_eq!(both.verify(page).await.unwrap(), stamped(page, 1).to_vec());
        assert_eq!(
            (both.verified(), read(&*both.borg, page).await),
            ([0, 0, 8, 0], stamped(page, 1).to_vec())
        );
    });
}

/// Its copy may be the only one that can be read: a reconfiguration that drops clean copies takes it to the origin
/// first.
#[test]
fn a_copy_whose_origin_cannot_be_repaired_counts_as_dirty() {
    run(1, async {
        let both = Both::new(Options::default()).await;
        let page = Extent::of_pages(40, 1);
        both.origin.worn_out.set(true);
        both.origin.spoil(page);
        both.verify(page).await.unwrap();
        let slot = both.borg.store.slot_of(40).unwrap();
        assert!(both.borg.store.table().map.is_dirty(slot));
        both.borg.stop().await.unwrap();
        drop(both.borg);
        let [origin, bopt] = both.below;
        let again = formatted(origin, bopt, Options::default()).await;
        let slot = again.store.slot_of(40).unwrap();
        assert!(again.store.table().map.is_dirty(slot), "also behind a clean stop");
    });
}

#[test]
fn the_command_verifies_what_has_a_copy() {
    run(1, async {
        let both = Both::new(Options::default()).await;
        both.origin.spoil(Extent::of_pages(10, 4));
        both.borg.command("verify", Hints::default()).await.unwrap();
        assert_eq!(both.verified(), [24, 0, 0, 0]);
        assert_eq!(both.origin.bad.borrow().len(), 8, "page 13 has none");
    });
}

/// A repair that is in flight is no excuse to lose a write: that waits for it, and comes after it.
#[test]
fn a_write_during_a_repair_is_not_overwritten() {
    run(1, async {
        for of_origin in [true, false] {
            let both = Both::new(in_place()).await;
            let page = Extent::of_pages(40, 1);
            let (medium, bad) = if of_origin { (&both.origin, page) } else { (&both.bopt, both.copy(40)) };
            medium.slow.set(true);
            medium.spoil(Extent { sectors: 1, ..bad });
            let repair = spawn({
                let borg = both.borg.clone();
                async move {
                    let how = Hints { class: Class::Background, verify: true, ..Hints::default() };
                    borg.read(page, Buffer::hollow_sectors(page.sectors), how).await.is_ok()
                }
            });
            while !medium.is_well() {
                sleep(Nanos::from_millis(1)).await;
            }
            let began = runtime::now();
            write(&*both.borg, page, 7).await;
            assert!(runtime::now() - began > Nanos::from_millis(150), "it waits for the repair");
            assert!(repair.await);
            assert_eq!(read(&*both.borg, page).await, stamped(page, 7).to_vec());
            both.borg.detach().await.unwrap();
            assert_eq!(read(&*both.below[0], page).await, stamped(page, 7).to_vec());
        }
    });
}

/// No request waits for a verifying read that waits for free time.
#[test]
fn a_write_does_not_wait_for_a_read_that_verifies() {
    run(1, async {
        let free = seekless_drive::freeblock::FreeOptions::default();
        let queue = QueueOptions { freeblock: Some(free), ..QueueOptions::default() };
        let disk = Rc::new(Disk::new(0, &spec::find("wd2500aaks").unwrap(), queue));
        let borg = formatted(slice(&disk, 0, ORIGIN), slice(&disk, ORIGIN, 400 * 8), in_place()).await;
        let how = Hints {
            class: Class::Free,
            verify: true,
            ticket: Some(seekless_core::Ticket::new()),
            ..Hints::default()
        };
        let reads = spawn({
            let (borg, how) = (borg.clone(), how.clone());
            async move { borg.read(PAGES, Buffer::hollow_sectors(PAGES.sectors), how).await.is_ok() }
        });
        let began = runtime::now();
        write(&*borg, PAGES, 1).await;
        assert!(runtime::now() - began < Nanos::from_millis(100) && !reads.is_finished());
        how.ticket.unwrap().promote(Class::Background);
        assert!(reads.await);
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Sectors of the origin and BOPT go bad by chance, and only reads that verify find out. Whatever is written, moved
    /// and repaired at the same time: every read returns the last write, and so does the origin in the end.
    #[test]
    fn repairs_lose_no_write(
        seed in any::<u64>(), logged in any::<bool>(), rate in 1..60_u32, write_buffer in prop::sample::select(vec![0.0, 0.3]),
    ) {
        const PAGES: u64 = 60;
        run(seed, async {
            let disk = disk();
            let weak = |below: Rc<Slice>| -> Rc<dyn BlockDevice> {
                let options = format!("until_written = true\nweak = true\nrate_pct = {rate}.0");
                Rc::new(Faulty::new(below, error::Error::new(&toml::from_str(&options).unwrap())))
            };
            let overwrite = if logged { Overwrite::Logged } else { Overwrite::InPlace };
            let options = Options { write_buffer, overwrite, ..Options::default() };
            let (origin, bopt) = (weak(slice(&disk, 0, PAGES * 8)), weak(slice(&disk, PAGES * 8, 150 * 8)));
            let borg = formatted(origin, bopt, options).await;
            let versions = Rc::new(RefCell::new(vec![0_u64; PAGES as usize]));
            let clients = (0..4).map(|client| spawn({
                let (borg, versions) = (borg.clone(), versions.clone());
                async move {
                    let mut rng = rng("client");
                    for version in 1..60 {
                        // Pages of its own, so that it knows what they hold.
                        let page = rng.below(PAGES / 4) * 4 + client;
                        let at = Extent::of_pages(page, 1);
                        if rng.chance(1, 2) {
                            write(&*borg, at, version).await;
                            versions.borrow_mut()[page as usize] = version;
                        } else {
                            let expected = match versions.borrow()[page as usize] {
                                0 => vec![0; 4_096],
                                version => stamped(at, version).to_vec(),
                            };
                            assert_eq!(read(&*borg, at).await, expected, "page {page}");
                        }
                    }
                }
            })).collect::<Vec<_>>();
            let scrub = spawn({
                let borg = borg.clone();
                async move {
                    let mut rng = rng("scrub");
                    for _ in 0..60 {
                        let (first, pages) = (rng.below(PAGES - 8), 1 + rng.below(8));
                        let how = Hints { class: Class::Background, verify: true, ..Hints::default() };
                        // Where both copies are bad, or there is one, it fails.
                        drop(borg.read(Extent::of_pages(first, pages), Buffer::zeroed(pages * 4_096), how).await);
                    }
                }
            });
            for _ in 0..4 {
                borg.reconfigure_now(Account(1)).await.unwrap();
                sleep(Nanos::from_millis(50)).await;
            }
            for task in clients {
                task.await;
            }
            scrub.await;
            borg.detach().await.unwrap();
            assert!(borg.locks.is_empty());
            for (page, version) in (0..).zip(versions.take()).filter(|(_, version)| *version > 0) {
                let at = Extent::of_pages(page, 1);
                assert_eq!(read(&*disk, at).await, stamped(at, version).to_vec(), "page {page} on the origin");
            }
        });
    }
}
