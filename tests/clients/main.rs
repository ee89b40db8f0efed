//! Real clients of a live volume: every program that speaks NBD and is installed. Missing ones are listed.

// Programs from outside: they take their time, and threads.
#![allow(clippy::disallowed_methods)]

mod adapted;
mod attached;
mod below;
#[cfg(feature = "web")]
mod browser;
mod clones;
mod contexts;
#[cfg(feature = "web")]
mod dashboard;
mod devices;
mod emulated;
mod exchanged;
mod faults;
mod file_systems;
mod fsx;
mod full;
mod gains;
mod guest;
mod interop;
mod killed;
#[cfg(feature = "vhost")]
mod machine;
#[cfg(feature = "vhost")]
mod machines;
mod measured;
mod misbehaving;
mod modelled;
mod mounted;
mod origin;
mod places;
mod queued;
mod raw;
mod remote;
mod replayed;
mod resized;
#[path = "../../crates/cli/tests/common/schemas.rs"]
mod schemas;
mod scrubbed;
mod server;
mod several;
mod snapshots;
mod status;
#[cfg(feature = "tls")]
mod tls;
mod tools;
mod unaligned;

use std::path::Path;

use server::{KINDS, Server, client, serve, skipped, succeeds, volume};

const MIB: usize = 1 << 20;

/// A file of `bytes` bytes.
fn sparse(path: &Path, bytes: u64) {
    std::fs::File::create(path).unwrap().set_len(bytes).unwrap();
}

/// Bytes that look like data, and are the same every time.
fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed * 2 + 1;
    let word = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..bytes / 8).flat_map(word).collect()
}

/// A file, memory, a mapper over a file and BORG over memory, each as an export; on both kinds. No request fails.
fn on_all(test: impl Fn(&Server, &str)) {
    on_some(test, true);
}

/// As above; with requests that fail, unless all are `good`.
fn on_some(test: impl Fn(&Server, &str), good: bool) {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        sparse(&folder.join("disk.img"), 64 * MIB as u64);
        sparse(&folder.join("slots.img"), 96 * MIB as u64);
        let components = "
            [component.disk]
            file = \"disk.img\"
            [component.memory]
            ram = \"64MiB\"
            [component.slots]
            file = \"slots.img\"
            [layer.mapper]
            over = \"slots\"
            [component.fast]
            ram = \"96MiB\"
            [slice.home]
            of = \"fast\"
            size = \"64MiB\"
            [slice.bopt]
            of = \"fast\"
            at = \"64MiB\"
            [layer.borg]
            over = \"home\"
            bopt = \"bopt\"
        ";
        let exports = ["disk", "memory", "mapper", "borg"];
        volume(folder, components, &exports.map(|top| (top, "")));
        let Some(server) = Server::start(folder, kind) else { continue };
        for export in exports {
            test(&server, &server.uri(export));
        }
        let last = server.stop();
        assert!(!good || last.contains(", 0 of them with an error"), "{last}");
    }
}

#[test]
fn nbdinfo_finds_every_export_and_what_it_can() {
    on_all(|_, uri| {
        let Some(said) = succeeds("nbdinfo", &[uri]) else { return };
        for line in [
            "can_fua: true",
            "can_multi_conn: true",
            "can_zero: true",
            "block_size_minimum: 1",
            "base:allocation",
        ] {
            assert!(said.contains(line), "{uri}: no '{line}' in\n{said}");
        }
        let Some(said) = succeeds("nbdinfo", &["--list", uri]) else { return };
        for export in ["disk", "memory", "mapper", "borg"] {
            assert!(said.contains(&format!("export=\"{export}\"")), "{said}");
        }
    });
}

#[test]
fn nbdcopy_gets_back_what_it_put_in() {
    on_all(|server, uri| {
        let (source, target) = (server.folder.join("source"), server.folder.join("target"));
        std::fs::write(&source, noise(40 * MIB, 7)).unwrap();
        if succeeds("nbdcopy", &["--flush", &source.display().to_string(), uri]).is_none() {
            return;
        }
        succeeds("nbdcopy", &[uri, &target.display().to_string()]);
        let copied = std::fs::read(&target).unwrap();
        assert!(copied[..40 * MIB] == std::fs::read(&source).unwrap(), "{uri}");
    });
}

#[test]
fn qemu_io_writes_reads_zeroes_and_discards() {
    on_all(|_, uri| {
        let commands = [
            "write -P 7 0 1M",
            "write -f -P 9 1M 4k",
            "read -P 7 0 1M",
            "read -P 9 1M 4k",
            "write -z 512k 64k",
            "write -z -u 640k 64k",
            "read -P 0 512k 64k",
            "read -P 0 640k 64k",
            "aio_write -P 3 2M 1M",
            "aio_write -P 4 8M 8M",
            "aio_read -P 7 64k 64k",
            "aio_flush",
            "read -P 4 8M 8M",
            "discard 0 64k",
            "write -P 5 512 1536",
            "read -P 5 512 1536",
            "flush",
        ];
        let arguments = commands.iter().flat_map(|command| ["-c", command]);
        let arguments: Vec<&str> = ["-f", "raw"].into_iter().chain(arguments).chain([uri]).collect();
        let Some(said) = succeeds("qemu-io", &arguments) else { return };
        assert!(!said.contains("failed"), "{uri}: {said}");
    });
}

#[test]
fn qemu_img_converts_compares_and_maps() {
    on_all(|server, uri| {
        let source = server.folder.join("source");
        let mut bytes = noise(64 * MIB, 11);
        bytes[8 * MIB..40 * MIB].fill(0);
        std::fs::write(&source, bytes).unwrap();
        let source = source.display().to_string();
        let convert = ["convert", "-n", "-f", "raw", "-O", "raw", &source, uri];
        if succeeds("qemu-img", &convert).is_none() {
            return;
        }
        let said = succeeds("qemu-img", &["compare", "-f", "raw", "-F", "raw", &source, uri]).unwrap();
        assert!(said.contains("identical"), "{said}");
        let said = succeeds("qemu-img", &["map", "-f", "raw", "--output=json", uri]).unwrap();
        assert!(said.contains("\"start\": 0"), "{said}");
        succeeds("qemu-img", &["bench", "-f", "raw", "-c", "2000", "-d", "16", "-w", uri]);
    });
}

#[test]
fn fio_verifies_what_it_wrote() {
    let Some(known) = succeeds("fio", &["--enghelp"]) else { return };
    if !known.contains("nbd") {
        return skipped("fio", "it has no engine for NBD");
    }
    on_all(|server, uri| {
        let uri = format!("--uri={uri}");
        let arguments = [
            "--name=v",
            "--ioengine=nbd",
            &uri,
            "--rw=randrw",
            "--rwmixread=30",
            "--bsrange=4k-64k",
            "--size=32M",
            "--iodepth=32",
            "--verify=crc32c",
            "--verify_fatal=1",
            "--randseed=3",
        ];
        // It leaves a file behind where it runs.
        let state = format!("--aux-path={}", server.folder.display());
        let said = succeeds("fio", &[&arguments[..], &[&state]].concat()).unwrap();
        assert!(said.contains("err= 0"), "{said}");
    });
}

/// Runs nbdsh with a handle on an export; the first python on the path may lack its module, the system's python has it.
fn nbdsh(uri: &str, script: &str) -> Option<()> {
    let mut command = std::process::Command::new("nbdsh");
    command.env("PATH", "/usr/bin:/bin:/usr/local/bin").args(["-c", &format!("uri = {uri:?}\n{script}")]);
    let output = match command.stdin(std::process::Stdio::null()).output() {
        Ok(output) => output,
        Err(error) => {
            skipped("nbdsh", &error.to_string());
            return None;
        }
    };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.contains("No module named") {
        skipped("nbdsh", &said);
        return None;
    }
    assert!(output.status.success(), "{uri}: {said}");
    Some(())
}

#[test]
fn nbdsh_reads_writes_and_asks_in_all_ways() {
    on_some(|_, uri| nbdsh(uri, include_str!("nbdsh.py")).map_or((), drop), false);
}

#[test]
fn clients_start_a_server_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    volume(folder.path(), "[component.m]\nram = \"8MiB\"\n", &[("m", "")]);
    let file = folder.path().join("volume.toml").display().to_string();
    let program = env!("CARGO_BIN_EXE_seekless");
    for kind in KINDS {
        let all = ["--size", "--", "[", program, "volume", "serve", "--io", kind, &file, "]"];
        let Some(output) = client("nbdinfo", &all) else { return };
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if kind == "io_uring" && said.contains("error: io:") {
            skipped(kind, &said);
            continue;
        }
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "8388608", "{said}");
        assert!(!folder.path().join("socket").exists(), "it listens at what it was given");
    }
}

#[test]
fn nbd_client_lists_the_exports_of_a_port() {
    let folder = tempfile::tempdir().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let text = format!(
        "[component.m]\nram = \"1MiB\"\n[[export]]\ntop = \"m\"\nname = \"first\"\nnbd = \"tcp:127.0.0.1:{port}\"\n\
         [[export]]\ntop = \"m\"\nname = \"second\"\nread_only = true\nnbd = \"tcp:127.0.0.1:{port}\"\n"
    );
    std::fs::write(folder.path().join("volume.toml"), text).unwrap();
    for kind in KINDS {
        let Some(server) = Server::start(folder.path(), kind) else { continue };
        if let Some(said) = succeeds("nbd-client", &["-l", "127.0.0.1", &port.to_string()]) {
            assert!(said.contains("first") && said.contains("second"), "{said}");
        }
        let uri = format!("nbd://127.0.0.1:{port}/second");
        if let Some(refused) = client("qemu-io", &["-f", "raw", "-c", "write 0 4k", &uri]) {
            assert!(!refused.status.success(), "it is read-only");
        }
        server.stop();
    }
}

#[test]
fn what_is_wrong_is_reported_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    sparse(&folder.join("disk.img"), MIB as u64);
    sparse(&folder.join("odd.img"), 1000);
    let export = "[[export]]\ntop = \"disk\"\nnbd = \"unix:socket\"\n";
    let disk = "[component.disk]\nfile = \"disk.img\"\n";
    let cases = [
        (
            format!("[component.disk]\nfile = \"none.img\"\n{export}"),
            ["component.disk.file", "none.img: No such file"],
        ),
        (format!("[component.disk]\nfile = \"odd.img\"\n{export}"), ["component.disk.file", "1000 bytes"]),
        (
            format!("[component.disk]\nfile = \".\"\n{export}"),
            ["component.disk.file", "neither a file nor a block device"],
        ),
        (format!("[component.disk]\n{export}"), ["component.disk", "neither file nor ram nor nbd"]),
        (
            format!("[component.disk]\ndrive = \"wd2500aaks\"\n{export}"),
            ["component.disk.drive", "emulate = \"wd2500aaks\""],
        ),
        (
            format!("[component.disk]\nnbd = \"nbd+unix:///x?socket=/none\"\n{export}"),
            ["component.disk.nbd", "No such file"],
        ),
        (format!("[component.disk]\nnbd = \"http://x\"\n{export}"), ["component.disk.nbd", "nbd://HOST"]),
        (format!("[component.disk]\nram = \"1001\"\n{export}"), ["component.disk.ram", "'1001'"]),
        (
            format!("[component.disk]\nfiel = \"disk.img\"\n{export}"),
            ["unknown field `fiel`", "perhaps `file`"],
        ),
        (
            format!("tls = {{ certificate = \"none.pem\", key = \"k\", clients = \"c\" }}\n{disk}{export}"),
            [
                "tls.certificate",
                if cfg!(feature = "tls") { "No such file" } else { "without the feature tls" },
            ],
        ),
        (
            format!("tls = {{ certificat = \"a\", key = \"b\", clients = \"c\" }}\n{disk}{export}"),
            ["unknown field `certificat`", "perhaps `certificate`"],
        ),
        (format!("clients = 0\n{disk}{export}"), ["volume.toml", "nonzero"]),
        (
            format!("{disk}[component.far]\nram = \"1MiB\"\nreconnect = \"3s\"\n{export}"),
            ["component.far.reconnect", "another server's export only"],
        ),
        (format!("{disk}[component.same]\nfile = \"disk.img\"\n{export}"), ["component.same.file", "in use"]),
        (format!("{disk}[[export]]\ntop = \"disk\"\n"), ["export.disk", "found no nbd"]),
        (format!("{disk}[[export]]\ntop = \"other\"\n"), ["export.top", "'other'"]),
        (format!("{disk}{export}{export}"), ["export.disk", "two exports of this name"]),
        (format!("{disk}[[export]]\ntop = \"disk\"\nnbd = \"here\"\n"), ["export.disk.nbd", "'here'"]),
        (
            format!("{disk}[[export]]\ntop = \"disk\"\nnbd = \"tcp:0.0.0.0:0\"\n"),
            ["0.0.0.0", "--allow-plain-tcp"],
        ),
        (
            format!(
                "{disk}[layer.mapper]\nover = \"disk\"\nsize = \"2MiB\"\n{}",
                export.replace("disk", "mapper")
            ),
            ["layer.mapper", "2"],
        ),
    ];
    for (text, words) in cases {
        std::fs::write(folder.join("volume.toml"), &text).unwrap();
        let output = serve(folder, "threads").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{text}\n{said}");
        for word in words {
            assert!(said.contains(word), "no '{word}' for\n{text}\n{said}");
        }
    }
}

#[test]
fn one_component_is_in_one_volume() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    sparse(&folder.join("disk.img"), MIB as u64);
    volume(folder, "[component.disk]\nfile = \"disk.img\"\n", &[("disk", "")]);
    let server = Server::start(folder, "threads").unwrap();
    let output = serve(folder, "threads").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("in use"), "{said}");
    // Nor another volume that has the same file by another name.
    let other = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(folder.join("disk.img"), other.path().join("mine.img")).unwrap();
    volume(other.path(), "[component.mine]\nfile = \"mine.img\"\n", &[("mine", "")]);
    let output = serve(other.path(), "threads").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && said.contains("component.mine.file") && said.contains("in use"),
        "{said}"
    );
    assert!(folder.join("socket").exists(), "the first one's socket stays");
    server.kill();
    let server =
        Server::start(folder, "threads").expect("a dead server's lock and socket are in nobody's way");
    server.stop();
}

#[test]
fn sockets_are_sought_beside_the_volume_file_and_serving_is_said_when_they_listen() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let export =
        |name: &str, at: &str| format!("[[export]]\ntop = \"m\"\nname = \"{name}\"\nnbd = \"unix:{at}\"\n");
    let text = |second: &str| {
        let exports = export("one", "socket") + &export("two", second);
        format!("control = \"asked\"\n[component.m]\nram = \"1MiB\"\n{exports}")
    };
    for kind in KINDS {
        std::fs::write(folder.join("volume.toml"), text("other")).unwrap();
        let Some(server) = Server::start(folder, kind) else { continue };
        assert!(["socket", "other", "asked"].iter().all(|name| folder.join(name).exists()), "{kind}");
        let file = folder.join("volume.toml").display().to_string();
        succeeds(env!("CARGO_BIN_EXE_seekless"), &["volume", "status", &file]).unwrap();
        server.stop();
        // An address that cannot be listened on: nothing is reported as served there.
        std::fs::write(folder.join("volume.toml"), text("no/such/folder")).unwrap();
        let output = serve(folder, kind).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("serving one"), "{kind}: {said}");
        assert!(!said.contains("serving two") && said.contains("no/such/folder"), "{kind}: {said}");
    }
}
