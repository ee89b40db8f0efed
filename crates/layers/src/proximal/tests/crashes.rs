//! Power cuts at any request of runs with snapshots: a snapshot holds what the volume held when it was taken, it is there
//! until it is deleted, and its space comes back.

use std::collections::{BTreeMap, BTreeSet};

use seekless_core::Nanos;
use seekless_core::runtime::{self, Rng};

use super::*;
use crate::fault::powercut::{self, Keep, PowerCut};
use crate::under_test::filled;

/// Pages of the devices, which lose power together: three ranges of 64 blocks, and the flash.
const DISK: u64 = 192;
const SSD: u64 = 48;
/// Steps of a run.
const STEPS: u64 = 80;

/// What may be found.
struct Model {
    /// Of each sector, what may be found: what was durable first, what was written last at the end.
    sectors: Vec<Vec<u8>>,
    /// Of each snapshot what it holds, and whether it is there for sure.
    snapshots: BTreeMap<String, (Vec<u8>, bool)>,
}

impl Model {
    fn last(&self) -> Vec<u8> {
        self.sectors.iter().map(|all| *all.last().unwrap()).collect()
    }

    fn may_be(&mut self, at: Extent, value: u8) {
        self.sectors[at.start.0 as usize..at.end().0 as usize].iter_mut().for_each(|all| all.push(value));
    }

    fn settle(&mut self) {
        self.sectors.iter_mut().for_each(|all| drop(all.drain(..all.len() - 1)));
    }

    /// Compares the volume and its snapshots with the model, and settles the model on what was read.
    async fn agree(&mut self, volume: &Proximal) -> Result<(), String> {
        let all = Extent::new(0, self.sectors.len() as u64);
        let found = values(volume, all).await.map_err(|error| error.to_string())?;
        for (sector, (found, may)) in found.iter().zip(&mut self.sectors).enumerate() {
            if !may.contains(found) {
                return Err(format!("sector {sector} holds {found}, expected one of {may:?}"));
            }
            *may = vec![*found];
        }
        let views: BTreeMap<String, Rc<dyn BlockDevice>> =
            volume.views().into_iter().map(|view| (view.name, view.device)).collect();
        if let Some(unknown) = views.keys().find(|name| !self.snapshots.contains_key(*name)) {
            return Err(format!("found the snapshot {unknown}, which was deleted or never taken"));
        }
        self.snapshots.retain(|name, (_, sure)| *sure || views.contains_key(name));
        for (name, (held, sure)) in &mut self.snapshots {
            *sure = true;
            let Some(view) = views.get(name) else { return Err(format!("found no snapshot {name}")) };
            let found = values(&**view, all).await.map_err(|error| error.to_string())?;
            if let Some(sector) = (0..held.len()).find(|sector| found[*sector] != held[*sector]) {
                return Err(format!(
                    "sector {sector} of snapshot {name} holds {}, expected {}",
                    found[sector], held[sector]
                ));
            }
        }
        Ok(())
    }

    /// A step; an error is that of a device.
    async fn step(&mut self, volume: &Proximal, rng: &mut Rng, number: u64) -> Result<(), IoError> {
        let sectors = self.sectors.len() as u64;
        // Half of them meet in a few pages.
        let part = |rng: &mut Rng, most: u64| {
            let start = if rng.below(2) == 0 { rng.below(64) } else { rng.below(sectors) };
            Extent::new(start, 1 + rng.below(most.min(sectors - start)))
        };
        let name = format!("s{number}");
        match rng.below(20) {
            0 | 1 => {
                self.snapshots.insert(name.clone(), (self.last(), false));
                match volume.create_snapshot(&name).await {
                    Ok(()) => {
                        self.settle();
                        self.snapshots.get_mut(&name).unwrap().1 = true;
                    }
                    Err(error) => return Err(error),
                }
            }
            2 | 3 if !self.snapshots.is_empty() => {
                let chosen = rng.below(self.snapshots.len() as u64) as usize;
                let name = self.snapshots.keys().nth(chosen).unwrap().clone();
                self.snapshots.get_mut(&name).unwrap().1 = false;
                volume.delete_snapshot(&name).await?;
                self.snapshots.remove(&name);
            }
            4 => match volume.command("destage", Hints::default()).await {
                Err(error) if error.kind() != ErrorKind::NoSpace => return Err(error),
                _ => {}
            },
            5 | 6 => {
                volume.flush(Hints::default()).await?;
                self.settle();
            }
            7 => {
                let at = part(rng, 40);
                for page in at.split(PAGE_SECTORS).filter(|part| part.sectors == PAGE_SECTORS) {
                    self.may_be(page, 0);
                }
                volume.discard(at, Hints::default()).await?;
                self.found(volume, at).await?;
            }
            what => {
                let at = match what {
                    8..10 => Extent::of_pages(rng.below(sectors / 8 - 40), 20 + rng.below(20)),
                    10..12 => part(rng, 20),
                    12..16 => Extent::of_pages(rng.below(8), 1),
                    _ => Extent::of_pages(rng.below(sectors / 8 - 1), 1),
                };
                let value = 1 + (number % 250) as u8;
                self.may_be(at, value);
                match volume.write(at, filled(value, at.sectors), Hints::default()).await {
                    Err(error) if error.kind() == ErrorKind::NoSpace => self.found(volume, at).await?,
                    other => other?,
                }
            }
        }
        Ok(())
    }

    /// Reads an extent, checks that it may hold what was read, and takes that as written last.
    async fn found(&mut self, volume: &Proximal, at: Extent) -> Result<(), IoError> {
        let found = values(volume, at).await?;
        for (found, all) in found.into_iter().zip(&mut self.sectors[at.start.0 as usize..]) {
            assert!(all.contains(&found), "found {found}, expected one of {all:?}");
            all.push(found);
        }
        Ok(())
    }
}

/// Opens the volume on both parts of a device.
async fn open_on(device: &Rc<dyn BlockDevice>, canary: Option<&str>) -> Result<Rc<Proximal>, IoError> {
    let slice = |at| Rc::new(Slice::new(device.clone(), at).unwrap()) as Rc<dyn BlockDevice>;
    let (disk, ssd) = (slice(Extent::of_pages(0, DISK)), slice(Extent::of_pages(DISK, SSD)));
    let mut options = Options { destage_below: 0.3, ..options() };
    enable(&mut options, canary);
    Proximal::open(disk, ssd, &options, true, false).await
}

#[cfg(feature = "canaries")]
fn enable(options: &mut Options, canary: Option<&str>) {
    options.canary = canary.map(str::to_owned);
}

#[cfg(not(feature = "canaries"))]
fn enable(_: &mut Options, _: Option<&str>) {}

/// Deletes everything: only the volume's own blocks are taken.
async fn returns_all(volume: &Proximal) -> Result<(), String> {
    let failed = |error: IoError| error.to_string();
    for view in volume.views() {
        volume.delete_snapshot(&view.name).await.map_err(failed)?;
    }
    volume.command("destage", Hints::default()).await.map_err(failed)?;
    volume.flush(Hints::default()).await.map_err(failed)?;
    let placed = &volume.versions.placed;
    let mapped = placed.state.borrow().map.mapped();
    let (free, expected) = (count(volume, "blocks_free"), DISK - format::LABEL_PAGES - mapped);
    if (free, placed.blocks_kept(), placed.deleted().len()) != (expected, 0, 0) {
        return Err(format!("{free} blocks are free, expected {expected}"));
    }
    Ok(())
}

/// A run whose power is cut at this request; whether it was, and the edges that were reached.
fn run(seed: u64, nth: u64, canary: Option<&str>) -> (Result<bool, String>, BTreeSet<&'static str>) {
    let world = Runtime::new(seed);
    let ran = world.run(async {
        let durable = device(0, DISK + SSD);
        let cut = PowerCut::new(durable.clone(), powercut::Options { nth, keep: Keep::Any });
        let cut = Rc::new(cut);
        let mut rng = runtime::rng("steps");
        let mut model =
            Model { sectors: vec![vec![0]; (DISK - 1 - 64) as usize * 8], snapshots: BTreeMap::new() };
        if let Ok(volume) = open_on(&(cut.clone() as Rc<dyn BlockDevice>), canary).await {
            for number in 0..STEPS {
                if model.step(&volume, &mut rng, number).await.is_err() {
                    break;
                }
            }
            if volume.flush(Hints::default()).await.is_ok() {
                model.settle();
                let agreed = model.agree(&volume).await;
                if cut.requests() < nth {
                    agreed?;
                }
            }
        }
        cut.cut().await.map_err(|error| error.to_string())?;
        // Requests that were under way on the device have ended when the power is back.
        runtime::sleep(Nanos::from_millis(2_000)).await;
        let volume = open_on(&durable, canary).await.map_err(|error| format!("after the cut: {error}"))?;
        model.agree(&volume).await?;
        for number in STEPS..STEPS + 12 {
            model.step(&volume, &mut rng, number).await.map_err(|error| format!("step {number}: {error}"))?;
        }
        model.agree(&volume).await?;
        volume.stop().await.map_err(|error| error.to_string())?;
        let volume = open_on(&durable, canary).await.map_err(|error| format!("after the stop: {error}"))?;
        model.agree(&volume).await?;
        returns_all(&volume).await?;
        model.snapshots.clear();
        model.agree(&volume).await?;
        Ok(cut.requests() >= nth)
    });
    let edges = world.edges().into_iter().map(|(edge, _)| edge).collect();
    (ran.unwrap(), edges)
}

#[test]
fn snapshots_hold_what_they_held_whenever_power_goes() {
    let mut edges = BTreeSet::new();
    for seed in 1..=5 {
        for nth in (seed..).step_by(5) {
            let (ran, reached) = run(seed, nth, None);
            edges.extend(reached);
            match ran {
                Ok(true) => {}
                Ok(false) => break,
                Err(wrong) => panic!("seed {seed}, power cut at request {nth}: {wrong}"),
            }
        }
    }
    let missed: Vec<_> = SNAPSHOT_EDGES.iter().filter(|edge| !edges.contains(*edge)).collect();
    assert_eq!(missed, [] as [&&str; 0]);
}

#[cfg(feature = "canaries")]
#[test]
fn each_known_bug_of_snapshots_is_found() {
    for canary in SNAPSHOT_CANARIES {
        let mut runs = (1..4).flat_map(|seed| (10..800).step_by(7).map(move |nth| (seed, nth)));
        let found = |(seed, nth)| {
            let ran = std::panic::catch_unwind(|| run(seed, nth, Some(canary)).0);
            !matches!(ran, Ok(Ok(_)))
        };
        assert!(runs.any(found), "{canary}");
    }
}
