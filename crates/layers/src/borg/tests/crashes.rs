//! Power cuts at any request: flushed data is read again, and no crash passes for damage.

use std::collections::BTreeSet;

use super::super::store::format::{OLD, SEALED, UPGRADING};
use super::versions::old_one;
use super::*;
use crate::fault::powercut::{self, Keep, PowerCut};

const PAGES: u64 = 60;
const BOPT: u64 = 64;

fn options() -> Options {
    Options { segment: crate::units::Bytes(20 << 10), ..Options::default() }
}

fn at(page: u64) -> Extent {
    Extent::of_pages(page, 1)
}

/// Which versions of each page may be read after a crash.
type Versions = Vec<BTreeSet<u64>>;

struct Devices {
    origin: Rc<Slice>,
    /// What is durable of the BOPT.
    durable: Rc<Slice>,
}

impl Devices {
    fn new() -> Devices {
        let disk = disk();
        Devices { origin: slice(&disk, 0, PAGES * 8), durable: slice(&disk, PAGES * 8, BOPT * 8) }
    }

    fn cut_at(&self, nth: u64) -> Rc<PowerCut> {
        Rc::new(PowerCut::new(self.durable.clone(), powercut::Options { nth, keep: Keep::Any }))
    }

    async fn open(&self) -> Result<Rc<Borg>, IoError> {
        Borg::open_creating(self.origin.clone(), self.durable.clone(), options(), false).await
    }
}

/// Each sector holds one of the versions of its page, and from then on only versions that were found. (A page that is
/// overwritten in place may be torn.)
async fn agree(borg: &Borg, versions: &mut Versions, when: &str) {
    for (page, may) in (0..).zip(versions) {
        let held = read(borg, at(page)).await;
        let found: BTreeSet<u64> = held.chunks(512).map(|sector| crate::bytes::u64_at(sector, 8)).collect();
        let whole = (at(page).start.0..).zip(held.chunks(512)).all(|(number, sector)| {
            let version = crate::bytes::u64_at(sector, 8);
            sector == if version == 0 { vec![0; 512] } else { stamp(number, version) }
        });
        assert!(whole && found.is_subset(may), "{when}: page {page} holds {found:?}, expected of {may:?}");
        *may = found;
    }
}

/// Writes, flushes, a reconfiguration, a pause and a stop.
async fn work(borg: &Borg, versions: &mut Versions, seed: u64) -> Result<(), IoError> {
    for step in 0..24 {
        borg.writes.set(Writes { absorbs: (step / 3 + seed) % 4 > 0, drains: false });
        for page in [step * 7 + seed, step * 3 + 1, step * 3 + 2].map(|page| page % PAGES) {
            versions[page as usize].insert(100 + step);
            borg.write(at(page), stamped(at(page), 100 + step), Hints::default()).await?;
        }
        match step % 8 {
            2 | 5 => {
                borg.flush(Hints::default()).await?;
                for may in &mut *versions {
                    *may = may.last().copied().into_iter().collect();
                }
            }
            6 => drop(borg.reconfigure_now(Account(1)).await?),
            7 if step == 7 => sleep(Nanos::from_millis(40_000)).await,
            7 if step == 15 => borg.stop().await?,
            _ => {}
        }
    }
    Ok(())
}

#[test]
fn no_crash_passes_for_damage_and_what_was_flushed_is_there() {
    for nth in (1..).step_by(3) {
        let gone = run(nth, async {
            let devices = Devices::new();
            let cut = devices.cut_at(nth);
            let mut versions: Versions = vec![[0].into(); PAGES as usize];
            if let Ok(borg) = Borg::open_creating(devices.origin.clone(), cut.clone(), options(), false).await
            {
                if borg.store.begin_mapping(&Hints::default()).await.is_ok() {
                    drop(work(&borg, &mut versions, nth).await);
                }
            }
            cut.cut().await.unwrap();
            let when = format!("power cut at request {nth}");
            for _ in 0..2 {
                let borg = devices.open().await.unwrap_or_else(|error| panic!("{when}: {error}"));
                agree(&borg, &mut versions, &when).await;
                let page = nth % PAGES;
                write(&*borg, at(page), 900).await;
                versions[page as usize] = [900].into();
                borg.flush(Hints::default()).await.unwrap();
            }
            cut.requests() >= nth
        });
        if !gone {
            break;
        }
    }
}

#[test]
fn an_upgrade_ends_as_one_version_or_the_other_whenever_power_goes() {
    let mut found = BTreeSet::new();
    for stopped in [false, true] {
        for nth in 1.. {
            let gone = run(nth, async {
                let devices = Devices::new();
                let mut versions: Versions = vec![[0].into(); PAGES as usize];
                let borg = old_one(devices.origin.clone(), devices.durable.clone(), options()).await;
                work(&borg, &mut versions, 3).await.unwrap();
                if stopped {
                    borg.stop().await.unwrap();
                }
                drop(borg);
                let cut = devices.cut_at(nth);
                let upgraded = Borg::upgrade(devices.origin.clone(), cut.clone(), options()).await;
                assert_eq!(upgraded.is_ok(), cut.requests() < nth);
                cut.cut().await.unwrap();
                let when = format!("power cut at request {nth}");
                let borg = devices.open().await.unwrap_or_else(|error| panic!("{when}: {error}"));
                found.insert(borg.store.disk().super_page.version);
                agree(&borg, &mut versions, &when).await;
                write(&*borg, at(7), 900).await;
                versions[7] = [900].into();
                borg.flush(Hints::default()).await.unwrap();
                drop(borg);
                Borg::upgrade(devices.origin.clone(), devices.durable.clone(), options()).await.unwrap();
                let borg = devices.open().await.unwrap();
                let disk = borg.store.disk().super_page.clone();
                assert_eq!((disk.version, disk.features & UPGRADING), (SEALED, 0), "{when}");
                agree(&borg, &mut versions, &when).await;
                cut.requests() >= nth
            });
            if !gone {
                break;
            }
        }
    }
    assert_eq!(found.into_iter().collect::<Vec<_>>(), [OLD, SEALED]);
}
