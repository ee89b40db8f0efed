//! Who causes the disk's work: each process's share of the head's time, and the waiting of its requests, in a run of
//! the disk as it is. A command that serves merged requests is charged to the first of them.

use std::cell::RefCell;

use schemars::JsonSchema;
use seekless_core::runtime::Runtime;
use seekless_core::{Account, NameId};
use seekless_layers::replay::{Controller, replay};
use seekless_trace::Trace;
use seekless_volume::Volume;
use serde::Serialize;

use crate::error::LabError;
use crate::experiment::{Experiment, sources};
use crate::phased_answers::{PhasedAnswers, RoughTimes};
use crate::setup::pace_of;

/// Number of processes listed.
const MOST: usize = 6;

/// The part of a process in the disk's work.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Cause {
    /// Name of the process; `others` for the rest.
    pub process: String,
    /// Requests.
    pub requests: u64,
    /// Head time, in seconds.
    pub busy_s: f64,
    /// Share of all head time, in per cent.
    pub busy_pct: f64,
    /// Time that its requests took in all, from issue to answer, in seconds.
    pub waited_s: f64,
}

/// Charges requests to the name of their process.
struct ByProcess<'a>(&'a Trace);

impl Controller for ByProcess<'_> {
    async fn before(&mut self, index: u64) -> Account {
        let name = self.0.records.get(index as usize).map_or(0, |record| record.origin.name.0);
        Account(u16::try_from(name).unwrap_or(u16::MAX))
    }
}

/// The causes, those of most head time first.
pub fn causes(trace: &Trace, base: &Experiment) -> Result<Vec<Cause>, LabError> {
    let places = base.places(&sources(trace), trace.end_sector())?;
    let description = base.volume(&places);
    let requests = trace.records.len() as u64;
    let mut counts =
        vec![0_u64; trace.records.iter().map(|record| record.origin.name.0 as usize + 1).max().unwrap_or(0)];
    trace.records.iter().for_each(|record| counts[record.origin.name.0 as usize] += 1);
    counts.truncate(usize::from(u16::MAX));
    let each = RefCell::new(Vec::new());
    let result: Result<(), LabError> = Runtime::new(base.seed).run(async {
        let tree = Volume::new(&description).await?;
        let records = trace.records.iter().map(|record| (*record, 0));
        let mut control = ByProcess(trace);
        let played = replay::<PhasedAnswers>(
            records,
            requests,
            tree.top.clone(),
            pace_of(trace, base.pace),
            &mut control,
            &mut |_| {},
        )
        .await;
        for (name, requests) in counts.iter().enumerate().filter(|(_, requests)| **requests > 0) {
            let account = Account(name as u16);
            let waited = played.answers.of(account).map_or(0.0, RoughTimes::total_s);
            each.borrow_mut().push(Cause {
                process: trace.names.get(NameId(name as u32)).to_owned(),
                requests: *requests,
                busy_s: tree.account(account).busy().seconds(),
                busy_pct: 0.0,
                waited_s: waited,
            });
        }
        Ok(())
    })?;
    result?;
    Ok(listed(each.into_inner()))
}

/// Those of most head time first; the rest is summed up.
fn listed(mut each: Vec<Cause>) -> Vec<Cause> {
    let all: f64 = each.iter().map(|one| one.busy_s).sum();
    each.sort_by(|one, other| other.busy_s.total_cmp(&one.busy_s));
    if each.len() > MOST {
        let rest = each.split_off(MOST - 1);
        let mut others = Cause { process: "others".to_owned(), ..Cause::default() };
        for one in rest {
            others.requests += one.requests;
            others.busy_s += one.busy_s;
            others.waited_s += one.waited_s;
        }
        each.push(others);
    }
    for one in &mut each {
        one.busy_pct = 100.0 * one.busy_s / all.max(1e-9);
    }
    each
}
