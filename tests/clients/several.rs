//! Several volumes that one program serves, each in a thread of its own.

use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::raw::Raw;
use crate::server::{KINDS, skipped, volume};

/// Folders of two volumes, with a disk and a BOPT each.
fn folders() -> [tempfile::TempDir; 2] {
    [0, 1].map(|_| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        crate::sparse(&path.join("disk.img"), 16 << 20);
        crate::sparse(&path.join("bopt.img"), 16 << 20);
        let parts = "[component.disk]\nfile = \"disk.img\"\n[component.bopt]\nfile = \"bopt.img\"\n\
                     [layer.borg]\nover = \"disk\"\nbopt = \"bopt\"\n";
        volume(path, parts, &[("borg", "")]);
        let mut create = Command::new(env!("CARGO_BIN_EXE_seekless"));
        create.args(["volume", "create"]).arg(path.join("volume.toml"));
        assert!(create.env("STATE_DIRECTORY", path.join("state")).status().unwrap().success());
        folder
    })
}

fn serve(folders: [&Path; 2], kind: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seekless"));
    command.args(["volume", "serve", "--log", "plain", "--io", kind]);
    command.args(folders.map(|folder| folder.join("volume.toml")));
    command.env("STATE_DIRECTORY", folders[0].join("state"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// Waits until all are served; `None`, with a message, where there is no `io_uring`.
fn started(command: &mut Command, kind: &str) -> Option<(Child, Vec<String>, impl BufRead + use<>)> {
    let mut child = command.spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let (mut lines, mut serving) = (Vec::new(), 0);
    while serving < 2 {
        let mut line = String::new();
        assert!(said.read_line(&mut line).unwrap() > 0, "{lines:?}");
        if line.contains("error: io:") && kind == "io_uring" {
            skipped("io_uring", &line);
            child.wait().unwrap();
            return None;
        }
        serving += usize::from(line.contains("try: "));
        lines.push(line);
    }
    Some((child, lines, said))
}

/// Stops it as a service manager does; whether it ended well, and its last output.
fn stop(mut child: Child, mut said: impl Read) -> (bool, String) {
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    let ended = child.wait().unwrap().success();
    let mut last = String::new();
    said.read_to_string(&mut last).unwrap();
    (ended, last)
}

#[test]
fn each_has_its_clients_and_a_service_manager_sees_one_service() {
    for kind in KINDS {
        let folders = folders();
        let [one, other] = [0, 1].map(|number| folders[number].path());
        let manager = UnixDatagram::bind(one.join("notify")).unwrap();
        manager.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut command = serve([one, other], kind);
        command.env("NOTIFY_SOCKET", one.join("notify")).env("WATCHDOG_USEC", "300000");
        let Some((child, lines, said)) = started(&mut command, kind) else { continue };
        for folder in [one, other] {
            let file = folder.join("volume.toml").display().to_string();
            assert!(
                lines.iter().any(|line| line.starts_with(&format!("{file}: serving borg "))),
                "{lines:?}"
            );
            let mut raw = Raw::open(folder, "borg");
            let page = [if folder == one { 1 } else { 2 }; 4096];
            assert_eq!(raw.write(0, 8192, &page).unwrap(), 0);
        }
        let mut heard = String::new();
        while !heard.contains("WATCHDOG=1\n") {
            let mut message = vec![0; 4096];
            let bytes = manager.recv(&mut message).unwrap_or_else(|error| panic!("{error}: {heard}"));
            heard = format!("{heard}\n{}", String::from_utf8_lossy(&message[..bytes]));
        }
        assert_eq!(heard.matches("READY=1").count(), 1, "{heard}");
        let (ended, last) = stop(child, said);
        assert!(ended && last.matches("stopped: ").count() == 2, "{last}");
        for (folder, byte) in [(one, 1), (other, 2)] {
            assert!(!folder.join("socket").exists());
            let disk = std::fs::read(folder.join("disk.img")).unwrap();
            assert!(disk[8192..8192 + 4096].iter().all(|found| *found == byte), "drained to its own disk");
        }
    }
}

#[test]
fn one_that_cannot_be_served_stops_the_others_clean() {
    let folders = folders();
    let [one, other] = [0, 1].map(|number| folders[number].path());
    let failed = |command: &mut Command, words: &[&str]| {
        let done = command.output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(1), "{said}");
        for word in words {
            assert!(said.contains(word), "no '{word}' in {said}");
        }
        said
    };
    // A file that is no volume: the other is not opened.
    let text = std::fs::read_to_string(other.join("volume.toml")).unwrap();
    std::fs::write(other.join("volume.toml"), "export = 7").unwrap();
    let said = failed(&mut serve([one, other], "threads"), &["not served, since another one cannot be"]);
    assert!(!said.contains("serving borg"), "{said}");
    failed(&mut serve([other, other], "threads"), &["found 2 of 2 volumes that failed"]);
    // A device that is missing shows later.
    std::fs::write(other.join("volume.toml"), text).unwrap();
    crate::sparse(&other.join("bopt.img"), 16 << 20);
    let found = "found 1 of 2 volumes that failed";
    failed(&mut serve([one, other], "threads"), &["found no BOPT but zeroes", "stopped: 0 requests", found]);
    // One file twice.
    failed(&mut serve([one, one], "threads"), &["in use", found]);
    let mut recorded = serve([one, other], "threads");
    failed(recorded.args(["--log-inputs", "inputs"]), &["--log-inputs: found 2 volumes, expected one"]);
}

#[test]
fn passed_sockets_are_divided_in_the_order_of_the_files() {
    let folders = folders();
    let [one, other] = [0, 1].map(|number| folders[number].path());
    let sockets = [one, other].map(|folder| UnixListener::bind(folder.join("socket")).unwrap());
    let numbers = sockets.each_ref().map(AsRawFd::as_raw_fd);
    // A shell passes them as descriptors 3 and 4, and sets the process that they are for.
    let script =
        format!("exec 3<&{} 4<&{}; LISTEN_FDS=2 LISTEN_PID=$$ exec \"$0\" \"$@\"", numbers[0], numbers[1]);
    let program = serve([one, other], "threads");
    let mut command = Command::new("bash");
    command.args(["-c", &script]).arg(program.get_program()).args(program.get_args());
    command.env("STATE_DIRECTORY", one.join("state")).stderr(Stdio::piped());
    for socket in &sockets {
        rustix::io::fcntl_setfd(socket, rustix::io::FdFlags::empty()).unwrap();
    }
    command.arg0("bash");
    let Some((child, _, said)) = started(&mut command, "threads") else { return };
    for folder in [one, other] {
        let page = [if folder == one { 1 } else { 2 }; 4096];
        assert_eq!(Raw::open(folder, "borg").write(0, 0, &page).unwrap(), 0);
    }
    assert!(stop(child, said).0);
    for (folder, byte) in [(one, 1), (other, 2)] {
        assert_eq!(std::fs::read(folder.join("disk.img")).unwrap()[0], byte);
    }
}
