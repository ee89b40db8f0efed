//! A restart after a crash: the volume is opened on what survived, and everything that may now read differently is
//! read.
//!
//! The first restart is checked in full. From then on only what may differ from the last one checked is read: pages at
//! another place, pages whose sectors on a component differ, and pages of which less is allowed than before. The volume
//! is queried for a page's place only if something differs that its opening has read: the same input gives the same
//! state. Every thousandth restart is still read in full.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::rc::Rc;

use rustc_hash::FxHashSet;
use seekless_core::device::LARGEST_REQUEST_SECTORS;
use seekless_core::runtime::Runtime;
use seekless_core::{BlockDevice, Buffer, ErrorKind, Extent, Hints, IoError, Nanos, PAGE_SECTORS};

use super::component::Component;
use super::image::Image;
use super::last::{Last, differing};
use super::log::{Event, Log};
use super::named::Known;
use super::spent::{Part, Spent};
use crate::check::{self, Registers, Stamping, Violation};
use seekless_layers::Topmost;
use seekless_volume::description::Description;
use seekless_volume::tree::{self, Bytes};

/// Restarts between two that are read in full.
const CONTROL: u64 = 1_000;

/// Named edges of code, and how often each was reached.
pub type Edges = Vec<(&'static str, u64)>;

/// A violation at a restart.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The volume does not open.
    #[error("the volume does not open: {0}")]
    Closed(String),
    /// Opening or reading fails because the data is known to be damaged.
    #[error("{0}")]
    Refused(String),
    /// A sector cannot be read.
    #[error("{0}")]
    Unreadable(String),
    /// A sector has content that is not allowed.
    #[error("{0}")]
    Sector(Violation),
    /// A snapshot or clone is not there, is there though it may not, or has content that is not allowed.
    #[error("snapshot or clone {0}: {1}")]
    Named(u8, String),
    /// A volume without dirty pages does not read as its origin, which was written while it was not served.
    #[error("the origin was written while the volume was not served: {0}")]
    Edited(String),
    /// Opening the volume a second time changes its metadata.
    #[error(
        "opening the volume again changed its metadata, expected it to stay as the first opening left it"
    )]
    Restless,
    /// A request is never answered.
    #[error("a request is never answered: {0}")]
    Stalled(String),
    /// A command fails without a fault.
    #[error("the command '{name}' failed: {error}")]
    Command {
        /// Its name.
        name: &'static str,
        /// Its error.
        error: IoError,
    },
    /// A client's request fails without a fault.
    #[error("request {id} failed without a fault: {error}")]
    Request {
        /// Its number.
        id: u64,
        /// Its error.
        error: IoError,
    },
    /// A response takes too long.
    #[error("a {what} after {longest}, expected within {bound}")]
    Late {
        /// A request that was answered, or a command that ended.
        what: &'static str,
        /// The response time.
        longest: Nanos,
        /// The limit.
        bound: Nanos,
    },
}

impl Failure {
    /// The first command of a run that failed. A layer that cannot drain as fast as clients write may fail with
    /// `Timeout`, and one whose snapshots hold the room that it needs with `NoSpace`.
    fn command(log: &Log) -> Option<Failure> {
        log.commands.iter().find_map(|command| {
            let may = |error: &IoError| matches!(error.kind(), ErrorKind::Timeout | ErrorKind::NoSpace);
            let error = command.error.clone().filter(|error| !may(error))?;
            Some(Failure::Command { name: command.name, error })
        })
    }

    /// The first client's request that failed in a run without a fault. There may be no room for a write if `is_thin`,
    /// or if snapshots were taken.
    fn request(log: &Log, is_thin: bool) -> Option<Failure> {
        let may_run_out = is_thin || log.events.iter().any(|event| matches!(event, Event::Changed(_)));
        let may = |error: &IoError| may_run_out && error.kind() == ErrorKind::NoSpace;
        let (id, error) = log.failed.iter().find(|(_, error)| !may(error))?;
        Some(Failure::Request { id: *id, error: error.clone() })
    }
}

/// Opens volumes.
pub struct Opener<'a> {
    /// The volume's description.
    pub description: Cow<'a, Description>,
    /// Sectors of each component, by number.
    pub sectors: Vec<u64>,
    /// Whether components have marks by which they are known to be unchanged.
    pub marks: bool,
}

impl<'a> Opener<'a> {
    /// An opener of a checked description.
    pub fn new(description: Cow<'a, Description>) -> Opener<'a> {
        let sectors = description.components.values().map(|component| component.drive.sectors()).collect();
        Opener { description, sectors, marks: false }
    }

    /// A command or a client's request of a run that failed although no component did.
    pub fn failure(&self, log: &Log) -> Option<Failure> {
        Failure::command(log).or_else(|| Failure::request(log, self.shares()))
    }

    /// How its sectors are stamped.
    pub fn stamping(&self) -> Stamping {
        if self.shares() { Stamping::Alike } else { Stamping::Unlike }
    }

    /// Whether a layer stores pages with the same content once; then there may be less room than the volume's size.
    pub fn shares(&self) -> bool {
        self.description.layers.values().any(|layer| layer.entry.shares)
    }

    /// The components by name, from a list by number.
    pub fn named<T: Clone>(&self, components: &[T]) -> BTreeMap<String, T> {
        self.description.components.keys().cloned().zip(components.iter().cloned()).collect()
    }
}

/// Checks restarts of one volume, one after the other.
#[derive(Default)]
pub struct Judge {
    last: Option<Last>,
    /// Pages of which less is allowed than when they were last read.
    narrowed: FxHashSet<u64>,
    /// Restarts checked.
    pub judged: u64,
    /// Restarts read in full.
    pub whole: u64,
    /// Sectors read.
    pub sectors: u64,
    /// How often each edge was reached.
    pub edges: BTreeMap<&'static str, u64>,
    /// Time spent, by part.
    pub spent: Spent,
    /// The component that is gone.
    gone: Option<u32>,
    /// Whether parts of pages are read first: a sector is rotten.
    in_parts: bool,
}

impl Judge {
    /// A judge that measures its time by this clock.
    pub fn new(clock: fn() -> u64) -> Judge {
        Judge { spent: Spent::new(clock), ..Judge::default() }
    }

    /// The last checked restart, to return to by [`Judge::recall`].
    pub fn remember(&self) -> Option<Last> {
        self.last.clone()
    }

    /// Compares the next restart with this one.
    pub fn recall(&mut self, last: Option<Last>) {
        self.last = last;
    }

    /// Forgets the last restart: the next is of another volume.
    pub fn forget(&mut self) {
        self.last = None;
        self.narrowed.clear();
    }

    /// Notes that less is allowed of these sectors from now on.
    pub fn narrow(&mut self, sectors: impl IntoIterator<Item = u64>) {
        self.narrowed.extend(sectors.into_iter().map(|sector| sector / PAGE_SECTORS));
    }

    /// Opens what survived, and checks it against the registers.
    pub fn judge(&mut self, opener: &Opener, images: &[Image], registers: &Known) -> Result<(), Failure> {
        let runtime = Runtime::new(0);
        let judged = runtime.run(self.open_and_read(opener, images, registers));
        for (edge, times) in runtime.edges() {
            *self.edges.entry(edge).or_default() += times;
        }
        judged.map_err(|stalled| Failure::Stalled(stalled.to_string()))?
    }

    /// As `judge`, reading everything.
    pub fn judge_whole(
        &mut self,
        opener: &Opener,
        images: &[Image],
        registers: &Known,
    ) -> Result<(), Failure> {
        self.last = None;
        self.judge(opener, images, registers)
    }

    /// As `judge_whole`, without a component.
    pub fn judge_without(
        &mut self,
        opener: &Opener,
        images: &[Image],
        registers: &Known,
        gone: u32,
    ) -> Result<(), Failure> {
        self.gone = Some(gone);
        let judged = self.judge_whole(opener, images, registers);
        self.gone = None;
        judged
    }

    /// As `judge`, for a state with a rotten sector; returns whether it was refused. No other content may be read than
    /// without it.
    pub fn judge_rotten(
        &mut self,
        opener: &Opener,
        images: &[Image],
        registers: &Known,
    ) -> Result<bool, Failure> {
        self.in_parts = true;
        let judged = self.judge(opener, images, registers);
        self.in_parts = false;
        match judged {
            Ok(()) => Ok(false),
            // Metadata that has lost its magic is refused as unknown data, not as corrupt.
            Err(Failure::Refused(_) | Failure::Closed(_)) => Ok(true),
            Err(failure) => Err(failure),
        }
    }

    async fn open_and_read(
        &mut self,
        opener: &Opener<'_>,
        images: &[Image],
        registers: &Known,
    ) -> Result<(), Failure> {
        let opened = open(opener, images, self.gone).await?;
        let again = opened.images();
        if again.iter().zip(images).any(|(again, image)| again.hash() != image.hash()) {
            let twice = open(opener, &again, self.gone).await?.images();
            if twice.iter().zip(&again).any(|(twice, once)| twice.metadata() != once.metadata()) {
                return Err(Failure::Restless);
            }
        }
        self.spent.on(Part::Opening);
        let last = self.last.take();
        self.judged += 1;
        let control = self.judged % CONTROL == 0;
        self.whole += u64::from(control || last.is_none());
        let (last, mut pages) = differing(&opened, last, (images, again), control);
        pages.extend(&self.narrowed);
        pages.sort_unstable();
        pages.dedup();
        self.spent.on(Part::Comparing);
        if self.in_parts {
            self.read_in_parts(&opened, &pages, (&registers.volume, opener.stamping())).await?;
        }
        self.read(&opened, &pages, (&registers.volume, opener.stamping())).await?;
        self.sectors += registers.after_crash(&opened.top, opener.stamping()).await?;
        self.spent.on(Part::Reading);
        self.narrowed.clear();
        self.last = Some(last);
        Ok(())
    }

    /// Reads each page in two parts. A part that is refused as damaged is no violation: the read of the whole page
    /// decides.
    async fn read_in_parts(
        &mut self,
        opened: &Opened,
        pages: &[u64],
        expected: (&Registers, Stamping),
    ) -> Result<(), Failure> {
        let end = opened.top.geometry().sectors;
        for &page in pages {
            let (first, middle) = (page * PAGE_SECTORS, page * PAGE_SECTORS + 1 + page % (PAGE_SECTORS - 1));
            for (from, to) in [(first, middle), (middle, first + PAGE_SECTORS)] {
                let at = Extent::new(from, to.min(end).saturating_sub(from));
                if at.sectors == 0 {
                    continue;
                }
                match opened.top.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await {
                    Ok(buffer) => allowed(at, &buffer, expected)?,
                    Err(error) if error.kind() == ErrorKind::Corrupt => {}
                    Err(error) => return Err(Failure::Unreadable(format!("reading {at}: {error}"))),
                }
            }
        }
        Ok(())
    }

    /// Reads pages, consecutive ones at once.
    async fn read(
        &mut self,
        opened: &Opened,
        pages: &[u64],
        (registers, stamping): (&Registers, Stamping),
    ) -> Result<(), Failure> {
        let whole = opened.top.geometry().sectors;
        let most = (LARGEST_REQUEST_SECTORS / PAGE_SECTORS) as usize;
        let mut rest = pages;
        while let Some(&first) = rest.first() {
            let run =
                (0..rest.len().min(most)).take_while(|&index| rest[index] == first + index as u64).count();
            let at = Extent::of_pages(first, run as u64);
            let at = Extent { sectors: at.sectors.min(whole - at.start.0), ..at };
            let read = opened.top.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await;
            let buffer =
                read.map_err(|error| unreadable(&error, format!("reading {at} after a restart: {error}")))?;
            allowed(at, &buffer, (registers, stamping))?;
            self.sectors += at.sectors;
            rest = &rest[run..];
        }
        Ok(())
    }
}

/// Whether these sectors may be read after a crash.
fn allowed(at: Extent, read: &Buffer, (registers, stamping): (&Registers, Stamping)) -> Result<(), Failure> {
    let mut failure = None;
    check::classify(read, |index, found| {
        let found = stamping.found(at.start.0 + index, found);
        if let Err(violation) = registers.after_crash(at.start.0 + index, found) {
            failure.get_or_insert(violation);
        }
    });
    failure.map_or(Ok(()), |violation| Err(Failure::Sector(violation)))
}

fn unreadable(error: &IoError, why: String) -> Failure {
    if error.kind() == ErrorKind::Corrupt { Failure::Refused(why) } else { Failure::Unreadable(why) }
}

/// A volume on what survived.
pub(super) struct Opened {
    pub top: Rc<dyn BlockDevice>,
    pub topmost: Option<Rc<Topmost>>,
    pub components: Vec<Rc<Component>>,
}

impl Opened {
    pub(super) fn images(&self) -> Vec<Image> {
        self.components.iter().map(|component| component.image()).collect()
    }
}

pub(super) async fn open(
    opener: &Opener<'_>,
    images: &[Image],
    gone: Option<u32>,
) -> Result<Opened, Failure> {
    let numbered = (0..).zip(images.iter().zip(&opener.sectors));
    let components: Vec<Rc<Component>> = numbered
        .map(|(number, (image, sectors))| Component::judged(number, *sectors, image.clone(), opener.marks))
        .collect();
    for component in components.iter().enumerate().filter(|(number, _)| Some(*number as u32) == gone) {
        component.1.leave();
    }
    let devices: Vec<Rc<dyn BlockDevice>> =
        components.iter().map(|component| component.clone() as Rc<dyn BlockDevice>).collect();
    let tree = tree::build(&opener.description, opener.named(&devices), Bytes::Real).await;
    let tree = tree.map_err(|error| match error.kind() {
        ErrorKind::Corrupt => Failure::Refused(format!("the volume does not open: {error}")),
        _ => Failure::Closed(error.to_string()),
    })?;
    Ok(Opened { top: tree.top, topmost: tree.topmost, components })
}

/// The top of a volume that is opened on what survived.
pub(super) async fn open_top(opener: &Opener<'_>, images: &[Image]) -> Result<Rc<dyn BlockDevice>, Failure> {
    Ok(open(opener, images, None).await?.top)
}
