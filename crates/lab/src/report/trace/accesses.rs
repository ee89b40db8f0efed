//! Data of a picture of addresses over time, gathered in a pass over the records in bounded memory: the requests
//! themselves while they are few, counts in a grid when they are many.
//!
//! A request counts where it starts; flushes, which have no address, are left out. Volumes are laid end to end in the
//! order of their numbers, as in the trace's statistics.
//!
//! Invariants: the same records give the same picture; its text is within the limit.

use seekless_core::{Names, Nanos, Op, PAGE_SECTORS, Record};
use seekless_trace::{Survey, Volumes};

use super::cells::{Cell, Cells};
use super::families::{Families, Family};
use super::pack::{base64, base64_length, varint, zigzag};
use super::timeline::Timeline;

/// Limit of requests shown individually, if their text is short enough.
pub const POINTS: u64 = 200_000;
/// Cells of the grid, at most: 32 bytes each while they are counted.
const CELLS: usize = 1_100_000;
/// Limit of the text of all pictures of a page, in bytes.
pub const TEXT_BYTES: usize = 6_000_000;
/// Sectors beyond this are not drawn: 1 EiB, beyond any device, and a number that scripts can count with.
const FARTHEST: u64 = 1 << 51;
/// Limit of volumes whose names are kept.
const NAMED: usize = 256;

/// Follows the records of a surveyed trace.
#[derive(Debug)]
pub struct Accesses {
    /// Each volume and its first sector in the concatenation.
    volumes: Vec<(u32, u64)>,
    /// Sectors of all volumes.
    sectors: u64,
    families: Families,
    kept: Kept,
    requests: u64,
    timeline: Timeline,
    /// Time of the latest record.
    now: Nanos,
    /// Index of the latest record's volume.
    latest: usize,
}

#[derive(Debug)]
enum Kept {
    Points(Vec<Point>),
    Cells(Cells),
}

/// A request.
#[derive(Clone, Copy, Debug)]
struct Point {
    time: Nanos,
    sector: u64,
    sectors: u32,
    family: u16,
    kind: u8,
}

impl Point {
    fn mark(&self, class: u8) -> Mark {
        Mark { time: self.time.0 / 1_000, place: self.sector, class, count: u64::from(self.sectors) }
    }
}

/// The requests in a grid.
fn counted(points: &[Point], end: Nanos, sectors: u64) -> Cells {
    let mut cells = Cells::new(CELLS, end, sectors);
    for point in points {
        cells.add(point.time, point.sector, point.family, point.kind);
    }
    cells
}

/// A mark of the picture: a request, or some of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mark {
    /// Time, in units of the picture.
    pub time: u64,
    /// Address, in units of the picture.
    pub place: u64,
    /// Index of its family, up to [`super::families::FAMILIES`], times three, plus its kind: 0 read, 1 write, 2
    /// discard.
    pub class: u8,
    /// Requests of a cell, or sectors of a request.
    pub count: u64,
}

impl Accesses {
    /// For a surveyed trace.
    pub fn new(survey: &Survey) -> Accesses {
        let (mut volumes, mut sectors) = (Vec::new(), 0_u64);
        for (device, end) in survey.volumes() {
            volumes.push((device, sectors));
            let pages = end.div_ceil(PAGE_SECTORS);
            sectors = sectors.saturating_add(pages.saturating_mul(PAGE_SECTORS)).min(FARTHEST);
        }
        let kept = if survey.requests <= POINTS {
            Kept::Points(Vec::with_capacity(survey.requests as usize))
        } else {
            Kept::Cells(Cells::new(CELLS, survey.end, sectors))
        };
        Accesses {
            volumes,
            sectors,
            families: Families::default(),
            kept,
            timeline: Timeline::new(survey.end),
            requests: 0,
            now: Nanos::ZERO,
            latest: 0,
        }
    }

    /// Adds the next record of the surveyed trace.
    pub fn follow(&mut self, record: &Record, names: &Names) {
        self.timeline.follow(record);
        let kind = match record.op {
            Op::Read => 0,
            Op::Write | Op::WriteZeroes => 1,
            Op::Discard => 2,
            Op::Flush => return,
        };
        if record.extent.sectors == 0 {
            return;
        }
        self.requests += 1;
        self.now = self.now.max(record.time);
        let family = self.families.number(record.origin.name, names);
        let sector = self.first_sector(record.device).saturating_add(record.extent.start.0).min(FARTHEST);
        match &mut self.kept {
            Kept::Points(points) => {
                let sectors = record.extent.sectors.min(u64::from(u32::MAX)) as u32;
                points.push(Point { time: self.now, sector, sectors, family, kind });
            }
            Kept::Cells(cells) => cells.add(self.now, sector, family, kind),
        }
    }

    fn first_sector(&mut self, device: u32) -> u64 {
        if self.volumes.get(self.latest).is_none_or(|&(latest, _)| latest != device) {
            self.latest = self.volumes.binary_search_by_key(&device, |&(device, _)| device).unwrap_or(0);
        }
        self.volumes.get(self.latest).map_or(0, |&(_, first)| first)
    }

    /// The picture of all records; its text is at most `text_bytes` long.
    pub fn finish(self, volumes: &Volumes, text_bytes: usize) -> Picture {
        let (families, places) = self.families.ranked();
        let number = |family: u16| places.get(usize::from(family)).copied().unwrap_or(0);
        let class = |family: u16, kind: u8| number(family) as u8 * 3 + kind;
        let named = if self.volumes.len() <= NAMED { &self.volumes[..] } else { &[] };
        let mut picture = Picture {
            seconds: self.now.seconds(),
            sectors: self.sectors,
            requests: self.requests,
            families,
            volumes: named.iter().map(|&(device, first)| (volumes.name(device), first)).collect(),
            volume_count: self.volumes.len(),
            points: false,
            unit_nanos: 1_000,
            unit_sectors: 1,
            marks: Vec::new(),
            timeline: self.timeline,
        };
        let cells = match self.kept {
            Kept::Points(points) => {
                picture.points = true;
                picture.marks =
                    points.iter().map(|point| point.mark(class(point.family, point.kind))).collect();
                if base64_length(picture.packed().len()) <= text_bytes {
                    return picture;
                }
                picture.points = false;
                counted(&points, self.now, self.sectors)
            }
            Kept::Cells(cells) => cells,
        };
        picture.count(cells, number, text_bytes);
        picture
    }
}

/// Addresses over time, gathered.
#[derive(Debug)]
pub struct Picture {
    /// Time of the last request.
    pub seconds: f64,
    /// Sectors of all volumes, end to end.
    pub sectors: u64,
    /// Requests shown.
    pub requests: u64,
    /// Families of processes, by index; the last may be all others.
    pub families: Vec<Family>,
    /// Name and first sector of each volume; empty if they are too many.
    pub volumes: Vec<(String, u64)>,
    /// Number of volumes.
    pub volume_count: usize,
    /// Whether each mark is a request, rather than a cell.
    pub points: bool,
    /// Unit of a mark's time, in nanoseconds.
    pub unit_nanos: u64,
    /// Unit of a mark's address, in sectors.
    pub unit_sectors: u64,
    /// Marks in order of time.
    pub marks: Vec<Mark>,
    /// What the disk did in each slice of the time.
    pub timeline: Timeline,
}

impl Picture {
    /// Makes each cell a mark, in the finest grid whose text is within the limit; `number` maps families to indices.
    fn count(&mut self, mut cells: Cells, number: impl Fn(u16) -> u16, text_bytes: usize) {
        cells.settle();
        cells.rename(number);
        loop {
            (self.unit_nanos, self.unit_sectors) = cells.size();
            let mark = |cell: &Cell| Mark {
                time: u64::from(cell.time),
                place: u64::from(cell.place),
                class: cell.family as u8 * 3 + cell.kind,
                count: cell.count,
            };
            self.marks = cells.iter().map(mark).collect();
            if base64_length(self.packed().len()) <= text_bytes || !cells.coarsen() {
                return;
            }
        }
    }

    /// The marks as bytes: the class, with its highest bit set if the time advances; then by how much; the difference
    /// of the address; the count.
    fn packed(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.marks.len() * 5);
        let (mut time, mut place) = (0, 0);
        for mark in &self.marks {
            let goes_on = mark.time != time;
            out.push(mark.class | if goes_on { 0x80 } else { 0 });
            if goes_on {
                varint(&mut out, mark.time - time);
            }
            varint(&mut out, zigzag(place, mark.place));
            varint(&mut out, mark.count);
            (time, place) = (mark.time, mark.place);
        }
        out
    }

    /// The marks as text.
    pub fn text(&self) -> String {
        base64(&self.packed())
    }

    /// Whether processes are known at all: unnamed ones are called `?`.
    pub fn knows_processes(&self) -> bool {
        self.families.iter().any(|family| family.name != "?")
    }
}
