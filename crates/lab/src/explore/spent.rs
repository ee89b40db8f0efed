//! Where an exploration's time goes. The clock is the caller's: here there is none.

/// What time goes into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Carrying runs out whose power stays, and following what their clients saw.
    Powered,
    /// The same of runs whose power goes.
    Runs,
    /// Choosing what survives, and making its images.
    Cuts,
    /// Opening volumes on them.
    Opening,
    /// Finding out which pages may differ.
    Comparing,
    /// Reading those, and judging them.
    Reading,
}

impl Part {
    /// All, and what people call them.
    pub const NAMES: [(Part, &'static str); 6] = [
        (Part::Powered, "runs with power"),
        (Part::Runs, "runs"),
        (Part::Cuts, "cuts"),
        (Part::Opening, "opening"),
        (Part::Comparing, "comparing"),
        (Part::Reading, "reading"),
    ];
}

/// The time spent, by part.
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
    /// By this clock.
    pub fn new(clock: fn() -> u64) -> Spent {
        Spent { clock, last: clock(), parts: [0; Part::NAMES.len()] }
    }

    /// What passed since the last call went into this.
    pub fn on(&mut self, part: Part) {
        let now = (self.clock)();
        self.parts[part as usize] += now - self.last;
        self.last = now;
    }
}
