//! An experiment: a drive, a layer or none, and how the trace is played.

use std::collections::BTreeMap;

use seekless_core::{Extent, PAGE_SECTORS, Size};
use seekless_drive::{Model, QueueOptions, spec};
use seekless_layers::Refused;
use seekless_layers::registry::{Entry, Sizes};
use seekless_layers::schedule::Schedule;
use seekless_trace::Trace;

use crate::error::LabError;
use crate::setup::{Clock, Pace, Play};
use seekless_volume::Component;
use seekless_volume::description::{Description, Layer, VolumeError, Window};

/// An experiment.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The drive below everything.
    pub drive: Model,
    /// Sectors of the clients' volume: the first of the drive. By default the size of the recorded device: up to the
    /// trace's last sector, rounded up to 1 GiB.
    pub over_sectors: Option<u64>,
    /// The layer, if any.
    pub layer: Option<LayerSetup>,
    /// Options of the drive's queue.
    pub queue: QueueOptions,
    /// Pace of the trace.
    pub pace: Pace,
    /// Number of reconfigurations, after equal numbers of requests, unless `schedule` says otherwise.
    pub reconfigure: u32,
    /// When the layer is reconfigured instead.
    pub schedule: Option<Schedule>,
    /// Whether the trace goes on during a reconfiguration.
    pub clock: Clock,
    /// Seed of all random streams.
    pub seed: u64,
    /// Whether a comparison also finds what BORG could reach at most ([`crate::bounds`]).
    pub bounds: bool,
    /// Whether a comparison also keeps what the drives did ([`crate::accesses`]).
    pub accesses: bool,
}

/// A layer and the location of its own device.
#[derive(Clone, Debug)]
pub struct LayerSetup {
    /// Entry in the registry.
    pub entry: &'static Entry,
    /// Its options.
    pub options: toml::Table,
    /// The part of the drive that is its second device, if it has one.
    pub partition: Option<Partition>,
}

/// A part of a drive beside the clients' volume.
#[derive(Clone, Debug, PartialEq)]
pub struct Partition {
    /// Size in sectors.
    pub sectors: u64,
    /// Its first sector on its drive; by default right after the clients' volume, and the first of a drive of its own.
    /// Within the clients' volume, in whole pages: that continues behind it.
    pub at_sector: Option<u64>,
    /// A drive of its own.
    pub drive: Option<Model>,
}

/// The layout of the drive, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// Sectors of the clients' volume.
    pub over_sectors: u64,
    /// Sectors below it, from sector 0, and around a BOPT among them: more if the layer needs room of its own there.
    pub origin_sectors: u64,
    /// First sector of the BOPT, on its drive.
    pub bopt_at: u64,
    /// Sectors of the BOPT; 0 without a layer.
    pub bopt_sectors: u64,
}

impl Experiment {
    /// Class in which reconfigurations copy.
    pub fn reconfigure_class(&self) -> &str {
        reconfigure_class(self.layer.iter().map(|layer| &layer.options))
    }

    /// Name of its layer; `vanilla` without one.
    pub fn name(&self) -> &'static str {
        self.layer.as_ref().map_or("vanilla", |layer| layer.entry.name)
    }

    /// How its trace is played.
    pub fn play(&self) -> Play {
        let Experiment { pace, reconfigure, clock, seed, bounds, accesses, .. } = *self;
        Play { pace, reconfigure, clock, seed, bounds, accesses }
    }

    /// The part of the drive that is its layer's second device.
    pub fn partition(&self) -> Option<&Partition> {
        self.layer.as_ref()?.partition.as_ref()
    }

    /// The experiment without its layer.
    pub fn vanilla(&self) -> Experiment {
        Experiment { layer: None, reconfigure: 0, schedule: None, ..self.clone() }
    }

    /// The layout for a trace that ends at `end_sector`; `trace` is for messages. If the drive is too small, the error
    /// names larger ones that fit.
    pub fn places(&self, trace: &str, end_sector: u64) -> Result<Places, LabError> {
        self.laid_out(trace, end_sector).map_err(|error| match error {
            LabError::Unfit { trace, found, expected } => {
                let fit: Vec<&str> = self.fitting(end_sector).into_iter().map(|(name, _)| name).collect();
                let others = if fit.is_empty() {
                    "no drive that ships is as large".to_owned()
                } else {
                    format!("or --drive with one that fits: {}", fit.join(", "))
                };
                LabError::Unfit { trace, found, expected: format!("{expected}; {others}") }
            }
            other => other,
        })
    }

    /// The shipped drives on which everything has room, for a trace that ends at `end_sector`.
    pub fn fitting(&self, end_sector: u64) -> Vec<(&'static str, Model)> {
        let drives = spec::shipped().filter_map(|name| Some((name, Model::find(name).ok()?)));
        let fits = |drive: &Model| {
            let other = Experiment { drive: drive.clone(), ..self.clone() };
            other.laid_out("", end_sector).is_ok()
        };
        drives.filter(|(_, drive)| fits(drive)).collect()
    }

    fn laid_out(&self, trace: &str, end_sector: u64) -> Result<Places, LabError> {
        const GIB_SECTORS: u64 = (1 << 30) / 512;
        let drive = self.drive.sectors();
        let setting = |setting, found: u64, expected| LabError::Setting {
            setting,
            found: format!("{} ({found} sectors)", Size(found.saturating_mul(512))),
            expected,
        };
        if end_sector > drive {
            let found =
                format!("requests up to sector {end_sector} ({})", Size(end_sector.saturating_mul(512)));
            let expected =
                format!("at most sector {drive}, the end of {} ({})", self.drive.name(), Size(drive * 512));
            return Err(LabError::Unfit { trace: trace.to_owned(), found, expected });
        }
        let rounded = end_sector.div_ceil(GIB_SECTORS) * GIB_SECTORS;
        let over_sectors = self.over_sectors.unwrap_or(rounded.min(drive));
        if over_sectors < end_sector {
            let expected = format!("at least {end_sector} sectors, which the trace reaches");
            return Err(setting("over", over_sectors, expected));
        }
        if over_sectors > drive || over_sectors == 0 {
            let expected = format!("1 to {drive} sectors, the size of {}", self.drive.name());
            return Err(setting("over", over_sectors, expected));
        }
        let origin_sectors = self.origin_sectors(trace, over_sectors)?;
        let Some(partition) = self.partition() else {
            return Ok(Places { over_sectors, origin_sectors, bopt_at: origin_sectors, bopt_sectors: 0 });
        };
        let beside = partition.drive.as_ref();
        let (name, size) = beside.map_or((self.drive.name(), drive), |own| (own.name(), own.sectors()));
        let usual = if beside.is_some() { 0 } else { origin_sectors.next_multiple_of(PAGE_SECTORS) };
        let bopt_at = partition.at_sector.unwrap_or(usual);
        if bopt_at >= size {
            return Err(setting("bopt-at", bopt_at, format!("less than {size} sectors, the size of {name}")));
        }
        let within = beside.is_none() && bopt_at < origin_sectors;
        let room = if within { drive - origin_sectors } else { size - bopt_at };
        if partition.sectors > room || partition.sectors == 0 {
            let expected = if within {
                format!("1 to {room} sectors, the room on {name} beside the clients' volume")
            } else {
                format!("1 to {room} sectors, the room from sector {bopt_at} to the end of {name}")
            };
            return Err(setting("bopt", partition.sectors, expected));
        }
        if within && (bopt_at % PAGE_SECTORS != 0 || partition.sectors % PAGE_SECTORS != 0) {
            let expected = format!("whole pages of {PAGE_SECTORS} sectors within the clients' volume");
            return Err(setting("bopt-at", bopt_at, expected));
        }
        Ok(Places { over_sectors, origin_sectors, bopt_at, bopt_sectors: partition.sectors })
    }

    /// Sectors below the layer for it to provide at least `over` above.
    fn origin_sectors(&self, trace: &str, over: u64) -> Result<u64, LabError> {
        let Some(layer) = self.layer.as_ref().filter(|layer| layer.entry.sectors.is_some()) else {
            return Ok(over);
        };
        let shown = |home| layer.entry.sectors(&layer.options, &self.sizes(home));
        let (mut less, mut enough) = (over, self.drive.sectors());
        let most = shown(enough).map_err(|refused| in_layer(layer.entry.name, refused))?;
        if most < over {
            let bytes = |sectors: u64| Size(sectors.saturating_mul(512));
            let most = bytes(most);
            let (name, drive) = (layer.entry.name, self.drive.name());
            let found = format!("a clients' volume of {}", bytes(over));
            let expected = format!("at most {most}, which layer {name} shows of {drive}");
            return Err(LabError::Unfit { trace: trace.to_owned(), found, expected });
        }
        while less + PAGE_SECTORS < enough {
            let middle = (less + (enough - less) / 2).next_multiple_of(PAGE_SECTORS);
            if shown(middle).is_ok_and(|shown| shown >= over) { enough = middle } else { less = middle }
        }
        Ok(enough)
    }

    /// Sizes of the devices below the layer, of which the clients' part of the drive has `home` sectors.
    fn sizes(&self, home: u64) -> Sizes {
        let second = self.layer.as_ref().and_then(|layer| layer.entry.devices.first()).zip(self.partition());
        let second = second.map(|(key, partition)| ((*key).to_owned(), vec![partition.sectors]));
        Sizes { devices: second.into_iter().collect(), ..Sizes::of(home) }
    }

    /// The volume of the experiment: a drive, and over its first sectors the layer, if any.
    pub fn volume(&self, places: &Places) -> Description {
        let component = Component::new(self.drive.clone(), self.queue);
        let mut volume = Description::bare(component, places.origin_sectors);
        if let Some(layer) = &self.layer {
            let mut devices = BTreeMap::new();
            if let (Some(key), Some(partition)) = (layer.entry.devices.first(), &layer.partition) {
                let window = Extent::new(places.bopt_at, places.bopt_sectors);
                let of = match &partition.drive {
                    Some(drive) => {
                        volume
                            .components
                            .insert(BESIDE.to_owned(), Component::new(drive.clone(), self.queue));
                        BESIDE
                    }
                    None => DISK,
                };
                volume.slices.insert((*key).to_owned(), Window { of: of.to_owned(), extent: window });
                devices.insert((*key).to_owned(), vec![(*key).to_owned()]);
                if of == DISK {
                    around(&mut volume, places.origin_sectors, window);
                }
            }
            let (entry, options) = (layer.entry, layer.options.clone());
            let over = [HOME, BEHIND].into_iter().filter(|name| volume.slices.contains_key(*name));
            let over = over.map(str::to_owned).collect();
            let name = layer.entry.name.to_owned();
            volume
                .layers
                .insert(name.clone(), Layer { entry, over, devices, reconfigure: self.schedule, options });
            volume.top = name;
        }
        volume
    }

    /// As [`Experiment::volume`], without a trace: the whole drive but for the layer's part.
    pub fn whole_volume(&self) -> Result<Description, LabError> {
        self.check(None)?;
        let over = self.over_sectors.unwrap_or_else(|| {
            let partition = self.partition();
            let here = partition.filter(|partition| partition.drive.is_none());
            let taken = here.map_or(0, |partition| partition.sectors);
            let home = self.drive.sectors().saturating_sub(taken) / PAGE_SECTORS * PAGE_SECTORS;
            let layer = self.layer.as_ref();
            layer.map_or(home, |layer| layer.entry.sectors(&layer.options, &self.sizes(home)).unwrap_or(home))
        });
        let whole = Experiment { over_sectors: Some(over), ..self.clone() };
        Ok(whole.volume(&whole.places("", 0)?))
    }

    /// Checks what types cannot express.
    pub fn check(&self, trace: Option<&Trace>) -> Result<(), LabError> {
        let setting = |setting, found: String, expected: &str| {
            Err(LabError::Setting { setting, found, expected: expected.to_owned() })
        };
        self.play().check()?;
        if !(1..=99).contains(&self.queue.background_share_pct) {
            return setting("background-share", self.queue.background_share_pct.to_string(), "1 to 99");
        }
        if let Some(layer) = &self.layer {
            layer.entry.check(&layer.options).map_err(|refused| in_layer(layer.entry.name, refused))?;
            if layer.entry.is_over_several()
                || layer.entry.devices.len() != usize::from(layer.partition.is_some())
            {
                let expected = "one with a second device at most; a volume file can hold any";
                return setting("layer", layer.entry.name.to_owned(), expected);
            }
        }
        if let Some(trace) = trace.filter(|trace| trace.reads() == 0) {
            let found = format!("no reads in {} records", trace.records.len());
            return Err(LabError::Unfit {
                trace: sources(trace),
                found,
                expected: "at least one read".to_owned(),
            });
        }
        Ok(())
    }
}

/// An error in an option of a layer.
fn in_layer(name: &str, Refused { key, found, expected }: Refused) -> VolumeError {
    let key = if key.is_empty() { String::new() } else { format!(".{key}") };
    VolumeError { place: format!("layer.{name}{key}"), found, expected }
}

/// Names of the devices of an experiment's volume: the drive, the clients' part of it, and what of that lies behind the
/// BOPT; and the BOPT's own drive.
const DISK: &str = "disk";
const HOME: &str = "home";
const BEHIND: &str = "home-behind";
const BESIDE: &str = "beside";

/// Has the clients' part of the drive, `sectors` sectors, go around a window.
fn around(volume: &mut Description, sectors: u64, window: Extent) {
    let front = sectors.min(window.start.0);
    if front == sectors {
        return;
    }
    let mut piece = |name: &str, extent| {
        volume.slices.insert(name.to_owned(), Window { of: DISK.to_owned(), extent });
    };
    let behind = Extent { start: window.end(), sectors: sectors - front };
    if front == 0 {
        piece(HOME, behind);
    } else {
        piece(HOME, Extent::new(0, front));
        piece(BEHIND, behind);
    }
}

/// Class in which reconfigurations of layers with these options copy: the first that is set.
pub fn reconfigure_class<'a>(mut options: impl Iterator<Item = &'a toml::Table>) -> &'a str {
    options.find_map(|options| options.get("reconfigure_class")?.as_str()).unwrap_or("background")
}

/// The trace's files in a line, for messages.
pub fn sources(trace: &Trace) -> String {
    let names: Vec<String> = trace.sources.iter().map(|path| path.display().to_string()).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment() -> Experiment {
        Experiment {
            drive: Model::find("wd2500aaks").unwrap(),
            over_sectors: None,
            layer: Some(LayerSetup {
                entry: seekless_layers::registry::find(seekless_layers::registry::DEFAULT).unwrap(),
                options: toml::Table::new(),
                partition: Some(Partition { sectors: 1 << 21, at_sector: None, drive: None }),
            }),
            queue: QueueOptions::default(),
            pace: Pace::Closed { outstanding: 8 },
            reconfigure: 8,
            schedule: None,
            clock: Clock::Run,
            seed: 1,
            bounds: false,
            accesses: false,
        }
    }

    #[test]
    fn the_bopt_lies_behind_what_clients_see() {
        let places = experiment().places("t", 3_000_000).unwrap();
        let expected = Places {
            over_sectors: 2 << 21,
            origin_sectors: 2 << 21,
            bopt_at: 2 << 21,
            bopt_sectors: 1 << 21,
        };
        assert_eq!(places, expected);
    }

    #[test]
    fn what_does_not_fit_is_told_with_what_would() {
        let error_of = |change: &dyn Fn(&mut Experiment), end| {
            let mut experiment = experiment();
            change(&mut experiment);
            experiment.places("t.blktrace", end).unwrap_err().to_string()
        };
        let beyond = error_of(&|_| (), 500_000_000);
        assert!(beyond.contains("t.blktrace: found requests up to sector 500000000"), "{beyond}");
        assert!(beyond.contains("at most sector 488397168"), "{beyond}");
        let (_, others) = beyond.split_once("one that fits: ").unwrap();
        let others: Vec<&str> = others.split(", ").collect();
        assert!(!others.contains(&"wd2500aaks") && !others.is_empty(), "{beyond}");
        assert!(others.iter().all(|name| Model::find(name).unwrap().sectors() > 500_000_000), "{beyond}");
        let small = error_of(&|e| e.over_sectors = Some(100), 3_000_000);
        assert!(small.contains("over: found") && small.contains("at least 3000000"), "{small}");
        let bopt = error_of(&|e| e.over_sectors = Some(488_000_000), 3_000_000);
        assert!(bopt.contains("bopt: found 1 GiB") && bopt.contains("1 to 397168"), "{bopt}");
        let at = |at, sectors| {
            move |e: &mut Experiment| {
                let partition = e.layer.as_mut().unwrap().partition.as_mut().unwrap();
                (partition.at_sector, partition.sectors) = (Some(at), sectors);
            }
        };
        let uneven = error_of(&at(9, 1 << 21), 3_000_000);
        assert!(uneven.contains("bopt-at") && uneven.contains("whole pages of 8 sectors"), "{uneven}");
        let large = error_of(&at(8, 488_397_168), 3_000_000);
        assert!(large.contains("bopt: found") && large.contains("beside the clients' volume"), "{large}");
        let beyond = error_of(&at(488_397_168, 8), 3_000_000);
        assert!(beyond.contains("bopt-at: found") && beyond.contains("less than 488397168"), "{beyond}");
    }

    /// Wherever the BOPT is, clients see as much, of the same drive, and nothing twice.
    #[test]
    fn the_bopt_lies_anywhere() {
        let slices = |at, drive: Option<&str>| {
            let mut experiment = experiment();
            let partition = experiment.layer.as_mut().unwrap().partition.as_mut().unwrap();
            partition.at_sector = at;
            partition.drive = drive.map(|name| Model::find(name).unwrap());
            let places = experiment.places("t", 3_000_000).unwrap();
            let volume = experiment.volume(&places);
            assert_eq!(volume.check().unwrap(), 2 << 21, "{at:?}");
            let line =
                |(name, window): (&String, &Window)| format!("{name}: {} {}", window.of, window.extent);
            volume.slices.iter().map(line).collect::<Vec<_>>()
        };
        let on_disk = |extent: Extent| format!("disk {extent}");
        let (bopt, home) =
            (|at| on_disk(Extent::new(at, 1 << 21)), |at, sectors| on_disk(Extent::new(at, sectors)));
        let (first, behind) = (slices(Some(0), None), slices(None, None));
        assert_eq!(first, [format!("bopt: {}", bopt(0)), format!("home: {}", home(1 << 21, 2 << 21))]);
        assert_eq!(behind, [format!("bopt: {}", bopt(2 << 21)), format!("home: {}", home(0, 2 << 21))]);
        let within = [
            format!("bopt: {}", bopt(800)),
            format!("home: {}", home(0, 800)),
            format!("home-behind: {}", home(800 + (1 << 21), (2 << 21) - 800)),
        ];
        assert_eq!(slices(Some(800), None), within);
        let beside = Extent::new(16, 1 << 21);
        let apart = [format!("bopt: beside {beside}"), format!("home: {}", home(0, 2 << 21))];
        assert_eq!(slices(Some(16), Some("wd360gd")), apart);
    }
}
