//! Power cuts at any request, after which the flash may be gone: destaged pages are read from the copies on the data
//! device, and pages that are not as they were flushed last are within a region that the repair names.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join;
use seekless_core::runtime::{self, Rng};
use seekless_core::{Nanos, Zeroes};

use super::*;
use crate::fault::powercut::{self, Keep, PowerCut};
use crate::proximal::format::{ENTRIES, LABEL_PAGES};
use crate::proximal::repair::flash_from_copies;
use crate::under_test::filled;

/// Pages of both devices, which lose power together: four regions, and the flash.
const DISK: u64 = 4_096;
const SSD: u64 = 64;
/// Pages that are written in each region.
const WINDOW: u64 = 24;
/// Power cuts of a run.
const CUTS: u64 = 3;
/// Runs that agree.
const SEEDS: u64 = 150;

/// What the pages of the volume, a snapshot or a clone may hold: what was durable first, what was written last at the
/// end.
#[derive(Clone, Default)]
struct Held(BTreeMap<u64, Vec<u8>>);

impl Held {
    fn settle(&mut self) {
        self.0.values_mut().for_each(|may| drop(may.drain(..may.len() - 1)));
    }

    /// Compares a device with what may be found; within the lost extents, with all that was ever written there. Settles
    /// on what was read.
    async fn agree(&mut self, device: &dyn BlockDevice, seen: &Seen<'_>, what: &str) -> Result<(), String> {
        for (page, may) in &mut self.0 {
            let at = Extent::of_pages(*page, 1);
            let found = values(device, at).await.map_err(|error| error.to_string())?;
            let is_lost = seen.lost.iter().any(|lost| lost.start <= at.start && at.end() <= lost.end());
            let may_be = |value: &u8| may.contains(value) || is_lost && seen.ever[page].contains(value);
            if !found.iter().all(may_be) || found.iter().any(|value| *value != found[0]) {
                return Err(format!(
                    "page {page} of {what}, lost: {is_lost}, holds {found:?}, expected one of {may:?}"
                ));
            }
            *may = vec![found[0]];
        }
        Ok(())
    }
}

/// What was lost, and all values that pages ever had.
struct Seen<'a> {
    lost: &'a [Extent],
    ever: &'a BTreeMap<u64, BTreeSet<u8>>,
}

#[derive(Clone)]
struct Named {
    held: Held,
    /// Whether it is there for sure, and whether it may be.
    sure: bool,
    is_clone: bool,
}

struct Model {
    volume: Held,
    named: BTreeMap<String, Named>,
    ever: BTreeMap<u64, BTreeSet<u8>>,
    steps: u64,
}

impl Model {
    fn new() -> Model {
        let pages: Vec<u64> =
            (0..3).flat_map(|map| (0..WINDOW).map(move |page| map * ENTRIES as u64 + page)).collect();
        let volume = Held(pages.iter().map(|page| (*page, vec![0])).collect());
        let ever = pages.iter().map(|page| (*page, BTreeSet::from([0]))).collect();
        Model { volume, named: BTreeMap::new(), ever, steps: 0 }
    }

    fn settle(&mut self) {
        self.volume.settle();
        self.named.values_mut().for_each(|one| one.held.settle());
    }

    async fn agree(&mut self, volume: &Proximal, lost: &[Extent]) -> Result<(), String> {
        let seen = Seen { lost, ever: &self.ever };
        self.volume.agree(volume, &seen, "the volume").await?;
        let views: BTreeMap<String, View> =
            volume.views().into_iter().map(|view| (view.name.clone(), view)).collect();
        if let Some(unknown) = views.keys().find(|name| !self.named.contains_key(*name)) {
            return Err(format!("found {unknown}, which was deleted or never taken"));
        }
        if let Some((name, _)) = self.named.iter().find(|(name, one)| one.sure && !views.contains_key(*name))
        {
            return Err(format!("found no {name}"));
        }
        self.named.retain(|name, _| views.contains_key(name));
        for (name, one) in &mut self.named {
            one.sure = true;
            one.held.agree(&*views[name].device, &seen, name).await?;
        }
        Ok(())
    }

    /// Writes a page, a run of them that goes past the staging area, or discards one.
    async fn change(
        &mut self,
        name: Option<&str>,
        device: &dyn BlockDevice,
        rng: &mut Rng,
    ) -> Result<(), IoError> {
        let map = rng.below(3) * ENTRIES as u64;
        let (first, pages) = match rng.below(8) {
            0 => (map, WINDOW),
            _ => (map + rng.below(WINDOW), 1),
        };
        let at = Extent::of_pages(first, pages);
        let is_discard = pages == 1 && rng.below(10) == 0;
        let value = if is_discard { 0 } else { 1 + (self.steps % 250) as u8 };
        let held = match name {
            Some(name) => &mut self.named.get_mut(name).unwrap().held,
            None => &mut self.volume,
        };
        for page in at.pages() {
            held.0.get_mut(&page).unwrap().push(value);
            self.ever.get_mut(&page).unwrap().insert(value);
        }
        let how = Hints { fua: rng.below(8) == 0, ..Hints::default() };
        let fua = how.fua;
        if is_discard {
            device.discard(at, how).await?;
            // It may be as before, without room for its record.
            let found = values(device, at).await?[0];
            held.0.get_mut(&first).unwrap().push(found);
        } else {
            device.write(at, filled(value, at.sectors), how).await?;
            if fua {
                at.pages().for_each(|page| *held.0.get_mut(&page).unwrap() = vec![value]);
            }
        }
        Ok(())
    }

    async fn step(
        &mut self,
        volume: &Proximal,
        rng: &mut Rng,
        is_cut: impl Fn() -> bool,
    ) -> Result<(), IoError> {
        self.steps += 1;
        let name = format!("s{}", self.steps);
        let chosen = |model: &Model, rng: &mut Rng, clones: bool| {
            let names: Vec<String> =
                model.named.iter().filter(|one| one.1.is_clone || !clones).map(|one| one.0.clone()).collect();
            let number = rng.below(names.len().max(1) as u64) as usize;
            names.get(number).cloned()
        };
        match rng.below(24) {
            0 => {
                let is_clone = rng.below(2) == 0;
                let mut held = self.volume.clone();
                held.0.values_mut().for_each(|may| drop(may.drain(..may.len() - 1)));
                self.named.insert(name.clone(), Named { held, sure: false, is_clone });
                if is_clone {
                    volume.create_clone(&name, None).await?;
                } else {
                    volume.create_snapshot(&name).await?;
                }
                self.settle();
                // With its copy cut short it is in flash alone.
                self.named.get_mut(&name).unwrap().sure = !is_cut();
            }
            1 => {
                let Some(name) = chosen(self, rng, false) else { return Ok(()) };
                self.named.get_mut(&name).unwrap().sure = false;
                volume.delete_snapshot(&name).await?;
                if !is_cut() {
                    self.named.remove(&name);
                }
            }
            2 | 3 => volume.command("destage", Hints::default()).await?,
            4..8 => {
                volume.flush(Hints::default()).await?;
                self.settle();
            }
            8..11 => {
                let Some(name) = chosen(self, rng, true) else { return Ok(()) };
                let view = volume.views().into_iter().find(|view| view.name == name);
                if let Some(view) = view {
                    self.change(Some(&name), &*view.device, rng).await?;
                }
            }
            _ => self.change(None, volume, rng).await?,
        }
        Ok(())
    }
}

fn options_of(canary: Option<&str>) -> Options {
    let mut options = Options { destage_below: 0.3, reserve: 0.05, copies: true, ..options() };
    enable(&mut options, canary);
    options
}

#[cfg(feature = "canaries")]
fn enable(options: &mut Options, canary: Option<&str>) {
    options.canary = canary.map(str::to_owned);
}

#[cfg(not(feature = "canaries"))]
fn enable(_: &mut Options, _: Option<&str>) {}

fn both(device: &Rc<dyn BlockDevice>) -> (Rc<dyn BlockDevice>, Rc<dyn BlockDevice>) {
    let slice = |at| Rc::new(Slice::new(device.clone(), at).unwrap()) as Rc<dyn BlockDevice>;
    (slice(Extent::of_pages(0, DISK)), slice(Extent::of_pages(DISK, SSD)))
}

async fn open_on(device: &Rc<dyn BlockDevice>, canary: Option<&str>) -> Result<Rc<Proximal>, IoError> {
    let (disk, ssd) = both(device);
    Proximal::open(disk, ssd, &options_of(canary), true, false).await
}

/// Runs until the power is cut, three times; after each the flash may be lost. How many runs named regions that were
/// lost, and how many had nothing to lose.
fn run(seed: u64, canary: Option<&str>) -> (Result<[u64; 2], String>, BTreeSet<&'static str>) {
    let world = Runtime::new(seed);
    let ran = world.run(async {
        let durable = device(0, DISK + SSD);
        let mut rng = runtime::rng("steps");
        let (mut model, mut counts) = (Model::new(), [0, 0]);
        open_on(&durable, canary).await.map_err(|error| error.to_string())?;
        for round in 0..CUTS {
            let nth = 1 + rng.below(400);
            let cut = Rc::new(PowerCut::new(durable.clone(), powercut::Options { nth, keep: Keep::Any }));
            if let Ok(volume) = open_on(&(cut.clone() as Rc<dyn BlockDevice>), canary).await {
                while cut.requests() < nth {
                    if model.step(&volume, &mut rng, || cut.requests() >= nth).await.is_err() {
                        break;
                    }
                }
            }
            cut.cut().await.map_err(|error| error.to_string())?;
            runtime::sleep(Nanos::from_millis(2_000)).await;
            let mut lost = Vec::new();
            if rng.below(3) > 0 {
                let (disk, ssd) = both(&durable);
                ssd.write_zeroes(Extent::of_pages(0, SSD), Hints::default(), Zeroes::default())
                    .await
                    .unwrap();
                let opened =
                    Proximal::open(disk.clone(), ssd.clone(), &options_of(canary), false, false).await;
                let refused = opened.map(drop).unwrap_err().to_string();
                assert!(refused.contains("seekless volume repair"), "{refused}");
                lost = flash_from_copies(&disk, &ssd, &options_of(None))
                    .await
                    .map_err(|error| format!("round {round}, repair: {error}"))?;
                counts[usize::from(lost.is_empty())] += 1;
            }
            let volume =
                open_on(&durable, canary).await.map_err(|error| format!("after the cut: {error}"))?;
            model.agree(&volume, &lost).await.map_err(|wrong| format!("round {round}: {wrong}"))?;
            volume.stop().await.map_err(|error| error.to_string())?;
        }
        Ok(counts)
    });
    let edges = world.edges().into_iter().map(|(edge, _)| edge).collect();
    (ran.unwrap(), edges)
}

#[test]
fn without_its_flash_a_volume_loses_what_is_named_and_no_more() {
    let (mut edges, mut all) = (BTreeSet::new(), [0, 0]);
    for seed in 1..=SEEDS {
        let (ran, reached) = run(seed, None);
        edges.extend(reached);
        match ran {
            Ok(counts) => (0..2).for_each(|which| all[which] += counts[which]),
            Err(wrong) => panic!("seed {seed}: {wrong}"),
        }
    }
    assert!(all.iter().all(|count| *count > 0), "{all:?}");
    for edge in [
        "the map is newer than its copies: they are written before any block is",
        "regions are marked before a flush is answered",
    ] {
        assert!(edges.contains(edge), "{edge}");
    }
}

/// Flushes that come together mark their regions with one write; without a whole anchor all copies are written anew,
/// and flash is made from these.
#[test]
fn an_anchor_that_rotted_is_written_anew() {
    let world = Runtime::new(1);
    let (at, how) = (Extent::of_pages(3, 1), Hints::default);
    let work = async {
        let durable = device(0, DISK + SSD);
        let volume = open_on(&durable, None).await?;
        volume.write(at, filled(7, at.sectors), how()).await?;
        let (one, other) = join(volume.flush(how()), volume.flush(how())).await;
        one.and(other)?;
        volume.command("destage", how()).await?;
        volume.stop().await?;
        drop(volume);
        let (disk, ssd) = both(&durable);
        let anchors = Extent::of_pages(LABEL_PAGES, 2);
        disk.write(anchors, filled(1, anchors.sectors), how()).await?;
        let volume = open_on(&durable, None).await?;
        assert!(values(&*volume, at).await?.iter().all(|value| *value == 7));
        volume.stop().await?;
        drop(volume);
        ssd.write_zeroes(Extent::of_pages(0, SSD), how(), Zeroes::default()).await?;
        flash_from_copies(&disk, &ssd, &options_of(None)).await?;
        let volume = open_on(&durable, None).await?;
        assert!(values(&*volume, at).await?.iter().all(|value| *value == 7));
        volume.stop().await
    };
    world.run(work).unwrap().unwrap();
    let edges: BTreeSet<&str> = world.edges().into_iter().map(|(edge, _)| edge).collect();
    for edge in [
        "another flush has marked the regions",
        "no anchor is whole: all copies are written anew",
        "flash is made from the copies on the data device",
    ] {
        assert!(edges.contains(edge), "{edge}");
    }
}

#[cfg(feature = "canaries")]
#[test]
fn each_known_bug_of_copies_is_found() {
    for canary in options::COPY_CANARIES {
        let found = |seed| {
            let ran = std::panic::catch_unwind(|| run(seed, Some(canary)).0);
            !matches!(ran, Ok(Ok(_)))
        };
        assert!((1..=SEEDS).any(found), "{canary}");
    }
}
