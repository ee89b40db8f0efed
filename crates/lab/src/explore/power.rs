//! Effect of a power cut: what is durable survives, and any sectors of what is not, in any order.
//!
//! Follows a log event by event. A write is durable when a flush is answered that was issued after the write was
//! answered, or when it is answered and was FUA. Fault model: a sector is written in full or not at all; of a
//! non-durable write any sectors may survive, answered or not; of two overlapping ones either may, unless the later one
//! is durable and began when the earlier one had ended. What a failed flush should have made durable may have been
//! dropped: no later flush makes it so. A weak sector whose repair is lost after it was answered is unreadable
//! (`weak.rs`).

use seekless_core::Extent;

use super::image::{Content, Image};
use super::log::{Event, Log, Write};
use super::rot::Rot;

/// Sectors of a write that survive, counted from its first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Survivor {
    /// Index of the write in [`Log::writes`].
    pub write: usize,
    /// First sector.
    pub first: u64,
    /// End sector, exclusive.
    pub end: u64,
}

/// A crash of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Crash {
    /// Number of events before it.
    pub events: usize,
    /// What survives of non-durable writes. A component that keeps its cache keeps all writes that it answered; these
    /// are then of its unanswered ones.
    pub survivors: Vec<Survivor>,
    /// Components that keep their caches, as bits by number: none at a power cut, all if only the process ends.
    pub keeps: u64,
    /// A sector that rots in addition; runs that continue from the crash do not have it.
    pub rot: Option<Rot>,
    /// Seed of what the owner of the origin writes to it after it (`edited.rs`); runs that continue from the crash do
    /// not have that.
    pub edited: Option<u64>,
    /// A component that is gone after it; runs that continue from the crash have it again.
    pub gone: Option<u32>,
}

/// A write that is not durable.
pub struct Pending {
    /// Index of the write in [`Log::writes`].
    pub write: usize,
    /// Number of events when it began.
    began: usize,
    /// Number of events when it ended, if it has.
    ended: Option<usize>,
    /// Sectors overwritten by something durable.
    buried: Vec<bool>,
    /// Whether a flush failed that should have made it durable.
    dropped: bool,
}

/// State of the components at one moment of a run.
pub struct Power {
    /// Durable content, by component.
    pub durable: Vec<Image>,
    /// Non-durable writes, in the order in which they began.
    pub pending: Vec<Pending>,
    /// Number of events so far.
    happened: usize,
}

/// Surviving sectors of metadata of writes that are otherwise lost: the next write there may complete them.
pub fn torn<'a>(log: &'a Log, survivors: &'a [Survivor]) -> impl Iterator<Item = (u32, Extent)> + 'a {
    survivors.iter().filter_map(|survivor| {
        let write = log.writes.get(survivor.write)?;
        let part = survivor.end.saturating_sub(survivor.first);
        let torn = part < write.at.sectors && write.contents.iter().any(Content::is_metadata);
        torn.then(|| (write.component, Extent::new(write.at.start.0 + survivor.first, part)))
    })
}

/// Puts these sectors of a write, from its `first`, into an image.
fn put(image: &mut Image, write: &Write, first: u64, contents: &[Content], keep: impl Fn(usize) -> bool) {
    if write.late {
        image.put_unmarked(write.at.start.0 + first, contents, keep);
    } else {
        image.put(write.at.start.0 + first, contents, keep);
    }
}

impl Pending {
    /// Whether a flush of this component that began then should make it durable.
    fn is_covered(&self, log: &Log, component: u32, began: usize) -> bool {
        log.writes[self.write].component == component && self.ended.is_some_and(|ended| ended < began)
    }

    /// The parts of these sectors that nothing durable overwrites.
    fn left(&self, log: &Log, sectors: std::ops::Range<u64>) -> Vec<Write> {
        let write = &log.writes[self.write];
        let mut parts: Vec<Write> = Vec::new();
        for index in sectors.filter(|index| !self.buried[*index as usize]) {
            let (sector, content) = (write.at.start.0 + index, write.contents[index as usize].clone());
            if let Some(part) = parts.last_mut().filter(|part| part.at.end().0 == sector) {
                part.at.sectors += 1;
                part.contents.push(content);
                continue;
            }
            let (component, contents) = (write.component, vec![content]);
            parts.push(Write {
                component,
                at: Extent::new(sector, 1),
                contents,
                fua: false,
                late: write.late,
                repairs: Vec::new(),
            });
        }
        parts
    }
}

impl Power {
    /// Components with this durable content.
    pub fn new(durable: Vec<Image>) -> Power {
        Power { durable, pending: Vec::new(), happened: 0 }
    }

    /// Applies the next event. Returns whether a component's state changed: then there are new crash states.
    pub fn follow(&mut self, log: &Log, event: &Event) -> bool {
        let now = self.happened;
        self.happened += 1;
        match *event {
            Event::Client(_)
            | Event::Within(..)
            | Event::Changed(_)
            | Event::Command(_)
            | Event::CommandDone(_) => return false,
            Event::FlushBegan(_) => {}
            Event::WriteBegan(write) => {
                let buried = vec![false; log.writes[write].at.sectors as usize];
                self.pending.push(Pending { write, began: now, ended: None, buried, dropped: false });
            }
            Event::WriteEnded(write) => {
                let fua = log.writes[write].fua;
                self.pending.iter_mut().filter(|pending| pending.write == write).for_each(|pending| {
                    pending.ended = Some(now);
                });
                if fua {
                    self.settle(log, |pending| pending.write == write);
                }
            }
            Event::FlushEnded(component, began) => {
                self.settle(log, |pending| pending.is_covered(log, component, began) && !pending.dropped);
            }
            Event::FlushFailed(component, began) => {
                let covered = |pending: &&mut Pending| pending.is_covered(log, component, began);
                self.pending.iter_mut().filter(covered).for_each(|pending| pending.dropped = true);
            }
        }
        true
    }

    /// Whether a repair of weak sectors was just answered that is not durable.
    pub fn has_repaired(log: &Log, event: &Event) -> bool {
        let repairs = |write: usize| !log.writes[write].repairs.is_empty() && !log.writes[write].fua;
        matches!(*event, Event::WriteEnded(write) if repairs(write))
    }

    /// Makes these writes durable, in the order in which they ended.
    fn settle(&mut self, log: &Log, which: impl Fn(&Pending) -> bool) {
        let (mut settled, pending): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.pending).into_iter().partition(|pending| which(pending));
        self.pending = pending;
        settled.sort_by_key(|pending| pending.ended);
        for done in settled {
            let write = &log.writes[done.write];
            let image = &mut self.durable[write.component as usize];
            put(image, write, 0, &write.contents, |index| !done.buried[index]);
            for other in &mut self.pending {
                let under = &log.writes[other.write];
                let before = other.ended.is_some_and(|ended| ended < done.began);
                if before && under.component == write.component && under.at.overlaps(write.at) {
                    let (from, to) = (under.at.start.max(write.at.start), under.at.end().min(write.at.end()));
                    let first = under.at.start.0;
                    other.buried[(from.0 - first) as usize..(to.0 - first) as usize].fill(true);
                }
            }
        }
    }

    /// State after a restart: the durable content, and what is in the components' caches.
    pub fn restart(&self, log: &Log, crash: &Crash) -> (Vec<Image>, Vec<Write>) {
        let keeps = |component: u32| crash.keeps >> component.min(63) & 1 == 1;
        let mut cached = Vec::new();
        for pending in self.pending.iter().filter(|pending| keeps(log.writes[pending.write].component)) {
            let sectors = log.writes[pending.write].at.sectors;
            let whole = [Survivor { write: pending.write, first: 0, end: sectors }];
            let kept =
                if pending.ended.is_some() && !pending.dropped { &whole[..] } else { &crash.survivors };
            for kept in kept.iter().filter(|kept| kept.write == pending.write) {
                cached.extend(pending.left(log, kept.first.min(sectors)..kept.end.min(sectors)));
            }
        }
        let lost = |survivor: &&Survivor| {
            log.writes.get(survivor.write).is_some_and(|write| !keeps(write.component))
        };
        let survivors: Vec<Survivor> = crash.survivors.iter().filter(lost).copied().collect();
        (self.cut_where(log, &survivors, |component| !keeps(component)), cached)
    }

    /// State after a restart if these survive, applied in order.
    pub fn cut(&self, log: &Log, survivors: &[Survivor]) -> Vec<Image> {
        self.cut_where(log, survivors, |_| true)
    }

    /// As `cut`, if components lose their caches for which `loses` holds.
    fn cut_where(&self, log: &Log, survivors: &[Survivor], loses: impl Fn(u32) -> bool) -> Vec<Image> {
        let mut images = self.durable.clone();
        for pending in self.pending.iter().filter(|pending| pending.ended.is_some()) {
            let write = &log.writes[pending.write];
            for &index in
                write.repairs.iter().filter(|index| !pending.buried[**index] && loses(write.component))
            {
                let image = &mut images[write.component as usize];
                image.put(write.at.start.0 + index as u64, &[Content::Unreadable], |_| true);
            }
        }
        for survivor in survivors {
            // A script may name a write that does not exist.
            let Some(pending) = self.pending.iter().find(|pending| pending.write == survivor.write) else {
                continue;
            };
            let write = &log.writes[survivor.write];
            let first = survivor.first.min(write.at.sectors) as usize;
            let end = survivor.end.min(write.at.sectors) as usize;
            let image = &mut images[write.component as usize];
            let keep = |index: usize| !pending.buried[first + index];
            put(image, write, first as u64, &write.contents[first..end.max(first)], keep);
        }
        images
    }
}
