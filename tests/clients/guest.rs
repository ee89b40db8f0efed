//! A real virtual machine: QEMU without acceleration, a kernel of Debian, and a file system on a volume, over
//! vhost-user and over NBD, while layers come and go and the server is killed.
//!
//! `scripts/clients` unpacks the kernel and its modules. The rest is this machine's: busybox and e2fsprogs.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::attached::done;
use crate::server::{Server, skipped, volume};
use crate::sparse;

/// What the kernel may have as modules, in an order in which they load; it has built in what is not in the folder.
const MODULES: &[&str] = &[
    "virtio_ring",
    "virtio",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "virtio_blk",
    "crc16",
    "crc32c_generic",
    "mbcache",
    "jbd2",
    "ext4",
];

/// Where `scripts/clients` puts the kernel and its modules.
fn kernel() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    Some(cache.join("seekless/guest")).filter(|folder| folder.join("vmlinuz").exists())
}

/// A file system in memory for the kernel, in the format of cpio ("newc").
#[derive(Default)]
struct Archive(Vec<u8>);

impl Archive {
    fn add(&mut self, name: &str, mode: u32, bytes: &[u8]) {
        let inode = self.0.len() as u32;
        let length = name.len() as u32 + 1;
        let fields = [inode, mode, 0, 0, 1, 0, bytes.len() as u32, 0, 0, 0, 0, length, 0];
        self.0.extend(b"070701");
        for field in fields {
            self.0.extend(format!("{field:08X}").bytes());
        }
        self.0.extend(format!("{name}\0").bytes());
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self.0.extend(bytes);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    fn folders(&mut self, path: &str) {
        for (end, _) in path.match_indices('/') {
            self.add(&path[..end], 0o040_755, &[]);
        }
    }

    /// A file of this machine at the same place, with the libraries that it needs.
    fn program(&mut self, path: &Path) {
        let linked = Command::new("ldd").arg(path).output();
        let linked =
            linked.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        let libraries = linked.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from);
        for file in [path.to_owned()].into_iter().chain(libraries) {
            let name = file.display().to_string().trim_start_matches('/').to_owned();
            self.folders(&name);
            self.add(&name, 0o100_755, &std::fs::read(&file).unwrap());
        }
    }
}

/// The first of these programs that is here.
fn program(names: &[&str]) -> Option<PathBuf> {
    let folders = ["/bin", "/usr/bin", "/sbin", "/usr/sbin"].map(Path::new);
    let all = names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    all.into_iter().find(|path| path.exists())
}

/// The first program of the guest: it loads modules, and then carries out commands from the console.
const INIT: &str = "#!/bin/busybox sh
/bin/busybox mkdir -p /bin /proc /sys /dev /mnt /tmp
/bin/busybox --install -s /bin
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev
for module in MODULES; do [ ! -e /modules/$module.ko ] || insmod /modules/$module.ko; done
stty -echo -F /dev/ttyS0
echo ready
while read -r line; do eval \"$line\" </dev/null; done </dev/ttyS0 >/dev/ttyS0 2>&1
";

/// A running machine; killed when dropped.
struct Guest {
    child: Child,
    lines: Receiver<String>,
}

impl Guest {
    /// Boots one with these disks; `None`, with a message, where something is missing.
    fn boot(folder: &Path, disk: &[&str]) -> Option<Guest> {
        let missing = |what: &str| {
            skipped("a guest", what);
            None
        };
        let Some(kernel) = kernel() else { return missing("no kernel: scripts/clients unpacks one") };
        let Some(busybox) = program(&["busybox"]) else { return missing("no busybox") };
        let (Some(mke2fs), Some(e2fsck)) = (program(&["mke2fs"]), program(&["e2fsck"])) else {
            return missing("no e2fsprogs");
        };
        let mut archive = Archive::default();
        archive.folders("bin/");
        archive.folders("modules/");
        archive.add("bin/busybox", 0o100_755, &std::fs::read(&busybox).unwrap());
        archive.program(&mke2fs);
        archive.program(&e2fsck);
        for module in MODULES {
            if let Ok(bytes) = std::fs::read(kernel.join(format!("{module}.ko"))) {
                archive.add(&format!("modules/{module}.ko"), 0o100_644, &bytes);
            }
        }
        archive.add("init", 0o100_755, INIT.replace("MODULES", &MODULES.join(" ")).as_bytes());
        archive.add("TRAILER!!!", 0, &[]);
        std::fs::write(folder.join("initrd"), archive.0).unwrap();
        let mut command = Command::new("qemu-system-x86_64");
        // Emulated: acceleration within a virtual machine may be slower, or not work.
        command.args(["-accel", "tcg", "-cpu", "max,cx16=off", "-m", "256M", "-smp", "2", "-nodefaults"]);
        command.args(["-no-user-config", "-display", "none", "-serial", "stdio", "-no-reboot"]);
        command.arg("-kernel").arg(kernel.join("vmlinuz")).arg("-initrd").arg(folder.join("initrd"));
        command.args(["-append", "console=ttyS0 quiet panic=-1 random.trust_cpu=on"]).args(disk);
        command.current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped());
        let Ok(mut child) = command.spawn() else { return missing("no qemu-system-x86_64") };
        let (send, lines) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in output.split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).trim_end().to_owned();
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        let mut guest = Guest { child, lines };
        guest.until("ready");
        Some(guest)
    }

    /// The lines until one ends with `end`.
    fn until(&mut self, end: &str) -> Vec<String> {
        let mut before = Vec::new();
        loop {
            match self.lines.recv_timeout(Duration::from_secs(120)) {
                Ok(line) if line.ends_with(end) => return before,
                Ok(line) => before.push(line),
                Err(error) => panic!("no '{end}' ({error}) after {before:#?}"),
            }
        }
    }

    fn send(&mut self, text: &str) {
        self.child.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// Runs a command, which has to succeed; its output.
    fn run(&mut self, command: &str) -> String {
        self.send(&format!("{command} && echo '=done' || echo '=failed'; echo '='end\n"));
        let lines = self.until("=end");
        let (last, output) = lines.split_last().expect("it says how it ended");
        assert!(last.ends_with("=done"), "{command}: {lines:#?}");
        output.join("\n")
    }

    /// Switches it off.
    fn off(mut self) {
        self.send("poweroff -f\n");
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes files and syncs each until the file `stop` appears, beside all that follows.
const WRITER: &str = "(n=0; while [ ! -e /tmp/stop ]; do n=$((n+1)); f=/mnt/w$((n%16)); \
    dd if=/dev/urandom of=$f bs=64k count=4 conv=fsync 2>/dev/null || echo $n >>/tmp/failed; \
    md5sum $f >/tmp/sum.$((n%16)); done; echo $n >/tmp/count) &";

/// A file system in a guest, while BORG comes and goes and servers are killed.
fn file_system_on(disk: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    sparse(&folder.join("disk.img"), 96 << 20);
    sparse(&folder.join("bopt.img"), 32 << 20);
    volume(
        folder,
        "[component.disk]\nfile = \"disk.img\"\n",
        &[("disk", "name = \"disk\"\nvhost = \"unix:machine\"")],
    );
    std::fs::write(folder.join("created"), "").unwrap();
    let mut server = Server::start(folder, "threads").unwrap();
    let Some(mut guest) = Guest::boot(folder, disk) else { return };
    assert_eq!(guest.run("cat /sys/block/vda/queue/write_cache"), "write back");
    if disk.iter().any(|word| word.contains("vhost-user")) {
        assert_eq!(guest.run("ls /sys/block/vda/mq | wc -l").trim(), "2", "both rings are used");
        guest.run("echo 'write through' >/sys/block/vda/cache_type");
        guest.run("dd if=/dev/zero of=/dev/vda bs=64k count=4 oflag=direct 2>/dev/null");
        guest.run("echo 'write back' >/sys/block/vda/cache_type");
        assert_eq!(guest.run("echo $(cat /sys/block/vda/serial)"), "disk");
    }
    let [mke2fs, e2fsck] = ["mke2fs", "e2fsck"].map(|name| program(&[name]).unwrap().display().to_string());
    guest.run(&format!("{mke2fs} -q -t ext4 -F /dev/vda && mount /dev/vda /mnt"));
    guest
        .run("for i in 1 2 3 4 5 6 7 8; do dd if=/dev/urandom of=/mnt/f$i bs=64k count=16 2>/dev/null; done");
    guest.run("md5sum /mnt/f* >/tmp/sums && sync");
    guest.send(&format!("{WRITER}\n"));
    for round in 0..3 {
        done(folder, &["attach", "borg", "--over", "disk", "--device", "bopt=bopt.img"]);
        std::thread::sleep(Duration::from_millis(600));
        server.kill();
        server = Server::start(folder, "threads").unwrap();
        std::thread::sleep(Duration::from_millis(1500));
        if round < 2 {
            done(folder, &["detach", "borg"]);
        }
    }
    guest.run("touch /tmp/stop; wait; [ ! -e /tmp/failed ]");
    let count: u64 = guest.run("cat /tmp/count").trim().parse().unwrap();
    assert!(count > 5, "only {count} files were written meanwhile");
    guest.run("umount /mnt && echo 3 >/proc/sys/vm/drop_caches && mount /dev/vda /mnt");
    let checked = guest.run("cat /tmp/sums /tmp/sum.* | md5sum -c");
    assert!(checked.lines().count() > 8 && checked.lines().all(|line| line.ends_with(": OK")), "{checked}");
    assert!(guest.run("rm /mnt/f1 /mnt/f2 && sync && fstrim -v /mnt").contains("trimmed"));
    guest.run(&format!("umount /mnt && {e2fsck} -f -n /dev/vda"));
    assert_eq!(guest.run("dmesg | grep -c 'I/O error' || true").trim(), "0");
    done(folder, &["detach", "borg"]);
    guest.run(&format!("{e2fsck} -f -n /dev/vda"));
    guest.off();
    server.stop();
    // The file alone, without a server or a layer, is what the guest had.
    let checked = Command::new(&e2fsck).args(["-f", "-n"]).arg(folder.join("disk.img")).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}

#[cfg(feature = "vhost")]
#[test]
fn a_guest_keeps_a_file_system_over_vhost_user() {
    file_system_on(&[
        "-object",
        "memory-backend-memfd,id=memory,size=256M,share=on",
        "-numa",
        "node,memdev=memory",
        "-chardev",
        "socket,id=disk,path=machine,reconnect=1",
        "-device",
        "vhost-user-blk-pci,chardev=disk,num-queues=2",
    ]);
}

#[test]
fn a_guest_keeps_a_file_system_over_nbd() {
    file_system_on(&[
        "-blockdev",
        "driver=nbd,node-name=disk,server.type=unix,server.path=socket,export=disk,reconnect-delay=60,discard=unmap",
        "-device",
        "virtio-blk-pci,drive=disk,num-queues=2",
    ]);
}
