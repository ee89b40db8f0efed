//! Random parameters of each run of an exploration, drawn from its seed: how many clients issue which kinds of
//! requests, how many pages they share, the rates of commands and flushes, the volume's options, and the behaviour of
//! components ([`super::conditions`]). Runs that each leave something out find more than runs that all do a bit of
//! everything (Groce et al., "Swarm testing", ISSTA 2012).

use seekless_core::runtime::Rng;
use seekless_core::{Op, PAGE_SECTORS, SECTOR_BYTES};

use super::Script;
use super::campaign::Campaign;
use super::conditions::Conditions;
use super::gone;
use super::named;
use super::script::{self, Request, Step};
use crate::LabError;
use crate::workload;
use seekless_volume::settings::{self, Setting};

/// Consecutive runs on the same volume.
const RUNS_A_VOLUME: u64 = 16;
/// Fewest pages that requests share: on few, they meet each other and background work often.
const FEWEST_PAGES: [u64; 4] = [1, 2, 4, 8];
/// One in this many volumes has the options of its file.
const VOLUMES_AS_IN_THE_FILE: u64 = 4;
/// Largest request sizes, in bytes.
const SIZES: [u64; 5] = [SECTOR_BYTES, 4 << 10, 16 << 10, 16 << 10, 64 << 10];
/// At the end of a run without a power cut, one in this many steps is a read of what was written.
const READ_BACK: usize = 4;
/// One in this many steps is a command; 0 for none.
const COMMANDS: [u64; 6] = [4, 8, 20, 40, 100, 0];

/// One in this many runs has faults, of volumes that can do without a component.
const RUNS_WITH_FAULTS: u64 = 3;

/// Requests that go where the volume is at work, in 100, at most.
const MEETINGS: u64 = 90;

/// A random number between 1 and `most`, of random magnitude.
fn magnitude(most: u64, rng: &mut Rng) -> u64 {
    let up_to = most >> rng.below(u64::from(most.max(1).ilog2()) + 1);
    rng.below(up_to.max(1)) + 1
}

/// A share of requests in per cent, often none, and sometimes `more` times as large.
fn share(most: u64, more: u64, rng: &mut Rng) -> u64 {
    let most = if rng.chance(1, 4) { more * most } else { most };
    if rng.chance(1, 3) { 0 } else { rng.below(most) + 1 }
}

/// Some of the commands, by chance, or all: after a detach most of what others lead to is gone.
fn some(mut commands: Vec<&'static str>, rng: &mut Rng) -> Vec<&'static str> {
    let all = commands.clone();
    commands.retain(|_| rng.chance(1, 2));
    if commands.is_empty() { all } else { commands }
}

/// A workload of all kinds of requests, or some, on a volume of `sectors` sectors.
fn churn(sectors: u64, rng: &mut Rng) -> String {
    let size =
        SIZES[rng.below(SIZES.len() as u64) as usize].min(sectors / 2 * SECTOR_BYTES).max(SECTOR_BYTES);
    let fewest = FEWEST_PAGES[rng.below(FEWEST_PAGES.len() as u64) as usize];
    let least = (fewest * PAGE_SECTORS).max(size / SECTOR_BYTES).min(sectors);
    let area = (least - 1 + magnitude(sectors - least + 1, rng)).min(sectors);
    // At the start, at the end, whose last page may be cut short, or anywhere.
    let at = match rng.below(4) {
        0 | 1 => 0,
        2 => (sectors - area) / PAGE_SECTORS * PAGE_SECTORS,
        _ => rng.below(sectors - area + 1),
    };
    let area = if rng.chance(1, 2) && at > 0 { area.max(sectors - at) } else { area };
    let area = area.min(sectors - at);
    let (reads, hot) = (2 + rng.below(40), rng.below(10) * 10);
    let [flushes, fua, discards, zeroes] =
        [(12, 2), (12, 3), (8, 1), (8, 1)].map(|(most, more)| share(most, more, rng));
    let meets = share(60, 1, rng);
    // A stream of its own: the others stay as they were without these.
    let mut durable = Rng::seeded(rng.clone().bits());
    let [fua_zeroes, fua_discards] =
        [(); 2].map(|()| if durable.chance(1, 2) { durable.below(4) } else { 0 });
    format!(
        "churn:size={size}B,reads={reads}%,flushes={flushes}%,fua={fua}%,discards={discards}%,zeroes={zeroes}%,\
         fua_zeroes={fua_zeroes}%,fua_discards={fua_discards}%,\
         hot={hot}%,meets={meets}%,at={}B,area={}B",
        at * SECTOR_BYTES,
        area * SECTOR_BYTES
    )
}

/// The script with reads of some of what it wrote at its end, to detect silent errors.
pub(super) fn read_back(script: Script) -> Script {
    let mut rng = Rng::seeded(script.conditions.seed ^ 0x5265_6164_0000_0000);
    let read = |at| Request { op: Op::Read, at, fua: false };
    let written = script.steps.iter().filter_map(|step| match step {
        Step::Ask(Request { op: Op::Write | Op::WriteZeroes, at, .. }) => Some(Step::Ask(read(*at))),
        Step::Meet(Request { op: Op::Write | Op::WriteZeroes, at, .. }) => Some(Step::Meet(read(*at))),
        _ => None,
    });
    let mut written: Vec<Step> = written.collect();
    let most = (script.steps.len() / READ_BACK).min(written.len());
    for index in 0..most {
        let other = index + rng.below((written.len() - index) as u64) as usize;
        written.swap(index, other);
    }
    let steps = script.steps.iter().chain(&written[..most]).copied().collect();
    Script { steps, ..script }
}

impl Campaign<'_> {
    /// The run with this seed; `denser` commands, if it is short.
    pub(super) fn drawn(&self, seed: u64, requests: u64, denser: u64) -> Result<Script, LabError> {
        let mut rng = Rng::seeded(seed ^ 0x5377_6172_6d00_0000);
        let components = self.description.components.len() as u32;
        // Several runs on the same volume: filling one takes longer than a run.
        let same = seed / RUNS_A_VOLUME;
        let settings = self.settings(&mut Rng::seeded(same ^ 0x566f_6c75_6d65_0000));
        let sectors = settings::applied(self.description, &settings).check()?;
        let own = churn(sectors, &mut rng);
        let drawn = COMMANDS[rng.below(COMMANDS.len() as u64) as usize];
        let commands = self.commands.unwrap_or(drawn).div_ceil(denser);
        let requests = match self.load {
            Some(load) => script::of_workload(load, sectors, seed, requests)?,
            None => script::of_workload(&workload::parse(&own)?, sectors, seed, requests)?,
        };
        let known = if denser > 1 { self.known_commands() } else { some(self.known_commands(), &mut rng) };
        let steps = script::with_commands(requests, &known, commands, seed);
        let steps =
            named::among(steps, self.options.snapshots, &mut Rng::seeded(seed ^ 0x4e61_6d65_6400_0000));
        let meets = if rng.chance(1, 2) { 0 } else { magnitude(MEETINGS, &mut rng) };
        let steps = script::with_meetings(steps, meets, &mut rng).into();
        let of_volume = Conditions::drawn(same, components, self.clients);
        let mut conditions = Conditions::drawn(seed, components, self.clients).of_volume(of_volume);
        // Where a component may fail, what matters begins when one has.
        if !gone::spare(self.description, false).is_empty() {
            conditions = conditions.more_faults(RUNS_WITH_FAULTS);
            // Where all fail at once, a sector that is lost as well is one loss too many.
            conditions.weak = if conditions.faults.together { 0 } else { conditions.weak };
        }
        Ok(Script { steps, conditions, settings })
    }

    /// Random options of the volume among the values that its file lists; sometimes those of the file itself, and
    /// always if they are invalid together.
    fn settings(&self, rng: &mut Rng) -> Vec<Setting> {
        if rng.chance(1, VOLUMES_AS_IN_THE_FILE) {
            return Vec::new();
        }
        let drawn = settings::drawn(&self.description.explore, rng);
        if settings::check(self.description, &drawn).is_ok() { drawn } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use seekless_core::Extent;

    use super::*;

    #[test]
    fn some_of_what_was_written_is_read_at_the_end() {
        let ask = |op, at| Step::Ask(Request { op, at: Extent::new(at, 1), fua: false });
        let steps: Vec<Step> = (0..8).flat_map(|at| [ask(Op::Write, at), ask(Op::Discard, 9)]).collect();
        let conditions = Conditions::usual(1, 7);
        let script = Script { steps: steps.clone().into(), conditions, settings: Vec::new() };
        let read = read_back(script).steps;
        assert_eq!((&read[..16], read.len()), (&steps[..], 20));
        let mut reads: Vec<u64> = read[16..].iter().map(|step| step.at().start.0).collect();
        assert!(read[16..].iter().all(|step| *step == ask(Op::Read, step.at().start.0)));
        reads.sort_unstable();
        reads.dedup();
        assert!(reads.len() == 4 && reads[3] < 8, "{reads:?}");
    }

    #[test]
    fn every_drawn_workload_fits_its_volume() {
        let mut rng = Rng::seeded(1);
        for sectors in [32, 63, 64, 65, 1_000, 1_023, 40_960, 5 << 21] {
            for _ in 0..200 {
                let text = churn(sectors, &mut rng);
                let load = workload::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
                assert!(load.fits(sectors).is_ok(), "{text} on {sectors} sectors");
            }
        }
    }
}
