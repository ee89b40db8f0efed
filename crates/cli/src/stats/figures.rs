//! Figure 1 of the BORG paper as text: how often pages are accessed, and where on the device.

use seekless_trace::Stats;
use seekless_trace::stats::{HeatMap, RankPoint};

use crate::table::Table;
use crate::text::{count, size};

/// Both parts with titles; empty where no page was accessed.
pub fn text(stats: &Stats) -> String {
    if stats.accessed_pages == 0 {
        return String::new();
    }
    let mut out =
        String::from("\nHow often pages are accessed: the page of a rank, the most accessed first\n");
    out.push_str(&ranks(stats));
    let region = stats.heat_map.device_pages.saturating_mul(seekless_core::PAGE_BYTES)
        / (stats.heat_map.levels.len() as u64).max(1);
    out.push_str("\nWhere accesses go: regions of ");
    out.push_str(&size(region));
    out.push_str(", row by row from the start; . untouched, 1 cold to 5 hot\n");
    out.push_str(&map(&stats.heat_map));
    out
}

/// Accesses at each power of ten.
fn ranks(stats: &Stats) -> String {
    let mut table = Table::new(&[">rank", ">reads", ">writes"]);
    let curves = [&stats.read_rank_frequency, &stats.write_rank_frequency];
    let last = curves.iter().filter_map(|curve| curve.last()).map(|point| point.rank).max().unwrap_or(0);
    let powers =
        std::iter::successors(Some(1_u64), |rank| rank.checked_mul(10)).take_while(|rank| *rank <= last);
    for rank in powers {
        let [reads, writes] = curves.map(|curve| at(curve, rank).map_or(String::new(), count));
        table.row([count(rank), reads, writes]);
    }
    table.text()
}

/// Accesses of the page of a rank: those of the next point of the curve before it.
fn at(curve: &[RankPoint], rank: u64) -> Option<u64> {
    if curve.last()?.rank < rank {
        return None;
    }
    curve.iter().take_while(|point| point.rank <= rank).last().map(|point| point.accesses)
}

fn map(map: &HeatMap) -> String {
    let mut out = String::new();
    for row in map.levels.chunks((map.columns as usize).max(1)) {
        out.push_str("  ");
        out.extend(row.iter().map(|&level| if level == 0 { '.' } else { char::from(b'0' + level) }));
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_beyond_the_last_page_have_no_accesses() {
        let curve = [(1, 9), (7, 4), (12, 2)].map(|(rank, accesses)| RankPoint { rank, accesses });
        assert_eq!([1, 10, 12, 13].map(|rank| at(&curve, rank)), [Some(9), Some(4), Some(2), None]);
    }

    #[test]
    fn a_map_has_a_sign_for_each_region() {
        let levels = vec![0, 1, 5, 0, 0, 3];
        let here = HeatMap { columns: 3, rows: 2, levels, ..HeatMap::default() };
        assert_eq!(map(&here), "  .15\n  ..3\n");
    }
}
