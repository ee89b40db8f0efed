//! Samples of home: a clean stop leaves the checksums of some pages that have a copy, and an opening compares them.
//!
//! Who writes home without this layer is found out, most likely. Faults: a page of home that cannot be read tells
//! nothing, and is passed over, when it is taken and when it is compared: one bad sector keeps nobody from stopping or
//! opening.

use seekless_core::runtime::edge;
use seekless_core::{Buffer, Extent, Hints, IoError, PAGE_SECTORS};

use super::page::SAMPLES;
use super::{Borg, did, opening};

impl Borg {
    /// After a clean stop home is as it was then, or was written without this layer: then copies that are only copies
    /// are worth nothing, and newer ones would hide what was written.
    pub(super) async fn compare_with_home(&self) -> Result<(), IoError> {
        let (samples, require) = {
            let state = self.state.borrow();
            let samples = if state.disk.clean { state.disk.samples.clone() } else { Vec::new() };
            (samples, state.disk.require)
        };
        for (page, sum) in samples {
            match self.home_sum(page, &Hints::default()).await {
                Ok(found) if found == sum => continue,
                // As when it was taken: what cannot be read does not keep the others from being of use.
                Err(error) if error.is_of_the_medium() => continue,
                found => found?,
            };
            if require {
                return Err(opening::changed_behind_our_back(page));
            }
            did("copies of another home dropped", Extent::of_pages(page, 1), page * PAGE_SECTORS);
            let mut state = self.state.borrow_mut();
            let all: Vec<u64> = state.map.iter().map(|(_, page, _)| page).collect();
            for page in all {
                state.map_out(page);
            }
            break;
        }
        Ok(())
    }

    /// Some pages of home and their checksums: who writes home without this layer will be found out.
    pub(super) async fn samples(&self, how: &Hints) -> Result<Vec<(u64, u32)>, IoError> {
        let pages: Vec<u64> = {
            let state = self.state.borrow();
            let every = state.map.mapped().div_ceil(SAMPLES).max(1);
            state.map.iter().step_by(every).map(|(_, page, _)| page).collect()
        };
        let mut samples = Vec::new();
        for page in pages {
            match self.home_sum(page, how).await {
                Ok(sum) => samples.push((page, sum)),
                Err(error) if error.is_of_the_medium() => {
                    edge("a sample of home cannot be read: it tells nothing");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(samples)
    }

    /// The checksum of a page of home.
    async fn home_sum(&self, page: u64, how: &Hints) -> Result<u32, IoError> {
        let at = Extent::of_pages(page, 1);
        let end = self.home.geometry().sectors;
        let at = Extent { sectors: PAGE_SECTORS.min(end - at.start.0), ..at };
        let read = self.home.read(at, Buffer::zeroed(at.bytes()), how.clone()).await?;
        Ok(read.look(crc32c::crc32c))
    }
}
