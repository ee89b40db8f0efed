//! Cost of a freeblock decision, and speed of a simulation with free work: `make bench`.
//!
//! Decisions are timed individually over whole scans of the paper's drive under random requests of 8 KiB; simulations
//! in CPU time. With a number as argument it proves instead that free work is free: that many foreground requests with
//! it and without.

use std::time::Instant;

use seekless_core::runtime::Runtime;
use seekless_core::{Extent, Nanos, Op};
use seekless_drive::disk::Drive;
use seekless_drive::freeblock::{FreeOptions, FreePolicy, Freeblock};
use seekless_drive::spec;
use seekless_lab::mining::{Foreground, Mining, head_alone, mine};

const DRIVE: &str = "quantum-atlas-10k-disksim";
const POLICIES: [FreePolicy; 2] = [FreePolicy::Paper, FreePolicy::Weighted];

struct Lcg(u64);

impl Lcg {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(self.0) * u128::from(end)) >> 64) as u64
    }
}

/// CPU seconds of this process so far.
fn cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    let ticks: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
    ticks[11..=12].iter().map(|ticks| ticks.parse::<f64>().unwrap()).sum::<f64>() / 100.0
}

/// Times every decision of a scan of all blocks, or of every hundredth of those.
fn decisions(policy: FreePolicy, scattered: bool) {
    let spec = head_alone(&spec::find(DRIVE).unwrap());
    let (mut drive, runtime) = (Drive::new(&spec), Runtime::new(1));
    drive.record_trajectory();
    let options = FreeOptions { policy, ..FreeOptions::default() };
    let free = std::rc::Rc::new(Freeblock::new(&drive, options, no_foreground()));
    let (mut random, mut trajectory, mut times, mut now) = (Lcg(1), Vec::new(), Vec::new(), 0);
    let scan = runtime.run(async {
        let task = free.reader(8).unwrap();
        let blocks = drive.layout().sectors() / 8;
        if scattered {
            (0..blocks / 100).for_each(|_| drop(task.read(Extent::new(random.below(blocks) * 8, 8))));
        } else {
            task.read(Extent::new(0, blocks * 8)).unwrap();
        }
        let mut done = Vec::new();
        while task.progress().left > 0 && times.len() < 1_000_000 {
            let at = Extent::new(random.below((drive.layout().sectors() - 16) / 8) * 8, 16);
            let op = if random.below(3) == 0 { Op::Write } else { Op::Read };
            let took = drive.serve(op, at, Nanos(now), true).total().0;
            drive.take_trajectory(&mut trajectory);
            #[allow(clippy::disallowed_methods)] // the decisions are what is measured
            let start = Instant::now();
            free.fill(&mut trajectory, Nanos(now), Nanos::ZERO);
            times.push(start.elapsed().as_nanos() as u64);
            now += took;
            free.deliver(Nanos(now), &mut done, |at, _| seekless_core::Buffer::hollow_sectors(at.sectors));
            while task.ready() > 0 {
                task.next().await;
            }
        }
    });
    scan.unwrap();
    let mean = times.iter().sum::<u64>() as f64 / times.len() as f64;
    times.sort_unstable();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize] as f64 / 1e3;
    println!(
        "{:9} {:22} {:>8} decisions: mean {:6.1} us, median {:5.1}, 99 % {:6.1}, 99.9 % {:6.1}, longest {:7.1}",
        policy.to_string(),
        if scattered { "1 % scattered" } else { "all blocks" },
        times.len(),
        mean / 1e3,
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0)
    );
}

fn no_foreground() -> std::rc::Weak<dyn seekless_drive::freeblock::Foreground> {
    struct Nobody;
    impl seekless_drive::freeblock::Foreground for Nobody {
        fn submit(
            self: std::rc::Rc<Self>,
            _: Op,
            _: Extent,
            buffer: seekless_core::Buffer,
        ) -> seekless_core::IoFuture<'static, seekless_core::Buffer> {
            Box::pin(std::future::ready(Ok(buffer)))
        }

        fn wake_for_idle_work(self: std::rc::Rc<Self>) {}
    }
    std::rc::Weak::<Nobody>::new()
}

fn mining(policy: FreePolicy, scans: u64) -> Mining {
    Mining {
        drive: head_alone(&spec::find(DRIVE).unwrap()),
        policy: "c-look".parse().unwrap(),
        foreground: Foreground::Load("oltp:mpl=7".to_owned()),
        free: FreeOptions { policy, ..FreeOptions::default() },
        block: 8,
        scans,
        scrub: None,
        time: None,
        seed: 1,
    }
}

/// At least this many foreground requests, with free work and without: they must be the same.
fn proof(requests: u64) {
    for policy in POLICIES {
        let mut scans = 1;
        let mut mined = mine(&mining(policy, scans), None).unwrap();
        if mined.requests < requests {
            scans = requests.div_ceil(mined.requests);
            mined = mine(&mining(policy, scans), None).unwrap();
        }
        let alone = mine(&mining(policy, 0), Some(mined.requests)).unwrap();
        let delta = i128::from(mined.waited.0) - i128::from(alone.waited.0);
        let same = if mined.hash == alone.hash { "the same" } else { "NOT THE SAME" };
        println!(
            "{policy}: {} requests beside {scans} scans: {delta} ns more, schedule {same}",
            mined.requests
        );
        assert!(delta == 0 && mined.hash == alone.hash);
    }
}

fn main() {
    if let Some(requests) = std::env::args().nth(1) {
        return proof(requests.parse().expect("a number of requests"));
    }
    for policy in POLICIES {
        for scattered in [false, true] {
            decisions(policy, scattered);
        }
    }
    for policy in POLICIES {
        let mut rates: Vec<f64> = (0..3)
            .map(|_| {
                let begin = cpu();
                let mined = mine(&mining(policy, 1), None).unwrap();
                mined.requests as f64 / (cpu() - begin)
            })
            .collect();
        rates.sort_unstable_by(f64::total_cmp);
        println!("{policy}: {:.0} foreground requests a CPU second, with free work", rates[1]);
    }
}
