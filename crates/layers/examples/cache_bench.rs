//! What the buffer cache costs a request that it answers from memory: reads of pages that are there, and writes to
//! pages that are dirty, by processor time. Run it by `make bench`.

use std::rc::Rc;

use seekless_core::runtime::Runtime;
use seekless_core::{BlockDevice, Buffer, Extent, Hints};
use seekless_drive::{Disk, QueueOptions, spec};
use seekless_layers::Cache;
use seekless_layers::cache::Options;

/// Half of the cache: all of them may be dirty.
const PAGES: u64 = 2_048;
const REQUESTS: u64 = 400_000;
const ROUNDS: usize = 7;

fn main() {
    let done = Runtime::new(1).run(async {
        let disk = Disk::new(0, &spec::find("wd2500aaks").expect("it ships"), QueueOptions::default());
        let cache = Cache::new(Rc::new(disk), Options::default());
        let page = |number: u64| Extent::of_pages(number * 97 % PAGES, 1);
        let from = Buffer::zeroed(page(0).bytes());
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let before = cpu_seconds();
            for number in 0..REQUESTS {
                cache.write(page(number), from.clone(), Hints::default()).await.expect("there is room");
            }
            let between = cpu_seconds();
            for number in 0..REQUESTS {
                cache.read(page(number), from.clone(), Hints::default()).await.expect("it is there");
            }
            writes.push((between - before) / REQUESTS as f64);
            reads.push((cpu_seconds() - between) / REQUESTS as f64);
        }
        for (what, mut times) in [("writes", writes), ("reads", reads)] {
            times.sort_by(f64::total_cmp);
            println!("the cache {what} a page in memory in {:.0} ns", times[ROUNDS / 2] * 1e9);
        }
    });
    done.expect("nothing waits");
}

/// Time that this thread was on a processor.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}
