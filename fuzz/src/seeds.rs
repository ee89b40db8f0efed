//! Writes what the fuzzer starts from: `seeds FOLDER` makes a folder a format in it, with the samples
//! that the tests have, and prints the formats' names.

use std::path::Path;
use std::{env, fs, io};

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

fn main() -> io::Result<()> {
    let folder = env::args_os().nth(1).expect("a folder");
    let text = samples::SAMPLES.iter().map(|sample| (sample.format, sample.content.as_bytes().to_vec()));
    let binary = binary::samples().into_iter().map(|sample| (sample.format, sample.bytes));
    let mut formats = vec!["any"];
    for (number, (format, bytes)) in text.chain(binary).enumerate() {
        for into in ["any", format] {
            let into = Path::new(&folder).join(into);
            fs::create_dir_all(&into)?;
            fs::write(into.join(number.to_string()), &bytes)?;
        }
        if !formats.contains(&format) {
            formats.push(format);
        }
    }
    println!("{}", formats.join("\n"));
    Ok(())
}
