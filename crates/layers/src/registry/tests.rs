//! What holds of every layer in the registry.

use seekless_core::runtime::Runtime;
use seekless_core::{Buffer, Extent, Hints, Slice, Switch, Top};
use seekless_drive::{Disk, QueueOptions, spec};

use super::*;
use crate::borg;
use crate::under_test::filled;

/// The part of a page between ```toml and ```.
fn example(readme: &str) -> toml::Table {
    let text = readme.split("```toml").nth(1).expect("the page has an example");
    toml::from_str(text.split("```").next().unwrap()).expect("the example is TOML")
}

#[test]
fn the_error_of_an_option_names_its_key_on_one_line() {
    let error = |options: &str| {
        let options = toml::from_str(options).unwrap();
        find("cache").unwrap().check(&options).unwrap_err().to_string()
    };
    let policy = error("policy = 'arcx'");
    assert!(policy.starts_with("policy: found 'arcx', expected one of lru, "), "{policy}");
    assert!(policy.ends_with("; perhaps arc"), "{policy}");
    assert!(error("size = 7").starts_with("size: found invalid type: integer `7`, expected a string"));
    assert!(error("sise = '1MiB'").starts_with("found unknown field `sise`, expected one of `"));
}

#[test]
fn every_layer_has_a_page_with_options_that_it_takes() {
    for entry in &LAYERS {
        let mut options = example(entry.readme);
        entry.check(&options).expect(entry.name);
        let defaults = (entry.defaults)();
        assert!(entry.flags.iter().all(|flag| defaults.contains_key(*flag)), "{}: {defaults}", entry.name);
        let lacks = defaults
            .keys()
            .find(|key| !entry.readme.contains(&format!("`{key}`")) && !options.contains_key(*key));
        assert_eq!(lacks, None, "{}: the page lacks an option", entry.name);
        for remedy in entry.remedies {
            assert!(entry.devices.len() <= 1, "{}: advice tries it on one disk", entry.name);
            let mut options = (entry.defaults)();
            options.extend(toml::from_str::<toml::Table>(remedy.options).expect(remedy.name));
            entry.check(&options).expect(remedy.name);
        }
        options.insert("nonsense".to_owned(), toml::Value::Boolean(true));
        let error = entry.check(&options).unwrap_err().to_string();
        assert!(error.contains("nonsense"), "{}: {error}", entry.name);
        assert!(entry.readme.starts_with(&format!("# {}", entry.name)), "{}", entry.name);
    }
    assert!(LAYERS.windows(2).all(|pair| pair[0].name < pair[1].name), "in the order of their names");
    let shown: borg::Options = toml::Value::Table(example(find("borg").unwrap().readme)).try_into().unwrap();
    assert_eq!(shown, borg::Options::default(), "the page shows the defaults");
}

/// The source of a layer: all of its folder, which is among the others or among the faults.
fn source(name: &str) -> String {
    fn all(folder: &std::path::Path, text: &mut String) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                all(&path, text);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                text.push_str(&std::fs::read_to_string(path).unwrap());
            }
        }
    }
    let src = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let folder = [src.join(name), src.join("fault").join(name)].into_iter().find(|folder| folder.is_dir());
    let mut text = String::new();
    all(&folder.expect("a layer has a folder of its name"), &mut text);
    // Two layers are volumes of one kind of map.
    if text.contains("placed::EDGES") {
        all(&src.join("placed"), &mut text);
    }
    if text.contains("Table::open(") || text.contains("crate::placed") {
        text.push_str(&std::fs::read_to_string(src.join("durable/table.rs")).unwrap());
    }
    text
}

/// The strings that stand behind `call` in a source.
fn named<'a>(source: &'a str, call: &str) -> std::collections::BTreeSet<&'a str> {
    source.split(&format!("{call}(\"")).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

#[test]
fn every_edge_of_a_layer_is_listed_and_stands_in_its_code() {
    for entry in &LAYERS {
        let source = source(entry.name);
        let all = [entry.edges, entry.edges_of_tests, entry.edges_of_snapshots].concat();
        let listed: std::collections::BTreeSet<&str> = all.iter().copied().collect();
        assert_eq!(listed.len(), all.len(), "{}: an edge is listed twice", entry.name);
        assert_eq!(named(&source, "edge"), listed, "{}", entry.name);
    }
    assert!(!find("mapper").unwrap().edges.is_empty());
}

#[test]
fn every_layer_knows_its_commands_and_no_others() {
    Runtime::new(1)
        .run(async {
            for entry in &LAYERS {
                let disk: Rc<dyn BlockDevice> =
                    Rc::new(Disk::new(0, &spec::find("wd2500aaks").unwrap(), QueueOptions::default()));
                let part = |start| {
                    let part = Slice::new(disk.clone(), Extent::new(start, 1 << 22)).unwrap();
                    Rc::new(part) as Rc<dyn BlockDevice>
                };
                let over = if entry.is_over_several() { 3 } else { 1 };
                let devices = (over..).zip(entry.devices);
                let devices = devices.map(|(number, key)| ((*key).to_owned(), vec![part(number << 22)]));
                let below = Below {
                    over: (0..over).map(|number| part(number << 22)).collect(),
                    devices: devices.collect(),
                    create: true,
                    timing_only: false,
                };
                let built = entry.build(below, &example(entry.readme)).await.unwrap();
                for command in entry.commands {
                    built.layer.command(command, Hints::default()).await.expect(command);
                }
                let error = built.layer.command("dance", Hints::default()).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Unsupported);
                assert!(entry.commands.iter().all(|command| error.to_string().contains(command)));
            }
        })
        .unwrap();
}

#[test]
fn a_layer_that_grows_takes_requests_behind_its_old_end() {
    let growing: Vec<&Entry> = LAYERS.iter().filter(|entry| entry.grows).collect();
    assert!(!growing.is_empty());
    for entry in growing {
        Runtime::new(1)
            .run(async {
                let disk: Rc<dyn BlockDevice> =
                    Rc::new(Disk::new(0, &spec::find("wd2500aaks").unwrap(), QueueOptions::default()));
                let first = |sectors| Rc::new(Slice::new(disk.clone(), Extent::new(0, sectors)).unwrap());
                let switch = Rc::new(Switch::new(first(1 << 22)));
                let below = Below {
                    over: vec![Rc::new(Top::over(switch.clone()))],
                    devices: std::collections::BTreeMap::new(),
                    create: true,
                    timing_only: false,
                };
                let built = entry.build(below, &example(entry.readme)).await.expect(entry.name);
                assert_eq!(built.device.geometry().sectors, 1 << 22, "{}", entry.name);
                switch.swap(async { Ok(first(1 << 23) as Rc<dyn BlockDevice>) }).await.unwrap();
                assert_eq!(built.device.geometry().sectors, 1 << 23, "{}", entry.name);
                let (at, data) = (Extent::new((1 << 23) - 8, 8), filled(7, 8));
                built.device.write(at, data.clone(), Hints::default()).await.expect(entry.name);
                let read = built.device.read(at, Buffer::zeroed(4096), Hints::default()).await;
                assert!(read.expect(entry.name).to_vec() == data.to_vec(), "{}", entry.name);
            })
            .unwrap();
    }
}

#[test]
fn canaries_are_there_only_where_they_are_built() {
    let mapper = find("mapper").unwrap();
    assert_eq!(mapper.canaries.len(), if cfg!(feature = "canaries") { 7 } else { 0 });
    let with = |name: &str| toml::Table::from_iter([("canary".to_owned(), name.into())]);
    for name in mapper.canaries {
        mapper.check(&with(name)).unwrap();
    }
    let error = mapper.check(&with("rust")).unwrap_err().to_string();
    let words = if cfg!(feature = "canaries") { "missing flush, early reuse" } else { "unknown field" };
    assert!(error.contains(words), "{error}");
}

#[test]
fn a_layer_is_not_called_like_another() {
    static TAKEN: [Entry; 1] = [Entry::new("borg", "is another one", |_, _| unreachable!())];
    static TWICE: [Entry; 2] = [LATER, LATER];
    static ONE: [Entry; 1] = [LATER];
    const LATER: Entry = Entry::new("later", "comes from elsewhere", |_, _| unreachable!());
    let refused = |more| add(more).unwrap_err().to_string();
    assert!(refused(&TAKEN).contains("two layers named 'borg'"), "{}", refused(&TAKEN));
    assert!(refused(&TWICE).contains("two layers named 'later'"));
    assert!(find("later").is_none());
    add(&ONE).unwrap();
    assert_eq!(find("later").map(|entry| entry.name), Some("later"));
    assert!(refused(&ONE).contains("second list"));
}

#[test]
fn a_layer_that_is_given_is_known_as_long_as_the_work_lasts() {
    static SPLIT: Entry = Entry {
        given: Some(&|below, options| find("split").unwrap().build(below, &options)),
        ..Entry::new("mine", "splits", |_, _| unreachable!("a given layer is built by what it is given with"))
    };
    assert!(find("mine").is_none());
    with(&[&SPLIT], || {
        assert_eq!(all().filter(|entry| entry.name == "mine").count(), 1);
        let taken = with(&[&SPLIT], || ()).unwrap_err();
        assert!(taken.to_string().contains("two layers named 'mine'"), "{taken}");
        Runtime::new(1).run(async {
            let over: Rc<dyn BlockDevice> =
                Rc::new(Disk::new(0, &spec::find("wd2500aaks").unwrap(), QueueOptions::default()));
            let devices = std::collections::BTreeMap::new();
            let below = Below { over: vec![over], devices, create: true, timing_only: false };
            let built = find("mine").unwrap().build(below, &toml::Table::new()).await.unwrap();
            assert_eq!(built.layer.counters()[0].0, "parts");
        })
    })
    .unwrap()
    .unwrap();
    assert!(find("mine").is_none());
}
