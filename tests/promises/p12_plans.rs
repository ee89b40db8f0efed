//! Promise 12. A plan that would make things worse is not executed.
//!
//! Fault model: clients whose past does not tell their future: pages that do not come again, scans, writes without
//! reads, all drawn, on several drives, at several loads. The disk is busy at most 1 % longer than without the layer,
//! every copy counted. (What was foreseen for as long as anyone could know may still end: a working set that is left
//! right after it was copied costs its copying, once.)

use seekless_core::runtime::Rng;
use seekless_core::{Extent, Flags, Latency, Nanos, Op, Origin, ProcessId, Record};
use seekless_lab::{Candidate, Pace, Play, compare_volumes};
use seekless_trace::Trace;
use seekless_volume::file;

const REQUESTS: u64 = 4_000;
const TRACES: u64 = 10;
/// Drives, and the part of each that clients see, in GiB.
const DRIVES: [(&str, u64); 3] = [("wd2500aaks", 200), ("maxtor-6l020j1", 16), ("wd-re3-1tb", 800)];

/// Requests that no layout serves faster, to this many pages.
fn useless(random: &mut Rng, area: u64) -> (String, Trace) {
    let kind = random.below(4);
    let (pages, processes) = (1 << random.below(5), 1 + random.below(4));
    let gap = Nanos(1_000_000 * (1 + random.below(50)));
    let mut next = random.below(area / 2);
    let mut records = Vec::new();
    for i in 0..REQUESTS {
        let somewhere = random.below(area - pages);
        let (op, page) = match kind {
            0 => (Op::Read, somewhere),
            1 => (Op::Read, next),
            2 => (if random.below(2) == 0 { Op::Read } else { Op::Write }, somewhere),
            _ => (Op::Read, if i % 2 == 0 { somewhere } else { next }),
        };
        next = if kind == 1 { next + pages } else { page };
        records.push(Record {
            time: Nanos(gap.0 * i),
            device: 1,
            op,
            extent: Extent::of_pages(page, pages),
            flags: Flags::default(),
            origin: Origin { process: ProcessId(random.below(processes) as u32), ..Origin::default() },
            latency: Latency::UNKNOWN,
        });
    }
    let kind = ["scattered reads", "a scan", "scattered reads and writes", "each place twice"][kind as usize];
    let what = format!("{kind}, {pages} pages each, {processes} processes, every {} ms", gap.0 / 1_000_000);
    (what, Trace { records, ..Trace::default() })
}

#[test]
fn what_no_layout_serves_faster_costs_no_more_than_without_the_layer() {
    let mut random = Rng::seeded(12);
    for _ in 0..TRACES {
        let (drive, gib) = DRIVES[random.below(3) as usize];
        let (what, trace) = useless(&mut random, gib << 18);
        let disk = format!(
            "[component.disk]\ndrive = \"{drive}\"\n[slice.home]\nof = \"disk\"\nsize = \"{gib}GiB\"\n"
        );
        let bare = format!("{disk}[[export]]\ntop = \"home\"\n");
        let borg = format!(
            "{disk}[slice.bopt]\nof = \"disk\"\nat = \"{gib}GiB\"\nsize = \"1GiB\"\n\
             [layer.borg]\nover = \"home\"\nbopt = \"bopt\"\n[[export]]\ntop = \"borg\"\n"
        );
        let candidates = [("bare", bare), ("borg", borg)].map(|(name, text)| Candidate {
            name: name.to_owned(),
            volume: file::parse("v.toml", &text).unwrap(),
        });
        let pace = match random.below(3) {
            0 => Pace::Open { speed: 1.0 },
            _ => Pace::Closed { outstanding: 1 << random.below(6) },
        };
        let play = Play { pace, reconfigure: 4, ..Play::default() };
        let compared = compare_volumes(&trace, &candidates, &play, &|_| ()).unwrap();
        let net = compared.variants[1].net_reduction_pct;
        assert!(net > -1.0, "{what}, {pace:?}, {drive}: {net} %");
    }
}
