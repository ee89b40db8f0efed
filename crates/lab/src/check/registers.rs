//! A register for each sector, fed with what happens in the order in which it happens.
//!
//! What is judged is what every device promises, and nothing of layers: a read sees every write that was answered before
//! it was issued; a flush that succeeds covers the writes answered before it was issued, FUA its own
//! request; a write that failed or was not answered may show or not; after a crash a sector holds its last
//! durable version or a later one, and the first read settles it.
//!
//! Memory is taken by sectors that were touched: 16 bytes for one on which nothing is open.
//!
//! What is not caught, because zeroes do not say who wrote them: a read of zeroes that several
//! sources explain (a discard over zeroes, two writes of zeroes in flight at once) is held against nothing
//! later. And a discard that a read has shown to have done nothing may still show after a crash.

use std::collections::{BTreeMap, VecDeque};

use rustc_hash::{FxHashMap, FxHashSet};
use seekless_core::{Extent, Lba, Op};

use super::register::{Put, Register, Replaced, ZEROES};
use super::stamp::Found;
use super::violation::{About, Kind, Violation};

/// A register per sector. At the start every sector holds zeroes, durably.
#[derive(Clone, Debug, Default)]
pub struct Registers {
    /// Events so far: the time that requests begin and end at.
    now: u64,
    /// The number of the last request.
    last: u64,
    /// The number of the last request before power last went.
    crashed: Option<u64>,
    in_flight: BTreeMap<u64, Flying>,
    sectors: FxHashMap<u64, Sector>,
    /// Writes that were answered and that no flush covers yet, by the time of their answers.
    unflushed: VecDeque<(u64, u64, Extent)>,
    narrowed: FxHashSet<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Flying {
    op: Op,
    at: Extent,
    fua: bool,
    start: u64,
}

impl Flying {
    fn sectors(&self) -> std::ops::Range<u64> {
        let Lba(start) = self.at.start;
        start..start + self.at.sectors
    }

    fn about(&self, came: u64) -> About {
        About { op: self.op, at: self.at, came }
    }
}

/// Boxed, because most sectors are quiet most of the time.
#[derive(Clone, Debug)]
enum Sector {
    /// Nothing is open: it holds this write, or zeroes.
    Quiet(u64),
    Open(Box<Register>),
}

impl Sector {
    fn open(&mut self) -> &mut Register {
        if let Sector::Quiet(content) = *self {
            *self = Sector::Open(Box::new(Register::of(content)));
        }
        match self {
            Sector::Open(register) => register,
            Sector::Quiet(_) => unreachable!("it was opened"),
        }
    }

    fn settle(&mut self) {
        if let Sector::Open(register) = self {
            if let Some(content) = register.quiet() {
                *self = Sector::Quiet(content);
            }
        }
    }
}

impl Registers {
    /// Everything is zeroes, and durable.
    pub fn new() -> Registers {
        Registers::default()
    }

    /// A request begins. `id` is its number, above those of all before; a write's stamps carry it.
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
        for sector in flying.sectors() {
            let sector = self.sectors.entry(sector).or_insert(Sector::Quiet(ZEROES));
            sector.open().issue(id, put, self.now);
        }
    }

    /// A request was answered, with success or an error. A read that succeeded is told by
    /// [`Registers::read`] instead.
    ///
    /// # Panics
    /// When it is a read and succeeded: then nothing was judged.
    pub fn done(&mut self, id: u64, ok: bool) -> Result<(), Violation> {
        self.now += 1;
        let oldest = self.oldest();
        let flying = self.in_flight.remove(&id).ok_or_else(|| self.not_in_flight(id))?;
        assert!(!ok || flying.op != Op::Read, "read {id} was answered, and what it found is not told");
        match flying.op {
            _ if !ok => {}
            Op::Read => {}
            Op::Flush => self.flushed(flying.start),
            Op::Write | Op::WriteZeroes | Op::Discard => {
                for number in flying.sectors() {
                    let Some(Sector::Open(register)) = self.sectors.get_mut(&number) else { continue };
                    register.answered(id, self.now);
                    if flying.fua && register.make_durable(id) {
                        self.narrowed.insert(number);
                    }
                    register.retire(oldest);
                }
                if !flying.fua {
                    self.unflushed.push_back((self.now, id, flying.at));
                }
            }
        }
        Ok(())
    }

    /// What was answered before `start` is durable.
    fn flushed(&mut self, start: u64) {
        let oldest = self.oldest();
        while let Some((_, id, at)) = self.unflushed.front().copied().filter(|(end, ..)| *end < start) {
            self.unflushed.pop_front();
            for number in at.start.0..at.end().0 {
                let Some(sector) = self.sectors.get_mut(&number) else { continue };
                let Sector::Open(register) = sector else { continue };
                if register.make_durable(id) {
                    self.narrowed.insert(number);
                }
                register.retire(oldest);
                sector.settle();
            }
        }
    }

    /// A read was answered: what was found, a sector after the other.
    pub fn read(&mut self, id: u64, found: impl IntoIterator<Item = Found>) -> Result<(), Violation> {
        self.now += 1;
        let oldest = self.oldest();
        let flying = self.in_flight.remove(&id).ok_or_else(|| self.not_in_flight(id))?;
        let (mut came, mut wrong) = (0, None);
        let mut sectors = flying.sectors();
        for found in found {
            came += 1;
            let Some(sector) = sectors.next() else { continue };
            if let Err(violation) = self.read_sector(id, &flying, sector, found, oldest) {
                wrong.get_or_insert(violation);
            }
        }
        if flying.op != Op::Read || came != flying.at.sectors {
            wrong.get_or_insert(Violation::of_request(Kind::Length, id, Some(flying.about(came))));
        }
        wrong.map_or(Ok(()), Err)
    }

    fn read_sector(
        &mut self,
        id: u64,
        flying: &Flying,
        number: u64,
        found: Found,
        oldest: u64,
    ) -> Result<(), Violation> {
        let (now, start) = (self.now, flying.start);
        let wrong =
            |kind, replaced_by, allowed| Err(violation(kind, Some(id), number, found, replaced_by, allowed));
        let mut untouched = Sector::Quiet(ZEROES);
        let sector = self.sectors.get_mut(&number).unwrap_or(&mut untouched);
        let content = match content(number, found, self.last) {
            Ok(content) => content,
            Err(kind) => return wrong(kind, None, sector.open().readable(start, now)),
        };
        if matches!(sector, Sector::Quiet(held) if *held == content) {
            return Ok(());
        }
        let register = sector.open();
        let left = self.crashed.is_some_and(|crashed| register.is_as_left(crashed));
        match register.read(content, start, now, oldest) {
            Ok(narrows) => {
                if narrows {
                    self.narrowed.insert(number);
                }
                sector.settle();
                Ok(())
            }
            Err(replaced) => {
                let kind = match replaced {
                    None if left => Kind::Lost,
                    Some(Replaced { answered: false, .. }) => Kind::NewThenOld,
                    _ => Kind::Stale,
                };
                wrong(kind, replaced.map(|replaced| replaced.by), register.readable(start, now))
            }
        }
    }

    /// Power goes. Requests in flight stay unanswered; a sector holds one of what it may hold, which
    /// its first read settles.
    pub fn crash(&mut self) {
        self.now += 1;
        self.crashed = Some(self.last);
        self.in_flight.clear();
        self.unflushed.clear();
        for sector in self.sectors.values_mut() {
            if let Sector::Open(register) = sector {
                register.crash(self.now);
                sector.settle();
            }
        }
    }

    /// Whether it would be right that `sector` holds `found`, if power went now and it was read after
    /// recovery.
    pub fn after_crash(&self, sector: u64, found: Found) -> Result<(), Violation> {
        let right = content(sector, found, self.last);
        let may = |content| match self.sectors.get(&sector) {
            None => content == ZEROES,
            Some(Sector::Quiet(held)) => *held == content,
            Some(Sector::Open(register)) => register.may_be_left(content),
        };
        match right {
            Ok(content) if may(content) => Ok(()),
            right => Err(self.not_left(sector, found, right)),
        }
    }

    #[cold]
    fn not_left(&self, number: u64, found: Found, right: Result<u64, Kind>) -> Violation {
        let (left, by) = match self.sectors.get(&number) {
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

    /// The sectors, in rising order, for which [`Registers::after_crash`] has come to allow less since this was
    /// last asked; perhaps some others.
    pub fn narrowed(&mut self) -> Vec<u64> {
        let mut narrowed: Vec<u64> = self.narrowed.drain().collect();
        narrowed.sort_unstable();
        narrowed
    }

    /// How many requests have no answer yet.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Nothing more will be answered: whether all was.
    pub fn end(&self) -> Result<(), Violation> {
        let Some((id, flying)) = self.in_flight.first_key_value() else { return Ok(()) };
        Err(Violation::of_request(Kind::NotAnswered, *id, Some(flying.about(0))))
    }

    /// The start of the oldest request in flight.
    fn oldest(&self) -> u64 {
        self.in_flight.first_key_value().map_or(self.now, |(_, flying)| flying.start)
    }

    fn not_in_flight(&self, id: u64) -> Violation {
        let kind = if id > self.last || id == 0 { Kind::NeverIssued } else { Kind::AnsweredTwice };
        Violation::of_request(kind, id, None)
    }
}

/// Which content was found, if a register can know it.
fn content(sector: u64, found: Found, last: u64) -> Result<u64, Kind> {
    match found {
        Found::Zeroes => Ok(ZEROES),
        Found::Stamp(stamp) if stamp.sector != sector => Err(Kind::Elsewhere),
        Found::Stamp(stamp) if stamp.write > last => Err(Kind::NeverWritten),
        Found::Stamp(stamp) => Ok(stamp.write),
        Found::Foreign => Err(Kind::Foreign),
    }
}

fn violation(
    kind: Kind,
    request: Option<u64>,
    sector: u64,
    found: Found,
    replaced_by: Option<u64>,
    mut allowed: Vec<u64>,
) -> Violation {
    allowed.drain(..allowed.len().saturating_sub(Violation::EXPECTED));
    let (sector, found) = (Some(sector), Some(found));
    Violation { kind, request, sector, found, replaced_by, allowed, about: None }
}
