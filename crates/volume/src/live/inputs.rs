//! Recorded inputs of a server (`volume serve --log-inputs`), and their replay.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seekless_layers::Refused;
use seekless_serve::place::Located;
pub use seekless_serve::reactor::inputs::Replayed;
use seekless_serve::reactor::inputs::{Recorder, Replayer, placeholder};
use seekless_serve::reactor::{Kind, Reactor};
use serde::{Deserialize, Serialize};

use super::build::{SEED, runtime_of};
use super::component::{Live, Probed};
use super::environment::Environment;
use super::error::{At, LiveError};
use super::server::{Doors, Serving, addresses, serve};
use crate::description::{Description, Leaf, VolumeError};
use crate::file;

/// The recorded run: the text at the beginning of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    program: String,
    volume: PathBuf,
    text: String,
    io: String,
    process: u32,
    components: BTreeMap<String, Probed>,
    /// Places of components that are files or block devices.
    #[serde(default)]
    places: BTreeMap<String, Located>,
    #[serde(default = "constant_seed")]
    seed: u64,
}

fn constant_seed() -> u64 {
    SEED
}

/// Begins the file of a run that is about to start; `complain` gets errors of writing it later.
pub(super) fn record(
    file: &Path,
    volume: &Path,
    description: &Description<Live>,
    (kind, seed): (Kind, u64),
    complain: impl Fn(&str) + 'static,
) -> Result<Recorder, LiveError> {
    let text = std::fs::read_to_string(volume).at(|| volume.display())?;
    let components = description.components.iter().map(|(name, live)| Ok((name.clone(), live.probed()?)));
    let places = description.components.iter();
    let places = places.filter_map(|(name, live)| Some((name.clone(), live.located()?.clone())));
    let run = Run {
        program: env!("CARGO_PKG_VERSION").to_owned(),
        volume: volume.to_owned(),
        text,
        io: kind.to_string(),
        process: std::process::id(),
        components: components.collect::<Result<_, LiveError>>()?,
        places: places.collect(),
        seed,
    };
    let text = serde_json::to_string(&run).at(|| file.display())?;
    Recorder::create(file, &text, complain).at(|| file.display())
}

/// A component of the recorded run.
struct Recorded(Live);

impl Leaf for Recorded {
    type Keys = toml::Table;

    fn read(file: &str, name: &str, mut keys: toml::Table) -> Result<Recorded, VolumeError> {
        let wrong = |found: String| VolumeError {
            place: format!("{file}: component.{name}"),
            found,
            expected: "what was found when it was served".to_owned(),
        };
        let found = keys.remove(FOUND).ok_or_else(|| wrong("nothing".to_owned()))?;
        let probed: Probed = found.try_into().map_err(|error: toml::de::Error| wrong(error.to_string()))?;
        let place = keys.remove(PLACE).map(toml::Value::try_into).transpose();
        let place = place.map_err(|error: toml::de::Error| wrong(error.to_string()))?;
        let keys = toml::Value::Table(keys).try_into();
        let keys = keys.map_err(|error: toml::de::Error| wrong(error.to_string()))?;
        Live::from_recording(file, name, keys, probed, place).map(Recorded)
    }

    fn sectors(&self) -> u64 {
        self.0.sectors()
    }

    fn check(&self) -> Result<(), Refused> {
        self.0.check()
    }

    fn line(&self) -> String {
        self.0.line()
    }
}

/// Key of the recorded properties of a component.
const FOUND: &str = "found";
/// Key of the recorded place of a component.
const PLACE: &str = "place";

/// The volume that was served.
fn described(run: &Run) -> Result<Description<Live>, LiveError> {
    let place = || run.volume.display();
    let mut keys: toml::Table = toml::from_str(&run.text).at(place)?;
    let components = keys.get_mut("component").and_then(toml::Value::as_table_mut);
    for (name, component) in components.into_iter().flatten() {
        let facts = run.components.get(name).at(|| format!("component.{name} was not there"))?;
        let component = component.as_table_mut().at(|| "a component without keys")?;
        component.insert(FOUND.to_owned(), toml::Value::try_from(facts).at(place)?);
        if let Some(located) = run.places.get(name) {
            component.insert(PLACE.to_owned(), toml::Value::try_from(located).at(place)?);
        }
    }
    let recorded =
        file::parse_of::<Recorded>(&run.volume.display().to_string(), &toml::to_string(&keys).at(place)?)?;
    Ok(recorded.with_components(|_, again| Some(again.0)))
}

/// Replays a file of recorded inputs; returns the volume file that was served, and the result.
///
/// # Errors
/// A file that holds no such run. That the run departed from the recording is no error here.
pub fn replay(file: &Path) -> Result<(PathBuf, Replayed), LiveError> {
    let place = || file.display();
    let opened = Replayer::open(file, |text| {
        let run: Run = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let kind = [Kind::Uring, Kind::Threads].into_iter().find(|kind| kind.to_string() == run.io);
        let kind = kind.ok_or_else(|| format!("found io '{}', expected io_uring or threads", run.io))?;
        Ok((run, kind))
    });
    let (replayer, run) = opened.at(place)?;
    let description = described(&run).at(place)?;
    let addresses = addresses(&description, true)?;
    let signals = Arc::new(placeholder().at(place)?);
    let doors = Doors { addresses, machines: Vec::new(), keys: None, sockets: Vec::new(), signals };
    let reactor = Reactor::replaying(replayer);
    let runtime = runtime_of(&reactor, run.seed);
    let serving = Serving {
        volume: &run.volume,
        environment: Environment::Replay,
        process: run.process,
        reactor: &reactor,
        recorded: true,
    };
    let text = run.text.clone();
    let served = async {
        let served = std::pin::pin!(serve(&serving, description, text, doors));
        let over = std::pin::pin!(reactor.replay_end());
        futures_util::future::select(served, over).await;
    };
    runtime.run_live(served, &*reactor).at(place)?;
    reactor.end(runtime.event_hash());
    Ok((run.volume, reactor.outcome()))
}

#[cfg(test)]
mod tests {
    use seekless_serve::component::FileProbe;
    use seekless_serve::place::{DiskProbe, Piece, Place};

    use super::*;
    use crate::live::models::ModelStatus;

    /// The place is that of the recorded run, whatever disks there are now, and so is the model.
    #[test]
    fn what_was_recorded_of_places_chooses_the_model_again() {
        let text = "[component.disk]\nfile = '/dev/sda1'\n[component.other]\nfile = 'x.img'\n\
                    [component.named]\nfile = 'y.img'\nmodel = 'wd-re3-1tb'\nmodel_at = 8\n\
                    [[export]]\ntop = 'disk'\n";
        let file = |path: &str| {
            Probed::File(FileProbe {
                path: path.into(),
                sectors: 1_000,
                logical_bytes: 512,
                direct: true,
                read_only: false,
                physical_bytes: 4_096,
                rotational: true,
            })
        };
        let disk = DiskProbe {
            number: "8:0".to_owned(),
            name: "sda".to_owned(),
            sectors: 3_907_029_168,
            rotational: true,
            identity: "ST2000DM006-2DM1".to_owned(),
        };
        let pieces = [(2_048, 400), (9_000, 600)].map(|(start, sectors)| Piece { start, sectors });
        let located = Located { disk: Some(disk), place: Place::At(pieces.to_vec()) };
        let unknown = Located { disk: None, place: Place::Unknown("over RAID (md0)".to_owned()) };
        let names = ["disk", "other", "named"];
        let run = Run {
            program: String::new(),
            volume: "v.toml".into(),
            text: text.to_owned(),
            io: "threads".to_owned(),
            process: 1,
            components: names.map(|name| (name.to_owned(), file(name))).into(),
            places: [("disk", &located), ("other", &unknown), ("named", &unknown)]
                .map(|(name, located)| (name.to_owned(), located.clone()))
                .into(),
            seed: SEED,
        };
        let again: Run = serde_json::from_str(&serde_json::to_string(&run).unwrap()).unwrap();
        let description = described(&again).unwrap();
        for (name, located, words) in [
            ("disk", &located, "seagate-st2000dm006-2, by its model number ST2000DM006-2DM1; in 2 pieces"),
            ("other", &unknown, "no model: over RAID (md0)"),
            ("named", &unknown, "wd-re3-1tb, which model names; from sector 8 on"),
        ] {
            let live = &description.components[name];
            assert_eq!(live.located(), Some(located), "{name}");
            let status = ModelStatus::of(&live.choose()).to_string();
            assert!(status.contains(words), "{name}: {status}");
        }
        // Recorded before there were places.
        let old = Run { places: BTreeMap::new(), ..again };
        let description = described(&old).unwrap();
        let status = ModelStatus::of(&description.components["disk"].choose()).to_string();
        assert!(status.contains("recorded without its place"), "{status}");
    }
}
