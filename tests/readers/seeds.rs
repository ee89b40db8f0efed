//! The seeds of fuzzing, by reader: the samples of the trace formats in the tests, and some
//! for every other reader.

use std::{fs, io};

use super::{learned, served};
use seekless_trace::write::{Output, Provenance, Tables, Target, Writer};
use seekless_trace::{ReadOptions, Reader};

// The tests use more of them.
#[allow(dead_code)]
#[path = "../../crates/trace/tests/common/binary.rs"]
mod binary;
#[allow(dead_code)]
#[path = "../../crates/trace/tests/common/builder.rs"]
mod builder;
#[allow(dead_code)]
#[path = "../../crates/trace/tests/common/samples.rs"]
mod samples;
/// A history, for the checker.
const HISTORY: &[u8] = include_bytes!("../../crates/lab/src/check/tests/sample.history");

/// A few requests, in the project's own format.
fn parquet() -> io::Result<Vec<u8>> {
    let sample = samples::Sample::of("msr");
    let reader = Reader::from_stream("msr", sample.content.as_bytes(), &ReadOptions::default());
    let mut reader = reader.map_err(io::Error::other)?;
    let file = tempfile::NamedTempFile::new()?;
    let target = Target::named("parquet").expect("the feature is on");
    let output = Output::file(file.path(), true)?;
    let mut writer = Writer::new(target, output, &Provenance::default())?;
    while let Some(record) = reader.next() {
        let record = record.map_err(io::Error::other)?;
        writer.record(&record, Tables { names: reader.names(), volumes: reader.volumes() })?;
    }
    writer.finish()?;
    fs::read(file.path())
}

/// Volume files.
const VOLUMES: [&str; 3] = [
    "[component.disk]\ndrive = \"wd2500aaks\"\n[layer.mapper]\nover = \"disk\"\n[[export]]\ntop = \"mapper\"\n",
    "[component.disk]\ndrive = \"wd2500aaks\"\nscheduler = \"sptf\"\ndepth = 4\n[slice.home]\nof = \"disk\"\nsize = \"8GiB\"\n\
         [slice.bopt]\nof = \"disk\"\nat = \"8GiB\"\nsize = \"1GiB\"\n[layer.borg]\nover = \"home\"\nbopt = \"bopt\"\n\
         reconfigure = \"every 2h\"\n[[export]]\ntop = \"borg\"\nnbd = \"unix:/a\"\n",
    "control = \"c\"\ntls = { certificate = \"a\", key = \"b\", clients = \"c\" }\n[component.disk]\ndrive = \"wd2500aaks\"\n\
         [[export]]\ntop = \"disk\"\nname = \"d\"\nread_only = true\nnbd = \"tcp:[::1]:9\"\n",
];

/// Traces that begin with their description.
const DESCRIBED: [(&str, &[u8]); 4] = [
    ("columns", b"time:us,op,offset:bytes,size:bytes,latency:us,process\nt,o,a,b,c,d\n1,R,0,4096,-,7\n2,WS,512,512,3,sh\n"),
    ("columns", b"offset:sectors size:sectors *\n100 8 0 1\n*\n"),
    ("record", b"u64le-time:ns,u32be-page,skip2,u16le-op:0=read\n12345678\0\0\0\x01xx\0\0"),
    ("record", b"u32le-page\nabcdefgh"),
];

/// Questions at a control socket.
const QUESTIONS: [&str; 5] = [
    "\"status\"",
    "\"subscribe\"",
    "{\"tell\": {\"layer\": \"borg\", \"command\": \"drain\"}}",
    "{\"attach\": {\"layer\": \"a\", \"is\": \"borg\", \"over\": \"disk\", \"devices\": {\"bopt\": [\"/dev/sdb\"]}, \"options\": \
     {\"write_buffer\": 0.5, \"absorb\": true}, \"replace\": true}}",
    "{\"detach\": {\"layer\": \"borg\"}}",
];

/// All of them: names of readers, and an input.
pub fn all() -> io::Result<Vec<(&'static str, Vec<u8>)>> {
    let mut seeds = traces()?;
    seeds.push(("history", HISTORY.to_vec()));
    seeds.extend(DESCRIBED.map(|(name, bytes)| (name, bytes.to_vec())));
    seeds.extend(super::sequences::seeds().map(|bytes| ("sequences", bytes)));
    seeds.extend(super::dump::seeds().into_iter().map(|bytes| ("dump", bytes)));
    seeds.extend(super::extents::seeds().map(|bytes| ("extents", bytes)));
    seeds.extend(super::functions::seeds().map(|bytes| ("functions", bytes)));
    seeds.extend(metadata());
    seeds.extend(super::machine::seeds().into_iter().map(|bytes| ("machine", bytes)));
    seeds.extend(super::partial::seeds().into_iter().map(|bytes| ("partial", bytes)));
    seeds.extend(clients().map(|bytes| ("nbd", bytes)));
    seeds.extend(VOLUMES.map(|text| ("volume", text.as_bytes().to_vec())));
    seeds.extend(QUESTIONS.map(|line| ("control", line.as_bytes().to_vec())));
    seeds.extend(inputs()?.map(|bytes| ("inputs", bytes)));
    Ok(seeds)
}

/// Seeds of traces: each as its own format, and as any.
fn traces() -> io::Result<Vec<(&'static str, Vec<u8>)>> {
    let text = samples::SAMPLES.iter().map(|sample| (sample.format, sample.content.as_bytes().to_vec()));
    let binary = binary::samples().into_iter().map(|sample| (sample.format, sample.bytes));
    let each = text.chain(binary).chain([("parquet", parquet()?)]);
    Ok(each.flat_map(|(format, bytes)| [("any", bytes.clone()), (format, bytes)]).collect())
}

/// Changes of metadata, and what was learned.
fn metadata() -> Vec<(&'static str, Vec<u8>)> {
    // Of a BOPT: none, a flag of each super page, and a sample of the origin in each of a clean one.
    let sample = |home: u8| [home, 48, 0, 2, home, 144, 0, 1, home, 160, 0, 9];
    let bopt = [vec![], vec![0, 48, 0, 2, 1, 48, 0, 2], [sample(0), sample(1)].concat()];
    // Of a log and a map: none, of the age of a checkpoint and of an entry, and of a summary's numbers.
    let log = [&[120][..], &[60, 0, 24, 0, 9, 1, 8, 2, 3], &[90, 6, 68, 0, 2, 10, 80, 0, 1]];
    let logs =
        ["lld", "mapper", "dedup"].into_iter().flat_map(|name| log.map(|changes| (name, changes.to_vec())));
    let learned = [learned::seed(), learned::seed().split_off(9), vec![]];
    let learned = learned.map(|bytes| ("learned", bytes));
    bopt.map(|changes| ("bopt", changes)).into_iter().chain(logs).chain(learned).collect()
}

/// Bytes of clients: one that lists, requests all features, and reads; one with the old negotiation that writes.
fn clients() -> [Vec<u8>; 4] {
    let option =
        |number: u8, data: &[u8]| [b"IHAVEOPT", &[0, 0, 0, number, 0, 0, 0, data.len() as u8], data].concat();
    let compact = |command: u8, payload: &[u8]| {
        [&[0x25, 0x60, 0x95, 0x13, 0, 0, 0, command][..], &[0; 18], &[2, 0], payload].concat()
    };
    let extended = [&[0x21, 0xe4, 0x1c, 0x71, 0, 0x20, 0, 1][..], &[0; 22], &[2, 0], &[1; 512]].concat();
    let name = b"\0\0\0\x04disk";
    let context = [name, &b"\0\0\0\x01\0\0\0\x0fbase:allocation"[..]].concat();
    let go = option(7, &[name, &[0, 2, 0, 3, 0, 2][..]].concat());
    let filtered =
        [&[0x21, 0xe4, 0x1c, 0x71, 0, 0x20, 0, 7][..], &[0; 23], &[12], &[0; 6], &[16, 0], &[0, 0, 0, 2]];
    let contexts = [name, &b"\0\0\0\x02\0\0\0\x0fbase:allocation\0\0\0\x0eseekless:place"[..]].concat();
    let (flags, encrypted) = ([40, 0, 0, 0, 3], [41, 0, 0, 0, 3]);
    [
        [&flags[..], &option(3, &[]), &option(8, &[]), &option(10, &context), &go, &compact(7, &[])].concat(),
        [&flags[..], &option(11, &[]), &option(9, &context), &go, &extended].concat(),
        [&encrypted[..], &option(3, &[]), &option(5, &[]), &option(11, &[]), &option(10, &contexts), &go]
            .into_iter()
            .chain(filtered.iter().map(|part| &part[..]))
            .collect::<Vec<_>>()
            .concat(),
        [&flags[..], &option(1, b"other"), &compact(1, &[7; 512]), &compact(0, &[]), &compact(2, &[])]
            .concat(),
    ]
}

/// A run's inputs: as they are, and as records without frames.
fn inputs() -> io::Result<[Vec<u8>; 2]> {
    let run = served::recorded(tempfile::tempdir()?.path())?;
    let text = served::framed(&[]).len() - 8;
    let frames = run[text..].to_vec();
    let (mut rest, mut records) = (&frames[..], vec![1]);
    while let Some((header, payload)) = rest.split_first_chunk::<8>() {
        let length = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
        records.extend(&payload[..length]);
        rest = &payload[length..];
    }
    Ok([[&[0], &run[..]].concat(), records])
}
