//! Opening an array, and creating one.
//!
//! The superblocks say which array the members are of, and which of them is out of service: the newest one counts. A
//! member that is blank or unreadable is missing. So is one that is more than one event behind, which no crash
//! explains: its contents are old, a copy from before or those of a device that was replaced. Refused are members of
//! another array or at another place, more than one missing, and without a log an array that is dirty with one missing:
//! then a row that a crash cut short could not be recorded from others.
//!
//! Creating has two steps, each durable on all members: *forming*, which a crash leaves to be begun again, and clean.
//! So blank members beside others of an array are missing, and never new.

use std::rc::Rc;

use seekless_core::runtime::{self, edge, first_number};
use seekless_core::{BlockDevice, ErrorKind, Extent, IoError};

use super::Raid;
use super::geometry::Layout;
use super::head::Head;
use super::journal::Journal;
use super::log;
use super::members::Members;
use super::options::{LOG, NAME, Options, PARITY};
use super::resync::Unsettled;
use super::superblock::{self, Probed, State, Superblock};
use crate::arrays::{self, Trouble};
use crate::contents::{self, New};
use crate::join::join_all;
use crate::registry::{Below, Sizes};

fn refused(why: String) -> IoError {
    IoError::new(ErrorKind::Invalid, NAME, None, why)
}

/// The members: those with data, and the one of `parity`.
fn devices(below: &Below) -> Result<Vec<Rc<dyn BlockDevice>>, IoError> {
    Ok(below.over.iter().cloned().chain([below.device(PARITY)?]).collect())
}

fn layout(below: &Below, options: &Options) -> Result<Layout, IoError> {
    let sectors = |device: &Rc<dyn BlockDevice>| device.geometry().sectors;
    let parity = vec![sectors(&below.device(PARITY)?)];
    let sizes = Sizes {
        over: below.over.iter().map(sectors).collect(),
        devices: [(PARITY.to_owned(), parity)].into_iter().collect(),
    };
    options.layout(&sizes).map_err(|why| refused(why.to_string()))
}

/// What the superblocks say of an array.
struct Array {
    recorded: Superblock,
    missing: Option<usize>,
    rebuilt: u64,
    /// Why a member is missing.
    why: String,
}

/// Reads the members' superblocks; `None` for a new array.
async fn assemble(
    devices: &[Rc<dyn BlockDevice>],
    layout: &Layout,
    has_log: bool,
) -> Result<Result<Array, u64>, IoError> {
    let found = join_all(devices.iter().map(|device| superblock::find(&**device))).await;
    let members: Vec<(usize, (usize, Superblock))> = found
        .iter()
        .enumerate()
        .filter_map(|(number, found)| {
            if let Probed::Member(member, of, ..) = found { Some((number, (*member, *of))) } else { None }
        })
        .collect();
    // After a start without a member, another event may have the number of the one that only that member has.
    let newest = members
        .iter()
        .map(|(_, (_, of))| *of)
        .max_by_key(|of| (of.state != State::Forming, of.events, of.out.is_some()));
    for (number, found) in found.iter().enumerate() {
        match found {
            Probed::Other => {
                let why =
                    format!("found data on member {number} that is of no array, expected zeroes or a member");
                return Err(refused(why));
            }
            // What cannot be read may be the superblock of an array whose creation has ended: it is not created again.
            Probed::Unreadable(error) | Probed::Member(.., Some(error))
                if newest.is_none_or(|newest| newest.state == State::Forming) =>
            {
                return Err(error.clone());
            }
            _ => {}
        }
    }
    let Some(recorded) = newest.filter(|newest| newest.state != State::Forming) else {
        if newest.is_some() {
            edge("an array whose creation was cut short is created again");
        } else {
            edge("zeroes where no superblock was written: a new array");
        }
        return Ok(Err(newest.map_or(first_number(), |newest| newest.events)));
    };
    check_members(&members, &recorded, layout, has_log)?;
    let most: Vec<Option<u64>> = found
        .iter()
        .map(|found| if let Probed::Member(.., most, _) = found { Some(*most) } else { None })
        .collect();
    let mut array = in_service(&members, &recorded, &most)?;
    if let Some(Probed::Unreadable(error)) = array.missing.map(|missing| &found[missing]) {
        array.why = error.to_string();
    }
    Ok(Ok(array))
}

/// Which members are in service. Of each that is there, `most` has how many events it may have: a crash and a lost copy
/// of its superblock together do not make its contents old.
fn in_service(
    members: &[(usize, (usize, Superblock))],
    recorded: &Superblock,
    most: &[Option<u64>],
) -> Result<Array, IoError> {
    let events = |number: usize| {
        let there = members.iter().find(|(there, _)| *there == number);
        there.map(|(_, (_, of))| of.events)
    };
    let count = most.len();
    let is_old = |number: usize| most[number].is_some_and(|most| most.saturating_add(1) < recorded.events);
    let is_there = |number: usize| events(number).is_some() && !is_old(number);
    let mut missing: Vec<usize> = (0..count).filter(|number| !is_there(*number)).collect();
    let out = recorded.out.filter(|out| is_there(*out));
    missing.extend(out);
    let rebuilt = if out.is_some() { recorded.rebuilt } else { 0 };
    if missing.len() > 1 {
        let why = format!(
            "found members {} missing, blank, out of service or with old contents, expected one at most",
            missing.iter().map(usize::to_string).collect::<Vec<_>>().join(" and ")
        );
        return Err(refused(why));
    }
    let missing = missing.first().copied();
    if missing.is_some_and(|member| is_old(member) && recorded.out != Some(member)) {
        edge("a member with old contents is out of service");
    }
    if let Some(member) = missing.filter(|_| recorded.state == State::Dirty && !recorded.has_log) {
        let old = if is_old(member) { " (what is there has old contents)" } else { "" };
        let why = format!(
            "found member {member} missing{old} and the array dirty, expected one of them: it has no log, so rows that \
             a crash cut short cannot be repaired without the member"
        );
        return Err(refused(why));
    }
    let why = match missing {
        Some(member) if is_old(member) && recorded.out != Some(member) => "its contents are old",
        Some(member) if events(member).is_some() => "it was before",
        _ => "it is blank",
    };
    Ok(Array { recorded: *recorded, missing, rebuilt, why: why.to_owned() })
}

/// Refuses members of another array or place, and other options than those that the array was created with.
fn check_members(
    members: &[(usize, (usize, Superblock))],
    recorded: &Superblock,
    layout: &Layout,
    has_log: bool,
) -> Result<(), IoError> {
    for (number, (member, of)) in members {
        if of.identity != recorded.identity {
            let why = format!(
                "found member {number} of array {:032x}, expected one of array {:032x}, as another is",
                of.identity, recorded.identity
            );
            return Err(refused(why));
        }
        if member != number {
            return Err(refused(format!("found member {member} of the array in place of member {number}")));
        }
    }
    if recorded.layout != *layout {
        let text = |of: &Layout| {
            let parity = if of.rotates { "rotating parity" } else { "parity on the last" };
            format!("{} stripes of {}+1 units of {} blocks, {parity}", of.stripes, of.data, of.unit)
        };
        return Err(refused(format!(
            "found an array of {}, expected {}",
            text(&recorded.layout),
            text(layout)
        )));
    }
    if recorded.has_log != has_log {
        let text = |has_log| if has_log { "with a log" } else { "without a log" };
        return Err(refused(format!(
            "found an array {}, expected one {}",
            text(recorded.has_log),
            text(has_log)
        )));
    }
    Ok(())
}

impl Raid {
    /// Opens an array; a new one on zeroes, if `below` says so.
    ///
    /// # Errors
    /// See the file's header and [`log::check`]; and those of the devices.
    pub async fn open(below: &Below, options: &Options) -> Result<Rc<Raid>, IoError> {
        let (devices, layout) = (devices(below)?, layout(below, options)?);
        let log = below.devices.contains_key(LOG).then(|| below.device(LOG)).transpose()?;
        let canary = Rc::new(options.canary());
        let journal = |log: Option<Rc<dyn BlockDevice>>, identity: u128| {
            let head = log.map(|log| Rc::new(Head::new(log, identity)));
            head.map(|head| Journal::new(head, &layout, identity, canary.clone())).transpose()
        };
        let (members, journal) = match assemble(&devices, &layout, log.is_some()).await? {
            Ok(Array { recorded, missing, rebuilt, why }) => {
                let trouble = Trouble::of(missing.map(|member| (member, why)));
                let journal = journal(log, recorded.identity)?;
                if let Some(journal) = &journal {
                    log::check(journal, &recorded, missing).await?;
                }
                let head = journal.as_ref().map(|journal| journal.head.clone());
                let members = Members::new(devices, head, recorded, (missing, rebuilt), trouble);
                (members, journal)
            }
            Err(events) if below.create => {
                let mut rng = runtime::rng("raid identity");
                let identity = (u128::from(rng.bits()) << 64 | u128::from(rng.bits())).max(1);
                let journal = journal(log, identity)?;
                let head = journal.as_ref().map(|journal| journal.head.clone());
                let recorded = Superblock {
                    identity,
                    layout,
                    has_log: journal.is_some(),
                    state: State::Forming,
                    events,
                    out: None,
                    rebuilt: 0,
                    generations: first_number(),
                    session: 0,
                };
                let members = Members::new(devices, head, recorded, (None, 0), Trouble::default());
                members.form(State::Forming).await?;
                if let Some(journal) = &journal {
                    journal.create(0, false).await?;
                }
                members.form(State::Clean).await?;
                (members, journal)
            }
            Err(_) => return Err(no_array()),
        };
        let lacks_records = journal.as_ref().is_none_or(|journal| journal.head.has_lost_records());
        let unsettled = if members.superblock().state == State::Dirty && lacks_records {
            Unsettled::all(layout.groups())
        } else {
            Unsettled::default()
        };
        let raid = Raid::new(members, journal, unsettled, canary, below.timing_only);
        raid.replay().await?;
        raid.resync_in_background();
        Ok(raid)
    }

    /// Creates an array. What the members hold is refused, unless `replace`: then it is overwritten.
    ///
    /// # Errors
    /// Members with contents, or those of the devices.
    pub async fn create(below: Below, options: &Options, replace: bool) -> Result<(), IoError> {
        layout(&below, options)?;
        let members = devices(&below)?;
        let unfinished = is_unfinished(&members).await;
        let log = below.devices.get(LOG).into_iter().flatten();
        let members = members.iter().map(|member| ("over", "a member of an array (raid4)", member));
        let all: Vec<_> = members.chain(log.map(|log| (LOG, "the log of an array (raid4)", log))).collect();
        let new = all.iter().map(|(key, leaves, device)| New {
            key,
            device: &***device,
            metadata: Extent::new(0, 0),
            leaves: Some(leaves),
        });
        contents::claim(&new.collect::<Vec<_>>(), unfinished, replace).await?;
        for (.., device) in all {
            arrays::zero(&**device).await?;
        }
        let raid = Raid::open(&Below { create: true, ..below }, options).await?;
        seekless_core::Layer::stop(&*raid).await
    }
}

fn no_array() -> IoError {
    refused("found no array, expected one: seekless volume create creates it".to_owned())
}

/// What the superblocks of an array record, whose log is not looked at.
pub async fn recorded(below: &Below, options: &Options) -> Result<Superblock, IoError> {
    let array = assemble(&devices(below)?, &layout(below, options)?, below.devices.contains_key(LOG)).await?;
    array.map(|array| array.recorded).map_err(|_| no_array())
}

/// Whether the members are of an array whose creation was cut short.
async fn is_unfinished(members: &[Rc<dyn BlockDevice>]) -> bool {
    let found = join_all(members.iter().map(|member| superblock::find(&**member))).await;
    let states = found.iter().map(|found| match found {
        Probed::Blank => None,
        Probed::Member(_, of, _, None) => Some(of.state == State::Forming),
        Probed::Member(.., Some(_)) | Probed::Other | Probed::Unreadable(_) => Some(false),
    });
    let states: Vec<bool> = states.flatten().collect();
    !states.is_empty() && states.into_iter().all(|is_forming| is_forming)
}
