//! What the kernel says of a recorded disk: its model, its size, how it takes requests.
//!
//! Fault: what sysfs lacks, or has in a form that is not expected, is not known.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A disk, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Disk {
    /// Its vendor and model.
    pub model: Option<String>,
    /// Its size in bytes.
    pub size_bytes: Option<u64>,
    /// Whether it turns.
    pub rotational: Option<bool>,
    /// Size in bytes of a block that it addresses.
    pub logical_block_bytes: Option<u64>,
    /// Size in bytes of a block that it writes at once.
    pub physical_block_bytes: Option<u64>,
    /// The kernel's scheduler for it.
    pub scheduler: Option<String>,
    /// Commands that it takes at a time.
    pub queue_depth: Option<u64>,
}

impl Disk {
    /// That of a device whose folder in sysfs this is; of a partition its disk.
    pub fn of(folder: &Path) -> Disk {
        let whole =
            if folder.join("partition").exists() { folder.parent().unwrap_or(folder) } else { folder };
        let text = |name: &str| {
            let text = std::fs::read_to_string(whole.join(name)).ok()?;
            Some(text.trim().to_owned()).filter(|text| !text.is_empty())
        };
        let number = |name: &str| text(name)?.parse::<u64>().ok();
        let vendor = text("device/vendor").filter(|vendor| vendor != "ATA" && !vendor.starts_with("0x"));
        let model =
            text("device/model").map(|model| vendor.into_iter().chain([model]).collect::<Vec<_>>().join(" "));
        Disk {
            model,
            // In sectors of 512 bytes, whatever the disk's blocks are.
            size_bytes: number("size").and_then(|sectors| sectors.checked_mul(512)),
            rotational: number("queue/rotational").map(|turns| turns == 1),
            logical_block_bytes: number("queue/logical_block_size"),
            physical_block_bytes: number("queue/physical_block_size"),
            scheduler: text("queue/scheduler").map(|all| chosen(&all).to_owned()),
            queue_depth: number("device/queue_depth").or_else(|| number("queue/nr_requests")),
        }
    }
}

/// The scheduler in brackets: `none [mq-deadline] kyber`.
fn chosen(all: &str) -> &str {
    let inside = all.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or(all, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn sysfs_is_read_as_far_as_it_goes() {
        let folder = std::env::temp_dir().join(format!("seekless-disk-{}", std::process::id()));
        let part = folder.join("sda1");
        for (name, text) in [
            ("device/vendor", "ATA     \n"),
            ("device/model", "ST2000DM006-2DM1\n"),
            ("device/queue_depth", "32\n"),
            ("size", "3907029168\n"),
            ("queue/rotational", "1\n"),
            ("queue/logical_block_size", "512\n"),
            ("queue/physical_block_size", "many\n"),
            ("queue/scheduler", "none [mq-deadline] kyber\n"),
            ("sda1/partition", "1\n"),
        ] {
            fs::create_dir_all(folder.join(name).parent().unwrap()).unwrap();
            fs::write(folder.join(name), text).unwrap();
        }
        let disk = Disk::of(&part);
        fs::remove_dir_all(&folder).unwrap();
        let expected = Disk {
            model: Some("ST2000DM006-2DM1".to_owned()),
            size_bytes: Some(2_000_398_934_016),
            rotational: Some(true),
            logical_block_bytes: Some(512),
            physical_block_bytes: None,
            scheduler: Some("mq-deadline".to_owned()),
            queue_depth: Some(32),
        };
        assert_eq!(disk, expected);
        assert_eq!(Disk::of(&folder), Disk::default());
        assert_eq!(chosen("none"), "none");
    }
}
