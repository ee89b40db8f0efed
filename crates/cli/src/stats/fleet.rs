//! `seekless trace stats --by volume`: the statistics of each volume, and their distribution.

use clap::{Args, ValueEnum};
use seekless_trace::Surveyed;
use seekless_trace::stats::fleet::{Fleet, FleetAnalysis, FleetSurvey};

use super::Characterising;
use crate::progress::Progress;
use crate::table::Table;
use crate::text::{count, number, percent};

/// Volumes shown as text.
const FEW: usize = 20;

/// What a trace is divided by.
#[derive(Clone, Copy, ValueEnum)]
pub enum By {
    /// Its volumes.
    Volume,
}

/// The options of statistics that are divided, without those of reading the trace.
#[derive(Args)]
pub struct Divided {
    /// What the trace is divided by
    #[arg(long, value_name = "WHAT", conflicts_with_all = ["interval", "intervals", "device_size"])]
    by: By,
    #[command(flatten)]
    pub how: Characterising,
}

/// The statistics of each volume.
pub fn characterised(trace: &Surveyed, how: &Characterising) -> anyhow::Result<Fleet> {
    let progress = Progress::measured();
    let (mut done, all) = (0_u64, 2 * trace.survey.records);
    let mut step = || {
        if done % 65_536 == 0 {
            progress.at("characterising", done, all);
        }
        done += 1;
    };
    let mut survey = FleetSurvey::default();
    trace.each(|record| {
        step();
        survey.note(record);
    })?;
    let mut analysis = FleetAnalysis::new(survey, &how.options()?);
    trace.each(|record| {
        step();
        analysis.follow(record);
    })?;
    Ok(analysis.finish(&trace.volumes))
}

/// The busiest volumes, and the distribution over all.
pub fn text(fleet: &Fleet) -> String {
    let all = fleet.volumes.len();
    let shown =
        if all > FEW { format!(", the {FEW} busiest of {}", count(all as u64)) } else { String::new() };
    let mut volumes =
        Table::new(&["name", ">requests", ">reads", ">per s", ">GiB", ">top 20 %", ">jumps", ">idle"]);
    for one in fleet.volumes.iter().take(FEW) {
        volumes.row([
            one.name.clone(),
            count(one.requests),
            percent(one.reads_pct),
            number(one.mean_per_s, 1),
            number(one.unique_gib, 2),
            percent(one.top20_share_pct),
            percent(one.nonsequential_pct),
            percent(one.idle_pct),
        ]);
    }
    let mut spread = Table::new(&["", ">least", ">10 %", ">median", ">90 %", ">99 %", ">most"]);
    for one in &fleet.distribution {
        let values = [one.least, one.p10, one.median, one.p90, one.p99, one.most];
        spread.row(std::iter::once(one.statistic.to_owned()).chain(values.map(|value| number(value, 2))));
    }
    let (volumes, spread) = (volumes.text(), spread.text());
    format!("Volumes, by requests{shown}\n{volumes}\nOver all {} volumes\n{spread}", count(all as u64))
}
