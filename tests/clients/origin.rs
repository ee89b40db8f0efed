//! A file below BORG that is written without it, and a BOPT that was replaced.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::devices::Loop;
use crate::raw::Raw;
use crate::server::{Server, serve, volume};
use crate::{MIB, sparse};

const PAGE: usize = 4096;

fn components(options: &str) -> String {
    format!(
        "[component.disk]\nfile = \"disk.img\"\n[component.fast]\nfile = \"fast.img\"\n\
         [layer.borg]\nover = \"disk\"\nbopt = \"fast\"\n{options}\n"
    )
}

fn folder(options: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    sparse(&folder.path().join("disk.img"), 16 * MIB as u64);
    sparse(&folder.path().join("fast.img"), 8 * MIB as u64);
    volume(folder.path(), &components(options), &[("borg", "")]);
    folder
}

fn seekless(arguments: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seekless"));
    command.args(["volume"]).args(arguments).arg(folder.join("volume.toml"));
    command.env("STATE_DIRECTORY", folder.join("state")).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn write(folder: &Path, page: u64, byte: u8) {
    let mut raw = Raw::open(folder, "borg");
    assert_eq!(raw.write(0, page * PAGE as u64, &[byte; PAGE]).unwrap(), 0);
    assert_eq!(raw.flush().unwrap(), 0);
}

fn page_of(folder: &Path, file: &str, page: u64) -> u8 {
    let mut byte = [0];
    let file = std::fs::File::open(folder.join(file)).unwrap();
    file.read_exact_at(&mut byte, page * PAGE as u64).unwrap();
    byte[0]
}

#[test]
fn a_bopt_is_created_once_and_zeroes_are_not_one() {
    let folder = folder("at_stop = \"keep\"");
    let folder = folder.path();
    std::fs::write(folder.join("created"), "").unwrap();
    let refused = said(&serve(folder, "threads").output().unwrap());
    assert!(refused.contains("seekless volume create"), "{refused}");
    let created = seekless(&["create"], folder);
    assert!(created.status.success(), "{}", said(&created));
    let again = said(&seekless(&["create"], folder));
    assert!(again.contains("found a BOPT") && again.contains("--replace"), "{again}");
    let server = Server::start(folder, "threads").unwrap();
    // The first write to an unchanged BOPT goes there as well.
    write(folder, 3, 7);
    server.stop();
    assert_eq!(page_of(folder, "disk.img", 3), 0, "it is to be kept");
    // Another one in its place.
    std::fs::rename(folder.join("fast.img"), folder.join("kept.img")).unwrap();
    sparse(&folder.join("fast.img"), 8 * MIB as u64);
    let refused = said(&serve(folder, "threads").output().unwrap());
    assert!(refused.contains("found no BOPT but zeroes"), "{refused}");
    std::fs::rename(folder.join("kept.img"), folder.join("fast.img")).unwrap();
    let server = Server::start(folder, "threads").unwrap();
    assert_eq!(Raw::open(folder, "borg").read(3 * PAGE as u64, 1).unwrap(), [7]);
    server.stop();
    let replaced = seekless(&["create", "--replace"], folder);
    assert!(replaced.status.success(), "{}", said(&replaced));
    let server = Server::start(folder, "threads").unwrap();
    assert_eq!(Raw::open(folder, "borg").read(3 * PAGE as u64, 1).unwrap(), [0], "it was given up");
    server.stop();
}

/// Changes the numbers of devices in all records of pairs.
fn renumber_devices(state: &Path) {
    let files = |folder: &Path| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let records: Vec<_> = files(state).flat_map(|folder| files(&folder).collect::<Vec<_>>()).collect();
    assert!(!records.is_empty());
    for record in records {
        let text = std::fs::read_to_string(&record).unwrap();
        let changed = text.replace("device = ", "device = 1");
        assert_ne!(text, changed);
        std::fs::write(record, changed).unwrap();
    }
}

#[test]
fn another_bopt_of_the_same_size_is_refused() {
    // A BOPT with newer pages than the origin is refused by its record of the origin.
    let (folder, other) = (folder("at_stop = \"keep\""), self::folder(""));
    let (folder, other) = (folder.path(), other.path());
    for (folder, byte) in [(folder, 7), (other, 9)] {
        let server = Server::start(folder, "threads").unwrap();
        write(folder, 3, byte);
        server.stop();
    }
    std::fs::rename(folder.join("fast.img"), folder.join("own.img")).unwrap();
    std::fs::copy(other.join("fast.img"), folder.join("fast.img")).unwrap();
    // Nor after a start of the host that numbers its devices otherwise.
    renumber_devices(&folder.join("state"));
    let refused = said(&serve(folder, "threads").output().unwrap());
    assert!(refused.contains("with which") && refused.contains("has the newest pages of it"), "{refused}");
    // Nor is an empty one made in its place.
    std::fs::remove_file(folder.join("fast.img")).unwrap();
    sparse(&folder.join("fast.img"), 8 * MIB as u64);
    let refused = said(&seekless(&["create"], folder));
    assert!(refused.contains("whose newest pages are in the BOPT"), "{refused}");
    // Nor one in memory, which is new each time.
    let file = components("at_stop = \"keep\"");
    volume(folder, &file.replace("file = \"fast.img\"", "ram = \"8MiB\""), &[("borg", "")]);
    let refused = said(&serve(folder, "threads").output().unwrap());
    assert!(refused.contains("found a new BOPT"), "{refused}");
    // A drained BOPT still belongs to it.
    std::fs::rename(folder.join("own.img"), folder.join("fast.img")).unwrap();
    volume(folder, &components(""), &[("borg", "")]);
    Server::start(folder, "threads").unwrap().stop();
    assert_eq!(page_of(folder, "disk.img", 3), 7);
    std::fs::copy(other.join("fast.img"), folder.join("fast.img")).unwrap();
    let refused = said(&serve(folder, "threads").output().unwrap());
    assert!(refused.contains("with which") && !refused.contains("newest"), "{refused}");
    assert!(seekless(&["create", "--replace"], folder).status.success());
    Server::start(folder, "threads").unwrap().stop();
    assert_eq!(page_of(folder, "disk.img", 3), 7);
}

#[test]
fn a_file_system_where_a_bopt_is_to_be_is_refused() {
    let folder = folder("");
    let folder = folder.path();
    let fast = std::fs::File::options().write(true).open(folder.join("fast.img")).unwrap();
    fast.write_all_at(&[0x53, 0xef], 1_080).unwrap();
    let refused = said(&seekless(&["create"], folder));
    assert!(refused.contains("an ext2, ext3 or ext4 file system"), "{refused}");
    assert!(seekless(&["create", "--replace"], folder).status.success());
}

#[test]
fn a_server_that_stops_writes_back_what_was_written() {
    let folder = folder("");
    let folder = folder.path();
    let server = Server::start(folder, "threads").unwrap();
    for page in 0..500 {
        write(folder, page * 7, page as u8 | 1);
    }
    assert_eq!(page_of(folder, "disk.img", 7 * 499), 0, "it is in the BOPT");
    server.stop();
    for page in 0..500 {
        assert_eq!(page_of(folder, "disk.img", page * 7), page as u8 | 1, "page {page}");
    }
}

/// A counter of the layer in `volume status`.
fn counted(folder: &Path, name: &str) -> u64 {
    let status = seekless(&["status", "--json"], folder);
    let message = String::from_utf8_lossy(&status.stdout).into_owned();
    let behind =
        message.split(&format!("\"{name}\":")).nth(1).unwrap_or_else(|| panic!("{name} in {message}"));
    behind.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
}

#[test]
fn a_file_that_is_as_it_was_proves_its_copies_and_one_that_was_written_does_not() {
    let folder = folder("");
    let folder = folder.path();
    let server = Server::start(folder, "threads").unwrap();
    for page in 0..200 {
        write(folder, page * 7, 1);
    }
    let tell = |command: &str| {
        let mut tell = Command::new(env!("CARGO_BIN_EXE_seekless"));
        tell.args(["volume", "tell"]).arg(folder.join("volume.toml")).args(["borg", command]);
        assert!(tell.status().unwrap().success());
    };
    tell("drain");
    let mut raw = Raw::open(folder, "borg");
    for page in 0..200 {
        assert_eq!(raw.read(page * 7 * PAGE as u64, 1).unwrap(), [1]);
    }
    drop(raw);
    tell("reconfigure");
    assert_eq!(counted(folder, "pages_mapped"), 200);
    server.stop();
    let server = Server::start(folder, "threads").unwrap();
    assert_eq!(counted(folder, "copies_not_compared"), 0, "nobody wrote it");
    server.stop();
    let disk = std::fs::File::options().write(true).open(folder.join("disk.img")).unwrap();
    disk.write_all_at(&[9; PAGE], 77 * 7 * PAGE as u64).unwrap();
    drop(disk);
    let server = Server::start(folder, "threads").unwrap();
    assert_eq!(counted(folder, "copies_not_compared"), 200);
    let mut raw = Raw::open(folder, "borg");
    for page in 0..200 {
        let byte = if page == 77 { 9 } else { 1 };
        assert_eq!(raw.read(page * 7 * PAGE as u64, 1).unwrap(), [byte], "page {page}");
    }
    assert_eq!((counted(folder, "copies_not_compared"), counted(folder, "copies_differing")), (0, 1));
    drop(raw);
    // After a kill there is no proof of equality; data written meanwhile stays.
    write(folder, 5, 3);
    tell("drain");
    server.kill();
    let disk = std::fs::File::options().write(true).open(folder.join("disk.img")).unwrap();
    disk.write_all_at(&[8; PAGE], 30 * 7 * PAGE as u64).unwrap();
    let server = Server::start(folder, "threads").unwrap();
    tell("drain");
    server.stop();
    assert_eq!((page_of(folder, "disk.img", 30 * 7), page_of(folder, "disk.img", 5)), (8, 3));
}

#[test]
fn a_file_whose_newest_pages_are_in_a_bopt_is_not_served_without_it() {
    let folder = folder("at_stop = \"keep\"");
    let folder = folder.path();
    let with = std::fs::read_to_string(folder.join("volume.toml")).unwrap();
    let socket = folder.join("socket");
    let alone = format!(
        "[component.disk]\nfile = \"disk.img\"\n[[export]]\ntop = \"disk\"\nnbd = \"unix:{}\"\n",
        socket.display()
    );
    let serve_alone = || {
        std::fs::write(folder.join("volume.toml"), &alone).unwrap();
        serve(folder, "threads")
    };
    let serve_with = || {
        std::fs::write(folder.join("volume.toml"), &with).unwrap();
        Server::start(folder, "threads").unwrap()
    };
    // The same records, of a user's shell rather than of a unit.
    std::fs::create_dir(folder.join("xdg")).unwrap();
    std::os::unix::fs::symlink(folder.join("state"), folder.join("xdg/seekless")).unwrap();
    let elsewhere = |mut serve: Command| {
        serve.env("STATE_DIRECTORY", folder.join("other")).env("XDG_STATE_HOME", folder.join("xdg"));
        serve
    };
    for kill in [false, true] {
        let server = serve_with();
        write(folder, 3, 7);
        if kill {
            server.kill();
        } else {
            server.stop();
        }
        let refused = said(&serve_alone().output().unwrap());
        assert!(refused.contains("whose newest pages are in the BOPT of layer.borg"), "{refused}");
        let refused = said(&elsewhere(serve_alone()).output().unwrap());
        assert!(refused.contains("whose newest pages are in the BOPT of layer.borg"), "{refused}");
    }
    std::fs::write(folder.join("volume.toml"), &with).unwrap();
    let server = Server::start_command(&mut elsewhere(serve(folder, "threads")), folder, "threads").unwrap();
    let mut tell = Command::new(env!("CARGO_BIN_EXE_seekless"));
    let message = tell.args(["volume", "tell"]).arg(folder.join("volume.toml")).args(["borg", "drain"]);
    assert!(message.status().unwrap().success());
    server.stop();
    assert_eq!(page_of(folder, "disk.img", 3), 7);
    std::fs::write(folder.join("volume.toml"), &alone).unwrap();
    Server::start(folder, "threads").unwrap().stop();
    // A record that cannot be read may be of newer pages.
    let records = std::fs::read_dir(folder.join("state")).unwrap().map(|entry| entry.unwrap().path());
    let record =
        records.flat_map(|folder| std::fs::read_dir(folder).unwrap()).next().unwrap().unwrap().path();
    std::fs::write(&record, "volume = ").unwrap();
    for refused in
        [said(&serve(folder, "threads").output().unwrap()), said(&serve_with_damage(folder, &with))]
    {
        assert!(refused.contains("found a record that cannot be used"), "{refused}");
    }
}

fn serve_with_damage(folder: &Path, with: &str) -> Output {
    std::fs::write(folder.join("volume.toml"), with).unwrap();
    serve(folder, "threads").output().unwrap()
}

/// A loop device has neither a serial number nor a UUID: it is known by its file.
#[test]
fn a_device_without_a_serial_number_is_not_served_without_its_bopt() {
    let folder = folder("at_stop = \"keep\"");
    let folder = folder.path();
    let Some(device) = Loop::over(&folder.join("disk.img")) else { return };
    let with = std::fs::read_to_string(folder.join("volume.toml")).unwrap();
    let with = with.replace("disk.img", &device.0);
    std::fs::write(folder.join("volume.toml"), &with).unwrap();
    let Some(server) = Server::start(folder, "threads") else { return };
    write(folder, 3, 7);
    server.kill();
    let socket = folder.join("socket");
    for disk in [device.0.as_str(), "disk.img"] {
        let alone = format!(
            "[component.disk]\nfile = \"{disk}\"\n[[export]]\ntop = \"disk\"\nnbd = \"unix:{}\"\n",
            socket.display()
        );
        std::fs::write(folder.join("volume.toml"), alone).unwrap();
        let refused = said(&serve(folder, "threads").output().unwrap());
        assert!(refused.contains("whose newest pages are in the BOPT of layer.borg"), "{disk}: {refused}");
    }
    std::fs::write(folder.join("volume.toml"), &with).unwrap();
    let server = Server::start(folder, "threads").unwrap();
    assert_eq!(Raw::open(folder, "borg").read(3 * PAGE as u64, 1).unwrap(), [7]);
    server.stop();
}

/// After a crash the newest pages of a disk are in its BOPT alone: another disk must not get them.
#[test]
fn another_disk_does_not_get_the_newest_pages_of_the_one_before() {
    let folder = folder("");
    let folder = folder.path();
    let server = Server::start(folder, "threads").unwrap();
    write(folder, 3, 7);
    server.kill();
    std::fs::rename(folder.join("disk.img"), folder.join("own.img")).unwrap();
    sparse(&folder.join("disk.img"), 16 * MIB as u64);
    let refused = said(&serve(folder, "threads").output().unwrap());
    assert!(refused.contains("another device than the one that the BOPT"), "{refused}");
    let refused = said(&seekless(&["rescue"], folder));
    assert!(refused.contains("another device than the one that the BOPT"), "{refused}");
    assert_eq!(page_of(folder, "disk.img", 3), 0);
    std::fs::rename(folder.join("own.img"), folder.join("disk.img")).unwrap();
    Server::start(folder, "threads").unwrap().stop();
    assert_eq!(page_of(folder, "disk.img", 3), 7);
    // The BOPT has nothing newer now; what it copied is compared with the other disk.
    sparse(&folder.join("other.img"), 16 * MIB as u64);
    std::fs::rename(folder.join("other.img"), folder.join("disk.img")).unwrap();
    Server::start(folder, "threads").unwrap().stop();
    assert_eq!(page_of(folder, "disk.img", 3), 0);
}

/// A copy of the BOPT from before the last session has the right identity, and old pages.
#[test]
fn an_old_copy_of_a_bopt_is_refused() {
    for options in ["", "at_stop = \"keep\""] {
        let folder = folder(options);
        let folder = folder.path();
        let [fast, old, new] = ["fast.img", "old.img", "new.img"].map(|name| folder.join(name));
        let session = |byte| {
            let server = Server::start(folder, "threads").unwrap();
            write(folder, 3, byte);
            server.stop();
        };
        session(7);
        std::fs::copy(&fast, &old).unwrap();
        session(9);
        std::fs::rename(&fast, &new).unwrap();
        std::fs::copy(&old, &fast).unwrap();
        for tool in ["serve", "rescue"] {
            let refused = said(&if tool == "serve" {
                serve(folder, "threads").output().unwrap()
            } else {
                seekless(&["rescue"], folder)
            });
            assert!(refused.contains("found an old copy of the BOPT"), "{tool}: {refused}");
        }
        // One that is restored is an old one by choice.
        std::fs::rename(&new, &fast).unwrap();
        let dumped = seekless(&["dump"], folder);
        std::fs::write(folder.join("dump.json"), &dumped.stdout).unwrap();
        let mut restore = Command::new(env!("CARGO_BIN_EXE_seekless"));
        restore.args(["volume", "restore"]).arg(folder.join("volume.toml")).arg(folder.join("dump.json"));
        let restored =
            restore.arg("--replace").env("STATE_DIRECTORY", folder.join("state")).output().unwrap();
        assert!(restored.status.success(), "{}", said(&restored));
        let server = Server::start(folder, "threads").unwrap();
        assert_eq!(Raw::open(folder, "borg").read(3 * PAGE as u64, 1).unwrap(), [9]);
        server.stop();
    }
}
