//! What the drives of a run did, read from its event log: their requests in the order of their answers, which is that
//! of the head where no write cache lies between. Requests of one command are answered together, and are in the order
//! of their addresses.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use seekless_core::runtime::Event;
use seekless_core::{Class, Extent, Flags, Latency, Names, Nanos, Op, Origin, Record};

use crate::events::EventSink;

/// Requests to the drives of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Accesses {
    /// Names of the drives, by number.
    pub drives: Vec<String>,
    all: Vec<Access>,
}

/// An answered request. Smaller than a record, since there may be many millions.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Access {
    answered: Nanos,
    extent: Extent,
    drive: u16,
    op: Op,
    class: Class,
}

/// The class of a request, as the report calls it.
fn source(class: Class) -> &'static str {
    match class {
        Class::Urgent | Class::Foreground => "clients",
        Class::Background => "background",
        Class::Free => "free of charge",
    }
}

impl Accesses {
    /// Number of the requests.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Each as a record of the time of its answer, whose process is the class of the request, by a name in `names`.
    pub fn records<'a>(&'a self, names: &mut Names) -> impl Iterator<Item = Record> + Clone + 'a {
        let ids = Class::ALL.map(|class| names.intern(source(class)));
        self.all.iter().map(move |access| Record {
            time: access.answered,
            device: u32::from(access.drive),
            op: access.op,
            extent: access.extent,
            flags: Flags::default(),
            origin: Origin { name: ids[access.class as usize], ..Origin::default() },
            latency: Latency::UNKNOWN,
        })
    }
}

/// Follows a run.
#[derive(Default)]
pub struct Follower(Rc<RefCell<Following>>);

#[derive(Default)]
struct Following {
    /// Requests without an answer, by drive and number.
    waiting: BTreeMap<(u32, u64), (Op, Extent, Class)>,
    all: Vec<Access>,
}

impl Follower {
    /// The listener of the run.
    pub fn sink(&self) -> EventSink {
        let following = self.0.clone();
        Box::new(move |now, event| following.borrow_mut().follow(now, event))
    }

    /// What the drives did, which have these names.
    pub fn finish(self, drives: impl IntoIterator<Item = String>) -> Accesses {
        let mut all = std::mem::take(&mut self.0.borrow_mut().all);
        all.sort_by_key(|access| (access.answered, access.drive, access.extent.start));
        Accesses { drives: drives.into_iter().collect(), all }
    }
}

impl Following {
    fn follow(&mut self, now: Nanos, event: &Event) {
        match *event {
            Event::Request { device, id, op, extent, class } => {
                self.waiting.insert((device, id), (op, extent, class));
            }
            Event::Complete { device, id, ok } => {
                let request =
                    self.waiting.remove(&(device, id)).filter(|(_, extent, _)| ok && extent.sectors > 0);
                if let (Some((op, extent, class)), Ok(drive)) = (request, u16::try_from(device)) {
                    self.all.push(Access { answered: now, extent, drive, op, class });
                }
            }
            Event::Timer { .. } | Event::Offloaded { .. } | Event::Did { .. } => (),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answered_requests_are_kept_in_the_order_of_their_answers() {
        let follower = Follower::default();
        let mut sink = follower.sink();
        let request = |id, start, class| Event::Request {
            device: 1,
            id,
            op: Op::Read,
            extent: Extent::new(start, 8),
            class,
        };
        sink(Nanos(1), &request(7, 800, Class::Foreground));
        sink(Nanos(2), &request(8, 16, Class::Background));
        sink(Nanos(3), &request(9, 24, Class::Free));
        sink(Nanos(4), &Event::Complete { device: 1, id: 8, ok: true });
        sink(Nanos(5), &Event::Complete { device: 1, id: 9, ok: false });
        sink(Nanos(6), &Event::Complete { device: 1, id: 7, ok: true });
        let accesses = follower.finish(["log".to_owned(), "disk".to_owned()]);
        let mut names = Names::default();
        let records: Vec<Record> = accesses.records(&mut names).collect();
        let shown: Vec<_> = records
            .iter()
            .map(|record| {
                (record.time.0, record.extent.start.0, record.device, names.get(record.origin.name))
            })
            .collect();
        assert_eq!(shown, [(4, 16, 1, "background"), (6, 800, 1, "clients")]);
    }
}
