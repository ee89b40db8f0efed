//! The layers there are. `ls` is the feature list; this array is the same list for programs.

/// What is known of a layer without building it.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name in volume files and on the command line.
    pub name: &'static str,
    /// What it does, in a line.
    pub does: &'static str,
    /// Whether it keeps the volume's own order below it, so that it attaches and detaches at any time.
    pub transparent: bool,
    /// Its page.
    pub readme: &'static str,
}

/// All layers, by name.
pub const LAYERS: [Entry; 1] = [Entry {
    name: "borg",
    does: "copies the blocks that are used together next to each other, and absorbs writes there",
    transparent: true,
    readme: include_str!("borg/README.md"),
}];

/// The layer of this name.
pub fn find(name: &str) -> Option<&'static Entry> {
    LAYERS.iter().find(|entry| entry.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The part of a page between ```toml and ```.
    fn example(readme: &str) -> Option<&str> {
        readme.split("```toml").nth(1)?.split("```").next()
    }

    #[test]
    fn every_layer_has_a_page_with_options_that_parse() {
        for entry in LAYERS {
            let options = example(entry.readme).expect(entry.name);
            match entry.name {
                "borg" => {
                    let options: crate::borg::Options = toml::from_str(options).expect("the example parses");
                    assert_eq!(options, crate::borg::Options::default(), "the page shows the defaults");
                }
                other => panic!("{other} has no options to check"),
            }
        }
    }
}
