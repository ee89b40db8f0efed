//! Requirements of every command: help with an example, errors that say where, what and what was expected, exit codes,
//! quiet in a pipe, the same bytes for the same command.

mod common;

use std::process::{Command, Stdio};

use common::{SMALL, file, folder, json, quietly, seekless};

const GROUPS: [&[&str]; 4] = [&[], &["trace"], &["drive"], &["lab"]];
const COMMANDS: [&[&str]; 10] = [
    &["demo"],
    &["advise"],
    &["trace", "info"],
    &["trace", "stats"],
    &["trace", "report"],
    &["drive", "list"],
    &["drive", "show"],
    &["drive", "calibrate"],
    &["lab", "compare"],
    &["lab", "run"],
];

#[test]
fn every_help_has_an_example_and_every_command_speaks_json() {
    for command in GROUPS.iter().chain(&COMMANDS) {
        let help = quietly(&[command, &["--help"][..]].concat());
        let example = help.split("Example").nth(1).unwrap_or_default();
        let called = format!("  seekless {}", command.join(" "));
        assert!(example.contains(called.trim_end()), "{command:?}: {help}");
        assert!(GROUPS.contains(command) || help.contains("--json"), "{command:?}: {help}");
        assert!(help.lines().all(|line| line.chars().count() <= 120), "{command:?}: {help}");
    }
}

/// Checks that `arguments` exit with `code` and a message that has all of `words`.
fn refused(arguments: &[&str], code: i32, words: &[&str]) {
    let ran = seekless(arguments);
    assert_eq!(ran.code, code, "{arguments:?}: {}", ran.stderr);
    assert!(ran.stderr.starts_with("error: "), "{arguments:?}: {}", ran.stderr);
    for word in words {
        assert!(ran.stderr.contains(word), "{arguments:?}: {word:?} is not in: {}", ran.stderr);
    }
    assert_eq!(ran.stdout, "", "{arguments:?}");
}

#[test]
fn bad_traces_are_reported_with_place_find_and_expectation() {
    let foreign = file("foreign", b"not a trace at all, but long enough to be taken for a record of one");
    let empty = file("empty", b"");
    for command in [&["trace", "info"][..], &["trace", "stats"], &["lab", "run", "--trace"]] {
        let on = |trace| [command, &[trace]].concat();
        refused(&on(&foreign), 1, &["foreign, byte 0", "found", "expected a trace", "blktrace"]);
        refused(&on(&empty), 1, &["empty, byte 0", "found an empty file", "expected a trace"]);
        refused(&on("/nonexistent/mail"), 1, &["/nonexistent/mail", "mail.blktrace.0"]);
        refused(&on("."), 1, &["expected a file"]);
    }
    refused(&["trace", "info"], 2, &["FILES"]);
}

#[test]
fn the_formats_are_reported() {
    assert_eq!(json(&["trace", "info", SMALL])["format"], "blktrace");
    assert!(quietly(&["trace", "info", "--formats"]).contains("blktrace"));
    let formats = json(&["trace", "info", "--formats"]);
    assert!(formats["formats"].as_array().unwrap().iter().any(|one| one["name"] == "blktrace"), "{formats}");
    let spc = file("formats.spc", b"0,303567,3584,w,0.026214\n");
    assert_eq!(json(&["trace", "info", &spc])["format"], "spc");
    refused(&["trace", "info", SMALL, "--formats"], 2, &["--formats"]);
}

#[test]
fn a_trace_that_is_cut_short_is_read_with_a_warning() {
    let whole = std::fs::read(format!("{SMALL}.blktrace.0.xz")).unwrap();
    let cut = file("cut.blktrace.0.xz", &whole[..20_000]);
    let ran = seekless(&["trace", "stats", &cut, "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(
        ran.stderr.starts_with("warning: ") && ran.stderr.contains("cut.blktrace.0.xz"),
        "{}",
        ran.stderr
    );
    assert!(serde_json::from_str::<serde_json::Value>(&ran.stdout).is_ok());
    let info = json(&["trace", "info", &cut]);
    assert_eq!(info["warnings"].as_array().map(Vec::len), Some(1));
}

#[test]
fn bad_drives_are_reported_with_what_would_do() {
    let bad = file("bad.toml", b"name = \"bad\"\nrpm = \"fast\"\n");
    refused(&["drive", "show", "wd2501aaks"], 2, &["wd2501aaks", "wd2500aaks", "quantum-atlas-10k"]);
    refused(&["drive", "show", &bad], 1, &["bad.toml", "line 2", "fast", "expected f64"]);
    refused(&["drive", "show", "/nonexistent.toml"], 1, &["/nonexistent.toml", "No such file"]);
    refused(&["drive", "show"], 2, &["NAME"]);
    let calibrate = |device, code, words: &[&str]| refused(&["drive", "calibrate", device], code, words);
    calibrate("floppy", 2, &["floppy", "neither a device nor a drive", "wd2500aaks"]);
    calibrate(&bad, 1, &["bad.toml", "line 2"]);
    calibrate("--name=mine", 2, &["--output"]);
    for again in ["wd360gd", "/dev/sdb", ""] {
        let words = ["--destructive", "expected the device that is calibrated again", "wd2500aaks"];
        refused(&["drive", "calibrate", "wd2500aaks", "--destructive", again], 1, &words);
    }
    calibrate("--time=30s", 2, &["30s", "a minute or more"]);
    if cfg!(target_os = "linux") {
        calibrate(".", 1, &["a folder", "expected a whole disk", "/dev/sdb"]);
        calibrate("/dev/null", 1, &["/dev/null", "neither a disk nor a file"]);
        calibrate(&file("disk.img", &[0; 8192]), 1, &["disk.img", "found a file", "expected a whole disk"]);
    }
    refused(&["lab", "compare", "--trace", SMALL, "--drive", "floppy"], 2, &["floppy", "wd2500aaks"]);
}

#[test]
fn what_does_not_fit_is_reported_with_what_would() {
    let wrong = |code, options: &[&str], words: &[&str]| {
        refused(&[&["lab", "compare", "--trace", SMALL], options].concat(), code, words);
    };
    wrong(2, &["--bopt", "1TiB"], &["bopt: found 1 TiB", "expected 1 to", "wd2500aaks"]);
    wrong(2, &["--bopt", "4 parsecs"], &["--bopt", "4 parsecs", "4GiB"]);
    wrong(2, &["--bopt", "1000"], &["--bopt", "1000 bytes", "multiple of 512"]);
    wrong(2, &["--over", "1GiB"], &["over: found 1 GiB", "at least", "the trace reaches"]);
    wrong(2, &["--bopt-at", "99"], &["bopt-at", "99 sectors", "whole pages of 8 sectors"]);
    wrong(2, &["--bopt-drive", "floppy"], &["floppy", "wd2500aaks"]);
    wrong(2, &["--bopt-drive", "wd360gd", "--bopt", "1TiB"], &["bopt: found 1 TiB", "end of wd360gd"]);
    wrong(1, &["--drive", "quantum-atlas-10k"], &["svnserver2", "found requests up to", "at most sector"]);
    wrong(2, &["--write-buffer", "1.5"], &["found 1.5", "0 to 1"]);
    wrong(2, &["--background-share", "0"], &["background-share: found 0", "1 to 99"]);
    wrong(2, &["--outstanding", "0"], &["outstanding: found 0", "at least 1"]);
    wrong(2, &["--reconfigure", "999999999"], &["reconfigure: found 999999999", "at most"]);
    wrong(2, &["--bopt", "0"], &["--bopt", "above zero"]);
    wrong(2, &["--pace", "open", "--speed", "0"], &["--speed", "found '0'", "0.001 to"]);
    wrong(2, &["--speed", "2"], &["--speed", "expected --pace open"]);
    wrong(2, &["--pace", "open", "--outstanding", "2"], &["--outstanding", "expected --pace closed"]);
    wrong(2, &["--pace", "brisk"], &["brisk", "closed", "open"]);
    wrong(2, &["--scheduler", "elevator"], &["elevator", "c-look", "sptf-swN", "asptfN"]);
    wrong(2, &["--starvation-limit", "1"], &["--starvation-limit", "30s"]);
    wrong(2, &["--layer", "flash"], &["--layer", "flash", "borg"]);
    wrong(2, &["--layer", "cache", "--threshold", "2"], &["--threshold: found with --layer cache", "borg"]);
    wrong(2, &["--layer", "none"], &["--layer", "found none"]);
    wrong(2, &["--option", "overwrite"], &["--option", "found 'overwrite'", "a key, '=' and a value"]);
    wrong(2, &["--option", "overwrite=never"], &["--option: overwrite: found", "never", "in-place"]);
    wrong(2, &["--option", "segment=3KiB"], &["--option: segment: found 3072 bytes", "16KiB to 2MiB"]);
    wrong(1, &["--report", "/nonexistent/a.html"], &["/nonexistent/a.html", "expected one"]);
    refused(&["lab", "compare"], 2, &["--trace"]);
    refused(&["lab", "run"], 2, &["--workload", "--trace"]);
    refused(&["lab", "run", "--workload", "random", "--trace", SMALL], 2, &["cannot be used with"]);
    let bare = ["lab", "run", "--trace", SMALL, "--layer", "none", "--option", "segment=1MiB"];
    refused(&bare, 2, &["--option: found segment", "without a layer"]);
    let picture = ["drive", "show", "samsung-870-evo-1tb", "--svg", "/nonexistent/flash.svg"];
    refused(&picture, 1, &["--svg: found samsung-870-evo-1tb", "one that turns"]);
    refused(&["lab", "run", "--workload", "random", "--size", "1GiB"], 2, &["size: found", "32 MiB"]);
    refused(&["lab", "run", "--workload", "random", "--pace", "open"], 2, &["--pace", "expected closed"]);
    refused(&["lab", "run", "--trace", SMALL, "--page", "7"], 2, &["--events"]);
    refused(&["lab", "run", "--trace", SMALL, "--events", "/nonexistent/e"], 1, &["/nonexistent/e"]);
}

#[test]
fn the_same_command_gives_the_same_bytes() {
    for arguments in [
        &["trace", "info", SMALL][..],
        &["trace", "stats", SMALL],
        &["trace", "stats", SMALL, "--json"],
        &["lab", "compare", "--trace", SMALL, "--option", "rehearse=false"],
        &["lab", "compare", "--trace", SMALL, "--reconfigure", "2", "--json"],
        &["lab", "run", "--workload", "random", "--requests", "500", "--reads", "50", "--json"],
    ] {
        assert_eq!(quietly(arguments), quietly(arguments), "{arguments:?}");
    }
    let seeded = |seed| quietly(&["lab", "run", "--workload", "random", "--requests", "500", "--seed", seed]);
    assert_ne!(seeded("1"), seeded("2"));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    for arguments in [&["drive", "list"][..], &["trace", "stats", SMALL, "--json"], &["--help"]] {
        let mut program = Command::new(env!("CARGO_BIN_EXE_seekless"))
            .args(arguments)
            .current_dir(folder())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(program.stdout.take());
        let ended = program.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&ended.stderr), "", "{arguments:?}");
        assert!(ended.status.success(), "{arguments:?}: {}", ended.status);
    }
}

#[test]
fn manual_pages_and_completions_cover_all_commands() {
    let folder = folder().join("man1");
    std::fs::create_dir_all(&folder).unwrap();
    assert_eq!(quietly(&["man", "--folder", folder.to_str().unwrap()]), "");
    for page in ["seekless", "seekless-trace-stats", "seekless-lab-compare", "seekless-volume-serve"] {
        let text = std::fs::read_to_string(folder.join(page).with_extension("1")).unwrap();
        assert!(text.contains(".TH"), "{page}: {text}");
    }
    assert!(quietly(&["man"]).contains("seekless"));
    for shell in ["bash", "zsh", "fish"] {
        let script = quietly(&["completions", shell]);
        assert!(script.contains("compare") && script.contains("advise"), "{shell}");
    }
    let missing = seekless(&["man", "--folder", "/nonexistent"]);
    assert!(missing.code == 1 && missing.stderr.contains("/nonexistent"), "{}", missing.stderr);
    assert_eq!(seekless(&["completions", "tcsh7"]).code, 2);
}

#[test]
fn the_version_tells_the_features() {
    let version = quietly(&["--version"]);
    assert!(version.starts_with(concat!("seekless ", env!("CARGO_PKG_VERSION"), " (")), "{version}");
    assert!(version.contains("features: parquet tls"), "{version}");
}

#[test]
fn an_installed_program_has_what_belongs_to_it() {
    let (prefix, root) = (folder().join("prefix"), concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let script = std::path::Path::new(root).join("scripts/install");
    let installed = Command::new(script).arg(env!("CARGO_BIN_EXE_seekless")).arg(&prefix).output().unwrap();
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    for file in [
        "bin/seekless",
        "share/man/man1/seekless-lab-compare.1",
        "share/bash-completion/completions/seekless",
        "share/seekless/data/appstart2.blktrace.0.xz",
        "share/seekless/examples/borg.toml",
        "share/seekless/grafana.json",
        "lib/systemd/system/seekless@.service",
        "lib/systemd/system/seekless@.socket",
        "share/doc/seekless/docs/book/README.md",
        "share/doc/seekless/crates/layers/src/borg/README.md",
    ] {
        assert!(prefix.join(file).is_file(), "{file}");
    }
    let version = Command::new(prefix.join("bin/seekless")).arg("--version").output().unwrap();
    assert!(version.status.success() && version.stdout.starts_with(b"seekless "));
    units_are_valid(&prefix.join("lib/systemd/system"));
}

#[test]
fn a_unit_for_a_mount_is_ordered_behind_its_server_and_valid() {
    let unit = |volume: &str, at: &str, more: &[&str]| {
        quietly(&[&["volume", "mount", volume, at, "--unit"], more].concat())
    };
    let text = unit("/etc/seekless/home.toml", "/srv/home", &["--export", "home", "--option", "noatime"]);
    for line in [
        "Wants=seekless@home.service",
        "After=seekless@home.service",
        "RequiresMountsFor=/etc/seekless/home.toml /srv",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    assert!(
        text.contains(" volume mount /etc/seekless/home.toml /srv/home --export home --option noatime\n"),
        "{text}"
    );
    assert!(text.contains(" volume umount /srv/home\n"), "{text}");
    assert!(text.starts_with("# /etc/systemd/system/seekless-srv-home.service: "), "{text}");
    // One that is served elsewhere is served by the mount itself.
    let other = unit("/data/my disk.toml", "/srv/100%", &[]);
    assert!(!other.contains("seekless@"), "{other}");
    assert!(other.contains(" volume mount \"/data/my disk.toml\" /srv/100%%\n"), "{other}");
    let folder = folder().join("units");
    std::fs::create_dir_all(&folder).unwrap();
    let names = ["seekless-srv-home.service", "seekless-srv-100-.service"];
    for (name, text) in names.iter().zip([text, other]) {
        std::fs::write(folder.join(name), text).unwrap();
    }
    verified(&names.map(|name| folder.join(name)));
}

/// Checks the installed units.
fn units_are_valid(folder: &std::path::Path) {
    let names = ["seekless@home.service", "seekless@home.socket"];
    for (name, template) in names.iter().zip(["seekless@.service", "seekless@.socket"]) {
        std::os::unix::fs::symlink(folder.join(template), folder.join(name)).unwrap();
    }
    verified(&names.map(|name| folder.join(name)));
}

/// Checks units as systemd reads them; skipped, with a message, where it is not installed.
fn verified(paths: &[std::path::PathBuf]) {
    match Command::new("systemd-analyze")
        .args(["verify", "--man=no", "--recursive-errors=no"])
        .args(paths)
        .output()
    {
        Ok(verified) => {
            let said = String::from_utf8_lossy(&verified.stderr);
            let ours: Vec<&str> = said.lines().filter(|line| line.contains("seekless")).collect();
            assert!(verified.status.success() && ours.is_empty(), "{said}");
        }
        Err(error) => eprintln!("skipped: systemd-analyze: {error}"),
    }
}

/// A few requests, or times that are none, make no model of a drive.
#[test]
fn a_drive_is_not_fitted_to_few_requests_or_to_none_that_took_time() {
    let line = |number: u64, service: u64| format!("R Miss {} 8 {service} 1000\n", number * 977 % 100_000);
    for (count, service, found) in [
        (40, 5_000, "found 40 requests, expected at least 500"),
        (600, 0, "600 of 600 requests that took no time"),
    ] {
        let trace: String = (0..count).map(|number| line(number, service)).collect();
        let trace = file(&format!("fit-{count}.trace"), trace.as_bytes());
        let output = format!("{trace}.toml");
        refused(&["drive", "fit", "quantum-atlas-10k", &trace, "-o", &output], 1, &[found]);
        assert!(!std::path::Path::new(&output).exists());
    }
}
