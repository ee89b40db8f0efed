//! Functions as WebAssembly modules, by the program: the same module in the laboratory and on a served volume, and one
//! that never ends. In a build with the feature `wasm`: `make wasm`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// A module whose call is a loop.
const LOOPS: &[u8] = b"\0asm\x01\0\0\0\x01\x11\x03`\0\x01\x7f`\x03~~~\x01\x7f`\x01\x7f\x01\x7f\x03\x04\x03\0\x01\x02\
    \x05\x03\x01\0\x01\x07>\x04\x06memory\x02\0\x0cseekless_abi\0\0\x0eseekless_start\0\x01\x11seekless_requests\0\x02\
    \n3\x03\x04\0A\x01\x0b\"\0A\x10A\xc0\x006\x02\0A\x14A\x016\x02\0A\x18A\x80\x086\x02\0A\x1cA\x086\x02\0A\x10\x0b\t\0\
    \x03@\x0c\0\x0bA\0\x0b";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

fn seekless(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_seekless")).args(arguments).current_dir(root()).output().unwrap()
}

fn json(arguments: &[&str]) -> Value {
    let output = seekless(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A volume file with this component and these options of the layer, and the modules beside it.
fn volume(folder: &Path, component: &str, options: &str) -> String {
    for name in ["sequential", "starts", "successors", "template"] {
        let file = format!("{name}.wasm");
        fs::copy(root().join("examples/functions").join(&file), folder.join(&file)).unwrap();
    }
    fs::write(folder.join("loops.wasm"), LOOPS).unwrap();
    let text = format!(
        "[component.disk]\n{component}\n\n[layer.function]\nover = \"disk\"\n{options}\n\n[[export]]\ntop = \"function\"\n\
         nbd = \"unix:v.sock\"\n"
    );
    let file = folder.join("v.toml");
    fs::write(&file, text).unwrap();
    file.display().to_string()
}

const DRIVE: &str = "drive = \"wd6400aaks\"";

#[test]
fn a_module_and_the_built_in_function_take_the_same_actions_on_a_trace() {
    let folder = tempfile::tempdir().unwrap();
    let run = |options: &str| {
        let volume = volume(folder.path(), DRIVE, options);
        let mut outcome = json(&["lab", "run", &volume, "--trace", "data/svnserver2", "--json"]);
        outcome.as_object_mut().unwrap().remove("name");
        outcome
    };
    let (built_in, module) = (run("function = \"sequential\""), run("module = \"sequential.wasm\""));
    assert!(built_in["layers"]["function"]["actions"].as_u64() > Some(100), "{}", built_in["layers"]);
    assert_eq!(built_in, module, "also the hash of all events");
}

#[test]
fn all_modules_run_on_a_trace_and_are_explored() {
    let folder = tempfile::tempdir().unwrap();
    let small = format!("{DRIVE}\n\n[slice.small]\nof = \"disk\"\nsize = \"64KiB\"");
    for name in ["sequential", "starts", "successors", "template"] {
        let on_disk = volume(folder.path(), DRIVE, &format!("module = \"{name}.wasm\""));
        let outcome = json(&["lab", "run", &on_disk, "--trace", "data/appstart2", "--json"]);
        let counters = &outcome["layers"]["function"];
        assert_eq!(
            (&counters["turned_off"], counters["actions"].as_u64() > Some(0)),
            (&0.into(), true),
            "{name}: {counters}"
        );
        let explored = volume(
            folder.path(),
            &small,
            &format!("module = \"{name}.wasm\"\nparameter = 2\nsize = \"1MiB\""),
        );
        let text = fs::read_to_string(&explored).unwrap().replace("over = \"disk\"", "over = \"small\"");
        fs::write(&explored, text).unwrap();
        let found =
            seekless(&["lab", "explore", &explored, "--one-in", "50", "--each", "24", "--states", "200"]);
        // So few states do not reach every edge.
        let found = String::from_utf8_lossy(&found.stdout);
        assert!(found.contains("no violation was found"), "{name}: {found}");
    }
}

#[test]
fn a_module_that_never_ends_is_turned_off_and_requests_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let volume = volume(folder.path(), DRIVE, "module = \"loops.wasm\"");
    let outcome = json(&["lab", "run", &volume, "--workload", "startup", "--requests", "500", "--json"]);
    let counters = &outcome["layers"]["function"];
    assert_eq!((&counters["turned_off"], &counters["requests_shown"]), (&1.into(), &1.into()), "{counters}");
    let text = String::from_utf8(
        seekless(&["lab", "run", &volume, "--workload", "startup", "--requests", "500"]).stdout,
    );
    assert!(text.unwrap().contains("function: turned_off"));
    let outcome = json(&["lab", "run", &volume, "--trace", "data/svnserver2", "--json"]);
    let notes = outcome["notes"].to_string();
    assert!(
        notes.contains("layer.function: the function is off: found no end of a call after 100000000"),
        "{notes}"
    );
}

#[test]
fn what_is_no_module_is_an_error_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("text.wasm"), "(module)").unwrap();
    for (options, error) in [
        ("module = \"nowhere.wasm\"", "v.toml: layer.function.module: found 'nowhere.wasm' (No such file"),
        (
            "module = \"text.wasm\"",
            "text.wasm': other bytes, expected a WebAssembly module, which begins with \\0asm",
        ),
        ("module = \"starts.wasm\"\nmemory = \"64KiB\"", "bytes of memory asked for, expected 65536 at most"),
    ] {
        let volume = volume(folder.path(), DRIVE, options);
        let output = seekless(&["lab", "run", &volume, "--workload", "startup", "--requests", "5"]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && errors.contains(error), "{errors}, expected {error}");
    }
}

#[test]
fn a_served_volume_says_that_its_function_is_off_and_is_read_on() {
    let Ok(found) = Command::new("qemu-img").arg("--version").output() else {
        return println!("skipped: no qemu-img here");
    };
    assert!(found.status.success());
    let folder = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..1_u32 << 22).flat_map(u32::to_le_bytes).collect();
    fs::write(folder.path().join("disk.img"), &bytes).unwrap();
    for (options, trouble) in [
        ("module = \"loops.wasm\"", true),
        ("module = \"template.wasm\"", false),
        ("module = \"sequential.wasm\"", false),
    ] {
        let volume = volume(folder.path(), "file = \"disk.img\"", options);
        let mut server = Command::new(env!("CARGO_BIN_EXE_seekless"));
        let mut server = server.args(["volume", "serve", &volume]).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(server.stderr.take().unwrap()).lines();
        let started = lines.by_ref().any(|line| line.unwrap().contains("serving function"));
        assert!(started);
        let copy = folder.path().join("copy.img");
        let from = format!("nbd+unix:///function?socket={}", folder.path().join("v.sock").display());
        let copied = Command::new("qemu-img")
            .args(["convert", "-W", "-m", "1", "-O", "raw", &from])
            .arg(&copy)
            .output();
        let copied = copied.unwrap();
        assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
        assert!(fs::read(&copy).unwrap() == bytes, "{options}: another content");
        let status = json(&["volume", "status", &volume, "--json"]);
        let layer = &status["layers"][0];
        let why = layer["trouble"].as_str().unwrap_or_default();
        assert_eq!(
            why.contains("the function is off: found no end of a call"),
            trouble,
            "{options}: {layer}"
        );
        assert_eq!(layer["counters"]["actions"].as_u64() > Some(0), !trouble, "{options}: {layer}");
        // As Ctrl-C does.
        assert!(Command::new("kill").args(["-INT", &server.id().to_string()]).status().unwrap().success());
        let warned = lines.any(|line| line.unwrap().contains("warning: layer.function: the function is off"));
        assert_eq!(warned, trouble, "{options}");
        assert!(server.wait().unwrap().success());
    }
}
