//! Accesses to the media that do not succeed at once: which ones, and how many revolutions they take.
//!
//! A function of the description's seed and of the number of the access, so that a run is repeated exactly, and so that
//! a copy of a drive goes on as the drive itself does.

use super::mechanics::Mechanics;
use crate::spec::RetrySpec;

/// Retries of a drive.
#[derive(Clone, Debug)]
pub struct Retries {
    /// An access whose draw is below this one fails at first.
    below: u64,
    revolutions: u64,
    /// Advances with each access.
    state: u64,
}

impl Retries {
    /// Before the first access.
    pub fn new(spec: &RetrySpec) -> Retries {
        let below = (spec.share * u64::MAX as f64) as u64;
        Retries { below, revolutions: u64::from(spec.revolutions), state: spec.seed }
    }

    /// The further time of the next access, in nanoseconds: whole revolutions, most often none.
    pub fn next(&mut self, mechanics: &Mechanics) -> u64 {
        if self.draw() >= self.below {
            return 0;
        }
        (1 + self.draw() % self.revolutions) * mechanics.revolution().0
    }

    /// The next number of `SplitMix64` (Steele et al., OOPSLA 2014).
    fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
