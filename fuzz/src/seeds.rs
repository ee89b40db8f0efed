//! Writes what the fuzzer starts from: `seeds FOLDER` makes a folder a format in it, with the samples
//! that the tests have, and prints the formats' names; `history` is the checker's, `bopt` BORG's.

use std::path::Path;
use std::{env, fs, io};

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

/// A few requests, as the project writes them.
fn parquet() -> io::Result<Vec<u8>> {
    let sample = samples::Sample::of("msr");
    let reader = Reader::over("msr", sample.content.as_bytes(), &ReadOptions::default());
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

fn main() -> io::Result<()> {
    let folder = env::args_os().nth(1).expect("a folder");
    let text = samples::SAMPLES.iter().map(|sample| (sample.format, sample.content.as_bytes().to_vec()));
    let binary = binary::samples().into_iter().map(|sample| (sample.format, sample.bytes));
    let mut formats = vec!["any"];
    let parquet = [("parquet", parquet()?)];
    for (number, (format, bytes)) in text.chain(binary).chain(parquet).enumerate() {
        for into in ["any", format] {
            let into = Path::new(&folder).join(into);
            fs::create_dir_all(&into)?;
            fs::write(into.join(number.to_string()), &bytes)?;
        }
        if !formats.contains(&format) {
            formats.push(format);
        }
    }
    let history = Path::new(&folder).join("history");
    fs::create_dir_all(&history)?;
    fs::write(history.join("0"), HISTORY)?;
    formats.push("history");
    // Changes of a BOPT: of none, of a flag of each super page, and a sample of home in each of a clean one.
    let bopt = Path::new(&folder).join("bopt");
    fs::create_dir_all(&bopt)?;
    fs::write(bopt.join("0"), [])?;
    fs::write(bopt.join("1"), [0, 48, 0, 2, 1, 48, 0, 2])?;
    let sample = |home: u8| [home, 48, 0, 2, home, 144, 0, 1, home, 160, 0, 9];
    fs::write(bopt.join("2"), [sample(0), sample(1)].concat())?;
    formats.push("bopt");
    println!("{}", formats.join("\n"));
    Ok(())
}
