//! Walking along a log of records, from its anchor to its end.
//!
//! A log lies in segments of equal size. A record is a head page and the pages that it describes, one after the other;
//! the next record follows it in its segment, or begins the segment that the head names when there is no room for a
//! head and a page. Or records lie anywhere in their segment, and the next one is there or in the segment that the head
//! names. Numbers of records are consecutive. A head also says which records were durable when it was written: those
//! count whatever their pages hold now, and of the later ones the first whose pages are not as written ends the log.
//!
//! A walk ends, whatever the heads say: it enters no segment twice, and records have different numbers.

use std::collections::BTreeSet;

use seekless_core::IoError;

/// Pages of the smallest record.
const SMALLEST: u32 = 2;

/// A place in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The segment.
    pub segment: u32,
    /// Pages into it.
    pub offset: u32,
}

/// Where the records of a segment lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// One after the other.
    InOrder,
    /// In any order, and with gaps.
    Anywhere,
}

/// A record that was found.
pub trait Record {
    /// Number of pages after its head.
    fn pages(&self) -> u32;

    /// The segment in which the log continues after its own; `None` if nothing says so.
    fn next(&self) -> Option<u32>;

    /// The last record that was durable before this one was written.
    fn durable_before(&self) -> u64;
}

/// The records of a log.
pub struct Walk<R> {
    /// In their order.
    pub records: Vec<R>,
    /// Where no record was found; `None` if there is no room after the last one.
    pub end: Option<Place>,
}

impl<R: Record> Walk<R> {
    /// The last record that is known to have been durable; 0 if none is.
    pub fn durable(&self) -> u64 {
        self.records.iter().map(R::durable_before).max().unwrap_or(0)
    }
}

/// Finds the records from `anchor` on, in segments of `pages`, the first of which has the number `first`. `find` looks
/// for the record of a number at a place, or in its whole segment.
pub async fn walk<R: Record>(
    pages: u32,
    fill: Fill,
    anchor: Option<Place>,
    first: u64,
    mut find: impl AsyncFnMut(Place, u64) -> Result<Option<R>, IoError>,
) -> Result<Walk<R>, IoError> {
    let (mut records, mut entered) = (Vec::new(), BTreeSet::new());
    let has_room = |place: &Place| place.offset.saturating_add(SMALLEST) <= pages;
    // Where the next record may be.
    let mut places: Vec<Place> = anchor.into_iter().filter(has_room).collect();
    while !places.is_empty() {
        let (number, mut found) = (first + records.len() as u64, None);
        for place in &places {
            found = find(*place, number).await?.map(|record| (*place, record));
            if found.is_some() {
                break;
            }
        }
        let Some((place, record)) = found else {
            return Ok(Walk { records, end: places.first().copied() });
        };
        entered.insert(place.segment);
        let here = match fill {
            Fill::InOrder => Place { offset: place.offset + 1 + record.pages(), ..place },
            Fill::Anywhere => Place { offset: 0, ..place },
        };
        let next = record.next().filter(|next| !entered.contains(next));
        let next = next.map(|segment| Place { segment, offset: 0 });
        places = Some(here).filter(has_room).into_iter().chain(next).collect();
        if fill == Fill::InOrder {
            places.truncate(1);
        }
        records.push(record);
    }
    Ok(Walk { records, end: None })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Pages after the head, and the next segment.
    #[derive(Clone, Debug)]
    struct Made(u64, u32, Option<u32>);

    impl Record for Made {
        fn pages(&self) -> u32 {
            self.1
        }

        fn next(&self) -> Option<u32> {
            self.2
        }

        fn durable_before(&self) -> u64 {
            self.0 / 2
        }
    }

    fn walked(
        pages: u32,
        fill: Fill,
        anchor: Place,
        made: &[(u32, Option<u32>)],
    ) -> (Walk<Made>, Vec<Place>) {
        let mut asked = Vec::new();
        let find = async |place: Place, number: u64| {
            asked.push(place);
            let made = made.get((number - 10) as usize);
            Ok(made.map(|(behind, next)| Made(number, (*behind).min(pages - place.offset - 1), *next)))
        };
        let walk = walk(pages, fill, Some(anchor), 10, find);
        let walk = futures_util::FutureExt::now_or_never(walk).unwrap().unwrap();
        (walk, asked)
    }

    #[test]
    fn a_record_without_room_after_it_leads_to_the_next_segment() {
        let anchor = Place { segment: 3, offset: 2 };
        let (walk, asked) =
            walked(8, Fill::InOrder, anchor, &[(2, None), (1, Some(5)), (6, Some(3)), (1, None)]);
        let place = |segment, offset| Place { segment, offset };
        assert_eq!(asked, [place(3, 2), place(3, 5), place(5, 0)], "one page is left of 3 and of 5");
        assert_eq!((walk.records.len(), walk.end, walk.durable()), (3, None, 6), "3 was entered before");
        let (walk, _) = walked(8, Fill::InOrder, anchor, &[(1, None)]);
        assert_eq!((walk.records.len(), walk.end), (1, Some(place(3, 4))));
        assert!(walked(8, Fill::InOrder, place(3, 7), &[(1, None)]).1.is_empty(), "no record has room there");
    }

    proptest! {
        #[test]
        fn a_walk_ends_and_stays_in_its_segments(
            pages in 2..9_u32,
            offset in 0..9_u32,
            made in prop::collection::vec((0..9_u32, prop::option::of(0..4_u32)), 0..40),
        ) {
            let (walk, asked) = walked(pages, Fill::InOrder, Place { segment: 0, offset }, &made);
            prop_assert!(asked.iter().all(|place| place.offset + SMALLEST <= pages));
            prop_assert!(asked.len() <= 1 + 4 * pages as usize);
            prop_assert_eq!(walk.records.len() + usize::from(walk.end.is_some()), asked.len());
        }

        /// Records lie in three segments, some of which name another; all that follow each other are found, and no
        /// more.
        #[test]
        fn records_that_lie_anywhere_are_found_in_order(
            made in prop::collection::vec((0..3_u32, prop::option::of(0..3_u32)), 0..20),
        ) {
            let find = async |place: Place, number: u64| {
                let made = made.get((number - 10) as usize).filter(|(segment, _)| *segment == place.segment);
                Ok(made.map(|(_, next)| Made(number, 1, *next)))
            };
            let walk = walk(4, Fill::Anywhere, Some(Place { segment: 0, offset: 2 }), 10, find);
            let walk = futures_util::FutureExt::now_or_never(walk).unwrap().unwrap();
            let (mut at, mut entered, mut expected) = (0, vec![0], 0);
            for (index, (segment, _)) in made.iter().enumerate() {
                let named = index.checked_sub(1).and_then(|last| made[last].1);
                if *segment != at && (named != Some(*segment) || entered.contains(segment)) {
                    break;
                }
                at = *segment;
                entered.push(at);
                expected += 1;
            }
            prop_assert_eq!(walk.records.len(), expected);
            prop_assert_eq!(walk.end, Some(Place { segment: at, offset: if expected == 0 { 2 } else { 0 } }));
        }
    }
}
