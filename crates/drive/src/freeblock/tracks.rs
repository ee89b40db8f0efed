//! The tracks of a drive, as a search for pending blocks needs them: the track extents on each, and which of their
//! sectors pass under the head in a given time.
//!
//! A *track extent* is a run of consecutive sectors on one track. Most tracks have one; spares, slips and remaps split
//! some into more. Invariant: track extents are in the order of their tracks, and each sector is in exactly one.

use seekless_core::{Extent, Lba};

use crate::disk::layout::Layout;
use crate::disk::mechanics::Head;

/// Consecutive sectors on one track.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrackExtent {
    /// First sector.
    pub start: u64,
    /// Number of sectors.
    pub sectors: u32,
    /// When the first passes under the head, in nanoseconds after the index mark.
    pub angle: u32,
    /// Capacity of the track in sectors.
    pub per_track: u32,
    /// Number of track extents with lower addresses.
    pub ordinal: u32,
}

impl TrackExtent {
    /// The range of its sectors, counted from its first, that belong to `at`.
    pub fn within(&self, at: Extent) -> (u32, u32) {
        let into = |sector: u64| sector.saturating_sub(self.start).min(u64::from(self.sectors)) as u32;
        (into(at.start.0), into(at.end().0))
    }

    /// The unit of one of its bits (see [`super::pending`]).
    pub fn unit_at(&self, bit: usize) -> u64 {
        bit as u64 - u64::from(self.ordinal)
    }
}

/// The time in which a head is over a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Arrival, in nanoseconds.
    pub from: u64,
    /// Latest departure, in nanoseconds.
    pub to: u64,
}

impl Window {
    /// Length.
    pub fn length(self) -> u64 {
        self.to.saturating_sub(self.from)
    }
}

/// Prediction is exact but for rounding: a head arrives at most this many nanoseconds early and leaves as many late.
pub const ROUNDING: u64 = 2;

/// All tracks of a drive.
#[derive(Clone, Debug)]
pub struct Tracks {
    heads: u32,
    cylinders: u32,
    revolution: u64,
    /// By track: the first of its track extents; one more at the end.
    first: Vec<u32>,
    extents: Vec<TrackExtent>,
    /// By ordinal: the track.
    track_of: Vec<u32>,
    /// The most and the fewest sectors of a track, and the most track extents.
    most: u32,
    fewest: u32,
    most_extents: u32,
}

impl Tracks {
    /// The tracks of a layout whose disk turns in `revolution` nanoseconds.
    pub fn new(layout: &Layout, revolution: u64) -> Tracks {
        let mut all = Vec::new();
        let mut remaining = Extent { start: Lba(0), sectors: layout.sectors() };
        while remaining.sectors > 0 {
            let piece = layout.piece(remaining);
            let extent = TrackExtent {
                start: piece.at.start.0,
                sectors: piece.at.sectors as u32,
                angle: piece.angle as u32,
                per_track: piece.per_track as u32,
                ordinal: all.len() as u32,
            };
            all.push((piece.cylinder as u32, piece.head as u32, extent));
            remaining = Extent { start: piece.at.end(), sectors: remaining.sectors - piece.at.sectors };
        }
        all.sort_unstable_by_key(|&(cylinder, head, extent)| (cylinder, head, extent.ordinal));
        let heads = all.iter().map(|all| all.1).max().unwrap_or(0) + 1;
        let cylinders = all.last().map_or(0, |all| all.0) + 1;
        let mut first = vec![0; (heads * cylinders) as usize + 1];
        for &(cylinder, head, _) in &all {
            first[(cylinder * heads + head) as usize + 1] += 1;
        }
        let most_extents = first.iter().copied().max().unwrap_or(0);
        for track in 1..first.len() {
            first[track] += first[track - 1];
        }
        let mut track_of = vec![0; all.len()];
        for &(cylinder, head, extent) in &all {
            track_of[extent.ordinal as usize] = cylinder * heads + head;
        }
        let extents: Vec<TrackExtent> = all.into_iter().map(|all| all.2).collect();
        let most = extents.iter().map(|extent| extent.per_track).max().unwrap_or(0);
        let fewest = extents.iter().map(|extent| extent.per_track).min().unwrap_or(0);
        Tracks { heads, cylinders, revolution, first, extents, track_of, most, fewest, most_extents }
    }

    /// Number of surfaces.
    pub fn heads(&self) -> u32 {
        self.heads
    }

    /// Number of cylinders, up to the last that holds data.
    pub fn cylinders(&self) -> u32 {
        self.cylinders
    }

    /// Number of tracks, including those that hold nothing.
    pub fn len(&self) -> usize {
        self.first.len() - 1
    }

    /// Number of track extents.
    pub fn extents(&self) -> usize {
        self.extents.len()
    }

    /// Units of a block: their size in sectors and their number. A block longer than half a track hardly ever passes in
    /// one gap: it is split into units of at most a quarter.
    pub fn units(&self, block: u64) -> (u64, u64) {
        let fewest = u64::from(self.fewest);
        let part = || (1..=fewest / 4).rev().find(|unit| block % unit == 0);
        let unit = if 2 * block <= fewest { block } else { part().unwrap_or(1) };
        (unit, block / unit)
    }

    /// The least time in which `sectors` pass on any track, in nanoseconds.
    pub fn least(&self, sectors: u64) -> u64 {
        sectors * self.revolution / u64::from(self.most.max(1))
    }

    /// The most track extents of a track.
    pub fn most_extents(&self) -> u64 {
        u64::from(self.most_extents)
    }

    /// Number of a track.
    pub fn track(&self, at: Head) -> usize {
        at.cylinder as usize * self.heads as usize + at.head as usize
    }

    /// The track of a number.
    pub fn head(&self, track: usize) -> Head {
        let heads = u64::from(self.heads);
        Head { cylinder: track as u64 / heads, head: track as u64 % heads }
    }

    /// The track extents of a track.
    pub fn on(&self, track: usize) -> &[TrackExtent] {
        let (from, to) = (self.first[track], self.first[track + 1]);
        &self.extents[from as usize..to as usize]
    }

    /// The track extent of an ordinal, and its track.
    pub fn extent(&self, ordinal: u32) -> Option<(usize, &TrackExtent)> {
        let track = *self.track_of.get(ordinal as usize)? as usize;
        self.on(track).iter().find(|extent| extent.ordinal == ordinal).map(|extent| (track, extent))
    }

    /// Calls `each` with the track extents that hold `at`, and their tracks.
    pub fn of(&self, layout: &Layout, at: Extent, mut each: impl FnMut(usize, &TrackExtent)) {
        let mut remaining = at;
        while remaining.sectors > 0 {
            let piece = layout.piece(remaining);
            let track = self.track(Head { cylinder: piece.cylinder, head: piece.head });
            let holds = |extent: &&TrackExtent| {
                (extent.start..extent.start + u64::from(extent.sectors)).contains(&remaining.start.0)
            };
            if let Some(extent) = self.on(track).iter().find(holds) {
                each(track, extent);
            }
            remaining = Extent { start: piece.at.end(), sectors: remaining.sectors - piece.at.sectors };
        }
    }

    /// The sectors of a track extent, counted from its first, that pass wholly while the head is over its track: at
    /// most two ranges, in the order in which they pass.
    pub fn passes(&self, extent: &TrackExtent, window: Window) -> [(u32, u32); 2] {
        // No stop is longer than a revolution.
        let length = window.length().saturating_sub(2 * ROUNDING).min(self.revolution - 1);
        let now = (window.from + ROUNDING) % self.revolution;
        let angle = u64::from(extent.angle);
        let until = if angle >= now { angle - now } else { angle + self.revolution - now };
        let per_track = u64::from(extent.per_track);
        let sectors =
            |nanos: u64| (nanos * per_track / self.revolution).min(u64::from(extent.sectors)) as u32;
        let whole = (0, if length > until { sectors(length - until) } else { 0 });
        // The part that began to pass before the head arrived, and whose end is still to come.
        let ago = self.revolution - until;
        let started = (ago * per_track).div_ceil(self.revolution);
        if started >= u64::from(extent.sectors) {
            return [whole, (0, 0)];
        }
        [(started as u32, sectors(length + ago).max(started as u32)), whole]
    }

    /// When `sectors` of a track extent from `sector` on begin to pass for a head that arrives at `from`, and when they
    /// have passed.
    pub fn pass(&self, extent: &TrackExtent, sector: u32, sectors: u32, from: u64) -> (u64, u64) {
        let per_track = u64::from(extent.per_track);
        let time = |sectors: u32| u64::from(sectors) * self.revolution / per_track;
        let angle = (u64::from(extent.angle) + time(sector)) % self.revolution;
        let now = from % self.revolution;
        let wait = if angle >= now { angle - now } else { angle + self.revolution - now };
        (from + wait, from + wait + time(sectors) + 1)
    }
}
