//! A member of an array that is replaced while clients write, and servers that are killed at every step of it.

use std::path::Path;
use std::time::Duration;

use crate::attached::{done, file, refused, run, under_load};
use crate::killed::{Known, PAGES, look};
use crate::server::{KINDS, Server, volume};
use crate::sparse;

/// Two files with data, one with parity; the second is a slice. With a log or without.
fn array(log: bool) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for (name, mib) in [("d0", 8), ("d1", 10), ("p", 8), ("ssd", 4), ("new", 8), ("large", 10), ("log", 4)] {
        sparse(&at.join(format!("{name}.img")), mib << 20);
    }
    let of = |name: &str| format!("[component.{name}]\nfile = \"{name}.img\" # {name}\n");
    let log = if log { (of("ssd"), "log = \"ssd\"\n") } else { (String::new(), "") };
    let text = format!(
        "{}{}{}{}[slice.second]\nof = \"d1\"\nsize = \"8MiB\"\n\
         [layer.raid4]\nover = [\"d0\", \"second\"]\nparity = \"p\"\nunit = \"64KiB\"\n{}",
        of("d0"),
        of("d1"),
        of("p"),
        log.0,
        log.1
    );
    volume(at, &text, &[("raid4", "name = \"array\"")]);
    done(at, &["create"]);
    folder
}

fn missing(folder: &Path) -> u64 {
    let status = run(folder, &["status", "--json"]);
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    status["layers"][0]["counters"]["members_missing"].as_u64().unwrap()
}

/// The array without one of its old members, on which nothing is needed any more.
fn whole_without(folder: &Path, export: &str, member: &str, kind: &str, known: &mut Known) {
    let path = folder.join(format!("{member}.img"));
    let held = std::fs::read(&path).unwrap();
    std::fs::write(&path, vec![0; held.len()]).unwrap();
    if let Some(server) = Server::start(folder, kind) {
        look(&server, export, known);
        server.kill();
    }
    std::fs::write(&path, held).unwrap();
}

#[test]
fn members_are_replaced_under_load_and_hold_what_the_old_ones_did() {
    for (kind, log) in [(KINDS[0], true), (KINDS[1], false)] {
        let folder = array(log);
        let folder = folder.path();
        let mut known: Known = vec![(0, 0); PAGES as usize];
        for (round, (member, new)) in
            (1..).zip([("p", "new.img"), ("d1", "large.img"), ("d0", "p.img"), ("ssd", "log.img")])
        {
            if member == "ssd" && !log {
                continue;
            }
            let Some(server) = Server::start(folder, kind) else { return };
            look(&server, "array", &mut known);
            under_load(server, "array", round, &mut known, |folder| {
                if round == 3 {
                    // The old parity, with the array's superblock, and a member that is gone.
                    std::fs::OpenOptions::new()
                        .write(true)
                        .open(folder.join("d0.img"))
                        .unwrap()
                        .set_len(0)
                        .unwrap();
                    refused(
                        folder,
                        &["replace", member, new],
                        &["a member of an array (raid4)", "--replace"],
                    );
                    done(folder, &["replace", member, new, "--replace"]);
                } else {
                    done(folder, &["replace", member, new]);
                }
                assert_eq!(missing(folder), 0, "it is rebuilt");
                std::thread::sleep(Duration::from_millis(100));
            });
            assert!(file(folder).contains(&format!("file = \"{new}\" # {member}\n")), "{}", file(folder));
        }
        let Some(server) = Server::start(folder, kind) else { return };
        look(&server, "array", &mut known);
        server.stop();
        for other in ["new", "large"] {
            whole_without(folder, "array", other, kind, &mut known);
        }
    }
}

#[test]
#[cfg(feature = "mutants")]
fn a_server_that_is_killed_while_it_replaces_a_member_opens_the_array() {
    use std::sync::mpsc::channel;

    use crate::attached::command;
    use crate::killed::load;

    let steps = seekless_volume::live::STEPS.iter().filter(|step| step.starts_with("replace"));
    let cases = steps.flat_map(|step| [("d0", "new.img"), ("ssd", "log.img")].map(|case| (step, case)));
    for (number, (step, (component, new))) in cases.enumerate() {
        let kind = KINDS[number % 2];
        let folder = array(true);
        let folder = folder.path();
        let mut known: Known = vec![(0, 0); PAGES as usize];
        let mut serve = crate::server::serve(folder, kind);
        let server = Server::start_command(serve.env("SEEKLESS_HALT_AT", step), folder, kind);
        let Some(mut server) = server else { continue };
        let (started, waits) = channel();
        std::thread::scope(|scope| {
            let load = scope.spawn(|| load(folder, "array", 1, &mut known, &started));
            waits.recv_timeout(Duration::from_secs(30)).unwrap();
            let mut change = command(folder, &["replace", component, new]).spawn().unwrap();
            while server.line() != format!("halted at {step}") {}
            server.kill();
            assert!(!change.wait().unwrap().success());
            load.join().unwrap();
        });
        let Some(server) = Server::start(folder, kind) else { continue };
        look(&server, "array", &mut known);
        // An interrupted command is given again, unless the file names the new device.
        if !file(folder).contains(new) {
            done(folder, &["replace", component, new, "--replace"]);
        } else if component == "d0" {
            assert_eq!(missing(folder), 1);
            done(folder, &["tell", "raid4", "rebuild"]);
        }
        assert_eq!(missing(folder), 0, "{step}");
        look(&server, "array", &mut known);
        server.stop();
        whole_without(folder, "array", "p", kind, &mut known);
    }
}

#[test]
fn what_cannot_be_replaced_is_refused_with_what_to_do() {
    let folder = array(true);
    let folder = folder.path();
    let Some(server) = Server::start(folder, "threads") else { return };
    refused(folder, &["replace", "dd1", "new.img"], &["'dd1'", "perhaps d1"]);
    refused(folder, &["replace", "d0", "none.img"], &["none.img", "No such file"]);
    refused(folder, &["replace", "d0", "large.img"], &["sectors", "slices make them equal"]);
    refused(folder, &["replace", "d0", "p.img"], &["in use"]);
    sparse(&folder.join("tiny.img"), 64 << 10);
    refused(folder, &["replace", "ssd", "tiny.img"], &["found a log of 64 KiB", "at least"]);
    sparse(&folder.join("small.img"), 4 << 20);
    refused(folder, &["replace", "d1", "small.img"], &["slice.second"]);
    assert_eq!(missing(folder), 0);
    done(folder, &["replace", "d0", "new.img", "--no-rebuild"]);
    assert_eq!(missing(folder), 1);
    refused(
        folder,
        &["replace", "p", "d0.img", "--replace"],
        &["member 0 out of service", "rebuild that one"],
    );
    done(folder, &["tell", "raid4", "rebuild"]);
    assert_eq!(missing(folder), 0);
    server.stop();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for name in ["disk", "new"] {
        sparse(&folder.join(format!("{name}.img")), 8 << 20);
    }
    let text = "[component.disk]\nfile = \"disk.img\"\n[layer.scrub]\nover = \"disk\"\n";
    volume(folder, text, &[("scrub", "")]);
    let Some(server) = Server::start(folder, "threads") else { return };
    refused(folder, &["replace", "disk", "new.img"], &["layer.scrub", "expected an array", "raid4"]);
    server.stop();
}

/// A file of a member is deleted, or empty: the volume starts without it, says so, and gets another one.
#[test]
fn a_file_that_is_not_there_is_done_without_and_told_of() {
    for (kind, lost) in KINDS.into_iter().zip(["d0", "d1"]) {
        let folder = array(true);
        let folder = folder.path();
        let mut known: Known = vec![(0, 0); PAGES as usize];
        let Some(server) = Server::start(folder, kind) else { continue };
        under_load(server, "array", 1, &mut known, |_| std::thread::sleep(Duration::from_millis(100)));
        done(folder, &["check"]);
        let path = folder.join(format!("{lost}.img"));
        let empties = lost == "d1";
        if empties { std::fs::write(&path, []) } else { std::fs::remove_file(&path) }.unwrap();
        let checked = run(folder, &["check", "--json"]);
        let list: serde_json::Value = serde_json::from_slice(&checked.stdout).unwrap();
        let trouble = list[0]["trouble"].as_str().unwrap();
        assert!(!checked.status.success() && trouble.contains("is out of service"), "{list}");
        refused(folder, &["create"], &[&format!("component.{lost}.file: found")]);
        let server = Server::start(folder, kind).unwrap();
        let found = if empties { "0 bytes" } else { "No such file" };
        assert!(server.began_with(found) && server.began_with("layer.raid4: member"), "it says so");
        look(&server, "array", &mut known);
        assert_eq!(missing(folder), 1);
        let new = if empties { "large.img" } else { "new.img" };
        refused(folder, &["replace", lost, "none.img"], &["none.img", "No such file"]);
        done(folder, &["replace", lost, new]);
        assert_eq!(missing(folder), 0);
        look(&server, "array", &mut known);
        server.stop();
        done(folder, &["check", "--data"]);
        whole_without(folder, "array", "p", kind, &mut known);
    }
    let folder = array(true);
    std::fs::remove_file(folder.path().join("ssd.img")).unwrap();
    refused(folder.path(), &["check"], &["component.ssd.file: found", "No such file"]);
}

/// A volume of `proximal` on a file, with these files as its flash.
fn staged(flash: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    sparse(&at.join("disk.img"), 64 << 20);
    for name in flash.iter().chain(&["new"]) {
        sparse(&at.join(format!("{name}.img")), 16 << 20);
    }
    let file = |name: &&str| format!("[component.{name}]\nfile = \"{name}.img\" # {name}\n");
    let files: String = std::iter::once(&"disk").chain(flash).map(file).collect();
    let list = flash.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
    let text = format!("{files}[layer.proximal]\nover = \"disk\"\nflash = [{list}]\n");
    volume(at, &text, &[("proximal", "name = \"home\"")]);
    folder
}

/// Two files hold the staging area: one of them is replaced under load, then the other one is lost, and comes back.
#[test]
fn either_file_of_mirrored_flash_is_lost_and_replaced() {
    for kind in KINDS {
        let folder = staged(&["f0", "f1"]);
        let folder = folder.path();
        done(folder, &["create"]);
        let mut known: Known = vec![(0, 0); PAGES as usize];
        let Some(server) = Server::start(folder, kind) else { return };
        under_load(server, "home", 1, &mut known, |folder| {
            done(folder, &["replace", "f1", "new.img"]);
            assert_eq!(missing(folder), 0, "it is rebuilt");
            refused(folder, &["replace", "disk", "f1.img"], &["expected a member of mirrored flash"]);
        });
        assert!(file(folder).contains("file = \"new.img\" # f1\n"), "{}", file(folder));
        whole_without(folder, "home", "f0", kind, &mut known);
        let Some(server) = Server::start(folder, kind) else { return };
        look(&server, "home", &mut known);
        done(folder, &["tell", "proximal", "rebuild"]);
        assert_eq!(missing(folder), 0);
        server.stop();
    }
}

/// A single flash device is possible, and warned of.
#[test]
fn a_single_flash_device_is_warned_of() {
    let folder = staged(&["f0"]);
    let created = run(folder.path(), &["create"]);
    let warning = String::from_utf8_lossy(&created.stderr);
    assert!(created.status.success(), "{warning}");
    assert!(
        warning.contains("warning: layer.proximal: flash: the flash device is the only home"),
        "{warning}"
    );
}
