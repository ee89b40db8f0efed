//! What a server is doing besides serving: commands, attaching and detaching, with progress.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::rc::Rc;

use schemars::JsonSchema;
use seekless_core::history::Progress;
use seekless_core::{Nanos, PAGE_BYTES, runtime};
use serde::{Deserialize, Serialize};

use super::events::{Event, Events};

/// Something that is going on.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Doing {
    /// What: a command.
    pub what: String,
    /// The layer.
    pub layer: String,
    /// Seconds since it began.
    pub for_s: f64,
    /// Dirty bytes of the layer when it began.
    pub dirty_bytes_before: u64,
    /// Seconds that it will still take, by its progress so far; unknown before there is any.
    pub left_s: Option<f64>,
    /// Stage of a reconfiguration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// Pages that a reconfiguration, a drain or a detach has moved, also within the present round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_pages: Option<u64>,
    /// Pages that it is to move, as far as is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_pages: Option<u64>,
}

/// State of a layer in which something is going on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Now {
    /// Its dirty bytes.
    pub dirty_bytes: u64,
    /// Those of them that are written back already, in a round that has not ended.
    pub written_bytes: u64,
    /// Progress of its reconfiguration.
    pub progress: Option<Progress>,
}

/// What is going on, by number.
#[derive(Default)]
pub struct Log {
    last: Cell<u64>,
    going_on: RefCell<BTreeMap<u64, Begun>>,
    /// Those who subscribed to events.
    pub events: Events,
}

/// What began.
struct Begun {
    what: String,
    layer: String,
    at_s: f64,
    dirty: u64,
    /// Whether it changes the tree: one at a time does.
    changes: bool,
}

/// Something that is going on until this is dropped.
pub struct Going {
    log: Rc<Log>,
    number: u64,
    error: RefCell<Option<String>>,
}

impl Going {
    /// Notes why it failed, if it did.
    pub fn result<T, E: Display>(&self, result: Result<T, E>) -> Result<T, E> {
        result.inspect_err(|error| drop(self.error.replace(Some(error.to_string()))))
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        let Some(Begun { what, layer, .. }) = self.log.going_on.borrow_mut().remove(&self.number) else {
            return;
        };
        let (at_s, error) = (runtime::now().seconds(), self.error.take());
        self.log.events.put(&Event::Ended { at_s, what, layer, error });
    }
}

/// Seconds that draining to zero still takes, after `took` seconds from `before` to `now`.
fn left(before: u64, now: u64, took: f64) -> Option<f64> {
    (now < before).then(|| took * now as f64 / (before - now) as f64)
}

impl Log {
    /// Something begins, on a layer with this many dirty bytes.
    pub fn begin(self: &Rc<Self>, what: &str, layer: &str, dirty: u64, changes: bool) -> Going {
        let number = self.last.get() + 1;
        self.last.set(number);
        let (what, layer, at_s) = (what.to_owned(), layer.to_owned(), runtime::now().seconds());
        self.events.put(&Event::Began { at_s, what: what.clone(), layer: layer.clone() });
        self.going_on.borrow_mut().insert(number, Begun { what, layer, at_s, dirty, changes });
        Going { log: self.clone(), number, error: RefCell::default() }
    }

    /// What changes the tree now, if anything does, in words.
    pub fn change(&self) -> Option<String> {
        let going_on = self.going_on.borrow();
        let begun = going_on.values().find(|begun| begun.changes)?;
        let since = runtime::now().seconds() - begun.at_s;
        Some(format!("{} of {} going on for {since:.0} s", begun.what, begun.layer))
    }

    /// All that is going on; `state` gives the state of a layer.
    pub fn all(&self, state: impl Fn(&str) -> Now) -> Vec<Doing> {
        let each = |begun: &Begun| {
            let now = runtime::now();
            let (for_s, state) = (now.seconds() - begun.at_s, state(&begun.layer));
            let progress = state.progress.filter(|_| begun.what == "reconfigure");
            let drains = matches!(begun.what.as_str(), "detach" | "drain") && begun.dirty > 0;
            let dirty = state.dirty_bytes.saturating_sub(state.written_bytes);
            let left_s = if drains {
                left(begun.dirty, dirty, for_s)
            } else {
                progress.and_then(|progress| progress.left(now)).map(Nanos::seconds)
            };
            let (moved, of) = if drains {
                let pages = begun.dirty / PAGE_BYTES;
                (Some(pages.saturating_sub(dirty / PAGE_BYTES)), Some(pages))
            } else {
                let of = progress.map(|progress| progress.of).filter(|pages| *pages > 0);
                (progress.map(|progress| progress.moved), of)
            };
            Doing {
                what: begun.what.clone(),
                layer: begun.layer.clone(),
                for_s,
                dirty_bytes_before: begun.dirty,
                left_s,
                stage: progress.map(|progress| progress.stage.to_owned()),
                moved_pages: moved,
                of_pages: of,
            }
        };
        self.going_on.borrow().values().map(each).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drain_shows_pages_of_a_round_that_has_not_ended() {
        let run = async {
            let log = Rc::<Log>::default();
            let _going = log.begin("detach", "borg", 40 * PAGE_BYTES, true);
            runtime::sleep(Nanos::from_millis(5_000)).await;
            let now = Now { dirty_bytes: 40 * PAGE_BYTES, written_bytes: 10 * PAGE_BYTES, progress: None };
            let doing = log.all(|_| now).remove(0);
            assert_eq!((doing.moved_pages, doing.of_pages, doing.left_s), (Some(10), Some(40), Some(15.0)));
            // Clients write faster.
            let now = Now { dirty_bytes: 50 * PAGE_BYTES, ..now };
            let doing = log.all(|_| now).remove(0);
            assert_eq!((doing.moved_pages, doing.left_s), (Some(0), None));
        };
        runtime::Runtime::new(1).run(run).unwrap();
    }

    #[test]
    fn the_time_left_follows_from_the_progress() {
        assert_eq!(left(100, 75, 5.0), Some(15.0));
        assert_eq!(left(100, 0, 5.0), Some(0.0));
        assert_eq!(left(100, 100, 5.0), None);
        assert_eq!(left(0, 40, 5.0), None, "clients write faster than it is drained");
    }
}
