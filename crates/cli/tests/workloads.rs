//! Workloads and volume files on the command line: the list, a run, a trace of one, errors.

mod common;

use common::{SMALL, file, folder, json, quietly, refused, seekless};

const VOLUME: &str = "\
[component.disk]
drive = \"wd2500aaks\"
[slice.home]
of = \"disk\"
size = \"10GiB\"
[slice.bopt]
of = \"disk\"
at = \"10GiB\"
size = \"256MiB\"
[layer.borg]
over = \"home\"
bopt = \"bopt\"
[[export]]
top = \"borg\"
";

#[test]
fn the_workloads_are_listed_with_options_and_defaults() {
    let text = quietly(&["lab", "run", "--workloads"]);
    let all = json(&["lab", "run", "--workloads"]);
    for name in ["random", "oltp", "serial", "postmark", "zipf", "startup", "seq", "mix", "phases"] {
        assert!(text.contains(&format!("{name}: ")), "{name} is not in: {text}");
        assert!(all.as_array().unwrap().iter().any(|one| one["name"] == name), "{name}");
    }
    assert!(text.contains("30ms") && text.contains("area  "), "{text}");
}

#[test]
fn a_workload_runs_on_flags_and_on_a_volume_file() {
    let flags = json(&["lab", "run", "--workload", "oltp:mpl=4", "--layer", "none", "--for", "20s"]);
    for key in
        ["requests", "requests_per_s", "mean_response_ms", "max_response_ms", "elapsed_s", "idle_s", "seeks"]
    {
        assert!(flags[key].is_number(), "{key}");
    }
    assert!(flags["response_ms"]["p99"].is_number() && flags["head"]["rotation_s"].is_number());
    assert!(flags["head_ms_per_request"]["seek"].is_number());
    // Everything needed to run it again.
    assert!(flags["options"] == "oltp:mpl=4" && flags["seed"].is_number(), "{flags}");
    let volume = file("run.volume.toml", VOLUME.as_bytes());
    let run = ["lab", "run", &volume, "--workload", "mix:3*oltp+1*seq", "--requests", "300"];
    assert_eq!(json(&run)["requests"], 300);
    let text = quietly(&run);
    assert!(text.contains("borg with a BOPT of 256 MiB") && text.contains("99 % within"), "{text}");
    assert_eq!(text, quietly(&run));
}

#[test]
fn a_flag_is_the_option_of_its_name() {
    let run =
        |options: &[&str]| json(&[&["lab", "run", "--layer", "none", "--requests", "50"], options].concat());
    let typed = run(&["--workload", "random:size=8KiB,reads=10,outstanding=3"]);
    let flags = ["--workload", "random", "--size", "8KiB", "--reads", "10", "--outstanding", "3"];
    assert_eq!(typed, run(&flags));
    refused(&["lab", "run", "--workload", "random:size=4KiB", "--size", "8KiB"], 2, &["size", "one of them"]);
}

#[test]
fn a_workload_becomes_a_trace_that_is_read_back() {
    let out = folder().join("synth.txt");
    let out = out.to_str().unwrap();
    let synth = ["trace", "synth", "oltp:mpl=3", "--drive", "wd2500aaks", "--for", "10s", "-o", out];
    let message = json(&synth);
    let info = json(&["trace", "info", out]);
    assert_eq!((&message["records"], &message["reads"]), (&info["records"], &info["reads"]));
    let open = ["trace", "synth", "random:rate=100/s", "--over", "1GiB", "--requests", "500", "-o", out];
    refused(&open, 1, &["found a file of that name", "--force"]);
    assert_eq!(json(&[&open[..], &["--force"]].concat())["records"], 500);
    assert!(json(&["trace", "info", out])["end_sector"].as_u64().unwrap() <= 1 << 21);
}

#[test]
fn what_does_not_fit_is_reported_with_what_would() {
    let out = folder().join("refused.txt");
    let out = out.to_str().unwrap();
    refused(&["trace", "synth", "oltp", "-o", out], 2, &["--drive: found none for oltp", "rate=100/s"]);
    refused(&["trace", "synth", "oltp"], 2, &["--output"]);
    refused(&["lab", "run", "--workload", "olpt"], 2, &["found 'olpt'", "oltp"]);
    refused(&["lab", "run", "--workload", "oltp", "--for", "ten"], 2, &["--for", "'ten'", "10m"]);
    let bad = file("bad.volume.toml", VOLUME.replace("over", "above").as_bytes());
    refused(&["lab", "run", &bad, "--workload", "oltp"], 1, &["bad.volume.toml: layer.borg.over", "nothing"]);
    let good = file("good.volume.toml", VOLUME.as_bytes());
    for said in [["--bopt", "1GiB"], ["--depth", "2"], ["--write-cache", "on"], ["--guard", "1ms"]] {
        let both = [&["lab", "run", &good, "--workload", "oltp"], &said[..]].concat();
        refused(&both, 2, &["cannot be used with", said[0]]);
    }
    refused(
        &["lab", "run", "/nonexistent.toml", "--workload", "oltp"],
        1,
        &["/nonexistent.toml", "No such file"],
    );
    refused(
        &["lab", "run", &good, "--workload", "oltp", "--pace", "open"],
        2,
        &["--pace", "expected closed"],
    );
    refused(&["lab", "run", &good, "--trace", SMALL, "--drive", "wd2500aaks"], 2, &["cannot be used with"]);
    for of_a_trace in [["--speed", "2"], ["--reconfigure", "3"], ["--reconfigure-clock", "stop"]] {
        let both = [&["lab", "run", "--workload", "oltp"], &of_a_trace[..]].concat();
        refused(&both, 2, &["cannot be used with", of_a_trace[0]]);
    }
    let deep = ["lab", "run", "--workload", "random", "--layer", "none", "--depth", "33"];
    refused(&deep, 2, &["--depth: found 33, expected 1 to 32", "wd2500aaks"]);
    let every = ["lab", "run", "--workload", "oltp", "--layer", "none", "--reconfigure-every", "5m"];
    refused(&every, 2, &["--reconfigure-every", "--layer borg"]);
}

#[test]
fn a_run_with_faults_counts_them_and_goes_on() {
    let faulty = VOLUME.replace(
        "[[export]]\ntop = \"borg\"",
        "[layer.error]\nover = \"borg\"\nrate_pct = 20\n[[export]]\ntop = \"error\"",
    );
    let volume = file("faulty.volume.toml", faulty.as_bytes());
    let run = ["lab", "run", &volume, "--workload", "random", "--requests", "500"];
    let outcome = json(&run);
    let (failed, answered) = (outcome["failed"].as_u64().unwrap(), outcome["requests"].as_u64().unwrap());
    assert_eq!(failed + answered, 500, "{outcome}");
    assert!((50..150).contains(&failed), "{outcome}");
    let text = quietly(&run);
    assert!(text.contains("failed besides") && text == quietly(&run), "{text}");
    // Time passes for any pattern of requests.
    let all = file("failing.volume.toml", faulty.replace("= 20", "= 100").as_bytes());
    let outcome = json(&["lab", "run", &all, "--workload", "random", "--for", "1ms"]);
    assert!(outcome["requests"] == 0 && outcome["failed"].as_u64().unwrap() > 10, "{outcome}");
}

#[test]
fn a_trace_that_reaches_beyond_the_usual_drive_gets_one_that_it_fits() {
    let trace = folder().join("beyond.txt");
    let trace = trace.to_str().unwrap();
    json(&["trace", "synth", "random:reads=80", "--drive", "wd-re3-1tb", "--requests", "300", "-o", trace]);
    let run = ["lab", "run", "--trace", trace, "--layer", "none"];
    let compared = json(&["lab", "compare", "--trace", trace, "--reconfigure", "1"]);
    let drive = compared["settings"]["drive"].as_str().unwrap().to_owned();
    let text = quietly(&run);
    assert!(text.starts_with(&format!("{drive}, ")), "{drive}: {text}");
    assert_ne!(drive.to_lowercase(), "wd2500aaks", "{compared}");
    let ran = seekless(&["lab", "compare", "--trace", trace, "--drive", "wd2500aaks"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("one that fits: ") && ran.stderr.contains("wd-re3-1tb"), "{}", ran.stderr);
    // Where the default drive is large enough, it stays.
    let small =
        json(&["lab", "compare", "--trace", SMALL, "--reconfigure", "1", "--option", "rehearse=false"]);
    assert!(small["settings"]["drive"].as_str().unwrap().to_lowercase().contains("wd2500aaks"), "{small}");
}
