//! The place of a file or block device on its disk, as the kernel reports it: a partition by sysfs, a file by the
//! extents that its file system lists, a loop device by its file.
//!
//! Invariant: sectors have a place only where that of each is known. Fault model: sysfs may lack any file, or have any
//! text; a file system may list any extents. What cannot be found out is a reason in words, not an error.

mod extents;
mod kinds;

use std::fs::{File, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{fstatfs, major, minor};
use seekless_core::SECTOR_BYTES;
use serde::{Deserialize, Serialize};

use crate::admit::text;
use kinds::Kind;

/// Where the kernel shows its devices.
pub const SYS: &str = "/sys";
/// Most devices that lie on each other.
const DEEPEST: u32 = 8;
/// File systems on one block device that list places on it: ext2 to ext4, and XFS.
const ON_ONE_DEVICE: [u64; 2] = [0xef53, 0x5846_5342];

/// Where a file or block device lies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Located {
    /// The one disk that all of it lies on, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskProbe>,
    /// Where it lies there.
    pub place: Place,
}

/// Sectors of a disk, or why they are not known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// Pieces, in the order of what lies on them.
    At(Vec<Piece>),
    /// Why the place is not known, in words.
    Unknown(String),
}

/// Sectors of a disk that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Piece {
    /// First sector.
    pub start: u64,
    /// Number of sectors, above zero.
    pub sectors: u64,
}

/// A disk, as the kernel shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskProbe {
    /// Device number, such as `8:0`.
    pub number: String,
    /// Name of the kernel, such as `sda`.
    pub name: String,
    /// Size in sectors.
    pub sectors: u64,
    /// Whether it reports itself as rotational.
    pub rotational: bool,
    /// Maker and model number as the disk reports them, perhaps cut off; empty without any.
    pub identity: String,
}

impl Located {
    fn unknown(disk: Option<DiskProbe>, why: impl Into<String>) -> Located {
        Located { disk, place: Place::Unknown(why.into()) }
    }

    /// The part of it from sector `start` on.
    fn part(self, start: u64, sectors: u64) -> Located {
        let Place::At(pieces) = &self.place else { return self };
        match part(pieces, start, sectors) {
            Some(pieces) => Located { place: Place::At(pieces), ..self },
            None => Located::unknown(self.disk, "a part of a device that reaches past its end"),
        }
    }
}

/// Sectors `start..start + sectors` of what lies on these pieces; `None` if they reach past the end.
fn part(pieces: &[Piece], start: u64, sectors: u64) -> Option<Vec<Piece>> {
    let (mut from, end, mut first) = (start, start.checked_add(sectors)?, 0_u64);
    let mut found = Vec::new();
    for piece in pieces {
        let last = first.checked_add(piece.sectors)?;
        let until = end.min(last);
        if from < until {
            found.push(Piece { start: piece.start.checked_add(from - first)?, sectors: until - from });
            from = until;
        }
        first = last;
    }
    (end <= first).then_some(found)
}

/// The place of the first `sectors` sectors of an open file or block device; devices are sought in the folder `sys`.
pub fn locate(sys: &Path, file: &File, sectors: u64) -> Located {
    match file.metadata() {
        Ok(metadata) => of(sys, file, &metadata, DEEPEST).part(0, sectors),
        Err(error) => Located::unknown(None, error.to_string()),
    }
}

/// All of an open file or block device.
fn of(sys: &Path, file: &File, metadata: &Metadata, depth: u32) -> Located {
    if metadata.file_type().is_block_device() {
        return device(sys, metadata.rdev(), depth);
    }
    let kind = fstatfs(file).map_or(0, |found| found.f_type as u64);
    if !ON_ONE_DEVICE.contains(&kind) {
        return Located::unknown(
            None,
            "a file whose file system lists no places on a disk (ext4 and XFS do)",
        );
    }
    let below = device(sys, metadata.dev(), depth);
    let Place::At(pieces) = &below.place else { return below };
    match extents::of_file(file, metadata.len() / SECTOR_BYTES) {
        Ok(extents) => {
            let found: Option<Vec<_>> = extents.iter().map(|at| part(pieces, at.start, at.sectors)).collect();
            match found {
                Some(found) => Located { place: Place::At(found.concat()), ..below },
                None => Located::unknown(below.disk, "a file with extents past the end of its device"),
            }
        }
        Err(why) => Located::unknown(below.disk, why),
    }
}

/// All of the block device of this number.
fn device(sys: &Path, device: u64, depth: u32) -> Located {
    numbered(sys, &format!("{}:{}", major(device), minor(device)), depth)
}

/// All of the block device of this number, as text.
fn numbered(sys: &Path, number: &str, depth: u32) -> Located {
    let Some(depth) = depth.checked_sub(1) else {
        return Located::unknown(None, "on devices that lie on each other too often");
    };
    let Ok(folder) = sys.join("dev/block").join(number).canonicalize() else {
        return Located::unknown(None, format!("on no block device that the kernel shows ({number})"));
    };
    if !folder.join("partition").exists() {
        return whole(sys, &folder, number, depth);
    }
    let value = |name: &str| text(&folder.join(name))?.parse::<u64>().ok();
    let disk = folder.parent().and_then(|parent| Some((parent, text(&parent.join("dev"))?)));
    match (disk, value("start"), value("size")) {
        (Some((parent, number)), Some(start), Some(sectors)) => {
            whole(sys, parent, &number, depth).part(start, sectors)
        }
        _ => Located::unknown(None, "a partition whose start the kernel does not show"),
    }
}

/// All of a device that is no partition.
fn whole(sys: &Path, folder: &Path, number: &str, depth: u32) -> Located {
    match kinds::of(folder) {
        Kind::Loop => of_loop(sys, folder, depth),
        Kind::Over(what) => {
            let disk = only_below(folder).and_then(|below| numbered(sys, &below, depth).disk);
            Located::unknown(disk, format!("over {what}"))
        }
        Kind::Disk(identity, why_not) => {
            let value = |name: &str| text(&folder.join(name))?.parse::<u64>().ok();
            let sectors = value("size").unwrap_or(0);
            let disk = DiskProbe {
                number: number.to_owned(),
                name: kinds::name(folder),
                sectors,
                rotational: value("queue/rotational") == Some(1),
                identity,
            };
            match why_not {
                Some(why) => Located::unknown(Some(disk), why),
                None if sectors == 0 => Located::unknown(Some(disk), "a disk without a size"),
                None => Located { disk: Some(disk), place: Place::At(vec![Piece { start: 0, sectors }]) },
            }
        }
    }
}

/// Number of the only device below one that is made of others.
fn only_below(folder: &Path) -> Option<String> {
    let mut below = std::fs::read_dir(folder.join("slaves")).ok()?;
    let only = below.next()?.ok()?.path();
    below.next().is_none().then(|| text(&only.join("dev")))?
}

/// All of a loop device.
fn of_loop(sys: &Path, folder: &Path, depth: u32) -> Located {
    let attribute = |name: &str| text(&folder.join(name));
    let number = |name: &str| attribute(name)?.parse::<u64>().ok();
    let (Some(path), Some(sectors)) = (attribute("loop/backing_file").map(PathBuf::from), number("size"))
    else {
        return Located::unknown(None, "a loop device without a file");
    };
    let offset = number("loop/offset").unwrap_or(0);
    // A device is not opened: that would wake it up.
    let below = match std::fs::metadata(&path) {
        Ok(metadata) if metadata.file_type().is_block_device() => Ok(device(sys, metadata.rdev(), depth)),
        Ok(metadata) => File::open(&path).map(|file| of(sys, &file, &metadata, depth)),
        Err(error) => Err(error),
    };
    match below {
        Ok(below) if offset % SECTOR_BYTES == 0 => below.part(offset / SECTOR_BYTES, sectors),
        Ok(below) => Located::unknown(below.disk, "a loop device that begins within a sector"),
        Err(error) => Located::unknown(None, format!("a loop device over {}: {error}", path.display())),
    }
}

#[cfg(test)]
mod tests;
