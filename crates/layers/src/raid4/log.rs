//! The device of the log: which one is accepted at the start, its exchange while the array is in use, and a new one in
//! the place of one that was lost.
//!
//! A clean array needs no record: a blank log, or an old copy of the right one, is then as good as any. Of a dirty one
//! records may be missing that were answered, so that takes the log of the array's last session, or a repair: its log
//! says that records were lost, and all rows are made consistent as without a log. Members that are older than the log
//! are refused, since its records do not belong to them.
//!
//! Invariant: when another log is named, everything is durable in place that the old one had. Fault model: power may
//! fail at any time.

use std::rc::Rc;

use seekless_core::runtime::edge;
use seekless_core::{BlockDevice, ErrorKind, Extent, Hints, IoError, IoFuture, Lba};

use super::Raid;
use super::head::{Head, Probed};
use super::journal::Journal;
use super::opening;
use super::options::{LOG, NAME, Options};
use super::superblock::{State, Superblock};
use crate::arrays;
use crate::contents::{self, New};
use crate::durable::session::{self, Number, Side};
use crate::registry::{self, Below, Work};
use crate::tools::{Repaired, Tools};

fn refused(why: String) -> IoError {
    IoError::new(ErrorKind::Invalid, LOG, None, why)
}

/// How to go on without the log of a dirty array.
const REPAIR: &str = "seekless volume repair makes another one, and says what is given up";

/// Accepts the log of an array that is not new.
///
/// # Errors
/// That of another array; a blank or old one of an array that is dirty; one that is newer than the members; one that
/// cannot be read.
pub async fn check(journal: &Journal, recorded: &Superblock, missing: Option<usize>) -> Result<(), IoError> {
    let (head, is_clean) = (&journal.head, recorded.state == State::Clean);
    let dirty = |found: &str| {
        let expected = format!("the log of array {:032x} as it was last", recorded.identity);
        Err(refused(format!(
            "found {found}, but the array was not stopped, expected {expected}; if that is lost: {REPAIR}"
        )))
    };
    match head.find().await? {
        Probed::Other(found) => {
            Err(refused(format!("found {found}, expected the log of array {:032x}", recorded.identity)))
        }
        Probed::Blank if is_clean => {
            edge("a blank log of a clean array");
            journal.create(recorded.session, false).await
        }
        Probed::Blank => dirty("zeroes"),
        Probed::Log(found) => match session::old(found, Number::of(recorded.session, false)) {
            Some(Side::First) if is_clean => {
                edge("an old log of a clean array");
                journal.create(recorded.session, false).await
            }
            Some(Side::First) => dirty("a copy of the log from before the array was written last"),
            Some(Side::Second) => Err(refused(
                "found the log newer than the members, expected members that are not from before it was written last"
                    .to_owned(),
            )),
            None if is_clean || !head.has_lost_records() => Ok(()),
            None if missing.is_some() => {
                let why = "found a log in the place of a lost one and a member missing, expected all members: rows are \
                           being made consistent, which needs them";
                Err(refused(why.to_owned()))
            }
            None => Ok(()),
        },
    }
}

impl Raid {
    /// See [`seekless_core::Layer::replace_device`]: another log, also for one that fails.
    pub(super) async fn replace_log(
        &self,
        with: Rc<dyn BlockDevice>,
        overwrites: bool,
        commit: IoFuture<'_, ()>,
    ) -> Result<(), IoError> {
        let Some(journal) = &self.journal else {
            return Err(arrays::refused(NAME, "an array without a log", "one that was created with it"));
        };
        let other = journal.on(with.clone(), &self.members.layout)?;
        arrays::check_blocks(NAME, &with.geometry(), &self.geometry())?;
        arrays::make_blank(NAME, &*with, overwrites).await?;
        // Nothing waits for the old log, and nothing that it has is being written in place.
        let whole = Extent { start: Lba(0), sectors: self.geometry().sectors };
        let groups = Extent::new(0, self.members.layout.groups());
        let how = Hints::default();
        let _requests = self.locks.exclusive(whole, &how).await;
        let _groups = self.groups.exclusive(groups, &how).await;
        self.members.replace_log(journal, &other, commit).await?;
        edge("the log is replaced");
        Ok(())
    }
}

/// Tools of the layer.
pub struct RaidTools;

impl Tools for RaidTools {
    fn can_repair(&self) -> bool {
        true
    }

    /// Makes another log in the place of a lost one, for members that are only read.
    fn repair(&self, below: Below, options: toml::Table, to: Rc<dyn BlockDevice>) -> Work<Repaired> {
        Box::pin(async move {
            let options: Options = registry::options(NAME, options, Options::check)?;
            let recorded = opening::recorded(&below, &options).await?;
            if !recorded.has_log {
                return Err(arrays::refused(NAME, "an array without a log", "one that has lost its log"));
            }
            let new =
                New { key: LOG, device: &*to, metadata: Extent::new(0, to.geometry().sectors), leaves: None };
            contents::claim(&[new], false, false).await?;
            let records_lost = recorded.state == State::Dirty;
            let (head, canary) =
                (Rc::new(Head::new(to.clone(), recorded.identity)), Rc::new(options.canary()));
            let journal = Journal::new(head, &recorded.layout, recorded.identity, canary)?;
            journal.create(recorded.session, records_lost).await?;
            let words = "writes that were answered after the members were flushed last: each of them may be lost, in part or whole";
            let given_up = records_lost.then(|| words.to_owned());
            Ok(Repaired { pages: 0, given_up: given_up.into_iter().collect() })
        })
    }
}
