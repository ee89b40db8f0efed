//! Where on the device accesses go: Figure 1 of the BORG paper, middle row.
//!
//! The device's pages are cut into `columns x rows` regions of (almost) equal size, numbered row by
//! row. A region's level is 0 if nothing in it was accessed. The others have five levels that
//! increase exponentially and are normalised to the hottest region: with `m` accesses there, a region
//! of `n` accesses has level `1 + floor(5 ln n / ln m)`, at most 5. Each level then stands for
//! `m^(1/5)` times the accesses of the one below. The hottest region has level 5 always, even if one
//! access makes it so.
//!
//! Invariant: there is a count and a level for every region, and the counts add up to all accesses.

use serde::Serialize;

use seekless_core::PAGE_SECTORS;

/// How many levels there are, level 0 (untouched) among them.
pub const HEAT_LEVELS: u8 = 6;

/// A grid of regions; the first row is the start of the device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HeatMap {
    /// Regions in a row.
    pub columns: u32,
    /// Rows.
    pub rows: u32,
    /// Pages of the whole device.
    pub device_pages: u64,
    /// Page accesses in each region, row by row.
    pub accesses: Vec<u64>,
    /// The level of each region, 0 to 5.
    pub levels: Vec<u8>,
}

impl HeatMap {
    /// The map of a device of `device_sectors` with these accesses (page, how many).
    pub fn of(
        pages: impl Iterator<Item = (u64, u64)>,
        device_sectors: u64,
        columns: u32,
        rows: u32,
    ) -> HeatMap {
        let regions = u64::from(columns) * u64::from(rows);
        let device_pages = device_sectors.div_ceil(PAGE_SECTORS);
        let mut accesses = vec![0; regions as usize];
        for (page, count) in pages {
            let region = u128::from(page) * u128::from(regions) / u128::from(device_pages.max(1));
            if let Some(cell) = accesses.get_mut(region as usize) {
                *cell += count;
            }
        }
        let hottest = accesses.iter().copied().max().unwrap_or(0);
        let levels = accesses.iter().map(|&count| level(count, hottest)).collect();
        HeatMap { columns, rows, device_pages, accesses, levels }
    }
}

fn level(count: u64, hottest: u64) -> u8 {
    let highest = HEAT_LEVELS - 1;
    if count == 0 {
        return 0;
    }
    if count == hottest {
        return highest;
    }
    let share = (count as f64).ln() / (hottest as f64).ln();
    (1 + (share * f64::from(highest)) as u8).min(highest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_increase_exponentially_to_the_hottest_region() {
        let levels: Vec<u8> =
            [0, 1, 9, 11, 101, 1_001, 10_001, 100_000].iter().map(|&n| level(n, 100_000)).collect();
        assert_eq!(levels, [0, 1, 1, 2, 3, 4, 5, 5]);
        assert_eq!(level(1, 1), 5);
    }

    #[test]
    fn every_page_has_a_region() {
        let map = HeatMap::of([(0, 1), (99, 2), (50, 4)].into_iter(), 800, 5, 2);
        assert_eq!(map.accesses, [1, 0, 0, 0, 0, 4, 0, 0, 0, 2]);
        assert_eq!(HeatMap::of(std::iter::empty(), 0, 5, 2).levels, [0; 10]);
        assert!(HeatMap::of([(7, 1)].into_iter(), u64::MAX, 0, 2).levels.is_empty());
    }
}
