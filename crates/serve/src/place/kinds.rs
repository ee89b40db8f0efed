//! Kinds of block devices by their folder in sysfs: disks, and what only looks like one.

use std::path::Path;

use crate::admit::text;

/// What a device is that is no partition.
pub enum Kind {
    /// A loop device.
    Loop,
    /// Made of other devices, by this.
    Over(String),
    /// A disk: its maker and model number; and why a place on it says nothing about a real one, if so.
    Disk(String, Option<String>),
}

/// Words of the identity of disks that a hypervisor makes.
const HYPERVISORS: [&str; 12] = [
    "QEMU",
    "VMWARE",
    "VBOX",
    "MSFT",
    "AMAZON E",
    "GOOGLE",
    "NVME_CARD",
    "XEN",
    "BOCHS",
    "PARALLELS",
    "VIRTUAL HD",
    "BHYVE",
];

/// Words of the identity of volumes that a RAID controller or a storage server makes.
const CONTROLLERS: [&str; 13] = [
    "RAID",
    "PERC",
    "LOGICAL VOLUME",
    "VIRTUAL DISK",
    "MR9",
    "AVAGO",
    "LSI ",
    "LIO-ORG",
    "IET ",
    "SYNOLOGY",
    "NETAPP",
    "EQLOGIC",
    "TRUENAS",
];

/// The kernel's name of a device.
pub fn name(folder: &Path) -> String {
    folder.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// What the device of this folder is.
pub fn of(folder: &Path) -> Kind {
    if folder.join("loop").is_dir() {
        return Kind::Loop;
    }
    if folder.join("dm").is_dir() {
        return Kind::Over(mapper(&text(&folder.join("dm/uuid")).unwrap_or_default()));
    }
    if folder.join("md").is_dir() {
        return Kind::Over(format!("RAID ({})", name(folder)));
    }
    if folder.join("bcache").is_dir() {
        return Kind::Over("bcache".to_owned());
    }
    let of = |attribute: &str| text(&folder.join("device").join(attribute));
    // Another word than "ATA" for the maker is part of the identity.
    let maker = of("vendor").filter(|maker| maker != "ATA" && !maker.starts_with("0x"));
    let identity: Vec<String> = maker.into_iter().chain(of("model")).collect();
    let identity = identity.join(" ");
    let why_not = not_real(folder, &identity);
    Kind::Disk(identity, why_not)
}

/// What a mapped device with this identity is made by.
fn mapper(uuid: &str) -> String {
    let by = [("LVM-", "LVM"), ("CRYPT-", "an encrypted device"), ("mpath-", "multipath")];
    let by = by.iter().find(|(prefix, _)| uuid.starts_with(prefix));
    by.map_or_else(|| "the device mapper".to_owned(), |(_, what)| format!("{what} (device mapper)"))
}

/// Why what looks like a disk is none that a drive's model fits, if so.
fn not_real(folder: &Path, identity: &str) -> Option<String> {
    let name = name(folder);
    let among = |words: &[&str]| {
        let identity = identity.to_uppercase() + " ";
        words.iter().any(|word| identity.contains(word))
    };
    let below = |prefixes: &[&str]| {
        folder.components().any(|part| {
            let part = part.as_os_str().to_string_lossy().to_lowercase();
            prefixes.iter().any(|prefix| part.starts_with(prefix))
        })
    };
    // The drivers of virtio, Xen and Hyper-V.
    let virtual_bus = below(&["virtio", "vbd-", "vmbus"]) || name.starts_with("xvd");
    if virtual_bus || among(&HYPERVISORS) {
        return Some("a disk of a virtual machine".to_owned());
    }
    if below(&["session"]) {
        return Some("a disk of another machine (iSCSI)".to_owned());
    }
    if among(&CONTROLLERS) {
        return Some(format!("a volume of a RAID controller or storage server ({})", identity.trim()));
    }
    let parts: Vec<_> = folder.components().map(|part| part.as_os_str().to_string_lossy()).collect();
    let is_virtual = parts.windows(2).any(|pair| pair == ["virtual", "block"]);
    is_virtual.then(|| format!("no disk but a device of the kernel ({name})"))
}
