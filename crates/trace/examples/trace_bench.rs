//! Speed of reading, writing and characterising traces, in CPU seconds; run by `make bench`.
//!
//! Rounds are interleaved, the figures are medians. Files are made here, in memory where the machine has such a folder.
//! `blkparse`, the peer, runs in the same rounds where it is installed.

use std::collections::VecDeque;
use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;

use seekless_core::runtime::Rng;
use seekless_core::{Extent, Flags, Latency, Names, Nanos, Op, Origin, ProcessId, Record};
use seekless_trace::write::{Output, Provenance, TARGETS, Tables, Target, Writer};
use seekless_trace::{MissRatio, ReadOptions, Reader, StatsOptions, Trace, Volumes, characterise, load};

const ROUNDS: usize = 5;
/// Records in the binary file: queue events and completions.
const RAW: u64 = 4_000_000;
const LINES: u64 = 500_000;

struct Case {
    name: String,
    /// What is counted, and its number.
    unit: &'static str,
    amount: f64,
    run: Box<dyn Fn()>,
    seconds: Vec<f64>,
}

fn main() {
    let folder = ["/dev/shm", "/tmp"].into_iter().map(Path::new).find(|folder| folder.is_dir());
    let folder = folder.unwrap_or(Path::new(".")).join(format!("seekless-bench-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder for the files");
    let mut cases = reading(&folder);
    cases.extend(writing(&folder));
    cases.extend(characterising());
    // Arguments select cases.
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    cases.retain(|case| wanted.is_empty() || wanted.iter().any(|word| case.name.contains(word.as_str())));
    for _ in 0..ROUNDS {
        for case in &mut cases {
            let before = cpu_seconds();
            (case.run)();
            case.seconds.push(cpu_seconds() - before);
        }
    }
    println!("medians of {ROUNDS} interleaved rounds");
    println!("{:<44} {:>12} {:>16}", "", "CPU seconds", "per CPU second");
    for case in &mut cases {
        case.seconds.sort_by(f64::total_cmp);
        let median = case.seconds[ROUNDS / 2];
        println!("{:<44} {median:>12.3} {:>9.2} {}", case.name, case.amount / median.max(1e-9), case.unit);
    }
    // Only these files are in it.
    let _ = fs::remove_dir_all(&folder);
}

fn reading(folder: &Path) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut case = |name: &str, unit, amount, run: Box<dyn Fn()>| {
        cases.push(Case { name: name.to_owned(), unit, amount, run, seconds: Vec::new() });
    };
    let binary = folder.join("bench.blktrace.0");
    fs::write(&binary, blktrace(RAW)).expect("room for the binary file");
    let millions = RAW as f64 / 1e6;
    let path = binary.clone();
    case("blktrace, binary", "M records", millions, Box::new(move || read(&path, false)));
    let path = binary;
    case("blktrace, binary, with latencies", "M records", millions, Box::new(move || read(&path, true)));
    if Command::new("blkparse").arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok() {
        let folder = folder.to_owned();
        case("the same by blkparse", "M records", millions, Box::new(move || blkparse(&folder)));
    }
    for (name, line) in TEXTS {
        let path = folder.join(name);
        let text = lines(*line);
        let megabytes = text.len() as f64 / 1e6;
        fs::write(&path, text).expect("room for the text");
        case(name, "MB", megabytes, Box::new(move || read(&path, false)));
    }
    cases
}

/// Writes each format to a file in the folder, and reads Parquet back.
fn writing(folder: &Path) -> Vec<Case> {
    let binary = folder.join("bench.blktrace.0");
    let options = ReadOptions { latencies: true, ..ReadOptions::default() };
    let trace = Rc::new(load(&[&binary], &options).expect("the file that was made for reading"));
    let (unit, amount) = ("M requests", trace.records.len() as f64 / 1e6);
    let mut cases = Vec::new();
    for target in TARGETS {
        let (path, trace) = (folder.join(format!("written{}", target.endings[0])), Rc::clone(&trace));
        if target.name == "parquet" {
            write(target, &path, &trace);
            let path = path.clone();
            let run = Box::new(move || read(&path, true));
            cases.push(Case { name: "parquet, read".into(), unit, amount, run, seconds: Vec::new() });
        }
        let run = Box::new(move || write(target, &path, &trace));
        cases.push(Case {
            name: format!("{}, written", target.name),
            unit,
            amount,
            run,
            seconds: Vec::new(),
        });
    }
    cases
}

fn write(target: &'static Target, path: &Path, trace: &Trace) {
    let output = Output::file(path, true).expect("room for the file");
    let mut writer = Writer::new(target, output, &Provenance::default()).expect("a writer");
    for record in &trace.records {
        writer.record(record, Tables { names: &trace.names, volumes: &trace.volumes }).expect("room");
    }
    black_box(writer.finish().expect("room").bytes);
}

fn characterising() -> Vec<Case> {
    let mut cases = Vec::new();
    let shared =
        std::env::var_os("SEEKLESS_SHARED").map_or_else(|| PathBuf::from("../shared"), PathBuf::from);
    let cloud = shared.join("traces/public/cloudPhysicsIO.vscsi.xz");
    if cloud.is_file() {
        let run = move || {
            let trace = load(&[&cloud], &ReadOptions::default()).expect("a trace");
            stats(&trace.records);
        };
        let (name, unit) = ("read and characterise cloudPhysicsIO", "M requests");
        cases.push(Case {
            name: name.to_owned(),
            unit,
            amount: 0.113_872,
            run: Box::new(run),
            seconds: Vec::new(),
        });
    }
    let records = references(5_000_000);
    let run = move || stats(&records);
    let (name, unit) = ("characterise 5 million page references", "M references");
    cases.push(Case { name: name.to_owned(), unit, amount: 5.0, run: Box::new(run), seconds: Vec::new() });
    let records = references(5_000_000);
    let run = move || {
        let mut curve = MissRatio::new(1 << 30);
        for record in &records {
            curve.access(record.extent.start.page());
        }
        black_box(curve.finish());
    };
    let name = "exact LRU miss-ratio curve of them";
    cases.push(Case { name: name.to_owned(), unit, amount: 5.0, run: Box::new(run), seconds: Vec::new() });
    cases
}

fn stats(records: &[Record]) {
    let (names, volumes) = (Names::default(), Volumes::default());
    black_box(characterise(records, &names, &volumes, &StatsOptions::default()));
}

/// References to pages: half of them to a tenth of a million pages, requests of one page.
fn references(count: u64) -> Vec<Record> {
    const PAGES: u64 = 1_000_000;
    let mut rng = Rng::seeded(2);
    let reference = |number: u64| {
        let page = if rng.chance(1, 2) { rng.below(PAGES / 10) * 10 } else { rng.below(PAGES) };
        Record {
            time: Nanos(number * 100_000),
            device: 0,
            op: if rng.chance(2, 3) { Op::Read } else { Op::Write },
            extent: Extent::of_pages(page, 1),
            flags: Flags::default(),
            origin: Origin { process: ProcessId(rng.below(20) as u32), ..Origin::default() },
            latency: Latency::UNKNOWN,
        }
    };
    (0..count).map(reference).collect()
}

fn read(path: &PathBuf, latencies: bool) {
    let options = ReadOptions { latencies, ..ReadOptions::default() };
    let reader = Reader::open(&[path], &options).expect("a trace");
    let sum: u64 = reader.map(|record| record.expect("a record").extent.sectors).sum();
    black_box(sum);
}

fn blkparse(folder: &Path) {
    let mut command = Command::new("blkparse");
    command.args(["-q", "-i", "bench"]).current_dir(folder).stdout(Stdio::null());
    assert!(command.status().is_ok_and(|status| status.success()), "blkparse reads the file");
}

/// CPU time of this thread, and of the processes it waited for.
fn cpu_seconds() -> f64 {
    let own = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let own = own.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) / 1e9;
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // After the name in brackets; in hundredths of a second.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
    let children = fields.skip(13).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0;
    own + children
}

/// Queue events and completions of a device with eight requests in flight.
fn blktrace(records: u64) -> Vec<u8> {
    const QUEUED: u32 = 1 | (1 | 1 << 4) << 16;
    const COMPLETED: u32 = 8 | (1 | 1 << 7) << 16;
    let mut rng = Rng::seeded(1);
    let mut bytes = Vec::with_capacity(records as usize * 48);
    let mut under_way = VecDeque::new();
    for number in 0..records {
        let (sector, action) = if number % 2 == 0 || under_way.len() < 8 {
            let sector = rng.below(1 << 28) * 8;
            under_way.push_back(sector);
            (sector, QUEUED)
        } else {
            (under_way.pop_front().unwrap_or(0), COMPLETED)
        };
        bytes.extend(0x6561_7407_u32.to_le_bytes());
        bytes.extend((number as u32).to_le_bytes());
        bytes.extend((number * 10_000).to_le_bytes());
        bytes.extend(sector.to_le_bytes());
        for field in [4096, action, 1000 + (number % 50) as u32, 8 << 20, 0, 0] {
            bytes.extend(field.to_le_bytes());
        }
    }
    bytes
}

/// A line for this time and sector.
type Line = fn(u64, u64) -> String;

const TEXTS: &[(&str, Line)] = &[
    ("blkparse text", |ns, sector| {
        let (s, ns) = (ns / 1_000_000_000, ns % 1_000_000_000);
        format!("  8,0    1 {ns:8} {s:5}.{ns:09} {:5}  Q   R {sector} + 8 [postgres]\n", 1000 + sector % 50)
    }),
    ("MSR Cambridge", |ns, sector| {
        let (time, response) = (128_166_372_003_061_629 + ns / 100, 1000 + sector % 9999);
        format!("{time},web,1,Read,{},4096,{response}\n", sector * 512)
    }),
    ("blkreplay", |ns, sector| {
        format!("{}.{:09} ; {sector} ; 8 ; R\n", ns / 1_000_000_000, ns % 1_000_000_000)
    }),
    ("Alibaba", |ns, sector| {
        format!("{},R,{},4096,{}\n", sector % 1000, sector * 512, 1_577_808_000_000_000 + ns / 1000)
    }),
    ("DiskSim ascii", |ns, sector| format!("{}.{:06} 0 {sector} 8 1\n", ns / 1_000_000, ns % 1_000_000)),
];

fn lines(line: Line) -> String {
    let mut rng = Rng::seeded(1);
    (0..LINES).map(|number| line(number * 10_000, rng.below(1 << 28) * 8)).collect()
}
