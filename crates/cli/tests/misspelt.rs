//! Misspelt names of everything that has a name: the message ends with the one that is perhaps meant. And files that
//! exist: one rule, one wording.

#[allow(dead_code, reason = "each test file uses a part of it")]
mod common;

use common::{SMALL, file, refused};

#[test]
fn a_misspelt_name_is_guessed_whatever_it_names() {
    let volume = "[component.disk]\ndrive = \"wd2500aaks\"\n[layer.cash]\nover = \"disk\"\n[[export]]\ntop = \"cash\"\n";
    let layer = file("misspelt-layer.toml", volume.as_bytes());
    let reference = volume.replace("cash", "cache").replace("\"disk\"", "\"dick\"");
    let reference = file("misspelt-reference.toml", reference.as_bytes());
    let key = file(
        "misspelt-key.toml",
        volume.replace("cash", "cache").replace("over", "siez = 1\nover").as_bytes(),
    );
    let drive = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../drives/wd2500aaks.toml"))
        .unwrap();
    let drive = file("misspelt-drive.toml", drive.replace("\nheads", "\nhaeds").as_bytes());
    let sweep = file("misspelt-sweep.toml", b"trace = 'x.load'\nvolumes = 'cache.toml'\n");
    let trace = SMALL.replace("svnserver2", "svnsever2");
    let on = |volume| ["lab", "run", volume, "--workload", "random"];
    let commands: [(&[&str], i32, &str); 22] = [
        (&["drive", "show", "WD2500AKS"], 2, "perhaps wd2500aaks"),
        (&["drive", "show", &drive], 1, "perhaps heads"),
        (&["drive", "show", "wd2500"], 2, "perhaps wd2500aaks"),
        (&["lab", "run", "--workload", "random", "--scheduler", "stpf"], 2, "perhaps sptf"),
        (&["trace", "stats", &trace], 1, "perhaps svnserver2"),
        (&["trace", "stats", SMALL, "--format", "blktracer"], 2, "perhaps blktrace"),
        (&["lab", "compare", "--trace", SMALL, "--layer", "brog"], 2, "perhaps borg"),
        (&["lab", "compare", "--trace", SMALL, "--scheduler", "c-lok"], 2, "perhaps c-look"),
        (&["lab", "hits", SMALL, "--size", "4MiB", "--policy", "seive"], 2, "perhaps sieve"),
        (&["lab", "figure", "borg6"], 2, "perhaps borg-6"),
        (&["lab", "run", "--workload", "randon"], 2, "perhaps random"),
        (&["lab", "run", "--workload", "random:sise=4KiB"], 2, "perhaps size"),
        (&on(&layer), 1, "perhaps cache"),
        (&on(&reference), 1, "perhaps disk"),
        (&on(&key), 1, "perhaps `size`"),
        (&["lab", "sweep", &sweep], 1, "perhaps traces"),
        (&["schema", "lab-compart"], 1, "perhaps lab-compare"),
        (&["lab", "compare", "--trace", SMALL, "--option", "overwritte=in-place"], 2, "perhaps `overwrite`"),
        (&["lab", "compare", "--trace", SMALL, "--option", "overwrite=inplace"], 2, "perhaps `in-place`"),
        (&["lab", "compare", "--trace", SMALL, "--reconfigure", "when it pay"], 2, "perhaps when it pays"),
        (&["lab", "compare", "--trace", SMALL, "--csv=phase"], 2, "perhaps variants.phases"),
        (&["trace", "stats", SMALL, "--columns", "tim:us,op"], 2, "perhaps time"),
    ];
    for (command, code, words) in commands {
        refused(command, code, &[words]);
    }
}

#[test]
fn a_file_that_exists_is_overwritten_with_force_only() {
    let volume = file("kept.toml", b"[component.disk]\ndrive = \"wd2500aaks\"\n[[export]]\ntop = \"disk\"\n");
    let kept = file("kept", b"kept");
    let commands: [&[&str]; 10] = [
        &["demo", "--report", &kept],
        &["drive", "calibrate", "wd2500aaks", "-o", &kept],
        &["drive", "show", "wd2500aaks", "--svg", &kept],
        &["lab", "compare", "--trace", SMALL, "--report", &kept],
        &["lab", "explore", &volume, "--save", &kept],
        &["lab", "explore", &volume, "--junit", &kept],
        &["lab", "figure", "freeblock-2", "--svg", &kept],
        &["lab", "run", "--trace", SMALL, "--events", &kept],
        &["trace", "convert", SMALL, "-o", &kept, "--to", "fio"],
        &["trace", "report", SMALL, "-o", &kept],
    ];
    for command in commands {
        refused(command, 1, &["kept: found a file of that name, expected none; --force overwrites it"]);
    }
    assert_eq!(std::fs::read(&kept).unwrap(), b"kept");
}
