//! Snapshots and clones as operations of explored runs, and what may be found of them.
//!
//! A snapshot or clone is taken while no request is under way, so that what it holds is what the volume may be read as
//! at that moment. Then it has registers of its own: of a snapshot they only come to allow less, those of a clone
//! follow its writes. Until it is answered it may be there, whole, or not; once it is, it has to be; likewise a
//! deletion.
//!
//! Fault model: one that fails leaves it open whether it is there. It is left alone until the next restart.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;

use seekless_core::device::{LARGEST_REQUEST_SECTORS, View};
use seekless_core::runtime::Rng;
use seekless_core::{BlockDevice, Buffer, Extent, Gate, Hints, Layer, Op, Top};

use super::log::{Event, Log};
use super::restart::Failure;
use super::script::{Request, Step};
use super::settling::Settling;
use crate::check::{self, Registers, Stamping};

/// Snapshots of a run, by number: 0 and 1.
const SNAPSHOTS: u64 = 2;
/// Clones of a run: 2 and 3.
const CLONES: u64 = 2;
/// One in this many requests goes to one of them.
const TO_THEM: u64 = 3;

/// A change of the snapshots and clones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Take a snapshot with this number.
    Snapshot(u8),
    /// Take a clone with this number, of the volume or of a snapshot.
    Clone(u8, Option<u8>),
    /// Delete the one with this number.
    Delete(u8),
}

/// What happened to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// A change begins.
    Began(Change),
    /// It ended, and whether it succeeded.
    Ended(Change, bool),
    /// The volume was opened: numbers of those that are there, and whether each is a clone.
    Opened(Vec<(u8, bool)>),
}

impl Change {
    fn number(self) -> u8 {
        match self {
            Change::Snapshot(number) | Change::Clone(number, _) | Change::Delete(number) => number,
        }
    }

    /// Reads what [`fmt::Display`] writes.
    pub fn parse(words: &[&str]) -> Option<Change> {
        match words {
            ["snapshot", snapshot] => number(snapshot).map(Change::Snapshot),
            ["clone", clone] => Some(Change::Clone(number(clone)?, None)),
            ["clone", clone, "of", from] => Some(Change::Clone(number(clone)?, Some(number(from)?))),
            ["delete", one] => number(one).map(Change::Delete),
            _ => None,
        }
    }
}

/// The number of a snapshot or clone.
pub fn number(text: &str) -> Option<u8> {
    text.parse().ok().filter(|number| u64::from(*number) < SNAPSHOTS + CLONES)
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Snapshot(number) => write!(f, "snapshot {number}"),
            Change::Clone(number, None) => write!(f, "clone {number}"),
            Change::Clone(number, Some(from)) => write!(f, "clone {number} of {from}"),
            Change::Delete(number) => write!(f, "delete {number}"),
        }
    }
}

/// The steps, with a change of snapshots and clones in one of `every`, and some of the requests to them; 0 for none.
pub fn among(steps: Vec<Step>, every: u64, rng: &mut Rng) -> Vec<Step> {
    if every == 0 {
        return steps;
    }
    let mut all = Vec::new();
    for step in steps {
        while rng.chance(1, every.max(2)) {
            let (snapshot, clone) = (rng.below(SNAPSHOTS) as u8, (SNAPSHOTS + rng.below(CLONES)) as u8);
            all.push(Step::Change(match rng.below(5) {
                0 | 1 => Change::Snapshot(snapshot),
                2 => Change::Clone(clone, None),
                3 => Change::Clone(clone, Some(snapshot)),
                _ => Change::Delete(if rng.chance(1, 2) { snapshot } else { clone }),
            }));
        }
        let own = rng.below(SNAPSHOTS + CLONES) as u8;
        all.push(match step {
            Step::Ask(request) if rng.chance(1, TO_THEM) => Step::Within(own, request),
            step => step,
        });
    }
    all
}

/// The snapshots and clones of a run.
pub struct Named {
    layer: Option<Rc<dyn Layer>>,
    /// Requests pass; a change closes it.
    pub gate: Gate,
    /// Those of which it is open whether they are there.
    doubtful: RefCell<BTreeSet<u8>>,
    /// Those in use, with their devices.
    open: RefCell<BTreeMap<u8, (Rc<Top>, bool)>>,
}

impl Named {
    /// Those of the topmost layer; notes which are there.
    pub fn of(layer: Option<Rc<dyn Layer>>, log: &RefCell<Log>) -> Named {
        let layer = layer.filter(|layer| layer.snapshots().is_some());
        let named =
            Named { layer, gate: Gate::default(), doubtful: RefCell::default(), open: RefCell::default() };
        named.look();
        let there: Vec<_> = named.open.borrow().iter().map(|(number, open)| (*number, open.1)).collect();
        if named.layer.is_some() {
            log.borrow_mut().events.push(Event::Changed(Changed::Opened(there)));
        }
        named
    }

    fn look(&self) {
        let views = self.layer.as_ref().map(|layer| layer.views()).unwrap_or_default();
        let opened = views.into_iter().filter_map(|View { name, device, is_clone, .. }| {
            Some((number(&name)?, (Rc::new(Top::new(device)), is_clone)))
        });
        self.open.replace(opened.collect());
    }

    /// The device with this number, if it is there and such a request makes sense.
    pub fn device(&self, number: u8, op: Op) -> Option<Rc<Top>> {
        let open = self.open.borrow();
        let (device, is_clone) = open.get(&number)?;
        let fits = *is_clone || op == Op::Read;
        (fits && !self.doubtful.borrow().contains(&number)).then(|| device.clone())
    }

    /// Carries out a change when no request is under way, if it makes sense then.
    pub async fn change(&self, change: Change, log: &RefCell<Log>) {
        let _alone = self.gate.close().await;
        let Some(layer) = &self.layer else { return };
        let is_there = |number| self.device(number, Op::Read).is_some();
        let makes_sense = !self.doubtful.borrow().contains(&change.number())
            && match change {
                Change::Snapshot(number) | Change::Clone(number, None) => !is_there(number),
                Change::Clone(number, Some(from)) => !is_there(number) && is_there(from),
                Change::Delete(number) => is_there(number),
            };
        if !makes_sense {
            return;
        }
        log.borrow_mut().events.push(Event::Changed(Changed::Began(change)));
        let name = change.number().to_string();
        let done = match change {
            Change::Snapshot(_) => layer.create_snapshot(&name).await,
            Change::Clone(_, from) => {
                let from = from.map(|from| from.to_string());
                layer.create_clone(&name, from.as_deref()).await
            }
            Change::Delete(_) => layer.delete_snapshot(&name).await,
        };
        if done.is_err() {
            self.doubtful.borrow_mut().insert(change.number());
        }
        self.look();
        log.borrow_mut().events.push(Event::Changed(Changed::Ended(change, done.is_ok())));
    }
}

/// What may be found of a snapshot or clone.
#[derive(Clone, Debug)]
struct One {
    held: Registers,
    is_clone: bool,
    /// Whether it has to be there.
    sure: bool,
}

/// What may be found of a volume, its snapshots and its clones.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// The volume itself.
    pub volume: Registers,
    named: BTreeMap<u8, One>,
    /// Whether less may be found of snapshots and clones than when that was asked last.
    less: bool,
}

impl Known {
    /// Judges an event. `settling` decides which reads settle something.
    pub fn event(&mut self, event: &Event, settling: &mut Settling) -> Result<(), Failure> {
        match event {
            Event::Client(event) => self.volume.event(&settling.effective(event)).map_err(Failure::Sector),
            Event::Within(number, event) => {
                let event = settling.effective(event);
                let Some(one) = self.named.get_mut(number) else { return Ok(()) };
                let judged =
                    one.held.event(&event).map_err(|wrong| Failure::Named(*number, wrong.to_string()));
                self.less |= !one.held.narrowed().is_empty();
                judged
            }
            Event::Changed(changed) => self.changed(changed),
            _ => Ok(()),
        }
    }

    fn changed(&mut self, changed: &Changed) -> Result<(), Failure> {
        match changed {
            Changed::Began(Change::Snapshot(number)) => {
                let held = self.volume.as_taken();
                self.named.insert(*number, One { held, is_clone: false, sure: false });
            }
            Changed::Began(Change::Clone(number, from)) => {
                let source = from.and_then(|from| self.named.get(&from)).map(|one| &one.held);
                let held = source.unwrap_or(&self.volume).as_taken();
                self.named.insert(*number, One { held, is_clone: true, sure: false });
            }
            Changed::Began(Change::Delete(number)) => {
                if let Some(one) = self.named.get_mut(number) {
                    one.sure = false;
                }
            }
            Changed::Ended(Change::Delete(number), true) => {
                self.named.remove(number);
                self.less = true;
            }
            Changed::Ended(change, true) => {
                if let Some(one) = self.named.get_mut(&change.number()) {
                    one.sure = true;
                }
                if !matches!(change, Change::Clone(_, Some(_))) {
                    self.volume.answered_is_durable();
                }
                self.less = true;
            }
            Changed::Ended(_, false) => {}
            Changed::Opened(there) => {
                self.are_there(there)?;
                self.named.retain(|number, one| {
                    one.sure = true;
                    there.iter().any(|(known, _)| known == number)
                });
                self.less = true;
            }
        }
        Ok(())
    }

    /// Checks that those are there which have to be, and no others.
    fn are_there(&self, there: &[(u8, bool)]) -> Result<(), Failure> {
        for (number, is_clone) in there {
            let known = self.named.get(number).is_some_and(|one| one.is_clone == *is_clone);
            if !known {
                let wrong = "it is there, but was deleted or never taken".to_owned();
                return Err(Failure::Named(*number, wrong));
            }
        }
        let is_there = |number: &u8| there.iter().any(|(known, _)| known == number);
        match self.named.iter().find(|(number, one)| one.sure && !is_there(number)) {
            Some((number, _)) => Err(Failure::Named(*number, "it is not there".to_owned())),
            None => Ok(()),
        }
    }

    /// Power is cut.
    pub fn crash(&mut self) {
        self.volume.crash();
        self.named.values_mut().for_each(|one| one.held.crash());
    }

    /// Sectors of the volume of which less is allowed than before, and whether that is so of snapshots and clones.
    pub fn narrowed(&mut self) -> (Vec<u64>, bool) {
        (self.volume.narrowed(), std::mem::take(&mut self.less))
    }

    /// Whether any request other than a read has succeeded.
    pub fn has_succeeded(&self) -> bool {
        self.volume.has_succeeded()
    }

    /// Checks the snapshots and clones of a volume that was opened after a crash, and reads them whole.
    pub async fn after_crash(&self, top: &Rc<dyn BlockDevice>, stamping: Stamping) -> Result<u64, Failure> {
        let views: Vec<(u8, View)> =
            top.views().into_iter().filter_map(|view| Some((number(&view.name)?, view))).collect();
        let there: Vec<(u8, bool)> = views.iter().map(|(number, view)| (*number, view.is_clone)).collect();
        self.are_there(&there)?;
        let mut sectors = 0;
        for (number, view) in views {
            let Some(one) = self.named.get(&number) else { continue };
            sectors += check_all(number, view.device, (&one.held, stamping)).await?;
        }
        Ok(sectors)
    }
}

/// Reads a snapshot or clone, and checks all of it; how many sectors that were.
async fn check_all(
    number: u8,
    device: Rc<dyn BlockDevice>,
    (held, stamping): (&Registers, Stamping),
) -> Result<u64, Failure> {
    let (device, sectors) = (Top::new(device.clone()), device.geometry().sectors);
    for at in Extent::new(0, sectors).split(LARGEST_REQUEST_SECTORS) {
        let read = device.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await;
        let buffer = read.map_err(|error| Failure::Named(number, error.to_string()))?;
        let mut wrong = None;
        check::classify(&buffer, |index, found| {
            let found = stamping.found(at.start.0 + index, found);
            if let Err(violation) = held.after_crash(at.start.0 + index, found) {
                wrong.get_or_insert(violation);
            }
        });
        if let Some(wrong) = wrong {
            return Err(Failure::Named(number, wrong.to_string()));
        }
    }
    Ok(sectors)
}

/// A request to one of them, as text.
pub fn within(number: u8, request: &Request) -> String {
    format!("in {number} {}", Step::Ask(*request))
}
