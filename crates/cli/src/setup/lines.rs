//! An experiment in a line.

use seekless_core::SECTOR_BYTES;
use seekless_lab::{Experiment, Pace};

use crate::text::{counted, factor, size};

/// A line that describes the experiment.
pub fn line(experiment: &Experiment) -> String {
    let layer = experiment.layer.as_ref().map_or_else(
        || "no layer".to_owned(),
        |layer| {
            let name = layer.entry.title;
            let bopt = layer
                .partition
                .as_ref()
                .map(|part| format!(" with a BOPT of {}", size(part.sectors * SECTOR_BYTES)));
            let times = counted(u64::from(experiment.reconfigure), "time");
            let times = experiment.schedule.map_or(times, |schedule| schedule.to_string());
            let times = layer.entry.reconfigures().then(|| format!(", reconfigured {times}"));
            format!("{name}{}{}", bopt.unwrap_or_default(), times.unwrap_or_default())
        },
    );
    let (drive, policy) = (experiment.drive.name(), experiment.queue.policy);
    format!("{drive}, {policy}, {layer}; {}", pace_line(experiment.pace))
}

/// A pace in a few words.
pub fn pace_line(pace: Pace) -> String {
    match pace {
        Pace::Closed { outstanding } | Pace::Queued { outstanding } => {
            format!("{} outstanding", counted(outstanding as u64, "request"))
        }
        Pace::Open { speed } => format!("open pace at {} times the recorded speed", factor(speed)),
        Pace::Accelerated { speed } => {
            format!("{} times the recorded speed, except during reconfigurations", factor(speed))
        }
        Pace::Answered => "as clients that wait for their answers".to_owned(),
    }
}
