//! Damage to a BOPT, by name: for tests of the tools, and for exercises.
//!
//! Each kind is placed where it matters most in the BOPT that is found: a map page is that of a segment with dirty
//! pages, a batch is the last one.

use std::rc::Rc;

use seekless_core::names::perhaps;
use seekless_core::{BlockDevice, Buffer, ErrorKind, Extent, Hints, IoError, PAGE_SECTORS};

use super::examined::examined;
use super::store::format::{BatchHeader, PAGE, SUPER_2, sealed};
use super::{Borg, Options};
use crate::durable::region;
use crate::durable::sector::Part;
use crate::registry::Below;

/// Names and descriptions.
pub const KINDS: &[(&str, &str)] = &[
    ("super-newer", "a flipped bit in the current super page"),
    ("super-older", "a flipped bit in the other super page"),
    ("super-both", "a flipped bit in each super page"),
    ("super-torn", "the current super page is half written"),
    ("super-sector", "zeroes in place of a sector of the current super page"),
    ("super-zeroes", "zeroes in place of both super pages"),
    ("super-version", "super pages of a later version"),
    ("super-foreign", "super pages of another BOPT"),
    ("signature", "a file system's signature over the super pages"),
    ("map-newer", "a flipped bit in a current map page"),
    ("map-older", "a flipped bit in the other copy of a map page"),
    ("map-both", "a flipped bit in each copy of a map page"),
    ("map-torn", "a current map page is half written"),
    ("map-sector", "zeroes in place of a sector of a current map page"),
    ("map-zeroes", "zeroes in place of both copies of a map page"),
    ("batch-bit", "a flipped bit in the header of the last batch"),
    ("batch-header", "two damaged sectors in the header of the last batch"),
    ("batch-zeroes", "zeroes in place of the header of the last batch"),
    ("data-bit", "a flipped bit in the data of a dirty page"),
    ("data-page", "other data in place of a dirty page"),
    ("log-segment", "zeroes in place of a segment of the log with dirty pages"),
    ("origin", "the origin is written without the layer, under a dirty page"),
];

/// What is changed.
struct Target<'a> {
    device: &'a dyn BlockDevice,
    borg: Rc<Borg>,
}

/// Damages a BOPT; the place in words.
pub async fn damage(below: &Below, options: Options, kind: &str) -> Result<String, IoError> {
    if !KINDS.iter().any(|(name, _)| *name == kind) {
        let known: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
        let perhaps = perhaps(kind, known.iter().copied());
        return Err(refused(format!("found the damage '{kind}', expected {}{perhaps}", known.join(" or "))));
    }
    let bopt = below.device("bopt")?;
    let target = Target { device: &*bopt, borg: examined(below, options, true).await? };
    let newer = target.borg.store.super_page_at();
    match kind {
        "super-newer" => target.flip(newer, 60 * 8).await,
        "super-older" => target.flip(1 - newer, 60 * 8).await,
        "super-both" => {
            target.flip(0, 60 * 8).await?;
            target.flip(1, 60 * 8).await
        }
        "super-torn" => target.tear(newer, 1 - newer).await,
        "super-sector" => target.zero(Extent { sectors: 1, ..Extent::of_pages(newer, 1) }).await,
        "super-zeroes" => target.zero(Extent::of_pages(0, 2)).await,
        "super-version" => target.change_supers(8, &9_u32.to_le_bytes()).await,
        "super-foreign" => target.change_supers(24, &[0x5a; 16]).await,
        "signature" => target.put(Extent::of_pages(0, 1), 1_080, b"\x53\xef").await,
        "origin" => {
            let page = target.dirty(|_| true)?.0;
            let device = below.one()?;
            let origin = Target { device: &*device, borg: target.borg };
            origin.put(Extent::of_pages(page, 1), 0, &[0xa5; 512]).await
        }
        _ if kind.starts_with("map") => target.map(kind).await,
        _ => target.log(kind).await,
    }
}

fn refused(why: String) -> IoError {
    IoError::new(ErrorKind::Invalid, "borg", None, why)
}

impl Target<'_> {
    /// A dirty page and its slot, the last one of those that `accepts` accepts.
    fn dirty(&self, accepts: impl Fn(u32) -> bool) -> Result<(u64, u32), IoError> {
        let copies = self.borg.store.state().copies;
        let found = copies.into_iter().rev().find(|(slot, _, dirty)| *dirty && accepts(*slot));
        let found = found.map(|(slot, page, _)| (page, slot));
        found.ok_or_else(|| {
            refused("found no dirty page there, expected one: write to the volume first".to_owned())
        })
    }

    async fn map(&self, kind: &str) -> Result<String, IoError> {
        let layout = self.borg.store.layout();
        let [newer, older] = self.borg.store.map_pages_of(layout.segment_of(self.dirty(|_| true)?.1).0);
        match kind {
            "map-newer" => self.flip(newer, 41 * 8).await,
            "map-older" => self.flip(older, 41 * 8).await,
            "map-torn" => self.tear(newer, older).await,
            "map-sector" => self.zero(Extent { sectors: 1, ..Extent::of_pages(newer, 1) }).await,
            "map-zeroes" => {
                self.zero(Extent::of_pages(older, 1)).await?;
                self.zero(Extent::of_pages(newer, 1)).await
            }
            _ => {
                self.flip(older, 41 * 8).await?;
                self.flip(newer, 41 * 8).await
            }
        }
    }

    async fn log(&self, kind: &str) -> Result<String, IoError> {
        let layout = self.borg.store.layout();
        match kind {
            "batch-bit" => self.flip(self.last_batch().await?, 100 * 8).await,
            "batch-header" => {
                let header = self.last_batch().await?;
                self.flip(header, 100 * 8).await?;
                self.flip(header, 600 * 8).await
            }
            "batch-zeroes" => self.zero(Extent::of_pages(self.last_batch().await?, 1)).await,
            "log-segment" => {
                let slots =
                    layout.slots_of(layout.segment_of(self.dirty(|slot| layout.is_logged(slot))?.1).0);
                self.zero(Extent::of_pages(layout.page(slots.start), u64::from(layout.segment))).await
            }
            _ => {
                let page = layout.page(self.dirty(|slot| layout.is_logged(slot))?.1);
                let other = Extent::of_pages(page, 1);
                if kind == "data-bit" {
                    self.flip(page, 7).await
                } else {
                    self.put(other, 0, &[0x77; PAGE]).await
                }
            }
        }
    }

    /// The page with the header of the last batch.
    async fn last_batch(&self) -> Result<u64, IoError> {
        let layout = self.borg.store.layout();
        let first = layout.page(layout.cached_slots());
        let pages = u64::from(layout.write_buffer * layout.segment);
        let bytes = region::read(self.device, Extent::of_pages(first, pages)).await?;
        let identity = self.identity();
        let last = bytes.look(|bytes| {
            let header = |(at, page): (u64, &[u8])| Some((BatchHeader::of_any(at, identity, page)?.0, at));
            (first..).zip(bytes.chunks_exact(PAGE)).filter_map(header).max()
        });
        last.map(|(_, at)| at)
            .ok_or_else(|| refused("found no batch, expected one: write to the volume first".to_owned()))
    }

    /// Flips a bit of a page.
    async fn flip(&self, page: u64, bit: usize) -> Result<String, IoError> {
        let at = Extent::of_pages(page, 1);
        let mut bytes = self.device.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await?.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        self.write(at, bytes).await?;
        Ok(format!("a bit of byte {} of page {page}", bit / 8))
    }

    /// Leaves the first half of a page as it was before its last write: of an earlier generation, with what the other
    /// copy holds.
    async fn tear(&self, page: u64, other: u64) -> Result<String, IoError> {
        let at = |page| Extent { sectors: PAGE_SECTORS / 2, ..Extent::of_pages(page, 1) };
        let read =
            async |at: Extent| self.device.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await;
        let (newer, mut bytes) = (read(at(page)).await?.to_vec(), read(at(other)).await?.to_vec());
        let earlier = Part::generation(&newer).saturating_sub(1);
        let part = if page < 2 { Part::of(SUPER_2, 0) } else { sealed::part_of_map(self.identity()) };
        part.seal(at(page).start, earlier, &mut bytes);
        self.write(at(page), bytes).await?;
        Ok(format!("sectors {}", at(page)))
    }

    fn identity(&self) -> u128 {
        self.borg.store.identity().unwrap_or_default()
    }

    async fn zero(&self, at: Extent) -> Result<String, IoError> {
        self.write(at, vec![0; at.bytes() as usize]).await?;
        Ok(format!("sectors {at}"))
    }

    /// Replaces bytes of a page.
    async fn put(&self, at: Extent, offset: usize, with: &[u8]) -> Result<String, IoError> {
        let mut bytes = self.device.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await?.to_vec();
        bytes[offset..offset + with.len()].copy_from_slice(with);
        self.write(at, bytes).await?;
        Ok(format!("{} bytes from byte {offset} of sectors {at}", with.len()))
    }

    /// Changes bytes in the first sector of both super pages, and seals them again.
    async fn change_supers(&self, offset: usize, with: &[u8]) -> Result<String, IoError> {
        let part = Part::of(SUPER_2, 0);
        for page in 0..2 {
            let at = Extent::of_pages(page, 1);
            let mut bytes =
                self.device.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await?.to_vec();
            bytes[offset..offset + with.len()].copy_from_slice(with);
            part.seal(at.start, Part::generation(&bytes), &mut bytes);
            self.write(at, bytes).await?;
        }
        Ok("both super pages".to_owned())
    }

    async fn write(&self, at: Extent, bytes: Vec<u8>) -> Result<(), IoError> {
        region::write(self.device, at, &Buffer::from_vec(bytes), &Hints::default()).await?;
        self.device.flush(Hints::default()).await
    }
}
