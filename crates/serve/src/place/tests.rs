//! Places in trees of sysfs that the tests make, and of files on the real file system.

use std::io::Write;
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;

use tempfile::TempDir;

use super::*;

/// A folder like `/sys`.
struct Sys(TempDir);

impl Sys {
    fn new() -> Sys {
        Sys(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// A device in this folder, with these files.
    fn device(&self, folder: &str, number: &str, sectors: u64, files: &[(&str, &str)]) {
        let folder = self.path().join("devices").join(folder);
        let size = sectors.to_string();
        for (name, text) in [("dev", number), ("size", &size)].iter().chain(files) {
            let file = folder.join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, format!("{text}\n")).unwrap();
        }
        let numbers = self.path().join("dev/block");
        std::fs::create_dir_all(&numbers).unwrap();
        symlink(&folder, numbers.join(number)).unwrap();
    }

    /// One device is made of another.
    fn below(&self, folder: &str, other: &str) {
        let slaves = self.path().join("devices").join(folder).join("slaves");
        std::fs::create_dir_all(&slaves).unwrap();
        let other = self.path().join("devices").join(other);
        symlink(&other, slaves.join(other.file_name().unwrap())).unwrap();
    }

    fn at(&self, number: &str) -> Located {
        numbered(self.path(), number, DEEPEST)
    }

    fn why(&self, number: &str) -> String {
        match self.at(number).place {
            Place::Unknown(why) => why,
            Place::At(pieces) => panic!("{number} is at {pieces:?}"),
        }
    }
}

const SDA: &str = "pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0/block/sda";

/// A disk of 2 TB with a partition from sector 2,048 on.
fn with_disk() -> Sys {
    let sys = Sys::new();
    let identity =
        [("queue/rotational", "1"), ("device/vendor", "ATA     "), ("device/model", "ST2000DM006-2DM1")];
    sys.device(SDA, "8:0", 3_907_029_168, &identity);
    let partition = [("partition", "1"), ("start", "2048")];
    sys.device(&format!("{SDA}/sda1"), "8:1", 1_000_000, &partition);
    sys
}

fn piece(start: u64, sectors: u64) -> Place {
    Place::At(vec![Piece { start, sectors }])
}

#[test]
fn a_disk_is_at_its_start_and_a_partition_where_it_begins() {
    let sys = with_disk();
    let whole = sys.at("8:0");
    assert_eq!(whole.place, piece(0, 3_907_029_168));
    let disk = DiskProbe {
        number: "8:0".to_owned(),
        name: "sda".to_owned(),
        sectors: 3_907_029_168,
        rotational: true,
        identity: "ST2000DM006-2DM1".to_owned(),
    };
    assert_eq!(whole.disk.as_ref(), Some(&disk));
    assert_eq!(sys.at("8:1"), Located { disk: Some(disk), place: piece(2_048, 1_000_000) });
    assert!(sys.why("8:2").contains("no block device that the kernel shows (8:2)"));
}

#[test]
fn a_partition_past_the_end_of_its_disk_has_no_place() {
    let sys = with_disk();
    let start = [("partition", "2"), ("start", "3907029000")];
    sys.device(&format!("{SDA}/sda2"), "8:2", 169, &start);
    assert!(sys.why("8:2").contains("past its end"));
    sys.device(&format!("{SDA}/sda3"), "8:3", 169, &[("partition", "3"), ("start", "-1")]);
    assert!(sys.why("8:3").contains("does not show"));
}

#[test]
fn a_flash_drive_is_a_disk_that_does_not_turn() {
    let sys = Sys::new();
    let files = [("queue/rotational", "0"), ("device/model", "KINGSTON SKC3000D2048G")];
    sys.device("pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1", "259:0", 100, &files);
    let disk = sys.at("259:0").disk.unwrap();
    assert_eq!((disk.rotational, disk.identity.as_str()), (false, "KINGSTON SKC3000D2048G"));
}

/// A volume that lies on one disk has that disk, and a place on it that is given counts.
#[test]
fn what_is_made_of_others_has_no_place_but_perhaps_one_disk() {
    let sys = with_disk();
    sys.device("virtual/block/dm-0", "253:0", 1_000, &[("dm/uuid", "LVM-abc"), ("dm/name", "vg-lv")]);
    sys.below("virtual/block/dm-0", &format!("{SDA}/sda1"));
    assert_eq!(sys.why("253:0"), "over LVM (device mapper)");
    assert_eq!(sys.at("253:0").disk.unwrap().name, "sda");
    sys.device("virtual/block/dm-1", "253:1", 1_000, &[("dm/uuid", "CRYPT-LUKS2-abc")]);
    sys.below("virtual/block/dm-1", "virtual/block/dm-0");
    assert_eq!(sys.why("253:1"), "over an encrypted device (device mapper)");
    assert_eq!(sys.at("253:1").disk.unwrap().name, "sda");
    sys.device("virtual/block/md0", "9:0", 1_000, &[("md/level", "raid1")]);
    sys.below("virtual/block/md0", &format!("{SDA}/sda1"));
    sys.below("virtual/block/md0", "virtual/block/dm-1");
    assert_eq!((sys.why("9:0").as_str(), sys.at("9:0").disk), ("over RAID (md0)", None));
    sys.device("virtual/block/bcache0", "252:0", 1_000, &[("bcache/dirty_data", "0")]);
    assert_eq!(sys.why("252:0"), "over bcache");
    // Made of itself, which no kernel shows.
    sys.device("virtual/block/dm-2", "253:2", 1_000, &[("dm/uuid", "")]);
    sys.below("virtual/block/dm-2", "virtual/block/dm-2");
    assert_eq!((sys.why("253:2").as_str(), sys.at("253:2").disk), ("over the device mapper", None));
}

#[test]
fn disks_that_are_none_have_a_reason() {
    let sys = Sys::new();
    let guest = "a disk of a virtual machine";
    let host = "pci0000:00/0000:00:05.0/virtio2/host2/target2:0:0/2:0:0:0/block/sdb";
    let all = [
        ("pci0000:00/0000:00:04.0/virtio1/block/vda", "", "", guest),
        (host, "QEMU", "QEMU HARDDISK", guest),
        ("pci0000:00/ata2/host1/target1:0:0/1:0:0:0/block/sdc", "ATA", "VBOX HARDDISK", guest),
        ("pci0000:00/ata3/host3/target3:0:0/3:0:0:0/block/sdd", "VMware", "Virtual disk", guest),
        ("vbd-51712/block/xvda", "", "", guest),
        ("LNXSYSTM:00/VMBUS:01/00/host0/target0:0:0/0:0:0:0/block/sde", "Msft", "Virtual Disk", guest),
        ("pci0000:00/0000:00:1f.0/nvme/nvme1/nvme1n1", "", "Amazon Elastic Block Store", guest),
        (
            "platform/host6/session1/target6:0:0/6:0:0:1/block/sdf",
            "X",
            "Y",
            "a disk of another machine (iSCSI)",
        ),
        (
            "pci0000:00/host7/target7:2:0/7:2:0:0/block/sdg",
            "DELL",
            "PERC H730 Mini",
            "a volume of a RAID controller or storage server (DELL PERC H730 Mini)",
        ),
        ("virtual/block/zram0", "", "", "no disk but a device of the kernel (zram0)"),
        ("virtual/block/nbd3", "", "", "no disk but a device of the kernel (nbd3)"),
    ];
    for (minor, (folder, vendor, model, why)) in all.into_iter().enumerate() {
        let number = format!("300:{minor}");
        let files = [("device/vendor", vendor), ("device/model", model), ("queue/rotational", "1")];
        sys.device(folder, &number, 1_000, &files);
        assert_eq!(sys.why(&number), why, "{folder}");
        assert!(sys.at(&number).disk.is_some(), "{folder}");
    }
}

/// A tree in which the file system of this folder is a partition that begins at sector 2,048.
fn under(folder: &Path) -> Sys {
    let number = std::fs::metadata(folder).unwrap().dev();
    let sys = Sys::new();
    sys.device(SDA, "8:0", u64::MAX >> 10, &[("queue/rotational", "1"), ("device/model", "ST2000DM006")]);
    let number = format!("{}:{}", major(number), minor(number));
    let size = u64::MAX >> 11;
    sys.device(&format!("{SDA}/sda1"), &number, size, &[("partition", "1"), ("start", "2048")]);
    sys
}

/// A folder for files, unless its file system lists no extents.
fn folder_with_extents() -> Option<TempDir> {
    let folder = tempfile::tempdir().unwrap();
    let mut file = tempfile::tempfile_in(folder.path()).unwrap();
    file.write_all(&[1; 4_096]).and_then(|()| file.sync_all()).unwrap();
    let kind = fstatfs(&file).unwrap().f_type as u64;
    let listed = extents::of_file(&file, 8);
    if !ON_ONE_DEVICE.contains(&kind) || listed.is_err() {
        eprintln!("skipped: {} has no ext4 or XFS: {kind:#x}, {listed:?}", folder.path().display());
        return None;
    }
    Some(folder)
}

#[test]
fn a_written_file_is_at_its_extents_behind_the_start_of_its_partition() {
    let Some(folder) = folder_with_extents() else { return };
    let sys = under(folder.path());
    let mut file = File::create_new(folder.path().join("disk.img")).unwrap();
    file.write_all(&vec![1; 1 << 20]).unwrap();
    file.sync_all().unwrap();
    let located = locate(sys.path(), &file, 2_048);
    assert_eq!(located.disk.unwrap().name, "sda");
    let Place::At(pieces) = located.place else { panic!("{:?}", located.place) };
    assert_eq!(pieces.iter().map(|piece| piece.sectors).sum::<u64>(), 2_048);
    let bare = extents::of_file(&file, 2_048).unwrap();
    let shifted = bare.iter().map(|piece| Piece { start: piece.start + 2_048, ..*piece });
    assert_eq!(pieces, shifted.collect::<Vec<_>>());
    // A part of it, in order.
    let tail = part(&pieces, 2_040, 8).unwrap();
    let last = pieces.last().unwrap();
    assert_eq!(tail.last().unwrap().start + tail.last().unwrap().sectors, last.start + last.sectors);
}

#[test]
fn a_file_with_a_hole_has_no_place() {
    let Some(folder) = folder_with_extents() else { return };
    let sys = under(folder.path());
    let file = File::create_new(folder.path().join("disk.img")).unwrap();
    file.set_len(4 << 20).unwrap();
    file.write_all_at(&vec![1; 1 << 20], 1 << 20).unwrap();
    file.sync_all().unwrap();
    let located = locate(sys.path(), &file, 8_192);
    let expected = "a file of which 75.0% have no place on its disk yet (fallocate gives it one)";
    assert_eq!(located.place, Place::Unknown(expected.to_owned()));
    assert_eq!(located.disk.unwrap().name, "sda", "a place that is given counts there");
    assert!(matches!(locate(sys.path(), &file, 8_193).place, Place::Unknown(_)));
}

/// More extents than the kernel lists at once.
#[test]
fn a_file_in_many_extents_has_all_of_them() {
    const BLOCKS: u64 = 1_024;
    let Some(folder) = folder_with_extents() else { return };
    let file = File::create_new(folder.path().join("disk.img")).unwrap();
    let allocated = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, BLOCKS * 4_096);
    if let Err(error) = allocated {
        eprintln!("skipped: no fallocate here: {error}");
        return;
    }
    let first = extents::of_file(&file, BLOCKS * 8).unwrap();
    // Written and unwritten blocks by turns.
    for block in (0..BLOCKS).step_by(2) {
        file.write_all_at(&[1; 4_096], block * 4_096).unwrap();
    }
    file.sync_all().unwrap();
    assert_eq!(extents::of_file(&file, BLOCKS * 8).unwrap(), first);
    let odd = extents::of_file(&file, BLOCKS * 8 - 3).unwrap();
    assert_eq!(odd.iter().map(|piece| piece.sectors).sum::<u64>(), BLOCKS * 8 - 3);
}

#[test]
fn a_loop_device_is_where_its_file_is() {
    let Some(folder) = folder_with_extents() else { return };
    let sys = under(folder.path());
    let path = folder.path().join("disk.img");
    let mut file = File::create_new(&path).unwrap();
    file.write_all(&vec![1; 1 << 20]).unwrap();
    file.sync_all().unwrap();
    let backing = path.to_str().unwrap();
    let of_file = locate(sys.path(), &file, 2_048);
    let Place::At(pieces) = &of_file.place else { panic!("{of_file:?}") };
    for (minor, (offset, place)) in
        [("4096", part(pieces, 8, 1_000)), ("0", part(pieces, 0, 1_000)), ("100", None), ("1048576", None)]
            .into_iter()
            .enumerate()
    {
        let files = [("loop/backing_file", backing), ("loop/offset", offset)];
        let (folder, number) = (format!("virtual/block/loop{minor}"), format!("7:{minor}"));
        sys.device(&folder, &number, 1_000, &files);
        let found = sys.at(&number);
        assert_eq!(found.disk, of_file.disk);
        match place {
            Some(pieces) => assert_eq!(found.place, Place::At(pieces), "{offset}"),
            None => assert!(matches!(found.place, Place::Unknown(_)), "{offset}"),
        }
    }
    sys.device("virtual/block/loop9", "7:9", 1_000, &[("loop/backing_file", "/nowhere (deleted)")]);
    assert!(sys.why("7:9").contains("a loop device over /nowhere (deleted): "));
}
