//! Time of an exploration, by part. The clock is the caller's.

/// Parts of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Runs without a power cut, and checking their histories.
    Powered,
    /// Runs with a power cut, and checking their histories.
    Runs,
    /// Choosing what survives, and making its images.
    Cuts,
    /// Opening volumes on them.
    Opening,
    /// Finding the pages that may differ.
    Comparing,
    /// Reading and checking those.
    Reading,
}

impl Part {
    /// All parts, and their names.
    pub const NAMES: [(Part, &'static str); 6] = [
        (Part::Powered, "runs with power"),
        (Part::Runs, "runs"),
        (Part::Cuts, "cuts"),
        (Part::Opening, "opening"),
        (Part::Comparing, "comparing"),
        (Part::Reading, "reading"),
    ];
}

/// Time spent, by part.
#[derive(Clone, Debug)]
pub struct Spent {
    clock: fn() -> u64,
    last: u64,
    /// In the clock's unit, in the order of [`Part::NAMES`].
    pub parts: [u64; Part::NAMES.len()],
}

impl Default for Spent {
    fn default() -> Self {
        Spent::new(|| 0)
    }
}

impl Spent {
    /// Time by this clock.
    pub fn new(clock: fn() -> u64) -> Spent {
        Spent { clock, last: clock(), parts: [0; Part::NAMES.len()] }
    }

    /// Adds the time since the last call to this part.
    pub fn on(&mut self, part: Part) {
        let now = (self.clock)();
        self.parts[part as usize] += now - self.last;
        self.last = now;
    }
}
