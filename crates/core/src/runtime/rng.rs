//! Random numbers that are the same in every release, on every machine: xoshiro256++ with its state filled by
//! `SplitMix64`. A library may change its numbers with a version; ours may not, since a printed seed must replay for
//! ever.

/// A random stream, see [`super::rng`].
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// The stream of a seed.
    pub fn seeded(seed: u64) -> Rng {
        let mut x = seed;
        let state = std::array::from_fn(|_| {
            x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let z = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ z >> 31
        });
        Rng { state }
    }

    /// The `turn`-th stream called `name` of a run with this seed.
    pub(super) fn named(seed: u64, name: &str, turn: u64) -> Rng {
        let mut hash = seed ^ turn.wrapping_mul(0xD6E8_FEB8_6659_FD93);
        for byte in name.bytes() {
            hash = (hash.rotate_left(5) ^ u64::from(byte)).wrapping_mul(0x517C_C1B7_2722_0A95);
        }
        Rng::seeded(hash)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ b << 17, d.rotate_left(45)];
        result
    }

    /// A number below `bound`, uniform except for a bias of at most `bound` in 2^64.
    ///
    /// # Panics
    /// If `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "found a bound of zero, expected a positive one");
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// True with probability `numerator` / `denominator`.
    pub fn chance(&mut self, numerator: u64, denominator: u64) -> bool {
        self.below(denominator) < numerator
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_independent_and_stay_the_same() {
        let draw = |mut rng: Rng| [rng.bits(), rng.bits(), rng.bits()];
        assert_eq!(draw(Rng::named(1, "a", 1)), draw(Rng::named(1, "a", 1)));
        assert_ne!(draw(Rng::named(1, "a", 1)), draw(Rng::named(1, "b", 1)));
        assert_ne!(draw(Rng::named(1, "a", 1)), draw(Rng::named(1, "a", 2)));
        assert_ne!(draw(Rng::named(1, "a", 1)), draw(Rng::named(2, "a", 1)));
    }

    #[test]
    fn numbers_below_a_bound_fill_it_evenly() {
        let mut rng = Rng::seeded(7);
        let mut counts = [0_u32; 10];
        for _ in 0..10_000 {
            counts[rng.below(10) as usize] += 1;
        }
        assert!(counts.iter().all(|&count| (850..1150).contains(&count)), "{counts:?}");
    }
}
