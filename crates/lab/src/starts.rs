//! Recorded starts of programs, played one after the other as a person would start them, and the time of each (section
//! 6.2 of the IOLab paper).
//!
//! A request is issued when no more are outstanding than were in the recording, after the time that the program
//! computed there since the last request or answer, times a factor. Between two starts there is a pause, so that the
//! first read of each is not delayed by the one before. Fault model: a request that fails is counted as answered.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::rc::Rc;

use seekless_core::device::io;
use seekless_core::runtime::{self, Runtime};
use seekless_core::{
    Account, BlockDevice, Buffer, Extent, Hints, IoError, IoFuture, Layer, Nanos, Op, Record, Zeroes,
};
use seekless_drive::Work;
use seekless_layers::replay::{Controller, Pace, Tally, replay};
use seekless_trace::Trace;
use seekless_volume::{Description, Volume};

use crate::error::LabError;
use crate::null_device::NullDevice;

/// The pause between two starts.
pub const PAUSE: Nanos = Nanos::from_millis(10_000);

/// A start in a recording.
#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    /// Time of its first request at the earliest, from the recording's first event.
    pub at: Nanos,
    /// The program.
    pub program: String,
    /// How often it had been started before.
    pub round: u32,
}

/// Reads a list of starts: a line each, with seconds, program and round; `#` begins a comment.
///
/// # Errors
/// The first line that is none, or that is earlier than the one before it.
pub fn parse(text: &str) -> Result<Vec<Start>, String> {
    let mut starts: Vec<Start> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let words: Vec<&str> = line.split('#').next().unwrap_or_default().split_whitespace().collect();
        let start = match words[..] {
            [] => continue,
            [at, program, round] => match (at.parse::<f64>(), round.parse()) {
                (Ok(at), Ok(round)) if (0.0..1e9).contains(&at) => {
                    Some(Start { at: Nanos((at * 1e9) as u64), program: program.to_owned(), round })
                }
                _ => None,
            },
            _ => None,
        };
        let ascends = |start: &Start| starts.last().is_none_or(|last| last.at < start.at);
        let expected = "seconds that ascend, a program and a round, such as: 1.5 vim 0";
        starts.push(
            start
                .filter(ascends)
                .ok_or_else(|| format!("line {number}: found '{}', expected {expected}", line.trim()))?,
        );
    }
    if starts.is_empty() { Err("found no start, expected a line for each".to_owned()) } else { Ok(starts) }
}

/// A start, played.
#[derive(Clone, Debug, Default)]
pub struct Timed {
    /// Time of its first request.
    pub began: Nanos,
    /// From that to its last answer.
    pub took: Nanos,
    /// Its requests.
    pub requests: u64,
    /// By how much it increased the counters of the topmost layer.
    pub counters: BTreeMap<&'static str, u64>,
    /// Work of the drives for it, on a volume.
    pub work: Work,
}

/// Sums over starts: cold, warm and with a layer, and what the layer counted.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    /// Number of starts.
    pub starts: u64,
    /// Time of cold starts.
    pub cold: Nanos,
    /// Time of warm starts.
    pub warm: Nanos,
    /// Time with the layer.
    pub with: Nanos,
    /// Reads; those that were prefetched; pages that were fetched; those of them that were used.
    counts: [u64; 4],
}

fn percent(part: f64, of: f64) -> f64 {
    if of > 0.0 { 100.0 * part / of } else { 0.0 }
}

impl Sums {
    /// Adds a start.
    pub fn add(&mut self, cold: &Timed, warm: &Timed, with: &Timed) {
        self.starts += 1;
        self.cold += cold.took;
        self.warm += warm.took;
        self.with += with.took;
        let names = ["reads", "reads_prefetched", "pages_fetched", "pages_fetched_used"];
        for (sum, name) in self.counts.iter_mut().zip(names) {
            *sum += with.counters.get(name).copied().unwrap_or(0);
        }
    }

    /// Per cent of cold minus warm that are saved.
    pub fn saved_pct(&self) -> f64 {
        let cold = self.cold.seconds();
        percent(cold - self.with.seconds(), cold - self.warm.seconds())
    }

    /// Per cent of reads that were prefetched.
    pub fn hits_pct(&self) -> f64 {
        percent(self.counts[1] as f64, self.counts[0] as f64)
    }

    /// Per cent of fetched pages that were not used.
    pub fn useless_pct(&self) -> f64 {
        let [_, _, fetched, used] = self.counts.map(|count| count as f64);
        percent(fetched - used, fetched)
    }
}

/// Most rounds in which a factor is found, and how near the share is then.
const ROUNDS: usize = 8;
const NEAR: f64 = 0.001;

/// The factor of the programs' own time with which warm starts take this share of the time of cold ones. What a drive
/// adds to a start depends on it little, so that a few rounds find it.
///
/// # Errors
/// As of [`Starts::new`] and [`Starts::on`].
pub fn think_for(
    share: f64,
    trace: &Trace,
    starts: &[Start],
    bare: &Description,
    seed: u64,
) -> Result<f64, LabError> {
    let sum = |timed: Vec<Timed>| timed.iter().map(|start| start.took).sum::<Nanos>().seconds();
    let mut think = 1.0;
    for _ in 0..ROUNDS {
        let recorded = Starts::new(trace, starts, think)?;
        let (cold, warm) = (sum(recorded.on(bare, seed)?), sum(recorded.warm(seed)?));
        if (warm / cold.max(1e-9) - share).abs() < NEAR {
            break;
        }
        think *= share / (1.0 - share) * (cold - warm) / warm.max(1e-9);
    }
    Ok(think)
}

/// Devices that starts are played on.
pub struct Top {
    /// What they read.
    pub device: Rc<dyn BlockDevice>,
    /// The layer whose counters are noted.
    pub layer: Option<Rc<dyn Layer>>,
}

/// A recording of starts, ready to be played.
pub struct Starts {
    records: Vec<(Record, u32)>,
    /// Index of the first request of each start, ascending.
    firsts: Vec<u64>,
    end_sector: u64,
}

impl Starts {
    /// The requests of a recording with latencies, those before the first start left out; `think` multiplies the time
    /// that programs compute.
    ///
    /// # Errors
    /// `Unfit` if a start has no request.
    pub fn new(trace: &Trace, starts: &[Start], think: f64) -> Result<Starts, LabError> {
        let mut made = Starts { records: Vec::new(), firsts: Vec::new(), end_sector: trace.end_sector() };
        let mut answers: BinaryHeap<Reverse<Nanos>> = BinaryHeap::new();
        let (mut last, mut clock) = (Nanos::ZERO, Nanos::ZERO);
        let mut starts = starts.iter().peekable();
        for record in &trace.records {
            while let Some(Reverse(answer)) = answers.peek().copied().filter(|at| at.0 <= record.time) {
                answers.pop();
                last = last.max(answer);
            }
            let first = starts.next_if(|start| start.at <= record.time).is_some();
            if first && starts.peek().is_some_and(|next| next.at <= record.time) {
                let found = "a start without a request".to_owned();
                return Err(unfit(trace, found));
            }
            if first {
                made.firsts.push(made.records.len() as u64);
                clock += PAUSE;
            } else {
                clock += Nanos((record.time.since(last).0 as f64 * think) as u64);
            }
            last = last.max(record.time);
            if !made.firsts.is_empty() {
                made.records.push((Record { time: clock, ..*record }, answers.len() as u32));
            }
            answers.push(Reverse(record.time + record.latency.known().unwrap_or(Nanos::ZERO)));
        }
        if starts.next().is_some() {
            return Err(unfit(trace, "a start after the last request".to_owned()));
        }
        Ok(made)
    }

    /// Times each start on a volume.
    ///
    /// # Errors
    /// What the volume's layers fail with when they are built.
    pub fn on(&self, volume: &Description, seed: u64) -> Result<Vec<Timed>, LabError> {
        self.reconfigured_on(volume, None, seed)
    }

    /// As [`Starts::on`]; before the start of this number all layers are reconfigured.
    ///
    /// # Errors
    /// Those, and those of the reconfigurations.
    pub fn reconfigured_on(
        &self,
        volume: &Description,
        before: Option<usize>,
        seed: u64,
    ) -> Result<Vec<Timed>, LabError> {
        let runtime = Runtime::new(seed);
        let played: Result<Vec<Timed>, LabError> = runtime.run(async {
            let tree = Volume::new(volume).await?;
            let layers: Vec<Rc<dyn Layer>> = tree.downwards().map(|(_, layer)| layer.clone()).collect();
            let (topmost, adapts) = (layers.first().cloned(), before.map(|number| (number, layers)));
            let mut timed = self.play(tree.top.clone(), topmost, adapts).await?;
            for (number, start) in timed.iter_mut().enumerate() {
                start.work = tree.account(account(number));
            }
            Ok(timed)
        })?;
        played
    }

    /// Times each start on devices that `made` makes, inside the runtime.
    ///
    /// # Errors
    /// Those of `made`.
    pub fn on_devices(
        &self,
        seed: u64,
        made: impl AsyncFnOnce() -> Result<Top, LabError>,
    ) -> Result<Vec<Timed>, LabError> {
        let played: Result<Vec<Timed>, LabError> = Runtime::new(seed).run(async {
            let Top { device, layer } = made().await?;
            Ok(self.play(device, layer, None).await?)
        })?;
        played
    }

    /// The reads of each start.
    pub fn reads(&self) -> impl Iterator<Item = impl Iterator<Item = Extent>> {
        let ends = self.firsts.iter().skip(1).copied().chain([self.records.len() as u64]);
        self.firsts.iter().zip(ends).map(|(first, end)| {
            let records = self.records[*first as usize..end as usize].iter();
            records.filter(|(record, _)| record.op == Op::Read).map(|(record, _)| record.extent)
        })
    }

    /// Times each start on a device that answers at once: a warm start.
    ///
    /// # Errors
    /// The simulation stalled.
    pub fn warm(&self, seed: u64) -> Result<Vec<Timed>, LabError> {
        let device = Rc::new(NullDevice { sectors: self.end_sector });
        Ok(Runtime::new(seed).run(self.play(device, None, None))??)
    }

    async fn play(
        &self,
        device: Rc<dyn BlockDevice>,
        layer: Option<Rc<dyn Layer>>,
        adapts: Option<(usize, Vec<Rc<dyn Layer>>)>,
    ) -> Result<Vec<Timed>, IoError> {
        let answered = Rc::new(Cell::new(Nanos::ZERO));
        let device = Rc::new(Watched { device, answered: answered.clone() });
        let (began, timed, failed) = (Vec::new(), Vec::new(), Ok(()));
        let mut clock = Clock { firsts: &self.firsts, answered, layer, adapts, began, timed, failed };
        let records = self.records.iter().copied();
        let total = self.records.len() as u64;
        replay::<NoTally>(records, total, device, Pace::Answered, &mut clock, &mut |_| ()).await;
        clock.end(total);
        clock.failed.map(|()| clock.timed)
    }
}

fn unfit(trace: &Trace, found: String) -> LabError {
    let expected = "a list of the starts in this recording".to_owned();
    LabError::Unfit { trace: crate::experiment::sources(trace), found, expected }
}

/// Notes when starts begin and end.
struct Clock<'a> {
    firsts: &'a [u64],
    /// Time of the last answer.
    answered: Rc<Cell<Nanos>>,
    layer: Option<Rc<dyn Layer>>,
    /// Layers to reconfigure before the start of this number.
    adapts: Option<(usize, Vec<Rc<dyn Layer>>)>,
    /// Of each start that began: the time, and the counters then.
    began: Vec<(Nanos, BTreeMap<&'static str, u64>)>,
    timed: Vec<Timed>,
    /// The reconfigurations.
    failed: Result<(), IoError>,
}

/// The account of a start.
fn account(number: usize) -> Account {
    Account(u16::try_from(number).unwrap_or(u16::MAX))
}

impl Clock<'_> {
    fn counters(&self) -> BTreeMap<&'static str, u64> {
        self.layer.iter().flat_map(|layer| layer.counters()).collect()
    }

    /// Ends the last start before request `index`.
    fn end(&mut self, index: u64) {
        let now = self.counters();
        let Some((began, before)) = self.began.last() else { return };
        let since = |(name, count): (&&'static str, &u64)| {
            (*name, count.saturating_sub(before.get(name).copied().unwrap_or(0)))
        };
        self.timed.push(Timed {
            began: *began,
            took: self.answered.get().since(*began),
            requests: index - self.firsts[self.began.len() - 1],
            counters: now.iter().map(since).collect(),
            work: Work::default(),
        });
    }

    /// Has the layers reconfigured.
    async fn reconfigure(&self, layers: Vec<Rc<dyn Layer>>) -> Result<(), IoError> {
        for layer in layers {
            layer.reconfigure(account(self.firsts.len())).await?;
        }
        Ok(())
    }
}

impl Controller for Clock<'_> {
    async fn before(&mut self, index: u64) -> Account {
        if self.firsts.get(self.began.len()) == Some(&index) {
            self.end(index);
            let number = self.began.len();
            if let Some((_, layers)) = self.adapts.take_if(|(before, _)| *before == number) {
                self.failed = self.reconfigure(layers).await;
            }
            self.began.push((runtime::now(), self.counters()));
        }
        account(self.began.len().saturating_sub(1))
    }
}

/// Counts nothing.
#[derive(Default)]
struct NoTally;

impl Tally for NoTally {
    fn answered(&mut self, _account: Account, _op: Op, _at: Extent, _took: Nanos) {}

    fn failed(&mut self) {}
}

/// Notes the time of the last answer to a read or write.
struct Watched {
    device: Rc<dyn BlockDevice>,
    answered: Rc<Cell<Nanos>>,
}

impl BlockDevice for Watched {
    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        io(async move {
            let read = self.device.read(at, into, how).await;
            self.answered.set(runtime::now());
            read
        })
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            let written = self.device.write(at, from, how).await;
            self.answered.set(runtime::now());
            written
        })
    }

    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        self.device.write_zeroes(at, how, zeroes)
    }

    fn below(&self) -> Option<&dyn BlockDevice> {
        Some(&*self.device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_starts_are_read_or_refused_by_line() {
        let starts = parse("# programs\n0.5 vim 0\n\n1.25 emacs 3 # again\n").unwrap();
        let emacs = Start { at: Nanos::from_millis(1_250), program: "emacs".to_owned(), round: 3 };
        assert_eq!((starts.len(), &starts[1]), (2, &emacs));
        for bad in ["1 vim", "x vim 0", "1 vim 0 0", "1 vim -1", "nan vim 0", "2 vim 0\n1 vim 1"] {
            let error = parse(bad).unwrap_err();
            let line = bad.lines().count();
            assert!(error.starts_with(&format!("line {line}: found '")), "{error}");
        }
        assert!(parse("# none\n").is_err());
    }
}
