//! A register for each sector, fed with events in order.
//!
//! The checks are of what every device guarantees, and of nothing specific to layers: a read sees every write that was
//! answered before it was issued; a flush that succeeds covers the writes answered before it was issued, FUA its own
//! request; a write that failed or was not answered may take effect or not; after a crash a sector holds its last
//! durable version or a later one, and the first read settles it.
//!
//! Memory is allocated for pages that were touched: about 32 bytes for one on which nothing is open.
//!
//! What is not caught: zeroes do not identify their write, so a read of zeroes that several sources explain (a discard
//! over zeroes, two writes of zeroes in flight at once) constrains nothing later. A discard that a read has shown to
//! have had no effect may still take effect after a crash. The same holds for a version that a durable one follows only
//! by way of a third (of 720,000 random states it mattered in 3).

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use rustc_hash::FxHashMap;
use seekless_core::{Extent, Lba, Op, PAGE_SECTORS};

use super::page::{Page, Sector, pages};
use super::register::{Put, Register, Replaced, ZEROES};
use super::stamp::SectorContent;
use super::violation::{About, Kind, Violation};

/// A register per sector. Initially every sector holds durable zeroes.
#[derive(Clone, Debug, Default)]
pub struct Registers {
    /// Events so far: the clock of requests.
    now: u64,
    /// Number of the last request.
    last: u64,
    /// Number of the last request before the last power cut.
    crashed: Option<u64>,
    in_flight: BTreeMap<u64, Flying>,
    pages: FxHashMap<u64, Page>,
    /// Answered writes that no flush covers yet, by the time of their answers.
    unflushed: VecDeque<(u64, u64, Extent)>,
    /// Pages to close when everything in flight at that time has ended.
    closing: VecDeque<(u64, u64)>,
    narrowed: Narrowed,
    has_succeeded: bool,
}

#[derive(Clone, Copy, Debug)]
struct Flying {
    op: Op,
    at: Extent,
    fua: bool,
    start: u64,
}

impl Flying {
    fn sectors(&self) -> Range<u64> {
        let Lba(start) = self.at.start;
        start..start + self.at.sectors
    }

    fn about(&self, sectors: u64) -> About {
        About { op: self.op, at: self.at, sectors }
    }
}

/// A read that is answered, and when.
#[derive(Clone, Copy, Debug)]
struct Reading {
    id: u64,
    start: u64,
    now: u64,
    /// Nothing in flight began before this.
    oldest: u64,
    /// Number of the last request, and of the last before the last power cut.
    last: u64,
    crashed: Option<u64>,
}

impl Registers {
    /// All zeroes, durable.
    pub fn new() -> Registers {
        Registers::default()
    }

    /// A request is issued. `id` is its number, above all earlier ones; a write's stamps carry it.
    ///
    /// # Panics
    /// When the number does not rise, or the extent overflows: the caller has mixed up two requests.
    pub fn issue(&mut self, id: u64, op: Op, at: Extent, fua: bool) {
        assert!(id > self.last, "request {id} after request {}", self.last);
        assert!(at.start.0.checked_add(at.sectors).is_some(), "request {id} ends past 64 bits");
        self.now += 1;
        self.last = id;
        let flying = Flying { op, at, fua, start: self.now };
        self.in_flight.insert(id, flying);
        let put = match op {
            Op::Write => Put::Stamp,
            Op::WriteZeroes => Put::Zeroes,
            Op::Discard => Put::Discard,
            Op::Read | Op::Flush => return,
        };
        for (number, part) in pages(flying.sectors()) {
            let page = self.pages.entry(number).or_insert(Page::ZEROES);
            for sector in page.part(&part, true) {
                sector.open().issue(id, put, self.now);
            }
        }
    }

    /// A request succeeded or failed. A read that succeeded is passed to [`Registers::read`] instead.
    ///
    /// # Panics
    /// When it is a read that succeeded: then nothing was checked.
    pub fn done(&mut self, id: u64, ok: bool) -> Result<(), Violation> {
        self.now += 1;
        let flying = self.in_flight.remove(&id).ok_or_else(|| self.not_in_flight(id))?;
        assert!(!ok || flying.op != Op::Read, "read {id} succeeded, but its content was not passed");
        self.has_succeeded |= ok;
        match flying.op {
            _ if !ok => {}
            Op::Read => unreachable!("refused above"),
            Op::Flush => self.flushed(flying.start),
            Op::Write | Op::WriteZeroes | Op::Discard => {
                self.written(flying.at, |register, now| {
                    register.answered(id, now);
                    flying.fua && register.make_durable(id)
                });
                if !flying.fua {
                    self.unflushed.push_back((self.now, id, flying.at));
                }
            }
        }
        self.close();
        Ok(())
    }

    /// Whether any request other than a read has succeeded: the device was there.
    pub fn has_succeeded(&self) -> bool {
        self.has_succeeded
    }

    /// What may be found of a copy that is taken now: of all that was answered, only the last. No write is under way.
    pub fn as_taken(&self) -> Registers {
        let mut taken = Registers { in_flight: BTreeMap::new(), ..self.clone() };
        taken.answered_is_durable();
        taken.narrowed.take();
        taken
    }

    /// Makes durable what was answered up to now.
    pub fn answered_is_durable(&mut self) {
        self.now += 1;
        self.flushed(self.now);
        self.close();
    }

    /// Makes durable what was answered before `start`.
    fn flushed(&mut self, start: u64) {
        while let Some((_, id, at)) = self.unflushed.front().copied().filter(|(end, ..)| *end < start) {
            self.unflushed.pop_front();
            self.written(at, |register, _| register.make_durable(id));
        }
    }

    /// Calls `what` for the sectors of a write; it returns whether a crash can now leave less.
    fn written(&mut self, at: Extent, what: impl Fn(&mut Register, u64) -> bool) {
        let oldest = self.oldest();
        for (number, part) in pages(at.start.0..at.end().0) {
            let Some(page) = self.pages.get_mut(&number) else { continue };
            let mut narrows = false;
            for sector in page.part(&part, true) {
                // A quiet sector is past this write already.
                let Sector::Open(register) = sector else { continue };
                narrows |= what(register, self.now);
                register.retire(oldest);
            }
            let closed = page.settle();
            if narrows {
                self.narrowed.add(number, &part);
            }
            if narrows && !closed {
                self.closing.push_back((self.now, number));
            }
        }
    }

    /// Closes pages on which nothing is open any more.
    fn close(&mut self) {
        let oldest = self.oldest();
        while let Some((_, number)) = self.closing.front().copied().filter(|(time, _)| *time < oldest) {
            self.closing.pop_front();
            let Some(page) = self.pages.get_mut(&number) else { continue };
            for sector in page.sectors() {
                if let Sector::Open(register) = sector {
                    register.retire(oldest);
                }
            }
            page.settle();
        }
    }

    /// A read succeeded and found this, sector by sector.
    pub fn read(&mut self, id: u64, found: impl IntoIterator<Item = SectorContent>) -> Result<(), Violation> {
        self.now += 1;
        let oldest = self.oldest();
        let flying = self.in_flight.remove(&id).ok_or_else(|| self.not_in_flight(id))?;
        let (start, now, last, crashed) = (flying.start, self.now, self.last, self.crashed);
        let reading = Reading { id, start, now, oldest, last, crashed };
        let mut found = found.into_iter();
        let (mut here, mut sectors, mut judged) = (Vec::with_capacity(PAGE_SECTORS as usize), 0, Ok(()));
        for (number, part) in pages(flying.sectors()) {
            here.clear();
            here.extend(found.by_ref().take((part.end - part.start) as usize));
            sectors += here.len() as u64;
            let part = part.start..part.start + here.len() as u64;
            judged = judged.and(self.read_page(&reading, number, &part, &here));
        }
        sectors += found.count() as u64;
        if flying.op != Op::Read || sectors != flying.at.sectors {
            let length = Violation::of_request(Kind::Length, id, Some(flying.about(sectors)));
            judged = judged.and(Err(length));
        }
        judged
    }

    fn read_page(
        &mut self,
        reading: &Reading,
        number: u64,
        part: &Range<u64>,
        found: &[SectorContent],
    ) -> Result<(), Violation> {
        let content = |at| content(part.start + at as u64, found[at], reading.last);
        let Some(first) = (!found.is_empty()).then(|| content(0)) else { return Ok(()) };
        let alike = first.is_ok() && (1..found.len()).all(|at| content(at) == first);
        let mut untouched = Page::ZEROES;
        let page = self.pages.get_mut(&number).unwrap_or(&mut untouched);
        if let (Page::Whole(Sector::Quiet(held)), true, Ok(first)) = (&*page, alike, first) {
            if *held == first {
                return Ok(());
            }
        }
        let (mut judged, mut narrows) = (Ok(()), false);
        for (at, sector) in page.part(part, alike).iter_mut().enumerate() {
            match reading.judge(sector, content(at)) {
                Ok(narrowed) => narrows |= narrowed,
                Err((kind, by, allowed)) => {
                    let sector = part.start + at as u64;
                    judged =
                        judged.and(Err(violation(kind, Some(reading.id), sector, found[at], by, allowed)));
                }
            }
        }
        page.settle();
        if narrows {
            self.narrowed.add(number, part);
        }
        judged
    }

    /// Power is cut. Requests in flight stay unanswered; a sector holds one of its possible contents, which its first
    /// read settles.
    pub fn crash(&mut self) {
        self.now += 1;
        self.crashed = Some(self.last);
        self.in_flight.clear();
        self.unflushed.clear();
        self.closing.clear();
        for page in self.pages.values_mut() {
            let mut open = false;
            for sector in page.sectors() {
                if let Sector::Open(register) = sector {
                    register.crash(self.now);
                    open = true;
                }
            }
            if open {
                page.settle();
            }
        }
    }

    /// Checks a read of `sector` after recovery if power were cut now.
    pub fn after_crash(&self, sector: u64, found: SectorContent) -> Result<(), Violation> {
        let right = content(sector, found, self.last);
        let may = |content| match self.sector(sector) {
            None => content == ZEROES,
            Some(Sector::Quiet(held)) => *held == content,
            Some(Sector::Open(register)) => register.may_be_left(content),
        };
        match right {
            Ok(content) if may(content) => Ok(()),
            right => Err(self.not_left(sector, found, right)),
        }
    }

    fn sector(&self, address: u64) -> Option<&Sector> {
        Some(self.pages.get(&(address / PAGE_SECTORS))?.sector(address))
    }

    #[cold]
    fn not_left(&self, number: u64, found: SectorContent, right: Result<u64, Kind>) -> Violation {
        let (left, by) = match self.sector(number) {
            None => (vec![ZEROES], None),
            Some(Sector::Quiet(held)) => (vec![*held], Some(*held).filter(|held| *held != ZEROES)),
            Some(Sector::Open(register)) => {
                (register.left(), right.ok().and_then(|content| register.why_not_left(content)))
            }
        };
        let kind = right.err().unwrap_or(Kind::Lost);
        let by = by.filter(|_| kind == Kind::Lost);
        violation(kind, None, number, found, by, left)
    }

    /// Sectors, ascending, for which [`Registers::after_crash`] has come to allow less since the last call; perhaps
    /// some others.
    pub fn narrowed(&mut self) -> Vec<u64> {
        self.narrowed.take()
    }

    /// Number of requests without an answer.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// The run is over: checks that every request was answered.
    pub fn end(&self) -> Result<(), Violation> {
        let Some((id, flying)) = self.in_flight.first_key_value() else { return Ok(()) };
        Err(Violation::of_request(Kind::NotAnswered, *id, Some(flying.about(0))))
    }

    /// Start of the oldest request in flight.
    fn oldest(&self) -> u64 {
        self.in_flight.first_key_value().map_or(self.now, |(_, flying)| flying.start)
    }

    fn not_in_flight(&self, id: u64) -> Violation {
        let kind = if id > self.last || id == 0 { Kind::NeverIssued } else { Kind::AnsweredTwice };
        Violation::of_request(kind, id, None)
    }
}

impl Reading {
    /// Checks a read of a register. Returns whether a crash can now leave less; or the violation, the write that
    /// replaced the content found, and the allowed contents.
    fn judge(
        &self,
        sector: &mut Sector,
        content: Result<u64, Kind>,
    ) -> Result<bool, (Kind, Option<u64>, Vec<u64>)> {
        let register = match (&*sector, content) {
            (Sector::Quiet(held), Ok(content)) if *held == content => return Ok(false),
            _ => sector.open(),
        };
        let content = match content {
            Ok(content) => content,
            Err(kind) => return Err((kind, None, register.readable(self.start, self.now))),
        };
        let left = self.crashed.is_some_and(|crashed| register.is_as_left(crashed));
        register.read(content, self.start, self.now, self.oldest).map_err(|replaced| {
            let kind = match replaced {
                None if left => Kind::Lost,
                Some(Replaced { answered: false, .. }) => Kind::NewThenOld,
                _ => Kind::Stale,
            };
            (kind, replaced.map(|replaced| replaced.by), register.readable(self.start, self.now))
        })
    }
}

/// Sectors as bits, page by page.
#[derive(Clone, Debug, Default)]
struct Narrowed(FxHashMap<u64, u8>);

impl Narrowed {
    fn add(&mut self, page: u64, part: &Range<u64>) {
        let bits = part.clone().fold(0, |bits, sector| bits | 1 << (sector % PAGE_SECTORS));
        *self.0.entry(page).or_default() |= bits;
    }

    /// Removes and returns all of them, ascending.
    fn take(&mut self) -> Vec<u64> {
        let mut pages: Vec<(u64, u8)> = self.0.drain().collect();
        pages.sort_unstable();
        let sectors = |(page, bits): (u64, u8)| {
            let inside = (0..PAGE_SECTORS).filter(move |bit| bits & 1 << bit != 0);
            inside.map(move |inside| page * PAGE_SECTORS + inside)
        };
        pages.into_iter().flat_map(sectors).collect()
    }
}

/// The content that was found, if a register can know it.
fn content(sector: u64, found: SectorContent, last: u64) -> Result<u64, Kind> {
    match found {
        SectorContent::Zeroes => Ok(ZEROES),
        SectorContent::Stamp(stamp) if stamp.sector != sector => Err(Kind::Elsewhere),
        SectorContent::Stamp(stamp) if stamp.write > last => Err(Kind::NeverWritten),
        SectorContent::Stamp(stamp) => Ok(stamp.write),
        SectorContent::Foreign => Err(Kind::Foreign),
    }
}

fn violation(
    kind: Kind,
    request: Option<u64>,
    sector: u64,
    found: SectorContent,
    replaced_by: Option<u64>,
    allowed: Vec<u64>,
) -> Violation {
    let (sector, found) = (Some(sector), Some(found));
    Violation { kind, request, sector, found, replaced_by, allowed, about: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_closed_when_nothing_in_flight_could_tell_that_it_was_open() {
        let mut registers = Registers::new();
        let open = |registers: &Registers| {
            let pages = registers.pages.values();
            pages.filter(|page| !matches!(page, Page::Whole(Sector::Quiet(_)))).count()
        };
        registers.issue(1, Op::Read, Extent::of_pages(9, 1), false);
        registers.issue(2, Op::Write, Extent::of_pages(0, 4), false);
        registers.done(2, true).unwrap();
        registers.issue(3, Op::Write, Extent::new(3, 2), true);
        registers.done(3, true).unwrap();
        registers.issue(4, Op::Flush, Extent::default(), false);
        registers.done(4, true).unwrap();
        assert_eq!(open(&registers), 4, "read 1 began before");
        registers.issue(5, Op::Read, Extent::of_pages(9, 1), false);
        registers.read(1, [SectorContent::Zeroes; 8]).unwrap();
        registers.issue(6, Op::Flush, Extent::default(), false);
        registers.done(6, true).unwrap();
        assert_eq!(open(&registers), 1, "the page of which two sectors hold something else");
    }
}
