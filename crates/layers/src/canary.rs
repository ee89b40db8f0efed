//! Canaries: known bugs, enabled one at a time, to prove that the crash tests find each of them.
//!
//! Only a build with the feature `canaries` has them, and a layer's option `canary` to enable one. In other builds this
//! module is empty.

#[cfg(feature = "canaries")]
pub use with::{Canary, check, of};
#[cfg(not(feature = "canaries"))]
pub use without::Canary;

#[cfg(feature = "canaries")]
mod with {
    use std::borrow::Cow;
    use std::cell::{Cell, RefCell};

    use rustc_hash::FxHashMap;
    use seekless_core::{Buffer, Extent, mutant};

    use crate::Refused;

    /// The enabled bug of a layer, and its state.
    #[derive(Default)]
    pub struct Canary {
        name: &'static str,
        /// For each page, its former slot, and the number of reads since.
        before: RefCell<FxHashMap<u64, (u32, u32)>>,
        written: RefCell<Option<(Extent, Buffer)>>,
        repeats: Cell<bool>,
    }

    /// Checks that a layer's option names one of its canaries.
    pub fn check(option: Option<&str>, names: &[&str]) -> Result<(), Refused> {
        match option.filter(|name| !names.contains(name)) {
            Some(name) => Err(Refused::new("canary", name, names.join(", "))),
            None => Ok(()),
        }
    }

    /// The canary that a layer's option names, or otherwise the enabled mutant, if it is one of this layer's.
    pub fn of<'a>(option: Option<&'a str>, layer: &str) -> Option<&'a str> {
        option.or_else(|| mutant::chosen()?.strip_prefix(layer)?.strip_prefix(": "))
    }

    impl Canary {
        /// The canary of this name; none without a name.
        pub fn new(name: Option<&str>, names: &[&'static str]) -> Canary {
            let known = names.iter().find(|known| Some(**known) == name);
            Canary { name: known.copied().unwrap_or_default(), ..Canary::default() }
        }

        /// Whether this canary is enabled.
        pub fn is(&self, name: &str) -> bool {
            self.name == name
        }

        /// Records that a page has moved from this slot.
        pub fn moved(&self, page: u64, from: u32) {
            if self.is("stale read") {
                self.before.borrow_mut().insert(page, (from, 0));
            }
        }

        /// The slot to read a page from, which is in `now`: of every four reads since it moved, the second goes to the
        /// former slot.
        pub fn read_from(&self, page: u64, now: u32) -> u32 {
            let mut before = self.before.borrow_mut();
            let Some((slot, reads)) = before.get_mut(&page) else { return now };
            *reads += 1;
            if *reads % 4 == 2 { *slot } else { now }
        }

        /// Records a write; returns an earlier one to be repeated.
        pub fn again(&self, at: Extent, from: &Buffer) -> Option<(Extent, Buffer)> {
            // A repeated write is not repeated again.
            if !self.is("double reply") || self.repeats.take() {
                return None;
            }
            let before = self.written.replace(Some((at, from.clone())));
            self.repeats.set(before.is_some());
            before
        }

        /// Entries of a map to be written: every second map lacks one.
        pub fn entries<'a>(&self, generation: u64, slots: &'a [u32], none: u32) -> Cow<'a, [u32]> {
            let mut slots = Cow::Borrowed(slots);
            if self.is("lost map entry") && generation % 2 == 0 {
                let mapped = slots.iter().filter(|&&slot| slot != none).count();
                // A different one each time.
                let lost = (generation as usize * 61).checked_rem(mapped);
                let mut entries = slots.to_mut().iter_mut().filter(|slot| **slot != none);
                lost.and_then(|lost| entries.nth(lost)).into_iter().for_each(|slot| *slot = none);
            }
            slots
        }
    }
}

#[cfg(not(feature = "canaries"))]
mod without {
    use std::borrow::Cow;

    use seekless_core::{Buffer, Extent};

    /// No canary.
    #[derive(Default)]
    pub struct Canary(());

    #[allow(clippy::unused_self)]
    impl Canary {
        /// Never.
        pub fn is(&self, _: &str) -> bool {
            false
        }

        /// Does nothing.
        pub fn moved(&self, _: u64, _: u32) {}

        /// The present slot.
        pub fn read_from(&self, _: u64, now: u32) -> u32 {
            now
        }

        /// No write is repeated.
        pub fn again(&self, _: Extent, _: &Buffer) -> Option<(Extent, Buffer)> {
            None
        }

        /// All entries.
        pub fn entries<'a>(&self, _: u64, slots: &'a [u32], _: u32) -> Cow<'a, [u32]> {
            Cow::Borrowed(slots)
        }
    }
}
