//! Recordings and examples that ship with the program: below its installation's prefix, or in the checkout that it was
//! built from. They are known by the names that they have in a checkout, wherever the program is started.
//!
//! Invariant: what exists at the path that was given goes before what ships.

use std::path::{Component, Path, PathBuf};

use seekless_trace::expand;
use seekless_volume::{Description, file};

/// Folder of recordings, which may be left out of a recording's name.
const DATA: &str = "data";
/// Folder of volume files.
const EXAMPLES: &str = "examples";
/// The checkout that the program was built from.
const BUILT_FROM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The path, if there is a file or a recording; else that of what ships by this name: `mail`, `data/mail`,
/// `examples/borg.toml`. The path itself if there is neither.
pub fn find(path: &Path) -> PathBuf {
    found_in(path, &places())
}

/// The paths of recordings, each by [`find`]; the error of one that is neither here nor among those that ship names all
/// places.
pub fn traces(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let known = |path: &PathBuf| {
        let found = find(path);
        match expand(std::slice::from_ref(&found)) {
            Ok(_) => Ok(found),
            Err(error) => Err(nor_there(path, error.into())),
        }
    };
    paths.iter().map(known).collect()
}

/// Reads the volume file of this path, or the example of this name.
pub fn volume(path: &Path) -> anyhow::Result<Description> {
    file::read(&find(path)).map_err(|error| nor_there(path, error.into()))
}

/// Adds the other places to the error of a path that was found nowhere.
fn nor_there(path: &Path, error: anyhow::Error) -> anyhow::Error {
    let Some(name) = name(path).filter(|_| !path.exists() && find(path) == path) else { return error };
    let folder = |place: PathBuf| Some(place.join(&name).parent()?.to_owned());
    let folders: Vec<PathBuf> = places().into_iter().filter_map(folder).collect();
    let there: Vec<&PathBuf> = folders.iter().filter(|folder| folder.is_dir()).collect();
    // Without any, that of the installation says where one is expected.
    let named = if there.is_empty() { folders.first().into_iter().collect() } else { there };
    let named: Vec<String> = named.iter().map(|folder| folder.display().to_string()).collect();
    let text = format!("{error}; nor is it in {}", named.join(", "));
    error.context(text)
}

fn found_in(path: &Path, places: &[PathBuf]) -> PathBuf {
    let exists = |path: &Path| expand(&[path]).is_ok();
    if path.exists() || exists(path) {
        return path.to_owned();
    }
    let shipped = |name: PathBuf| places.iter().map(|place| place.join(&name)).find(|path| exists(path));
    name(path).and_then(shipped).unwrap_or_else(|| path.to_owned())
}

/// The name that a path has among what ships, such as `data/mail`.
fn name(path: &Path) -> Option<PathBuf> {
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    let parts: Vec<Component<'_>> = path.components().collect();
    match parts.as_slice() {
        all if !all.iter().copied().all(plain) => None,
        [one] => Some(Path::new(DATA).join(one)),
        [folder, _] if folder.as_os_str() == DATA => Some(path.to_owned()),
        [folder, _, ..] if folder.as_os_str() == EXAMPLES => Some(path.to_owned()),
        _ => None,
    }
}

/// Where things ship: PREFIX/bin/seekless has PREFIX/share/seekless.
fn places() -> Vec<PathBuf> {
    let program = std::env::current_exe().unwrap_or_default();
    let prefix = program.parent().and_then(Path::parent).unwrap_or(Path::new(""));
    let built_from = PathBuf::from(BUILT_FROM);
    vec![prefix.join("share/seekless"), built_from.canonicalize().unwrap_or(built_from)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_a_checkout() {
        for (path, expected) in [
            ("mail", Some("data/mail")),
            ("data/mail", Some("data/mail")),
            ("examples/borg.toml", Some("examples/borg.toml")),
            ("examples/functions/count.wat", Some("examples/functions/count.wat")),
            ("data/a/mail", None),
            ("other/mail", None),
            ("/mail", None),
            ("../mail", None),
            ("", None),
        ] {
            assert_eq!(name(Path::new(path)), expected.map(PathBuf::from), "{path}");
        }
    }

    #[test]
    fn the_first_place_that_has_it_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
        for place in [&first, &second] {
            std::fs::create_dir_all(place.join(DATA)).unwrap();
        }
        std::fs::write(second.join("data/own.blktrace.1.xz"), "").unwrap();
        let places = [first.clone(), second.clone()];
        assert_eq!(found_in(Path::new("own"), &places), second.join("data/own"));
        std::fs::write(first.join("data/own"), "").unwrap();
        assert_eq!(found_in(Path::new("data/own"), &places), first.join("data/own"));
        assert_eq!(found_in(Path::new("none"), &places), Path::new("none"));
        // What is there, be it a folder, is what is meant.
        assert_eq!(found_in(Path::new("src"), &places), Path::new("src"));
    }
}
