//! The mapper against a register for each sector, with power cuts at every request; and one test for each thing
//! that can go wrong in between.

use proptest::prelude::*;
use seekless_core::runtime::{self, Runtime};
use seekless_core::{Nanos, Op, SECTOR_BYTES, Slice, Ticket};
use seekless_drive::{Disk, QueueOptions, spec};

use super::*;
use crate::fault::powercut::{self, Keep, PowerCut};
use crate::fault::{Act, Fault, Faulty};
use crate::under_test::{PAGES, SECTORS, Versions, filled, reached, steps, values, with_error, world, write};

/// The pages that the tests see lie in the midst of a volume: their entries lie in two sectors of the map, so that
/// a torn map holds some of them.
const FIRST: u64 = 106;
/// Pages of the volume.
const ALL: u64 = 130;
/// The others: all of them hold something.
const OTHERS: u64 = ALL - PAGES;

/// The device below: `slots` slots for `pages` pages.
fn slots_for(pages: u64, slots: u64) -> Rc<dyn BlockDevice> {
    let spec = spec::find("wd2500aaks").unwrap();
    let disk: Rc<dyn BlockDevice> = Rc::new(Disk::new(0, &spec, QueueOptions::default()));
    let sectors = sealed::copies(pages).sectors + slots * PAGE_SECTORS;
    Rc::new(Slice::new(disk, Extent::new(0, sectors)).unwrap())
}

/// The device below a volume: `slots` slots for the pages that the tests see.
async fn disk(slots: u64) -> Rc<dyn BlockDevice> {
    let below = slots_for(ALL, OTHERS + slots);
    let seen = |page: &u64| (FIRST..FIRST + PAGES).contains(page);
    let mut next = 0..;
    let slots = (0..ALL).map(|page| if seen(&page) { NONE } else { next.next().unwrap_or(NONE) }).collect();
    let map = Map { generation: 1, slots, free: std::collections::VecDeque::new() };
    let bytes = sealed::encode(&map, 1, false, &Canary::default());
    region::write(&*below, sealed::copy(1, ALL), &bytes, &Hints::default()).await.unwrap();
    below
}

async fn open(below: &Rc<dyn BlockDevice>) -> Result<Rc<Slice>, IoError> {
    open_with(below, &Options::of_pages(ALL)).await
}

async fn open_with(below: &Rc<dyn BlockDevice>, options: &Options) -> Result<Rc<Slice>, IoError> {
    let mapper = Mapper::open(below.clone(), options, true).await?;
    Ok(Rc::new(Slice::new(mapper, Extent::of_pages(FIRST, PAGES)).unwrap()))
}

/// What a restart finds is one of the versions; from then on it is the only one.
async fn recover(versions: &mut Versions, below: &Rc<dyn BlockDevice>, when: &str) -> Rc<Slice> {
    let mapper = open(below).await.unwrap_or_else(|error| panic!("{when}: {error}"));
    versions.agree(&*mapper, when).await;
    mapper
}

/// The same, and it goes on working.
async fn check(versions: &mut Versions, below: Rc<dyn BlockDevice>, when: &str) {
    let mapper = recover(versions, &below, when).await;
    write(&*mapper, 0, SECTORS, 77).await.unwrap();
    mapper.flush(Hints::default()).await.unwrap();
    let again = open(&below).await.unwrap();
    assert_eq!(values(&*again, Extent::new(0, SECTORS)).await.unwrap(), [77; SECTORS as usize], "{when}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Power goes at the n-th request that reaches the disk, for every n; a restart finds, of every sector, the
    /// last durable version or a later one.
    #[test]
    fn no_power_cut_loses_what_was_durable(steps in steps(14), slots in PAGES + 1..2 * PAGES, seed in 0..100_u64) {
        for nth in 1.. {
            let gone = Runtime::new(seed).run(async {
                let durable = disk(slots).await;
                let cut = Rc::new(PowerCut::new(durable.clone(), powercut::Options { nth, keep: Keep::Any }));
                let below: Rc<dyn BlockDevice> = cut.clone();
                let mut versions = Versions::zeroes();
                if let Ok(mapper) = open(&below).await {
                    let _ = versions.carry_out(&*mapper, &steps, 1).await;
                }
                cut.cut().await.unwrap();
                check(&mut versions, durable, &format!("power cut at request {nth}")).await;
                cut.requests() >= nth
            }).unwrap();
            if !gone {
                break;
            }
        }
    }

    /// The process ends at the n-th request while the cache below keeps its power; what a restart finds is settled,
    /// also if power goes before its first flush.
    #[test]
    fn what_a_restart_without_a_power_cut_found_survives_a_later_one(
        steps in steps(14),
        later in steps(14),
        slots in PAGES + 1..PAGES + 4,
        seed in 0..100_u64,
    ) {
        for nth in 1..50 {
            Runtime::new(seed).run(async {
                let durable = disk(slots).await;
                let options = powercut::Options { nth: u64::MAX, keep: Keep::Any };
                let cache = Rc::new(PowerCut::new(durable.clone(), options));
                let below: Rc<dyn BlockDevice> = cache.clone();
                let killed = with_error(&below, &format!("nth = {nth}\nfor_ever = true\nkind = 'gone'"));
                let mut versions = Versions::zeroes();
                if let Ok(mapper) = open(&killed).await {
                    let _ = versions.carry_out(&*mapper, &steps, 1).await;
                }
                let mapper = recover(&mut versions, &below, &format!("killed at request {nth}")).await;
                versions.carry_out(&*mapper, &later, 100).await.unwrap();
                cache.cut().await.unwrap();
                check(&mut versions, durable, &format!("killed at request {nth}, then a power cut")).await;
            }).unwrap();
        }
    }

    /// The n-th request to the disk fails, once: nothing that is read is wrong, and nothing durable is lost.
    #[test]
    fn no_error_yields_wrong_data(steps in steps(14), slots in PAGES + 1..2 * PAGES) {
        for nth in 1..60 {
            Runtime::new(1).run(async {
                let durable = disk(slots).await;
                let mut versions = Versions::zeroes();
                if let Ok(mapper) = open(&with_error(&durable, &format!("nth = {nth}"))).await {
                    let _ = versions.carry_out(&*mapper, &steps, 1).await;
                }
                check(&mut versions, durable, &format!("error at request {nth}")).await;
            }).unwrap();
        }
    }

    /// Requests that are all in flight together, with one slot more than pages: each is answered, none fails because
    /// no slot is free, and overlapping ones have the effect that they have in the order of their arrival.
    #[test]
    fn requests_in_flight_together_find_their_slots(steps in steps(14), spare in 1..4_u64) {
        world(async || {
            let durable = disk(PAGES + spare).await;
            let mapper = open(&durable).await.unwrap();
            let reference = open(&disk(3 * PAGES).await).await.unwrap();
            for full in [&mapper, &reference] {
                write(&**full, 0, SECTORS, 0).await.unwrap();
            }
            let tasks: Vec<_> = (1..).zip(&steps).map(|(number, &step)| {
                let mapper = mapper.clone();
                runtime::spawn(async move {
                    // What a read finds is known only where requests come one after the other.
                    let step = if step.0 == 2 { (0, step.1, step.2) } else { step };
                    let mut alone = Versions::zeroes();
                    alone.carry_out(&*mapper, &[step], number).await
                })
            }).collect();
            for task in tasks {
                task.await.unwrap();
            }
            let mut versions = Versions::zeroes();
            versions.carry_out(&*reference, &steps, 1).await.unwrap();
            let whole = 0..SECTORS;
            assert_eq!(values(&*mapper, Extent::new(0, SECTORS)).await.unwrap(), versions.last(whole));
        });
    }
}

#[test]
fn a_write_waits_for_a_slot_while_a_flush_frees_some() {
    let (found, edges) = world(async || {
        let below = disk(PAGES + 1).await;
        let mapper = open(&below).await.unwrap();
        write(&*mapper, 0, SECTORS, 1).await.unwrap();
        // A flush that is in flight has taken what was released, and other writes have the rest.
        let flusher = mapper.clone();
        let flush = runtime::spawn(async move { flusher.flush(Hints::default()).await });
        let writes: Vec<_> = (0..6)
            .map(|page| {
                let mapper = mapper.clone();
                runtime::spawn(async move { write(&*mapper, page * PAGE_SECTORS, 8, 2).await })
            })
            .collect();
        for answer in writes {
            answer.await.unwrap();
        }
        flush.await.unwrap();
        values(&*mapper, Extent::new(0, SECTORS)).await.unwrap()
    });
    assert_eq!(found, [[2; 48], [1; 48]].concat());
    for edge in ["slots ran out: a flush frees some", "a second flush waits for the first"] {
        assert!(reached(&edges, edge), "{edge}");
    }
}

#[test]
fn a_slot_that_cannot_be_written_fails_one_request_and_not_all() {
    let (failed, edges) = world(async || {
        let below = disk(2 * PAGES).await;
        let bad = sealed::copies(ALL).bytes() + OTHERS * PAGE_BYTES;
        let options = format!("for_ever = true\nops = ['write']\nat = '{bad}'\nsize = '4KiB'");
        let mapper = open(&with_error(&below, &options)).await.unwrap();
        let mut failed = 0;
        for _ in 0..20 {
            failed += u64::from(write(&*mapper, 0, 8, 1).await.is_err());
            mapper.flush(Hints::default()).await.unwrap();
        }
        failed
    });
    assert_eq!(failed, 1);
    assert!(reached(&edges, "a write failed: its slot is the last to be tried again"));
}

#[test]
fn a_torn_copy_leaves_the_other_and_is_written_next() {
    for flushes in 1..=4_u64 {
        let ((), edges) = world(async || {
            let below = disk(2 * PAGES).await;
            let mapper = open(&below).await.unwrap();
            let sector = Extent { sectors: 1, ..sealed::copy((flushes + 1) % 2, ALL) };
            let mut before = Buffer::zeroed(SECTOR_BYTES);
            for value in 1..=flushes {
                before = sector_at(&below, sector).await;
                write(&*mapper, 0, 8, value as u8).await.unwrap();
                mapper.flush(Hints::default()).await.unwrap();
            }
            // A sector of the last map is lost.
            below.write(sector, before, Hints::default()).await.unwrap();
            let mapper = open(&below).await.unwrap();
            let one = Extent::new(0, 1);
            assert_eq!(values(&*mapper, one).await.unwrap(), [flushes as u8 - 1]);
            // A flush that fails has touched the torn copy only: the other one still counts.
            let dying = open(&with_error(&below, "nth = 4\nops = ['flush', 'write']")).await.unwrap();
            write(&*dying, 0, 8, 98).await.unwrap();
            dying.flush(Hints::default()).await.unwrap_err();
            assert_eq!(values(&*open(&below).await.unwrap(), one).await.unwrap(), [flushes as u8 - 1]);
            let mapper = open(&below).await.unwrap();
            write(&*mapper, 0, 8, 99).await.unwrap();
            mapper.flush(Hints::default()).await.unwrap();
            assert_eq!(values(&*open(&below).await.unwrap(), one).await.unwrap(), [99]);
        });
        assert!(reached(&edges, "a torn copy of the map: the other counts"));
    }
}

async fn sector_at(below: &Rc<dyn BlockDevice>, at: Extent) -> Buffer {
    below.read(at, Buffer::zeroed(SECTOR_BYTES), Hints::default()).await.unwrap()
}

/// Also if the top is flushed again after the stop, as a server does: then each of the copies may rot.
#[test]
fn a_flush_without_a_change_writes_no_map() {
    world(async || {
        let below = disk(2 * PAGES).await;
        let all = Options::of_pages(ALL);
        let opened = || Mapper::open(below.clone(), &all, true);
        let mapper = opened().await.unwrap();
        for flushes in 0..3 {
            write(&*mapper, 8 * (FIRST + flushes), 8, 1).await.unwrap();
            mapper.flush(Hints::default()).await.unwrap();
        }
        mapper.stop().await.unwrap();
        mapper.flush(Hints::default()).await.unwrap();
        drop(mapper);
        for copy in 0..2 {
            let sector = Extent::new(sealed::copy(copy, ALL).start.0, 1);
            let before = sector_at(&below, sector).await;
            let mut rotten = before.to_vec();
            rotten[40] ^= 1;
            below.write(sector, Buffer::from_vec(rotten), Hints::default()).await.unwrap();
            let mapper = opened().await.unwrap_or_else(|error| panic!("copy {copy}: {error}"));
            assert_eq!(values(&*mapper, Extent::new(8 * (FIRST + 2), 1)).await.unwrap(), [1]);
            drop(mapper);
            below.write(sector, before, Hints::default()).await.unwrap();
        }
    });
}

/// A creation is cut short as it writes the second copy, and so is the next map that goes there: sectors that neither
/// wrote are not taken for damage.
#[test]
fn a_creation_that_was_cut_short_is_completed_before_the_next_map() {
    world(async || {
        let below = disk(2 * PAGES).await;
        drop(open(&below).await.unwrap());
        // Of the copy that opening writes, one sector is left.
        let copy = sealed::copy(0, ALL);
        let lost = Extent { start: copy.start + 1, sectors: copy.sectors - 1 };
        let zeroes = Buffer::zeroed(lost.bytes());
        below.write(lost, zeroes, Hints::default()).await.unwrap();
        let mapper = open(&below).await.unwrap();
        let before = sector_at(&below, Extent { sectors: 1, ..lost }).await;
        write(&*mapper, 0, 8, 1).await.unwrap();
        mapper.flush(Hints::default()).await.unwrap();
        below.write(Extent { sectors: 1, ..lost }, before, Hints::default()).await.unwrap();
        let mapper = open(&below).await.unwrap();
        assert_eq!(
            values(&*mapper, Extent::new(0, 1)).await.unwrap(),
            [0],
            "the torn map was never answered"
        );
    });
}

/// A copy that is not whole is written when the volume is opened; on a device that is not written it is read all the
/// same.
#[test]
fn a_volume_that_lacks_a_copy_is_read_on_a_read_only_device() {
    world(async || {
        let below = disk(2 * PAGES).await;
        let fixed = with_error(&below, "kind = 'read only'\nnth = 1\nfor_ever = true\nops = ['write']");
        let mapper = open(&fixed).await.unwrap();
        assert_eq!(values(&*mapper, Extent::new(0, 1)).await.unwrap(), [0]);
        assert_eq!(mapper.flush(Hints::default()).await.unwrap_err().kind(), ErrorKind::ReadOnly);
    });
}

/// The map that a crash tore would be made whole by the next one, torn too, if both had one generation.
#[test]
fn two_torn_maps_do_not_make_a_whole_one() {
    world(async || {
        let below = disk(2 * PAGES).await;
        let (first, second, last) = (Extent::of_pages(0, 1), Extent::of_pages(1, 1), Extent::of_pages(8, 1));
        let mapper = open(&below).await.unwrap();
        let entries = Extent::new(1, 1);
        let before = sector_at(&below, entries).await;
        write(&*mapper, first.start.0, 8, 1).await.unwrap();
        write(&*mapper, last.start.0, 8, 1).await.unwrap();
        mapper.flush(Hints::default()).await.unwrap();
        // Of its map, generation 2 in the first copy, the sector with the last page's entry is lost.
        below.write(entries, before, Hints::default()).await.unwrap();
        let begin = sector_at(&below, Extent::new(0, 1)).await;
        // A restart goes back to generation 1, and uses the slots again: another page, then the same last one.
        let mapper = open(&below).await.unwrap();
        write(&*mapper, second.start.0, 8, 2).await.unwrap();
        write(&*mapper, last.start.0, 8, 2).await.unwrap();
        mapper.flush(Hints::default()).await.unwrap();
        // Of its own map, just the sector that was lost before survives.
        below.write(Extent::new(0, 1), begin, Hints::default()).await.unwrap();
        let mapper = open(&below).await.unwrap();
        assert_eq!(values(&*mapper, first).await.unwrap(), [0; 8], "no map that was durable has this page");
    });
}

#[test]
fn after_a_flush_that_failed_every_later_one_fails_and_data_stays_readable() {
    let ((), edges) = world(async || {
        let below = disk(2 * PAGES).await;
        // After three of the opening, which writes the copy that this volume lacks.
        let failing = with_error(&below, "nth = 4\nops = ['flush']");
        let mapper = open(&failing).await.unwrap();
        write(&*mapper, 0, 8, 1).await.unwrap();
        let error = mapper.flush(Hints::default()).await.unwrap_err();
        write(&*mapper, 0, 8, 2).await.unwrap();
        assert_eq!(mapper.flush(Hints::default()).await.unwrap_err(), error);
        let how = Hints { fua: true, ..Hints::default() };
        assert_eq!(mapper.write(Extent::new(0, 8), filled(3, 8), how.clone()).await.unwrap_err(), error);
        assert_eq!(mapper.discard(Extent::new(8, 8), how).await.unwrap_err(), error);
        assert_eq!(values(&*mapper, Extent::new(0, 8)).await.unwrap(), [3; 8]);
    });
    assert!(reached(&edges, "a flush failed: all later ones fail"));
}

#[test]
fn an_aborted_request_does_not_abort_the_map_of_others() {
    world(async || {
        let below = disk(2 * PAGES).await;
        let mapper = open(&below).await.unwrap();
        write(&*mapper, 0, 8, 1).await.unwrap();
        let (ticket, flusher) = (Ticket::new(), mapper.clone());
        let how = Hints { class: Class::Free, ticket: Some(ticket.clone()), ..Hints::default() };
        let flush = runtime::spawn(async move { flusher.flush(how).await });
        for _ in 0..20 {
            runtime::sleep(Nanos::from_micros(500)).await;
            ticket.abort();
        }
        let _ = flush.await;
        mapper.flush(Hints::default()).await.unwrap();
    });
}

#[test]
fn a_write_with_fua_and_a_discard_with_it_are_durable_at_once() {
    world(async || {
        let durable = disk(2 * PAGES).await;
        let options = powercut::Options { nth: u64::MAX, keep: Keep::None };
        let cache = Rc::new(PowerCut::new(durable.clone(), options));
        let below: Rc<dyn BlockDevice> = cache.clone();
        let mapper = open(&below).await.unwrap();
        let fua = Hints { fua: true, ..Hints::default() };
        write(&*mapper, 0, 24, 1).await.unwrap();
        mapper.write(Extent::new(3, 2), filled(2, 2), fua.clone()).await.unwrap();
        // Of the pages only the second is discarded as a whole.
        mapper.discard(Extent::new(6, 12), fua).await.unwrap();
        write(&*mapper, 0, 24, 3).await.unwrap();
        cache.cut().await.unwrap();
        let found = values(&*open(&durable).await.unwrap(), Extent::new(0, 24)).await.unwrap();
        assert_eq!(found, [vec![1; 3], vec![2; 2], vec![1; 3], vec![0; 8], vec![1; 8]].concat());
    });
}

/// Refuses what is larger than it takes.
struct Largest(u64);

impl Fault for Largest {
    fn meet(&self, op: Op, at: Extent, _: u64) -> Act {
        assert!(at.sectors <= self.0, "{op} of {} sectors", at.sectors);
        Act::Pass
    }

    fn geometry(&self, below: Geometry) -> Geometry {
        Geometry { largest_sectors: self.0, ..below }
    }
}

#[test]
fn a_map_larger_than_a_request_is_read_and_written_in_parts() {
    world(async || {
        let (pages, one) = (5_000, Extent::new(39_990, 9));
        let below: Rc<dyn BlockDevice> = Rc::new(Faulty::new(slots_for(pages, pages + 9), Largest(12)));
        for value in 1..=3 {
            let mapper = Mapper::open(below.clone(), &Options::of_pages(pages), true).await.unwrap();
            assert_eq!(values(&*mapper, one).await.unwrap(), [value - 1; 9]);
            write(&*mapper, one.start.0, one.sectors, value).await.unwrap();
            mapper.flush(Hints::default()).await.unwrap();
            let other = Mapper::open(below.clone(), &Options::of_pages(4_999), true).await;
            let error = other.map(drop).unwrap_err().to_string();
            assert!(error.contains("a map of 5000 pages") && error.contains("4999"), "{error}");
        }
    });
}

#[test]
fn what_is_no_map_is_reported_and_not_written_over() {
    world(async || {
        let below = disk(2 * PAGES).await;
        write(&*below, 1, 1, 7).await.unwrap();
        write(&*below, sealed::copies(ALL).sectors - 1, 1, 7).await.unwrap();
        let error = open(&below).await.map(drop).unwrap_err();
        assert_eq!(
            (error.kind(), values(&*below, Extent::new(1, 1)).await.unwrap()),
            (ErrorKind::Corrupt, vec![7])
        );
        assert!(error.to_string().contains("no map that is whole"), "{error}");
    });
}

#[test]
fn pages_are_found_where_they_lie() {
    world(async || {
        let mapper = open(&disk(2 * PAGES).await).await.unwrap();
        write(&*mapper, 8, 8, 1).await.unwrap();
        let mut places = Vec::new();
        mapper.places(Extent::new(6, 6), &mut |part, place| places.push((part, place)));
        assert_eq!(
            places,
            [
                (Extent::new(6, 2), Place::Nowhere),
                (Extent::new(8, 4), Place::On { component: 0, at: Lba(960) })
            ]
        );
    });
}
