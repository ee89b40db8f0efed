//! What layers are doing, how far it is, and how long it will take.
//!
//! A server says how long a command has been going on, and of a drain how long it will take. Other work is seen by a
//! counter of what is left, which falls: the time follows from the last [`KEPT`] samples.

use std::collections::{BTreeMap, VecDeque};

use seekless_volume::live::{Doing, LayerStatus, Status};
use serde::Serialize;

/// Samples from which the speed of a work follows.
const KEPT: usize = 30;

/// Counters of what is left of a layer's work, and what that is.
const COUNTERS: [(&str, &str, &str); 2] =
    [("bytes_left_of_the_pass", "scrub", "bytes"), ("groups_to_resync", "resync", "groups")];

/// Something that is going on.
#[derive(Debug, PartialEq, Serialize)]
pub struct Work {
    /// The layer.
    pub layer: String,
    /// What: a command, or its background work.
    pub what: String,
    /// Seconds since it began, if that is known.
    pub for_s: Option<f64>,
    /// Seconds that it will take, if that is known.
    pub left_s: Option<f64>,
    /// The part that is done, if that is known.
    pub done: Option<f64>,
    /// What is left, and its unit.
    pub left: Option<(u64, &'static str)>,
}

/// What is left of one work, over time.
#[derive(Default)]
struct Left {
    /// Most since it began.
    first: u64,
    /// Times in seconds, and what was left.
    samples: VecDeque<(f64, u64)>,
}

/// All work that is seen by counters.
#[derive(Default)]
pub struct Works(BTreeMap<(String, &'static str), Left>);

impl Left {
    fn put(&mut self, at: f64, left: u64) {
        let is_new = self.samples.back().is_none_or(|(before, had)| left > *had || at < *before);
        if is_new {
            *self = Left { first: left, ..Left::default() };
        }
        self.samples.push_back((at, left));
        if self.samples.len() > KEPT {
            self.samples.pop_front();
        }
    }

    /// Seconds that it will take at the speed of the last samples.
    fn seconds(&self) -> Option<f64> {
        let ((from, had), (to, left)) = (self.samples.front()?, self.samples.back()?);
        (left < had).then(|| (to - from) * *left as f64 / (had - left) as f64)
    }
}

/// The part that is done of what was `before`.
fn done(before: u64, left: u64) -> Option<f64> {
    (before > 0).then(|| 1.0 - (left.min(before) as f64 / before as f64))
}

impl Works {
    /// All that is going on by a server's status.
    pub fn of(&mut self, status: &Status) -> Vec<Work> {
        let mut all: Vec<Work> = status.doing.iter().map(|doing| commanded(doing, &status.layers)).collect();
        for layer in &status.layers {
            for (counter, what, unit) in COUNTERS {
                let key = (layer.name.clone(), counter);
                let Some(&left @ 1..) = layer.counters.get(counter) else {
                    self.0.remove(&key);
                    continue;
                };
                let seen = self.0.entry(key).or_default();
                seen.put(status.up_s, left);
                let (left_s, done) = (seen.seconds(), done(seen.first, left));
                // A command of that name is the same work.
                match all.iter_mut().find(|work| work.layer == layer.name && work.what == what) {
                    Some(work) => *work = Work { left_s, done, left: Some((left, unit)), ..take(work) },
                    None => all.push(Work {
                        layer: layer.name.clone(),
                        what: what.to_owned(),
                        for_s: None,
                        left_s,
                        done,
                        left: Some((left, unit)),
                    }),
                }
            }
        }
        self.0.retain(|(name, _), _| status.layers.iter().any(|layer| layer.name == *name));
        all
    }
}

fn take(work: &mut Work) -> Work {
    let (layer, what) = (std::mem::take(&mut work.layer), std::mem::take(&mut work.what));
    Work { layer, what, for_s: work.for_s, left_s: None, done: None, left: None }
}

/// A command, or a change of layers.
fn commanded(doing: &Doing, layers: &[LayerStatus]) -> Work {
    let empties = matches!(doing.what.as_str(), "detach" | "drain");
    let dirty = layers.iter().find(|layer| layer.name == doing.layer).map(|layer| layer.dirty_bytes);
    let dirty = dirty.filter(|_| empties);
    Work {
        layer: doing.layer.clone(),
        what: doing.what.clone(),
        for_s: Some(doing.for_s),
        left_s: doing.left_s,
        done: dirty.and_then(|dirty| done(doing.dirty_bytes_before, dirty)),
        left: dirty.map(|dirty| (dirty, "bytes")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(up_s: f64, left: Option<u64>, doing: Vec<Doing>) -> Status {
        let counters = left.map(|left| ("bytes_left_of_the_pass".to_owned(), left)).into_iter().collect();
        let layer = LayerStatus {
            name: "s".to_owned(),
            is: "scrub".to_owned(),
            dirty_bytes: 25,
            hits: None,
            background_bytes: None,
            stats: None,
            counters,
            trouble: None,
            history: Vec::new(),
            recent: Vec::new(),
        };
        Status {
            file: String::new(),
            process: 1,
            io: String::new(),
            up_s,
            clients: 0,
            clients_so_far: 0,
            requests: 0,
            failed: 0,
            read_bytes: 0,
            written_bytes: 0,
            turns: 0,
            components: Vec::new(),
            devices: Vec::new(),
            exports: Vec::new(),
            layers: vec![layer],
            doing,
        }
    }

    fn doing(what: &str) -> Doing {
        let (what, layer) = (what.to_owned(), "s".to_owned());
        let (stage, moved_pages, of_pages) = (None, None, None);
        Doing {
            what,
            layer,
            for_s: 3.0,
            dirty_bytes_before: 100,
            left_s: Some(1.0),
            stage,
            moved_pages,
            of_pages,
        }
    }

    #[test]
    fn the_time_left_follows_from_a_counter_that_falls() {
        let mut works = Works::default();
        assert_eq!(works.of(&status(0.0, None, Vec::new())), []);
        let first = works.of(&status(1.0, Some(100), Vec::new())).remove(0);
        assert_eq!((first.left_s, first.done, first.for_s), (None, Some(0.0), None));
        let next = works.of(&status(3.0, Some(80), vec![doing("scrub")]));
        assert_eq!(next.len(), 1, "{next:?}");
        assert_eq!(
            (next[0].left_s, next[0].left, next[0].for_s),
            (Some(8.0), Some((80, "bytes")), Some(3.0))
        );
        assert!((next[0].done.unwrap() - 0.2).abs() < 1e-9);
        let again = works.of(&status(4.0, Some(100), Vec::new())).remove(0);
        assert_eq!((again.left_s, again.done), (None, Some(0.0)), "the next pass");
        assert_eq!(works.of(&status(5.0, Some(0), Vec::new())), []);
    }

    #[test]
    fn a_drain_is_as_far_as_its_layer_is_clean() {
        let mut works = Works::default();
        let drain = works.of(&status(1.0, None, vec![doing("drain")])).remove(0);
        assert_eq!((drain.done, drain.left, drain.left_s), (Some(0.75), Some((25, "bytes")), Some(1.0)));
        let other = works.of(&status(1.0, None, vec![doing("verify")])).remove(0);
        assert_eq!((other.done, other.left), (None, None));
    }
}
