//! Cost of analysing and planning: CPU seconds and memory, by the number of requests, and for an update. Run it by
//! `make bench`.
//!
//! The requests are those of the three shipped recordings, one after the other, repeatedly. After `visits` rounds they
//! move on to new pages: like real ones, they return to some places, and never run out of new ones.

use std::iter;
use std::path::Path;

use seekless_core::Op;
use seekless_layers::borg::{Access, Analyzer, Arrival, Edges, Greedy, Order as _, Profiler};
use seekless_trace::{ReadOptions, load};

const LENGTHS: [usize; 3] = [1_000_000, 3_000_000, 10_000_000];
/// One in this many of the known requests is new in an update.
const UPDATE: usize = 100;
/// Pages of the read cache: 8 GiB.
const CAPACITY: u64 = 8 << 18;

fn main() {
    let shipped: Vec<Access> = ["mail", "appstart2", "svnserver2"].into_iter().flat_map(recording).collect();
    let mut profiler = Profiler::default();
    let mut clock = Clock::start();
    let noted = 10 * shipped.len();
    for access in (0..10).flat_map(|_| &shipped) {
        profiler.note(access);
    }
    let (bytes, each) = (profiler.bytes() as f64 / noted as f64, clock.lap() / noted as f64 * 1e9);
    println!("the profiler: {bytes:.1} bytes and {each:.0} ns a request");
    drop(profiler);
    println!("CPU seconds to analyse and plan; an update brings 1 % more requests:");
    println!("the plan is made anew from a graph that grew, or extended");
    println!(
        "{:<26} {:>9} {:>9} {:>8} {:>7} {:>6} {:>6} {:>6} {:>7} {:>7}",
        "", "vertices", "edges", "analyse", "number", "plan", "all", "anew", "update", "of all"
    );
    for visits in [4, 1] {
        let mut shortest = None;
        for requests in LENGTHS {
            let all = measure(&shipped, visits, requests);
            let growth = all / *shortest.get_or_insert(all);
            if requests == LENGTHS[LENGTHS.len() - 1] {
                println!("from 1 to 10 million: {growth:.1} times as long");
            }
        }
    }
    println!("most memory at once: {:.2} GB, {:.2} of it for the recordings", peak(), recorded(&shipped));
}

/// Prints a line, and returns the seconds of the full run.
fn measure(shipped: &[Access], visits: u32, requests: usize) -> f64 {
    let mut clock = Clock::start();
    let mut known = Analyzer::bounded(1 << 30);
    let mut stream = stream(shipped, visits);
    known.add(stream.by_ref().take(requests));
    let analyse = clock.lap();
    let graph = known.graph(Edges::Process);
    let number = clock.lap();
    let planned = Greedy { threshold: 1 }.order(&graph, CAPACITY);
    let plan = clock.lap();
    assert!(planned.pages() <= CAPACITY);
    let (vertices, edges) = (graph.vertices().len(), graph.edge_count());
    drop(graph);
    let newer: Vec<Access> = stream.take(requests / UPDATE).collect();
    clock.lap();
    known.add(newer.iter().copied());
    let mut other = known.anew();
    other.add(newer);
    let extended =
        planned.extended(&Greedy { threshold: 1 }.order(&other.graph(Edges::Process), u64::MAX), CAPACITY);
    let update = clock.lap();
    assert!(extended.ranges.starts_with(&planned.ranges));
    Greedy { threshold: 1 }.order(&known.graph(Edges::Process), CAPACITY);
    let (all, anew) = (analyse + number + plan, clock.lap());
    println!(
        "{:<26} {vertices:>9} {edges:>9} {analyse:>8.2} {number:>7.2} {plan:>6.2} {all:>6.2} {anew:>6.2} {update:>7.3} {:>5.1} %",
        format!("{} M, each place {visits} x", requests / 1_000_000),
        update / all * 100.0
    );
    all
}

/// The requests of a recording.
fn recording(name: &str) -> Vec<Access> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data");
    let files = [0, 1].map(|cpu| data.join(format!("{name}.blktrace.{cpu}.xz")));
    let trace = load(&files, &ReadOptions::default()).expect("the recordings ship");
    let access = |record: &seekless_core::Record| {
        Access::new(
            Arrival { paused: record.time, depth: 0 },
            record.origin,
            record.extent,
            record.op != Op::Read,
        )
    };
    trace.records.iter().filter(|record| record.extent.sectors > 0).map(access).collect()
}

/// The shipped requests without end, on new pages after `visits` rounds.
fn stream(shipped: &[Access], visits: u32) -> impl Iterator<Item = Access> {
    let volume = shipped.iter().map(|access| access.first + access.pages).max().unwrap_or(1);
    let rounds = iter::successors(Some(0_u32), |round| Some(round + 1));
    rounds.flat_map(move |round| {
        let moved = round / visits * volume;
        shipped.iter().map(move |access| Access { first: access.first + moved, ..*access })
    })
}

fn recorded(shipped: &[Access]) -> f64 {
    size_of_val(shipped) as f64 / 1e9
}

/// Peak memory of this process, in GB.
fn peak() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) * 1024.0 / 1e9
}

/// CPU time of this thread.
struct Clock(f64);

impl Clock {
    fn start() -> Clock {
        Clock(cpu_seconds())
    }

    /// Since the start or the last lap.
    fn lap(&mut self) -> f64 {
        let before = std::mem::replace(&mut self.0, cpu_seconds());
        self.0 - before
    }
}

/// CPU time of this thread.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}
