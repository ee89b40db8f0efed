//! The shipped drives: the files in `drives/`, by name.
//!
//! To add a drive, add its file and a line here; a test compares the two.

/// Each name with its file's text.
macro_rules! files {
    ($($name:literal),+ $(,)?) => {
        [$(($name, include_str!(concat!("../../../../drives/", $name, ".toml")))),+]
    };
}

/// In the order of their names.
const FILES: [(&str, &str); 33] = files![
    "fujitsu-mhz2120bh",
    "hgst-ultrastar-7k8-8tb",
    "hp-c2247a-disksim",
    "hp-c2247a-fitted",
    "hp-c3323a-disksim",
    "hp-c3323a-fitted",
    "ibm-ultrastar-9es",
    "intel-x25-v",
    "kingston-kc3000-2tb",
    "maxtor-6l020j1",
    "maxtor-6l020l1",
    "quantum-atlas-10k",
    "quantum-atlas-10k-disksim",
    "quantum-atlas-10k-fitted",
    "samsung-870-evo-1tb",
    "samsung-pm9a3-1920gb",
    "seagate-archive-8tb",
    "seagate-cheetah-15k5",
    "seagate-cheetah-18lp",
    "seagate-cheetah-4lp",
    "seagate-cheetah-4lp-disksim",
    "seagate-cheetah-4lp-fitted",
    "seagate-cheetah-9lp",
    "seagate-cheetah-9lp-disksim",
    "seagate-cheetah-9lp-fitted",
    "seagate-exos-2x18-18tb",
    "seagate-exos-x20-20tb",
    "seagate-st2000dm006",
    "seagate-st2000dm006-2",
    "wd-re3-1tb",
    "wd2500aaks",
    "wd360gd",
    "wd6400aaks",
];

/// The names, in order.
pub fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(name, _)| *name)
}

/// The text of a drive's file.
pub fn text(name: &str) -> Option<&'static str> {
    FILES.iter().find(|(shipped, _)| *shipped == name).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_in_the_folder_ships_and_names_are_in_order() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../drives");
        let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
        let tomls = files.filter(|path| path.extension().is_some_and(|extension| extension == "toml"));
        let mut stems: Vec<String> =
            tomls.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
        stems.sort_unstable();
        assert_eq!(names().collect::<Vec<_>>(), stems, "the list in this file and the folder differ");
    }
}
