//! Speed of the request path: CPU seconds and allocations, each against a bound from the same run. Rounds are
//! interleaved, the figures are medians; run it by `make bench`. And the cost of a scheduler's decision by the length
//! of the queue.

use std::rc::Rc;

use seekless_core::runtime::{self, Rng, Runtime};
use seekless_core::{BlockDevice, Buffer, Extent, Hints, Lba, Nanos, Op, Slice};
use seekless_drive::disk::Drive;
use seekless_drive::disk::mechanics::Head;
use seekless_drive::scheduler::{Moment, Waiter, Waiting};
use seekless_drive::{Disk, Policy, QueueOptions, Spec, spec};
use seekless_layers::Borg;
use seekless_layers::borg::Options;

/// Enough for the clock of a thread's CPU time, which ticks in milliseconds.
const REQUESTS: u64 = 1_000_000;
const OUTSTANDING: u64 = 8;
/// Outstanding requests where a scheduler is to have a choice.
const CHOICE: u64 = 32;
const ROUNDS: usize = 5;
/// The clients' volume: 20 GiB in sectors, as in the shipped recordings.
const OVER: u64 = 20 << 21;

/// A case: its name, and a run of the given number of requests.
type Case = (&'static str, fn(&Spec, u64));

const CASES: [Case; 7] = [
    ("layout and mechanics alone", bare),
    ("with the cache and the interface (the bound)", arithmetic),
    ("one component: a simulated disk", component),
    ("the same, C-LOOK with 32 outstanding", |spec, requests| scheduled(spec, requests, Policy::CLook)),
    ("the same, SPTF with 32 outstanding", |spec, requests| scheduled(spec, requests, Policy::Sptf)),
    ("one component and one layer: BORG, nothing mapped", layer),
    ("the same, every page served from the BOPT", mapped),
];

fn main() {
    let spec = spec::find("wd2500aaks").expect("the drive ships");
    let mut seconds = vec![Vec::new(); CASES.len()];
    for _ in 0..ROUNDS {
        for (case, (_, run)) in CASES.iter().enumerate() {
            let before = cpu_seconds();
            run(&spec, REQUESTS);
            seconds[case].push(cpu_seconds() - before);
        }
    }
    println!(
        "{REQUESTS} random 4 KiB reads, {OUTSTANDING} outstanding unless told; medians of {ROUNDS} interleaved rounds"
    );
    println!("{:<52} {:>12} {:>8} {:>12}", "", "requests/s", "ratio", "allocations");
    let median = |times: &[f64]| {
        let mut times = times.to_vec();
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let bound = median(&seconds[1]);
    for (times, (name, run)) in seconds.iter().zip(CASES) {
        let time = median(times);
        // The cost of the setup cancels out between two runs of different length.
        let allocations = |requests| allocation_counter::measure(|| run(&spec, requests)).count_total as f64;
        let each = (allocations(40_000) - allocations(20_000)) / 20_000.0;
        println!("{name:<52} {:>12.0} {:>8.2} {each:>12.2}", REQUESTS as f64 / time, time / bound);
    }
    println!("\n{:<52} {:>12} {:>8}", "a decision, one request gone and another come", "ns", "ratio");
    let policies = [Policy::CLook, Policy::Sstf, Policy::Sptf, Policy::SptfSw(40), Policy::Asptf(6)];
    for policy in policies {
        let mut short = 0.0;
        for length in [32, 1_000] {
            let mut times: Vec<f64> = (0..ROUNDS).map(|_| decision(&spec, policy, length)).collect();
            times.sort_by(f64::total_cmp);
            let time = times[ROUNDS / 2];
            short = if length == 32 { time } else { short };
            let name = format!("{policy} with {length} in line");
            println!("{name:<52} {:>12.0} {:>8.2}", time * 1e9, time / short);
        }
    }
}

/// Seconds of a decision and its consequences in a queue of constant length: looking at the drive, choosing, removing
/// one and adding another. The drive's own computation is subtracted.
fn decision(spec: &Spec, policy: Policy, length: usize) -> f64 {
    const DECISIONS: usize = 200_000;
    let (mut drive, mut rng, mut now, mut head) = (Drive::new(spec), Rng::seeded(1), Nanos(0), Lba(0));
    let mut scheduler = policy.scheduler();
    let mut waiting = Waiting::new(&*scheduler);
    let mut waiters = vec![(Lba(0), Waiter::default()); length];
    let mut come = |drive: &Drive, waiting: &mut Waiting, slot: usize, arrival: usize, since: Nanos| {
        let start = Extent::of_pages(rng.below(OVER / 8), 1).start;
        let place = drive.place(start);
        let waiter = Waiter { slot, arrival: arrival as u64, since, place, ..Waiter::default() };
        waiting.add(start, waiter);
        (start, waiter)
    };
    for (slot, waiter) in waiters.iter_mut().enumerate() {
        *waiter = come(&drive, &mut waiting, slot, slot, now);
    }
    let mut served = Vec::with_capacity(DECISIONS);
    let before = cpu_seconds();
    for arrival in length..length + DECISIONS {
        let estimator = drive.estimator(now);
        let moment = Moment { now, head, arrived_before: u64::MAX, drive: Some(&estimator) };
        let slot = scheduler.next(&waiting, &moment).expect("some wait");
        let (start, waiter) = waiters[slot];
        let at = Extent { start, sectors: 8 };
        waiting.remove(start, &waiter);
        served.push(at);
        (now, head) = (now + drive.serve(Op::Read, at, now, true).total(), at.end());
        waiters[slot] = come(&drive, &mut waiting, slot, arrival, now);
    }
    let all = cpu_seconds() - before;
    let (mut drive, mut now) = (Drive::new(spec), Nanos(0));
    let before = cpu_seconds();
    for at in served {
        now += drive.serve(Op::Read, at, now, true).total();
    }
    (all - (cpu_seconds() - before)) / DECISIONS as f64
}

/// CPU time of this thread.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

fn bare(spec: &Spec, requests: u64) {
    let (drive, mut rng) = (Drive::new(spec), Rng::seeded(1));
    let (mut now, mut head) = (Nanos(0), Head::default());
    for _ in 0..requests {
        let at = Extent::of_pages(rng.below(OVER / 8), 1);
        let (took, there) = drive.mechanics().access(drive.layout(), head, now, at, false);
        (now, head) = (now + took.total(), there);
    }
    assert!(now > Nanos(0));
}

fn arithmetic(spec: &Spec, requests: u64) {
    let (mut drive, mut rng, mut now) = (Drive::new(spec), Rng::seeded(1), Nanos(0));
    for _ in 0..requests {
        now += drive.serve(Op::Read, Extent::of_pages(rng.below(OVER / 8), 1), now, true).total();
    }
    assert!(now > Nanos(0));
}

fn component(spec: &Spec, requests: u64) {
    Runtime::new(1)
        .run(async {
            let disk = Rc::new(Disk::new(0, spec, QueueOptions::default()));
            clients(disk, requests, OVER / 8, OUTSTANDING).await;
        })
        .expect("it does not stall");
}

fn scheduled(spec: &Spec, requests: u64, policy: Policy) {
    Runtime::new(1)
        .run(async {
            let disk = Rc::new(Disk::new(0, spec, QueueOptions { policy, ..QueueOptions::default() }));
            clients(disk, requests, OVER / 8, CHOICE).await;
        })
        .expect("it does not stall");
}

fn layer(spec: &Spec, requests: u64) {
    borg(spec, requests, false);
}

fn mapped(spec: &Spec, requests: u64) {
    borg(spec, requests, true);
}

/// Pages that are written first, so that the write buffer holds them.
const WRITTEN: u64 = 10_000;

fn borg(spec: &Spec, requests: u64, written: bool) {
    Runtime::new(1)
        .run(async {
            let disk = Rc::new(Disk::new(0, spec, QueueOptions::default()));
            let slice = |start, sectors| {
                Rc::new(Slice::new(disk.clone(), Extent::new(start, sectors)).expect("it fits"))
            };
            let borg =
                Borg::open_creating(slice(0, OVER), slice(OVER, 1 << 21), Options::default(), true).await;
            let borg = borg.expect("it fits");
            if !written {
                return clients(borg, requests, OVER / 8, OUTSTANDING).await;
            }
            for at in (0..WRITTEN).step_by(100).map(|page| Extent::of_pages(page, 100)) {
                borg.write(at, Buffer::hollow_sectors(at.sectors), Hints::default()).await.expect("written");
            }
            clients(borg, requests, WRITTEN, OUTSTANDING).await;
        })
        .expect("it does not stall");
}

/// Reads pages below `pages`, each client one at a time.
async fn clients(device: Rc<dyn BlockDevice>, requests: u64, pages: u64, outstanding: u64) {
    let tasks: Vec<_> = (0..outstanding)
        .map(|_| {
            let device = device.clone();
            runtime::spawn(async move {
                let mut rng = runtime::rng("client");
                for _ in 0..requests / outstanding {
                    let at = Extent::of_pages(rng.below(pages), 1);
                    device
                        .read(at, Buffer::hollow_sectors(at.sectors), Hints::default())
                        .await
                        .expect("read");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await;
    }
}
