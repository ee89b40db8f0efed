//! Weak sectors of a component: reads that verify find them bad, others read them well.
//!
//! Fault model: a verifying read finds one of its sectors weak, at random, from then on until it is written. A layer
//! repairs such a sector by writing what it held. If that write was answered and a power cut loses it, the sector
//! cannot be read any more: a repair counts only once it is durable.

use std::cell::RefCell;
use std::collections::BTreeSet;

use seekless_core::Extent;
use seekless_core::runtime::Rng;

use super::image::{Content, Image};

/// The weak sectors of a component.
#[derive(Default)]
pub struct WeakSectors(RefCell<BTreeSet<u64>>);

impl WeakSectors {
    /// The first weak sector that a verifying read finds, if any; in one read of `one_in` there is a new one.
    pub fn found(&self, at: Extent, one_in: u64, rng: &mut Rng) -> Option<u64> {
        let weak = &mut *self.0.borrow_mut();
        if one_in > 0 && rng.chance(1, one_in) {
            weak.insert(at.start.0 + rng.below(at.sectors));
        }
        weak.range(at.start.0..at.end().0).next().copied()
    }

    /// Notes a write, and returns the sectors that it repairs, counted from its first: weak ones of a client's data
    /// that keep their content.
    pub fn written(&self, at: Extent, contents: &[Content], image: &Image) -> Vec<usize> {
        let weak = &mut *self.0.borrow_mut();
        let here: Vec<u64> = weak.range(at.start.0..at.end().0).copied().collect();
        weak.retain(|sector| !here.contains(sector));
        let same = |index: &usize| {
            matches!(contents[*index], Content::Stamp(_))
                && image.content(at.start.0 + *index as u64) == Some(&contents[*index])
        };
        here.into_iter().map(|sector| (sector - at.start.0) as usize).filter(same).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::log::{Event, Log, Write};
    use super::super::power::{Power, Survivor};
    use super::*;

    fn stamp(value: u8) -> Content {
        Content::Stamp([value; 16])
    }

    #[test]
    fn a_repair_keeps_the_content_of_a_weak_sector() {
        let (weak, mut rng) = (WeakSectors::default(), Rng::seeded(1));
        let mut image = Image::new(16);
        image.put(0, &[stamp(1), stamp(2), Content::Zero, stamp(4)], |_| true);
        let at = Extent::new(0, 4);
        assert_eq!(weak.found(at, 0, &mut rng), None);
        for sector in 0..4 {
            assert_eq!(weak.found(Extent::new(sector, 1), 1, &mut rng), Some(sector));
        }
        assert_eq!(weak.found(at, 0, &mut rng), Some(0), "it stays weak");
        let repaired = weak.written(at, &[stamp(1), stamp(7), Content::Zero, stamp(4)], &image);
        assert_eq!((repaired, weak.found(at, 0, &mut rng)), (vec![0, 3], None));
    }

    /// The sector after a power cut: unreadable if the answered repair is lost.
    #[test]
    fn a_repair_that_a_power_cut_loses_was_in_vain() {
        let mut image = Image::new(16);
        image.put(3, &[stamp(1)], |_| true);
        let at = Extent::new(3, 1);
        let write =
            Write { component: 0, at, contents: vec![stamp(1)], fua: false, late: false, repairs: vec![0] };
        let log = Log { writes: vec![write], ..Log::default() };
        let mut power = Power::new(vec![image]);
        let after = |power: &Power, survivors: &[Survivor]| {
            power.cut(&log, survivors)[0].content(3).cloned().unwrap_or_default()
        };
        power.follow(&log, &Event::WriteBegan(0));
        assert_eq!(after(&power, &[]), stamp(1), "not begun");
        power.follow(&log, &Event::WriteEnded(0));
        assert_eq!(after(&power, &[]), Content::Unreadable);
        assert_eq!(after(&power, &[Survivor { write: 0, first: 0, end: 1 }]), stamp(1));
        power.follow(&log, &Event::FlushBegan(0));
        power.follow(&log, &Event::FlushEnded(0, 2));
        assert_eq!(after(&power, &[]), stamp(1), "durable");
    }
}
