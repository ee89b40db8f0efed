//! `PostMark` in four guests: Figure 11.
//!
//! The guests' requests are recorded on the bare disk, and replayed on it and on the layer, which knows the process
//! of each request, or only the guest, as a monitor would, or nothing.

use seekless_core::{Names, ProcessId, SECTOR_BYTES};
use seekless_drive::QueueOptions;
use seekless_trace::Trace;
use seekless_volume::{Component, Description};

use super::{GIB, NOTES, Setting, about, by_phase, compared, saved};
use crate::error::LabError;
use crate::figure::shown::{Shown, Within, words};
use crate::figure::{Entry, Job};
use crate::load::{Run, run_workload};
use crate::workload;
use crate::workload::client::Limit;

/// Busy time by phase: a virtual machine monitor.
pub const FIGURE_11: Entry = Entry {
    usual: 50_000,
    ..Entry::new(
        "transactions of each guest",
        "borg-11",
        "busy time by phase, PostMark in four guests",
        "BORG paper (FAST 2009), section 6.3, Figure 11",
        "6 % less between reconfigurations on average, but more in the first; process context is lost",
        &["maxtor-6l020j1"],
        figure_11,
    )
};

pub(super) const GUESTS: u64 = 4;
/// The disk of a guest.
pub(super) const GUEST: u64 = 4 * GIB;

fn figure_11(job: &Job) -> Result<Shown, LabError> {
    let by_process = recorded(job)?;
    let mut by_guest = by_process.clone();
    for record in &mut by_guest.records {
        let guest = record.extent.start.0 / (GUEST / SECTOR_BYTES);
        record.origin.process = ProcessId(guest as u32 + 1);
    }
    let known = Setting::new(GIB, 0.4);
    let none = Setting { more: vec![("edges", "global".into())], ..known.clone() };
    let each = [
        ("process", compared(job, &by_process, &known)?),
        ("guest", compared(job, &by_guest, &known)?),
        ("none", compared(job, &by_guest, &none)?),
    ];
    let mean = |number: usize| {
        let all = saved(&each[number].1);
        all.iter().sum::<f64>() / all.len().max(1) as f64
    };
    let paper = vec![
        about("the guest known: busy time saved, mean of phases", "%", 6.0, mean(1), Within::Points(10.0)),
        about("nothing known: busy time saved, mean of phases", "%", 6.0, mean(2), Within::Points(10.0)),
    ];
    let guests = format!(
        "Four guests run PostMark at once, with 2,000 files in 500 directories on a disk of 4 GiB each, through a model of \
         a file system with a cache of 12 MiB (of the paper's 64 MB of memory); {} transactions each (the paper: 200,000).",
        job.requests
    );
    let contexts = "Context: what the layer knows of a request. Process: which in the guest; guest: which guest; none: \
                    all requests are one sequence.";
    let notes = [&guests, contexts, NOTES[0]];
    Ok(by_phase(job, words("context", "context"), &each, paper, &notes))
}

/// The requests of the guests on the bare disk.
fn recorded(job: &Job) -> Result<Trace, LabError> {
    let guest = |number: u64| {
        format!(
            "postmark:files=2000,dirs=500,transactions={},cache=12MiB,at={}GiB,area={}GiB",
            job.requests,
            number * GUEST / GIB,
            GUEST / GIB
        )
    };
    let load = workload::parse(&format!("mix:{}", (0..GUESTS).map(guest).collect::<Vec<_>>().join("+")))?;
    let component = Component::new(job.drive().clone().into(), QueueOptions::default());
    let disk = Description::bare(component, GUESTS * GUEST / SECTOR_BYTES);
    let run = Run { limit: Limit::default(), seed: job.seed, keep: true };
    let (_, recorded) = run_workload(&load, &disk, &run, None)?;
    Ok(Trace { records: recorded.records, names: Names::default(), ..Trace::default() })
}
