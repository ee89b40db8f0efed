//! Fetches what followed before: a probability graph. Of each place that was read it remembers which places were read
//! next and how often; when it is read again, those that followed in at least `parameter` percent of all cases (40 if
//! it is 0) are fetched, and what probably follows them.

#[path = "abi.rs"]
#[macro_use]
mod abi;

use abi::{Actions, Function, Request, BACKGROUND};

/// Places that are remembered, a power of two; of two that hash alike the later one stays.
const PLACES: usize = 16_384;
/// Successors of a place.
const SUCCESSORS: usize = 4;
/// Steps that are followed ahead.
const STEPS: usize = 8;
/// Counts are halved at this number, so that habits may change.
const MOST: u32 = 64;

/// A place that followed: its sectors, and how often.
#[derive(Clone, Copy, Default)]
struct Successor {
    start: u64,
    sectors: u64,
    count: u32,
}

#[derive(Clone, Copy, Default)]
struct Place {
    start: u64,
    /// Times that it was read.
    count: u32,
    successors: [Successor; SUCCESSORS],
}

impl Place {
    /// This request followed it.
    fn followed_by(&mut self, request: &Request) {
        self.count += 1;
        let known = self.successors.iter().position(|known| known.count > 0 && known.start == request.start);
        let rarest = (0..SUCCESSORS).min_by_key(|&at| self.successors[at].count).unwrap_or(0);
        let place = &mut self.successors[known.unwrap_or(rarest)];
        let count = if known.is_some() { place.count + 1 } else { 1 };
        *place = Successor { start: request.start, sectors: request.sectors, count };
        if self.count >= MOST {
            self.count /= 2;
            self.successors.iter_mut().for_each(|known| known.count /= 2);
        }
    }
}

struct Successors {
    percent: u32,
    places: Vec<Place>,
    /// Start of the last read.
    last: Option<u64>,
}

impl Successors {
    fn place(&mut self, start: u64) -> &mut Place {
        let hash = start.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let place = &mut self.places[hash as usize % PLACES];
        if place.start != start {
            *place = Place { start, ..Place::default() };
        }
        place
    }
}

impl Function for Successors {
    fn start(_sectors: u64, _pages: u64, parameter: u64) -> Successors {
        let percent = if parameter > 0 { parameter.min(100) as u32 } else { 40 };
        Successors { percent, places: vec![Place::default(); PLACES], last: None }
    }

    fn seen(&mut self, request: &Request, actions: &mut Actions) {
        if !request.is_read() {
            return;
        }
        if let Some(last) = self.last.replace(request.start) {
            self.place(last).followed_by(request);
        }
        let (percent, mut from) = (self.percent, request.start);
        for _ in 0..STEPS {
            let place = *self.place(from);
            // Seen once it may be chance.
            let likely = |next: &&Successor| next.count > 1 && next.count * 100 >= place.count * percent;
            let next = place.successors.iter().filter(likely).max_by_key(|next| next.count);
            let Some(next) = next.filter(|next| next.start != request.start) else { return };
            actions.fetch(next.start, next.sectors, BACKGROUND);
            from = next.start;
        }
    }
}

export!(Successors);
