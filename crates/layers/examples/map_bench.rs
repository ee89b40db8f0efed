//! How fast `borg_map` looks up pages, beside a hash map of the same 2,097,152 pages: a BOPT of
//! 8 GiB, all of it mapped, of a volume of 20 TB. The time is the processor's, the median of many
//! rounds that take turns.
//!
//! *One by one*: the next page depends on the last answer, as in a request that goes where its page
//! is. *Many at once*: a loop over pages that are known beforehand, of which the processor looks up
//! several at a time.

use std::hint::black_box;

use rustc_hash::FxHashMap;
use seekless_layers::borg::BorgMap;

const SLOTS: usize = 2_097_152;
/// 20 TB.
const PAGES: u64 = 20_000_588_955_648 / 4096;
const LOOKUPS: usize = 1 << 20;
const ROUNDS: usize = 11;

/// Numbers that are the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

struct Maps {
    borg: BorgMap,
    hash: FxHashMap<u64, u32>,
    mapped: Vec<u64>,
}

impl Maps {
    /// Pages in runs of 1 to `longest`, with slots one after the other, as plans make them.
    fn new(longest: u64, random: &mut Random) -> Maps {
        let mut maps =
            Maps { borg: BorgMap::new(PAGES, SLOTS as u32), hash: FxHashMap::default(), mapped: Vec::new() };
        while maps.mapped.len() < SLOTS {
            let (first, run) = (random.below(PAGES - longest), 1 + random.below(longest));
            for page in first..first + run {
                let slot = maps.mapped.len() as u32;
                if maps.mapped.len() < SLOTS && !maps.hash.contains_key(&page) {
                    maps.hash.insert(page, slot);
                    maps.borg.insert(page, slot, false);
                    maps.mapped.push(page);
                }
            }
        }
        maps
    }

    fn some_mapped(&self, random: &mut Random) -> u64 {
        self.mapped[random.below(SLOTS as u64) as usize]
    }

    fn some_unmapped(&self, random: &mut Random) -> u64 {
        loop {
            let page = random.below(PAGES);
            if !self.hash.contains_key(&page) {
                return page;
            }
        }
    }
}

/// Nanoseconds a lookup.
fn one_by_one(pages: &[u64], look_up: impl Fn(u64) -> Option<u32>) -> f64 {
    let before = cpu_ns();
    let mut last = 0;
    for page in pages {
        // Always 0, which the compiler does not know.
        last = black_box(look_up(page + last).map_or(0, u64::from)) >> 32;
    }
    black_box(last);
    (cpu_ns() - before) / pages.len() as f64
}

/// Nanoseconds a lookup.
fn many_at_once(pages: &[u64], look_up: impl Fn(u64) -> Option<u32>) -> f64 {
    let before = cpu_ns();
    let sum: u64 = pages.iter().filter_map(|page| look_up(*page)).map(u64::from).sum();
    black_box(sum);
    (cpu_ns() - before) / pages.len() as f64
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    let mut random = Random(1);
    println!("a lookup in borg_map and in FxHashMap<u64, u32>, {SLOTS} pages of 20 TB");
    println!("{:<54} {:>9} {:>9} {:>7}", "", "borg_map", "FxHashMap", "times");
    for (longest, distribution) in [(1, "scattered"), (64, "runs of 1 to 64")] {
        let maps = Maps::new(longest, &mut random);
        let percent = maps.borg.bytes() as f64 / (SLOTS as f64 * 4096.0) * 100.0;
        println!("{distribution}: {} bytes, {percent:.3} % of the BOPT", maps.borg.bytes());
        let mapped: Vec<u64> = (0..LOOKUPS).map(|_| maps.some_mapped(&mut random)).collect();
        let unmapped: Vec<u64> = (0..LOOKUPS).map(|_| maps.some_unmapped(&mut random)).collect();
        let runs: Vec<u64> = (0..LOOKUPS / 8)
            .map(|_| maps.some_mapped(&mut random))
            .flat_map(|first| (0..8).map(move |page| first + page))
            .collect();
        for (asked, pages) in
            [("pages that are mapped", mapped), ("pages that are not", unmapped), ("8 in a row", runs)]
        {
            for (how, ask) in [("one by one", true), ("many at once", false)] {
                let (mut borg, mut hash) = (Vec::new(), Vec::new());
                for _ in 0..ROUNDS {
                    let in_borg = |page| maps.borg.slot_of(page);
                    let in_hash = |page: u64| maps.hash.get(&page).copied();
                    borg.push(if ask { one_by_one(&pages, in_borg) } else { many_at_once(&pages, in_borg) });
                    hash.push(if ask { one_by_one(&pages, in_hash) } else { many_at_once(&pages, in_hash) });
                }
                let (borg, hash) = (median(borg), median(hash));
                let what = format!("  {asked}, {how}");
                println!("{what:<54} {borg:>6.1} ns {hash:>6.1} ns {:>7.2}", hash / borg);
            }
        }
    }
}

/// Time that this thread was on a processor, in nanoseconds.
fn cpu_ns() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0.0)
}
