//! Common parts of the tests of drives.

/// Reproducible pseudo-random numbers.
pub struct Lcg(pub u64);

impl Lcg {
    /// Less than `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(self.0) * u128::from(end)) >> 64) as u64
    }
}
