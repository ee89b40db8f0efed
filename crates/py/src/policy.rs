//! Eviction policies in Python: `python/seekless/_policy.py` calls the user's object, and this calls that.

use std::ops::Range;
use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use seekless::layers::cache::policy::batched::{Batched, Decider, Event, Happened, Wants};
use seekless::layers::cache::policy::outside::Make;

use crate::errors::PolicyError;
use crate::signals;

/// A policy in Python, while it makes no mistake: after one it is not called any more, and the run ends.
struct Called {
    name: String,
    driver: Option<Py<PyAny>>,
    wants: Wants,
}

/// What a driver says of its policy.
#[derive(FromPyObject)]
struct Traits {
    misses: bool,
    pins: bool,
    prefetches: bool,
    decisions: usize,
}

/// Makes policies of this name by calling `policy` with the number of pages.
pub fn maker(name: String, policy: Py<PyAny>) -> Make {
    Rc::new(move |pages| {
        let made: PyResult<(Py<PyAny>, Traits)> = Python::attach(|py| {
            let module = py.import("seekless._policy")?;
            let driver = module.getattr("Driver")?.call1((&name, &policy, pages))?;
            let traits = driver.extract()?;
            Ok((driver.unbind(), traits))
        });
        let (driver, traits) = match made {
            Ok((driver, traits)) => (Some(driver), traits),
            Err(error) => {
                signals::raise(error);
                (None, Traits { misses: false, pins: false, prefetches: false, decisions: 1 })
            }
        };
        let wants = Wants { misses: traits.misses, pins: traits.pins, prefetches: traits.prefetches };
        Box::new(Batched::new(Called { name: name.clone(), driver, wants }, pages, traits.decisions))
    })
}

/// The numbers of events in `_policy.py`.
fn number(event: &Event) -> u8 {
    match event.0 {
        Happened::Miss => 0,
        Happened::Insert => 1,
        Happened::Hit => 2,
        Happened::Remove => 3,
        Happened::Pin => 4,
        Happened::Unpin => 5,
        Happened::Resize => 6,
    }
}

impl Called {
    /// Delivers what happened, and takes what `call` chooses.
    fn choose(
        &mut self,
        events: &[Event],
        call: impl for<'py> FnOnce(
            &Bound<'py, PyAny>,
            Bound<'py, PyBytes>,
            Vec<u64>,
        ) -> PyResult<Bound<'py, PyAny>>,
    ) -> Vec<u64> {
        let Some(driver) = &self.driver else { return Vec::new() };
        let kinds: Vec<u8> = events.iter().map(number).collect();
        let of: Vec<u64> = events.iter().map(|event| event.1).collect();
        let chosen = Python::attach(|py| call(driver.bind(py), PyBytes::new(py, &kinds), of)?.extract());
        chosen.unwrap_or_else(|error| {
            self.fail(error);
            Vec::new()
        })
    }

    fn fail(&mut self, error: PyErr) {
        self.driver = None;
        signals::raise(error);
    }
}

impl Decider for Called {
    fn wants(&self) -> Wants {
        self.wants
    }

    fn decide(&mut self, events: &[Event], pages: usize) -> Vec<u64> {
        self.choose(events, |driver, kinds, of| {
            driver.call_method1(pyo3::intern!(driver.py(), "decide"), (kinds, of, pages))
        })
    }

    fn prefetch(&mut self, events: &[Event], missed: &[Range<u64>]) -> Vec<u64> {
        let runs: Vec<(u64, u64)> = missed.iter().map(|run| (run.start, run.end - run.start)).collect();
        self.choose(events, |driver, kinds, of| {
            driver.call_method1(pyo3::intern!(driver.py(), "prefetch"), (kinds, of, runs))
        })
    }

    fn mistaken(&mut self, chosen: Option<u64>) {
        if self.driver.is_some() {
            let found = match chosen {
                None => "found None, expected a page: there are some that can be evicted".to_owned(),
                Some(page) => format!(
                    "found {page}, expected a page that was inserted, is not pinned, and has not been evicted or \
                     removed since"
                ),
            };
            let name = &self.name;
            self.fail(PolicyError::new_err(format!("the policy {name}: evict(): {found}")));
        }
    }
}
