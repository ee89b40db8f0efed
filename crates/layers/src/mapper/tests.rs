//! The mapper against a register for each sector, with power cuts at every request.

use std::collections::BTreeMap;

use proptest::prelude::*;
use seekless_core::runtime::Runtime;
use seekless_drive::{Disk, QueueOptions, spec};

use super::*;
use crate::fault::powercut::{self, Keep, PowerCut};
use crate::fault::{Faulty, error};

const PAGES: u64 = 12;
const SECTORS: u64 = PAGES * PAGE_SECTORS;

/// What is below: so many slots more than pages.
fn disk(slots: u64) -> Rc<dyn BlockDevice> {
    let spec = spec::find("wd2500aaks").unwrap();
    let disk: Rc<dyn BlockDevice> = Rc::new(Disk::new(0, &spec, QueueOptions::default()));
    let pages = 2 * table::home_pages(PAGES) + slots;
    Rc::new(seekless_core::Slice::new(disk, Extent::of_pages(0, pages)).unwrap())
}

/// Of each sector, the versions that a restart may find: the last durable one first, the last one written last.
type Versions = BTreeMap<u64, Vec<u8>>;

/// A step of a workload: what, from where, how many sectors.
type Step = (u8, u64, u64);

/// Carries steps out until one fails; what a restart may find.
async fn carry_out(mapper: &Mapper, steps: &[Step]) -> (Versions, Result<(), IoError>) {
    let mut versions: Versions = (0..SECTORS).map(|sector| (sector, vec![0])).collect();
    for (number, &(what, start, sectors)) in (1..).zip(steps) {
        let at = Extent::new(start, sectors.min(SECTORS - start));
        let sectors = at.start.0..at.end().0;
        let how = Hints { fua: what == 1, ..Hints::default() };
        let done = match what {
            0 => mapper.flush(Hints::default()).await,
            2 => {
                let read = mapper.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await;
                read.map(|read| {
                    let found: Vec<u8> = read.to_vec().into_iter().step_by(SECTOR_BYTES as usize).collect();
                    let last: Vec<u8> =
                        sectors.clone().map(|sector| *versions[&sector].last().unwrap()).collect();
                    assert_eq!(found, last, "step {number}");
                })
            }
            _ => {
                // Answered or not, it may be found.
                for sector in sectors.clone() {
                    versions.get_mut(&sector).unwrap().push(number);
                }
                mapper.write(at, Buffer::from_vec(vec![number; at.bytes() as usize]), how).await
            }
        };
        if done.is_err() {
            return (versions, done);
        }
        // A flush, and the commit of a write with FUA, make all that was answered durable.
        if what <= 1 {
            for all in versions.values_mut() {
                all.drain(..all.len() - 1);
            }
        }
    }
    (versions, Ok(()))
}

async fn check(below: Rc<dyn BlockDevice>, versions: &Versions, when: &str) {
    let mapper = Mapper::open(below, &Options::of_pages(PAGES))
        .await
        .unwrap_or_else(|error| panic!("{when}: {error}"));
    let whole = Extent::new(0, SECTORS);
    let read = mapper.read(whole, Buffer::zeroed(whole.bytes()), Hints::default()).await.unwrap();
    for (sector, bytes) in (0..).zip(read.to_vec().chunks(SECTOR_BYTES as usize)) {
        assert!(bytes.iter().all(|byte| *byte == bytes[0]), "{when}: sector {sector} is mixed");
        assert!(
            versions[&sector].contains(&bytes[0]),
            "{when}: sector {sector}: {} of {:?}",
            bytes[0],
            versions[&sector]
        );
    }
    // And it goes on working.
    mapper.write(whole, Buffer::from_vec(vec![77; whole.bytes() as usize]), Hints::default()).await.unwrap();
    mapper.flush(Hints::default()).await.unwrap();
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    proptest::collection::vec((0..6_u8, 0..SECTORS - 1, 1..30_u64), 1..14)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Power goes at the n-th request that reaches the disk, for every n; a restart finds, of every sector, the
    /// last durable version or a later one.
    #[test]
    fn no_power_cut_loses_what_was_durable(steps in steps(), slots in PAGES + 1..2 * PAGES, seed in 0..100_u64) {
        for nth in 1.. {
            let gone = Runtime::new(seed).run(async {
                let durable = disk(slots);
                let created = Mapper::create(durable.clone(), &Options::of_pages(PAGES)).await.unwrap();
                drop(created);
                let cut = Rc::new(PowerCut::new(durable.clone(), powercut::Options { nth, keep: Keep::Any }));
                let Ok(mapper) = Mapper::open(cut.clone(), &Options::of_pages(PAGES)).await else { return true };
                let (versions, _) = carry_out(&mapper, &steps).await;
                cut.cut().await.unwrap();
                check(durable, &versions, &format!("power cut at request {nth}")).await;
                cut.requests() >= nth
            }).unwrap();
            if !gone {
                break;
            }
        }
    }

    /// The n-th request to the disk fails, once: nothing that is read is wrong, and nothing durable is lost.
    #[test]
    fn no_error_yields_wrong_data(steps in steps(), slots in PAGES + 1..2 * PAGES) {
        for nth in 1..60 {
            Runtime::new(1).run(async {
                let durable = disk(slots);
                drop(Mapper::create(durable.clone(), &Options::of_pages(PAGES)).await.unwrap());
                let nth_fails = error::Options { nth, ..error::Options::default() };
                let failing: Rc<dyn BlockDevice> =
                    Rc::new(Faulty::new(durable.clone(), error::Error::new(&nth_fails)));
                let Ok(mapper) = Mapper::open(failing, &Options::of_pages(PAGES)).await else { return };
                let (versions, _) = carry_out(&mapper, &steps).await;
                drop(mapper);
                check(durable, &versions, &format!("error at request {nth}")).await;
            }).unwrap();
        }
    }
}
