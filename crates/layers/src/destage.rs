//! Destaging: reads and writes pages in strands, in ascending order.
//!
//! All reads are issued together, then all writes, so that the scheduler of each device can order them; contiguous
//! pages form one request. BORG's movers, comparisons and metadata duplicates use this; the
//! cache and BORG's verifier use [`strands`].
//!
//! Faults: the first error ends it; pages already written stay written.

use rustc_hash::FxHashMap;
use seekless_core::{BlockDevice, Buffer, Extent, Hints, IoError, PAGE_SECTORS};

use crate::join::join_all;

/// Pages of the longest request, 4 MiB: foreground requests may have to wait for it.
const LONGEST: u64 = if cfg!(test) { 3 } else { 1_024 };

/// The strands that pages form: extents in ascending order, none longer than [`LONGEST`].
pub fn strands(pages: impl Iterator<Item = u64>) -> Vec<Extent> {
    let mut sorted: Vec<u64> = pages.collect();
    sorted.sort_unstable();
    sorted.dedup();
    let mut strands: Vec<Extent> = Vec::new();
    for page in sorted {
        match strands.last_mut() {
            Some(last) if last.end().page() == page && last.sectors / PAGE_SECTORS < LONGEST => {
                last.sectors += PAGE_SECTORS;
            }
            _ => strands.push(Extent::of_pages(page, 1)),
        }
    }
    strands
}

/// The part of an extent that a device has: its last page may be cut short.
fn within(device: &dyn BlockDevice, at: Extent) -> Extent {
    Extent { sectors: at.sectors.min(device.geometry().sectors - at.start.0), ..at }
}

/// Pages by number, with their data.
pub type Pages = FxHashMap<u64, Buffer>;

/// Reads pages, each into its own buffer; a page that is cut short by the end of the device is padded.
pub async fn read(
    from: &dyn BlockDevice,
    pages: impl Iterator<Item = u64>,
    buffer: impl Fn(Extent) -> Buffer,
    how: &Hints,
) -> Result<Pages, IoError> {
    read_counted(from, pages, buffer, how, |_| {}).await
}

/// As [`read`]; `done` is called with the number of pages of each strand that was read.
pub async fn read_counted(
    from: &dyn BlockDevice,
    pages: impl Iterator<Item = u64>,
    buffer: impl Fn(Extent) -> Buffer,
    how: &Hints,
    done: impl Fn(u64),
) -> Result<Pages, IoError> {
    let strands = strands(pages);
    let reads = strands.iter().map(async |&strand| {
        let whole = buffer(strand);
        let part = within(from, strand);
        let read = from.read(part, whole.cut_sectors(0, part.sectors), how.clone()).await;
        read.map(|_| whole).inspect(|_| done(strand.page_count()))
    });
    let read: Vec<Buffer> = join_all(reads).await.into_iter().collect::<Result<_, _>>()?;
    let cut = |(strand, whole): (&Extent, Buffer)| {
        let pages = strand.pages().zip((0..).step_by(PAGE_SECTORS as usize));
        pages.map(move |(page, first)| (page, whole.cut_sectors(first, PAGE_SECTORS))).collect::<Vec<_>>()
    };
    Ok(strands.iter().zip(read).flat_map(cut).collect())
}

/// Writes pages by destination.
pub async fn write(to: &dyn BlockDevice, pages: &Pages, how: &Hints) -> Result<(), IoError> {
    write_counted(to, pages, how, |_| {}).await
}

/// As [`write`]; `done` is called with the number of pages of each strand that was written.
pub async fn write_counted(
    to: &dyn BlockDevice,
    pages: &Pages,
    how: &Hints,
    done: impl Fn(u64),
) -> Result<(), IoError> {
    let writes = strands(pages.keys().copied()).into_iter().map(async |strand| {
        let data = Buffer::join(strand.pages().map(|page| pages[&page].clone()));
        let part = within(to, strand);
        let written = to.write(part, data.cut_sectors(0, part.sectors), how.clone()).await;
        written.inspect(|()| done(strand.page_count()))
    });
    join_all(writes).await.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_form_strands() {
        let strands = strands([7, 3, 4, 5, 6, 9].into_iter());
        assert_eq!(strands, [(3, 3), (6, 2), (9, 1)].map(|(first, pages)| Extent::of_pages(first, pages)));
    }
}
