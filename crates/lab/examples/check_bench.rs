//! Speed of the checker: CPU time to check histories of different kinds and lengths, and to query what a crash may
//! leave. If checking takes n log n, a request takes as long in a long history as in a short one. Run it by `make
//! bench`.

use seekless_core::runtime::Rng;
use seekless_core::{Extent, Op};
use seekless_lab::check::history::{Event, Reader, Writer};
use seekless_lab::check::{Registers, SectorContent, Stamp, judge};

const OUTSTANDING: usize = 32;
const LENGTHS: [u64; 3] = [250_000, 500_000, 1_000_000];

/// A kind of history: name, pages, requests between flushes, whether its first read is never answered.
type Case = (&'static str, u64, u64, bool);

const CASES: [Case; 4] = [
    ("65,536 pages, a flush in 100", 65_536, 100, false),
    ("64 pages, a flush in 100", 64, 100, false),
    ("64 pages, never flushed", 64, u64::MAX, false),
    ("64 pages, never flushed, one read never answered", 64, u64::MAX, true),
];

fn main() {
    println!("judging 4 KiB requests, half of them reads, {OUTSTANDING} outstanding");
    println!(
        "{:<52} {:>12} {:>12} {:>12}",
        "CPU seconds for so many requests", "250,000", "500,000", "1,000,000"
    );
    for case in CASES {
        let seconds = LENGTHS.map(|requests| {
            let events = history(case, requests);
            let before = cpu_seconds();
            let registers = fed(&events);
            let took = cpu_seconds() - before;
            assert!(registers.in_flight() <= OUTSTANDING + 1);
            took
        });
        println!("{:<52} {:>12.3} {:>12.3} {:>12.3}", case.0, seconds[0], seconds[1], seconds[2]);
    }
    let events = history(CASES[0], LENGTHS[2]);
    let mut writer = Writer::new(Vec::new()).expect("memory");
    let before = cpu_seconds();
    for event in &events {
        writer.event(event).expect("memory");
    }
    let text = writer.finish().expect("memory");
    let (wrote, before) = (cpu_seconds() - before, cpu_seconds());
    let judged = judge(Reader::new(&text[..]).expect("a header")).expect("a history");
    assert!(judged.violation.is_none(), "{judged:?}");
    let (read, mib) = (cpu_seconds() - before, text.len() as f64 / 1_048_576.0);
    println!(
        "\nthe first of them as text, {mib:.1} MiB: written in {wrote:.3} s, read and judged in {read:.3} s"
    );
    asked(&events);
}

/// Queries what a crash may leave, and restarts from there.
fn asked(events: &[Event]) {
    const ASKED: usize = 10_000_000;
    const COPIES: u32 = 50;
    let events = &events[..events.len() / 2];
    let registers = fed(events);
    let writes = events.iter().rev().filter_map(|event| match event {
        Event::Issue { id, op: Op::Write, at, .. } => Some((at.start.0, of(at.start.0, *id))),
        _ => None,
    });
    // Some of the latest writes were replaced since.
    let left = writes.take(8_192).filter(|(sector, found)| registers.after_crash(*sector, *found).is_ok());
    let mut left: Vec<(u64, SectorContent)> = left.collect();
    left.sort_unstable_by_key(|(sector, _)| sector.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let before = cpu_seconds();
    let right = left
        .iter()
        .cycle()
        .take(ASKED)
        .filter(|(sector, found)| registers.after_crash(*sector, *found).is_ok());
    assert_eq!(right.count(), ASKED);
    let each = (cpu_seconds() - before) / ASKED as f64 * 1e9;
    println!("{:<52} {each:>12.1}", "whether a crash may leave what is found, ns a sector");
    let mut copies = Vec::new();
    let before = cpu_seconds();
    copies.resize(COPIES as usize, registers);
    let (cloned, before) = ((cpu_seconds() - before) / f64::from(COPIES), cpu_seconds());
    copies.iter_mut().for_each(Registers::crash);
    let crashed = (cpu_seconds() - before) / f64::from(COPIES);
    println!("{:<52} {:>12.2}", "a copy of the registers of 65,536 pages, ms", cloned * 1e3);
    println!("{:<52} {:>12.2}", "a crash on them, ms", crashed * 1e3);
}

fn of(sector: u64, write: u64) -> SectorContent {
    if write == 0 { SectorContent::Zeroes } else { SectorContent::Stamp(Stamp { sector, write }) }
}

fn fed(events: &[Event]) -> Registers {
    let mut registers = Registers::new();
    for event in events {
        registers.event(event).expect("what a device without faults does is right");
    }
    registers
}

/// The history of a device without faults that answers in any order.
fn history((_, pages, flush, endless): Case, requests: u64) -> Vec<Event> {
    let mut rng = Rng::seeded(1);
    let mut holds = vec![0_u64; pages as usize];
    let (mut flying, mut events) = (Vec::new(), Vec::new());
    for id in 1..=requests {
        while flying.len() == OUTSTANDING {
            let (id, op, at): (u64, Op, Extent) = flying.swap_remove(rng.below(OUTSTANDING as u64) as usize);
            let page = (at.start.0 / 8) as usize;
            events.push(match op {
                Op::Read if endless && id == 1 => continue,
                Op::Read => {
                    let found = (at.start.0..at.end().0).map(|sector| of(sector, holds[page]));
                    Event::Read { id, found: found.collect() }
                }
                Op::Write => {
                    holds[page] = id;
                    Event::Done { id }
                }
                _ => Event::Done { id },
            });
        }
        let (op, at) = match rng.below(2) {
            _ if id % flush == 0 => (Op::Flush, Extent::default()),
            read => {
                let at = Extent::of_pages(rng.below(pages), 1);
                (if read == 1 || id == 1 { Op::Read } else { Op::Write }, at)
            }
        };
        events.push(Event::Issue { id, op, at, fua: false });
        flying.push((id, op, at));
    }
    events
}

/// CPU time of this thread.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}
