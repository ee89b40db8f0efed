//! What has two homes, super and map pages: how the super page is written, and how both homes come to be of one
//! generation, so that one of them may rot; how a new BOPT is made, and an old one is given up.
//!
//! Invariant: the home that counts is durable before its other one is written, and its generation is one that no
//! sector of either has had, or that of the copied page. (Of version 1, what is torn is taken away first.)
//!
//! Faults: a copy that cannot be written leaves one home that counts.

use futures_util::future::join_all;
use seekless_core::runtime::{self, edge};
use seekless_core::{Buffer, Extent, Hints, IoError, PAGE_SECTORS, mutant};

use super::page::{self, OLD, Super, sealed};
use super::table::Saying;
use super::{Borg, State, did};
use crate::destage;
use crate::durable::Home;

/// Sectors that are formatted together: 1 MiB, so that clients wait for little of it.
const FORMATTED_AT_ONCE: u64 = 2_048;
/// Map pages that are copied together.
const COPIED_AT_ONCE: usize = if cfg!(test) { 3 } else { 256 };

/// Where the super page is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Supers {
    /// The home that counts.
    pub home: u64,
    /// The newest generation that any sector of either is of, or may be.
    pub newest: u64,
    /// Both are of the same.
    pub twice: bool,
}

impl State {
    /// Where the next super page is written, and in which generation.
    fn next_super(&mut self) -> (u64, u64) {
        let generation = if self.disk.version == OLD || mutant::is("borg: torn pages stay") {
            self.disk.generation + 1
        } else {
            self.supers.newest += 1;
            self.supers.newest
        };
        (1 - self.supers.home, generation)
    }

    /// Whether something that counts is in one home only, and can be copied.
    pub(super) fn has_to_copy(&self) -> bool {
        let written = self.disk.version != OLD && self.disk.generation > 0 && !self.left;
        let page = !self.supers.twice && self.supers.newest == self.disk.generation;
        written && self.failed.is_none() && (self.segments.once() > 0 || page)
    }
}

impl Borg {
    /// Writes the super page with a change, over the older one, and makes it durable.
    pub(super) async fn write_super(
        &self,
        change: impl FnOnce(&mut Super),
        how: &Hints,
    ) -> Result<(), IoError> {
        let mut disk = self.state.borrow().disk.clone();
        change(&mut disk);
        let at;
        (at, disk.generation) = {
            let state = &mut *self.state.borrow_mut();
            state.supers.twice = false;
            state.next_super()
        };
        self.write_super_at(&disk, at, how).await?;
        let state = &mut *self.state.borrow_mut();
        (state.disk, state.supers.home) = (disk, at);
        Ok(())
    }

    async fn write_super_at(&self, disk: &Super, at: u64, how: &Hints) -> Result<(), IoError> {
        let place = Extent::of_pages(at, 1);
        did("super page", place, place.start.0);
        self.bopt.write(place, Buffer::from_vec(disk.encode(at)), how.clone()).await?;
        self.flush_bopt(how).await
    }

    /// What opening has made whole goes to disk, before anything relies on it. What it was made from may not be durable:
    /// whoever wrote it may have ended before a flush.
    pub(super) async fn write_mended(&self, mended: Vec<(Extent, Vec<u8>)>) -> Result<(), IoError> {
        if mended.is_empty() {
            return Ok(());
        }
        let how = Hints::default();
        self.flush_bopt(&how).await?;
        for (at, bytes) in mended {
            did("made whole", at, at.start.0);
            self.bopt.write(at, Buffer::from_vec(bytes), how.clone()).await?;
        }
        self.flush_bopt(&how).await
    }

    /// Copies what is in one home only to the other one; for who holds the turn.
    pub(super) async fn copy_all(&self, how: &Hints) -> Result<(), IoError> {
        while self.copy_some(false, how).await? {}
        Ok(())
    }

    /// The same of some; whether there is more. With one request to read and one to write, if it is to be a strand.
    /// Copies are made of what is on disk, so that what is written in one generation is one and the same.
    pub(super) async fn copy_some(&self, strand: bool, how: &Hints) -> Result<bool, IoError> {
        let (some, identity) = {
            let state = self.state.borrow();
            if !state.has_to_copy() {
                return Ok(false);
            }
            let once = state.segments.which(|segment| segment.homes < 2 && !segment.owed);
            let place = |segment: u32| {
                let known = state.segments.of(segment);
                (segment, known.generation, known.home)
            };
            let mut some: Vec<_> = once.into_iter().take(COPIED_AT_ONCE).map(place).collect();
            let goes_on = |pair: &[(u32, u64, u64)]| pair[0].0 + 1 == pair[1].0 && pair[0].2 == pair[1].2;
            let end = some.windows(2).position(|pair| strand && !goes_on(pair));
            some.truncate(end.map_or(some.len(), |last| last + 1));
            (some, state.disk.identity)
        };
        if some.is_empty() {
            self.copy_super(how).await?;
            return Ok(false);
        }
        self.flush_bopt(how).await?;
        edge("map pages are copied to their other homes");
        let places = some.iter().map(|&(segment, _, home)| self.layout.map_page(segment, home));
        let read = destage::read(&*self.bopt, places, |at| self.buffer(at), how).await?;
        let (mut copies, mut copied) = (destage::Pages::default(), Vec::new());
        for (segment, generation, home) in some {
            let (from, to) = (self.layout.map_page(segment, home), self.layout.map_page(segment, 1 - home));
            let bytes = read[&from].to_vec();
            if self.timing_only {
                copies.insert(to, read[&from].clone());
            } else if sealed::home_of_map(from, identity, &bytes) == Home::Whole(generation) {
                copies.insert(to, Buffer::from_vec(sealed::for_home(to, generation, identity, &bytes)));
            } else {
                // It has rotted meanwhile: the next flush writes it anew.
                self.state.borrow_mut().segments.get(segment).owed = true;
                continue;
            }
            copied.push(segment);
        }
        destage::write(&*self.bopt, &copies, how).await?;
        self.flush_bopt(how).await?;
        let state = &mut *self.state.borrow_mut();
        for segment in &copied {
            state.segments.says_homes(*segment, 2);
        }
        state.map_pages += copied.len() as u64;
        Ok(!copied.is_empty())
    }

    async fn copy_super(&self, how: &Hints) -> Result<(), IoError> {
        let (disk, other) = {
            let state = self.state.borrow();
            if state.supers.twice || state.supers.newest != state.disk.generation {
                return Ok(());
            }
            (state.disk.clone(), 1 - state.supers.home)
        };
        self.flush_bopt(how).await?;
        self.write_super_at(&disk, other, how).await?;
        self.state.borrow_mut().supers.twice = true;
        Ok(())
    }

    /// Makes an empty BOPT of what is there: all map pages in both homes, then the super page in both.
    pub(super) async fn format(&self, how: &Hints) -> Result<(), IoError> {
        edge("a new BOPT");
        let given_up = self.state.borrow().torn.iter().any(|page| *page < 2);
        if self.state.borrow().disk.identity != 0 || given_up {
            // An earlier attempt failed, and its super page may be there. Or a BOPT was half given up: a super page that
            // is written beside the mark of that, and torn, would pass for damage.
            self.write_blank(how).await?;
            self.state.borrow_mut().torn.clear();
        }
        {
            let mut rng = runtime::rng("borg identity");
            let identity = u128::from(rng.bits()) << 64 | u128::from(rng.bits());
            self.state.borrow_mut().disk.identity = identity.max(1);
        }
        let bytes = |said: &[Saying]| said.iter().flat_map(|said| said.bytes.clone()).collect::<Vec<u8>>();
        let second = self.say_all_at(1);
        let is_old = self.state.borrow().disk.version == OLD;
        let first = if is_old { bytes(&self.say_all_at(0)) } else { self.again(&second) };
        for (home, pages) in [(1, bytes(&second)), (0, first)] {
            let at = Extent::of_pages(self.layout.map_page(0, home), u64::from(self.layout.segments()));
            let writes = Buffer::from_vec(pages);
            for (part, piece) in writes.split(at, FORMATTED_AT_ONCE) {
                self.bopt.write(part, piece, how.clone()).await?;
            }
        }
        self.flush_bopt(how).await?;
        self.write_super(|disk| disk.clean = false, how).await?;
        self.write_super(|_| (), how).await
    }

    /// The map pages of all segments, for one of their homes, as if they were durable.
    fn say_all_at(&self, home: u64) -> Vec<Saying> {
        let state = &mut *self.state.borrow_mut();
        let say = |segment| {
            state.segments.get(segment).home = 1 - home;
            let said = state.saying(self, segment);
            state.said(&said);
            said
        };
        (0..self.layout.segments()).map(say).collect()
    }

    /// The same map pages, for their first home.
    fn again(&self, second: &[Saying]) -> Vec<u8> {
        let state = &mut *self.state.borrow_mut();
        let again = |said: &Saying| {
            state.segments.says_homes(said.segment, 2);
            state.segments.get(said.segment).home = 0;
            let at = self.layout.map_page(said.segment, 0);
            sealed::for_home(at, said.generation, state.disk.identity, &said.bytes)
        };
        second.iter().flat_map(again).collect()
    }

    /// A torn page of version 1 must not become whole by what is written over it next: its first sector goes first.
    pub(super) async fn take_away_torn(&self, how: &Hints) -> Result<(), IoError> {
        let torn = self.state.borrow().torn.clone();
        if torn.is_empty() || mutant::is("borg: torn pages stay") {
            return Ok(());
        }
        let void = |page: &u64| {
            let first = Extent { sectors: 1, ..Extent::of_pages(*page, 1) };
            self.bopt.write(first, Buffer::from_vec(page::void()), how.clone())
        };
        join_all(torn.iter().map(void)).await.into_iter().collect::<Result<(), _>>()?;
        self.flush_bopt(how).await?;
        self.state.borrow_mut().torn.clear();
        Ok(())
    }

    /// Takes the BOPT's marks away: it is blank then.
    pub(super) async fn erase(&self, how: &Hints) -> Result<(), IoError> {
        let _turn = self.turn(how).await;
        if self.state.borrow().disk.identity == 0 {
            return Ok(());
        }
        self.write_blank(how).await
    }

    /// At every moment one of the super pages is whole, or both are seen to be given up.
    async fn write_blank(&self, how: &Hints) -> Result<(), IoError> {
        let older = 1 - self.state.borrow().supers.home;
        let page = |at| Extent::of_pages(at, 1);
        let first = |at| Extent { sectors: 1, ..page(at) };
        let rest = |at| Extent { start: page(at).start + 1, sectors: PAGE_SECTORS - 1 };
        let void = || Buffer::from_vec(page::void());
        let zeroes = |at: Extent| Buffer::zeroed(at.bytes());
        for (at, data) in [
            (first(older), void()),
            (first(1 - older), void()),
            (rest(0), zeroes(rest(0))),
            (rest(1), zeroes(rest(1))),
            (first(0), zeroes(first(0))),
            (first(1), zeroes(first(1))),
        ] {
            self.bopt.write(at, data, how.clone()).await?;
            self.flush_bopt(how).await?;
        }
        Ok(())
    }
}
