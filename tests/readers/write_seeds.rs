//! `seeds FOLDER`: writes the seeds of fuzzing, a folder for each reader, and prints the readers' names.

use std::path::Path;
use std::{env, fs, io};

use seekless_readers::seeds;

fn main() -> io::Result<()> {
    let folder = env::args_os().nth(1).ok_or_else(|| io::Error::other("found no folder, expected one"))?;
    let mut names = Vec::new();
    for (number, (name, input)) in seeds::all()?.into_iter().enumerate() {
        let into = Path::new(&folder).join(name);
        fs::create_dir_all(&into)?;
        fs::write(into.join(number.to_string()), &input)?;
        if !names.contains(&name) {
            names.push(name);
            println!("{name}");
        }
    }
    Ok(())
}
