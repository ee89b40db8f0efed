//! Accesses by place on the device: Figure 1 of the BORG paper, middle row.
//!
//! The device's pages are divided into `columns x rows` regions of (almost) equal size, numbered row by row. A region's
//! level is 0 if nothing in it was accessed. The others have five levels that increase exponentially and are normalised
//! to the hottest region: with `m` accesses there, a region of `n` accesses has level `1 + floor(5 ln n / ln m)`, at
//! most 5. Each level then stands for `m^(1/5)` times the accesses of the one below. The hottest region always has
//! level 5, even if one access makes it so.
//!
//! Invariant: there is a count and a level for every region, and the counts add up to all accesses.

use schemars::JsonSchema;
use serde::Serialize;

/// Number of levels, including level 0 (untouched).
pub const HEAT_LEVELS: u8 = 6;

/// A grid of regions; the first row is the start of the device.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct HeatMap {
    /// Regions per row.
    pub columns: u32,
    /// Rows.
    pub rows: u32,
    /// Pages of the whole device.
    pub device_pages: u64,
    /// Page accesses of each region, row by row.
    pub accesses: Vec<u64>,
    /// Level of each region, 0 to 5.
    pub levels: Vec<u8>,
}

impl HeatMap {
    /// An empty map of `device_pages` pages.
    pub fn new(device_pages: u64, columns: u32, rows: u32) -> HeatMap {
        let regions = u64::from(columns) * u64::from(rows);
        HeatMap { columns, rows, device_pages, accesses: vec![0; regions as usize], levels: Vec::new() }
    }

    /// Adds accesses to these pages.
    pub fn access(&mut self, pages: std::ops::Range<u64>) {
        let (all, regions) = (self.device_pages.max(1), self.accesses.len() as u64);
        let region_of = |page: u64| match page.checked_mul(regions) {
            Some(product) => product / all,
            None => (u128::from(page) * u128::from(regions) / u128::from(all)) as u64,
        };
        let mut page = pages.start;
        while page < pages.end {
            let region = region_of(page);
            // Most accesses lie in one region.
            if region_of(pages.end - 1) == region {
                if let Some(cell) = self.accesses.get_mut(region as usize) {
                    *cell += pages.end - page;
                }
                return;
            }
            // The first page of the next region.
            let next = (u128::from(region + 1) * u128::from(all)).div_ceil(u128::from(regions.max(1))) as u64;
            let Some(cell) = self.accesses.get_mut(region as usize) else { return };
            *cell += next - page;
            page = next;
        }
    }

    /// Computes the levels, after all accesses.
    pub fn finish(mut self) -> HeatMap {
        let hottest = self.accesses.iter().copied().max().unwrap_or(0);
        self.levels = self.accesses.iter().map(|&count| level(count, hottest)).collect();
        self
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
        let map = |device_pages, columns, rows, accesses: &[(u64, u64)]| {
            let mut map = HeatMap::new(device_pages, columns, rows);
            for &(start, end) in accesses {
                map.access(start..end);
            }
            map.finish()
        };
        assert_eq!(
            map(100, 5, 2, &[(0, 1), (99, 100), (50, 51), (50, 51)]).accesses,
            [1, 0, 0, 0, 0, 2, 0, 0, 0, 1]
        );
        assert_eq!(map(100, 5, 2, &[(0, 100), (5, 25)]).accesses, [15, 20, 15, 10, 10, 10, 10, 10, 10, 10]);
        assert_eq!(map(7, 5, 2, &[(0, 7)]).accesses.iter().sum::<u64>(), 7);
        assert_eq!(map(0, 5, 2, &[]).levels, [0; 10]);
        assert!(map(u64::MAX, 0, 2, &[(7, 9)]).levels.is_empty());
    }
}
