//! Sectors of clients that a volume is working on: what its components are reading and writing, by the stamps in it, so
//! that no layer has to tell. In some runs clients send requests there, which then meet moves, repairs, drains and
//! updates of their neighbours; requests to sectors drawn beforehand rarely do.

use seekless_core::{Class, Extent, Lba, PAGE_SECTORS};

use super::image::Content;
use crate::check::SectorContent;

/// Sectors that are kept of each kind of work.
const KEPT: usize = 8;

/// The last sectors of some kind of work, in no order.
#[derive(Debug, Default)]
struct Last {
    sectors: [Option<u64>; KEPT],
    next: usize,
}

impl Last {
    fn add(&mut self, sector: u64) {
        self.sectors[self.next % KEPT] = Some(sector);
        self.next += 1;
    }

    fn any(&self, draw: u64) -> Option<u64> {
        self.sectors[draw as usize % KEPT].or(self.sectors[0])
    }
}

/// See the file's header.
#[derive(Debug, Default)]
pub struct AtWork {
    background: Last,
    foreground: Last,
    /// Of requests of clients that failed: they may still be carried out.
    failed: Last,
}

impl AtWork {
    /// Notes a request to a component; `content` is of one of its sectors.
    pub fn note(&mut self, class: Class, content: &Content) {
        let Content::Stamp(bytes) = content else { return };
        let SectorContent::Stamp(stamp) = SectorContent::of(bytes) else { return };
        let last = if class > Class::Foreground { &mut self.background } else { &mut self.foreground };
        last.add(stamp.sector);
    }

    /// Notes a request of a client that failed, one of its sectors: another one each time.
    pub fn note_failed(&mut self, at: Extent) {
        self.failed.add(at.start.0 + self.failed.next as u64 * 7 % at.sectors.max(1));
    }

    /// The extent of a request moved to a page at work, on a volume of `sectors` sectors: mostly of background work, or
    /// to one of a request that failed.
    pub fn meet(&self, at: Extent, draw: u64, sectors: u64) -> Extent {
        let foreground = || self.foreground.any(draw / 4);
        let failed = self.failed.any(draw / 4).filter(|_| draw % 2 == 1);
        let found = match draw % 4 {
            _ if failed.is_some() => failed,
            0 => foreground(),
            _ => self.background.any(draw / 4).or_else(foreground),
        };
        let Some(found) = found.filter(|sector| *sector < sectors) else { return at };
        let start = found - found % PAGE_SECTORS + at.start.0 % PAGE_SECTORS;
        let start = start.min(sectors - 1);
        Extent { start: Lba(start), sectors: at.sectors.min(sectors - start) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check;

    #[test]
    fn a_request_goes_to_a_page_at_work_and_fits_the_volume() {
        let mut work = AtWork::default();
        let at = Extent::new(3, 8);
        assert_eq!(work.meet(at, 5, 100), at);
        let content = |sector| Content::of_buffer(&check::stamped(Extent::new(sector, 1), 7)).remove(0);
        work.note(Class::Foreground, &content(17));
        assert_eq!(work.meet(at, 5, 100), Extent::new(19, 8));
        work.note(Class::Background, &content(90));
        assert_eq!(work.meet(at, 5, 100), Extent::new(91, 8));
        assert_eq!(work.meet(at, 5, 94), Extent::new(91, 3));
        assert_eq!(work.meet(at, 4, 100), Extent::new(19, 8));
        // Sectors of another layer's addresses, behind the end.
        assert_eq!(work.meet(at, 5, 50), at);
        work.note_failed(Extent::new(32, 16));
        assert_eq!(work.meet(at, 5, 100), Extent::new(35, 8));
        assert_eq!(work.meet(at, 4, 100), Extent::new(19, 8));
    }
}
