//! Power cuts at any request of runs with snapshots and clones: a snapshot holds what the volume held when it was
//! taken, a clone that and what was written to it; each is there until it is deleted, and its space comes back.

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

/// Of each sector, what may be found: what was durable first, what was written last at the end.
#[derive(Clone)]
struct Sectors(Vec<Vec<u8>>);

impl Sectors {
    fn of(held: &[u8]) -> Sectors {
        Sectors(held.iter().map(|value| vec![*value]).collect())
    }

    fn last(&self) -> Vec<u8> {
        self.0.iter().map(|all| *all.last().unwrap()).collect()
    }

    fn may_be(&mut self, at: Extent, value: u8) {
        self.0[at.start.0 as usize..at.end().0 as usize].iter_mut().for_each(|all| all.push(value));
    }

    fn settle(&mut self) {
        self.0.iter_mut().for_each(|all| drop(all.drain(..all.len() - 1)));
    }

    /// Compares a device with what may be found, and settles on what was read.
    async fn agree(&mut self, device: &dyn BlockDevice, what: &str) -> Result<(), String> {
        let all = Extent::new(0, self.0.len() as u64);
        let found = values(device, all).await.map_err(|error| error.to_string())?;
        for (sector, (found, may)) in found.iter().zip(&mut self.0).enumerate() {
            if !may.contains(found) {
                return Err(format!("sector {sector} of {what} holds {found}, expected one of {may:?}"));
            }
            *may = vec![*found];
        }
        Ok(())
    }

    /// Writes or discards a part; an error is that of the device.
    async fn change(&mut self, device: &dyn BlockDevice, rng: &mut Rng, number: u64) -> Result<(), IoError> {
        let sectors = self.0.len() as u64;
        // Half of them meet in a few pages.
        let part = |rng: &mut Rng, most: u64| {
            let start = if rng.below(2) == 0 { rng.below(64) } else { rng.below(sectors) };
            Extent::new(start, 1 + rng.below(most.min(sectors - start)))
        };
        let at = match rng.below(14) {
            0 => {
                let at = part(rng, 40);
                for page in at.split(PAGE_SECTORS).filter(|part| part.sectors == PAGE_SECTORS) {
                    self.may_be(page, 0);
                }
                device.discard(at, Hints::default()).await?;
                return self.found(device, at).await;
            }
            1..3 => Extent::of_pages(rng.below(sectors / 8 - 40), 20 + rng.below(20)),
            3..5 => part(rng, 20),
            5..9 => Extent::of_pages(rng.below(8), 1),
            _ => Extent::of_pages(rng.below(sectors / 8 - 1), 1),
        };
        let value = 1 + (number % 250) as u8;
        self.may_be(at, value);
        match device.write(at, filled(value, at.sectors), Hints::default()).await {
            Err(error) if error.kind() == ErrorKind::NoSpace => self.found(device, at).await,
            other => other,
        }
    }

    /// Reads an extent, checks that it may hold what was read, and takes that as written last.
    async fn found(&mut self, device: &dyn BlockDevice, at: Extent) -> Result<(), IoError> {
        let found = values(device, at).await?;
        for (found, all) in found.into_iter().zip(&mut self.0[at.start.0 as usize..]) {
            assert!(all.contains(&found), "found {found}, expected one of {all:?}");
            all.push(found);
        }
        Ok(())
    }
}

/// A snapshot or clone.
#[derive(Clone)]
struct Named {
    held: Sectors,
    /// Whether it is there for sure.
    sure: bool,
    is_clone: bool,
}

/// What may be found.
struct Model {
    volume: Sectors,
    named: BTreeMap<String, Named>,
}

impl Model {
    fn settle(&mut self) {
        self.volume.settle();
        self.named.values_mut().for_each(|one| one.held.settle());
    }

    /// Compares the volume, its snapshots and its clones with the model, and settles the model on what was read.
    async fn agree(&mut self, volume: &Proximal) -> Result<(), String> {
        self.volume.agree(volume, "the volume").await?;
        let views: BTreeMap<String, View> =
            volume.views().into_iter().map(|view| (view.name.clone(), view)).collect();
        if let Some(unknown) = views.keys().find(|name| !self.named.contains_key(*name)) {
            return Err(format!("found the snapshot {unknown}, which was deleted or never taken"));
        }
        self.named.retain(|name, one| one.sure || views.contains_key(name));
        for (name, one) in &mut self.named {
            one.sure = true;
            let Some(view) = views.get(name).filter(|view| view.is_clone == one.is_clone) else {
                return Err(format!("found no {name}"));
            };
            one.held.agree(&*view.device, name).await?;
        }
        Ok(())
    }

    /// One of the names, if there is one that suits.
    fn chosen(&self, rng: &mut Rng, suits: impl Fn(&Named) -> bool) -> Option<String> {
        let names: Vec<&String> = self.named.iter().filter(|one| suits(one.1)).map(|one| one.0).collect();
        let chosen = rng.below(names.len().max(1) as u64) as usize;
        names.get(chosen).map(|name| (*name).clone())
    }

    /// Takes a snapshot, or a clone of the volume or a snapshot; an error is that of a device.
    async fn take(&mut self, volume: &Proximal, rng: &mut Rng, number: u64) -> Result<(), IoError> {
        let (name, is_clone) = (format!("s{number}"), rng.below(2) == 0);
        let from = self.chosen(rng, |one| !one.is_clone).filter(|_| is_clone && rng.below(3) > 0);
        let held = match &from {
            Some(from) => self.named[from].held.clone(),
            None => Sectors::of(&self.volume.last()),
        };
        self.named.insert(name.clone(), Named { held, sure: false, is_clone });
        match (is_clone, &from) {
            (false, _) => volume.create_snapshot(&name).await?,
            (true, from) => volume.create_clone(&name, from.as_deref()).await?,
        }
        if from.is_none() {
            self.settle();
        }
        self.named.get_mut(&name).unwrap().sure = true;
        Ok(())
    }

    /// A step; an error is that of a device.
    async fn step(&mut self, volume: &Proximal, rng: &mut Rng, number: u64) -> Result<(), IoError> {
        match rng.below(24) {
            0..3 => self.take(volume, rng, number).await?,
            3..6 => {
                let Some(name) = self.chosen(rng, |_| true) else { return Ok(()) };
                self.named.get_mut(&name).unwrap().sure = false;
                volume.delete_snapshot(&name).await?;
                self.named.remove(&name);
            }
            6 => match volume.command("destage", Hints::default()).await {
                Err(error) if error.kind() != ErrorKind::NoSpace => return Err(error),
                _ => {}
            },
            7 | 8 => {
                volume.flush(Hints::default()).await?;
                self.settle();
            }
            9..15 => {
                let Some(name) = self.chosen(rng, |one| one.is_clone) else { return Ok(()) };
                let view = volume.views().into_iter().find(|view| view.name == name).unwrap();
                let clone = self.named.get_mut(&name).unwrap();
                clone.held.change(&*view.device, rng, number).await?;
            }
            _ => self.volume.change(volume, rng, number).await?,
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
    let (free, expected) = (count(volume, "blocks_free"), DISK - placed.shape.reserved() - mapped);
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
        let volume = Sectors::of(&[0; (DISK - 1 - 64) as usize * 8]);
        let mut model = Model { volume, named: BTreeMap::new() };
        if let Ok(volume) = open_on(&(cut.clone() as Rc<dyn BlockDevice>), canary).await {
            for number in 0..STEPS {
                if model.step(&volume, &mut rng, number).await.is_err() {
                    // Another one fails too, or is lost.
                    drop(model.volume.change(&*volume, &mut rng, number).await);
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
        model.named.clear();
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
    for canary in options::SNAPSHOT_CANARIES {
        let mut runs = (1..4).flat_map(|seed| (10..800).step_by(7).map(move |nth| (seed, nth)));
        let found = |(seed, nth)| {
            let ran = std::panic::catch_unwind(|| run(seed, nth, Some(canary)).0);
            !matches!(ran, Ok(Ok(_)))
        };
        assert!(runs.any(found), "{canary}");
    }
}
