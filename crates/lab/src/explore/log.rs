//! Log of an explored run, in order: requests of clients and their answers, writes of components, and when those
//! completed.

use std::cell::RefCell;
use std::rc::Rc;

use seekless_core::{Extent, IoError, Nanos};

use super::image::Content;
use super::meeting::AtWork;
use super::named::Changed;
use crate::check::history;

/// An event.
#[derive(Clone, Debug)]
pub enum Event {
    /// A client issued a request, or got an answer.
    Client(history::Event),
    /// As `Client`, of a snapshot or clone with this number.
    Within(u8, history::Event),
    /// Snapshots and clones changed.
    Changed(Changed),
    /// A command to the topmost layer.
    Command(&'static str),
    /// The command of this index in [`Log::commands`] succeeded or failed.
    CommandDone(usize),
    /// The component received the write of this index in [`Log::writes`].
    WriteBegan(usize),
    /// It answered the write of this index.
    WriteEnded(usize),
    /// A component received a flush.
    FlushBegan(u32),
    /// It answered a flush that it received after this many events.
    FlushEnded(u32, usize),
    /// A flush failed: what it should have made durable is not made so by any later flush.
    FlushFailed(u32, usize),
}

/// A write to a component.
#[derive(Clone, Debug)]
pub struct Write {
    /// Number of the component.
    pub component: u32,
    /// Extent.
    pub at: Extent,
    /// Content by sector.
    pub contents: Vec<Content>,
    /// Whether it is FUA.
    pub fua: bool,
    /// Whether it failed before it was carried out: then it leaves no mark.
    pub late: bool,
    /// Weak sectors that it repairs, counted from its first: unreadable after a power cut that loses it.
    pub repairs: Vec<usize>,
}

/// A command to the topmost layer, and its result.
#[derive(Clone, Debug)]
pub struct Command {
    /// Name.
    pub name: &'static str,
    /// Duration.
    pub took: Nanos,
    /// Error, if it failed.
    pub error: Option<IoError>,
}

/// The log of a run.
#[derive(Debug, Default)]
pub struct Log {
    /// Events in order.
    pub events: Vec<Event>,
    /// Writes that the components' events refer to.
    pub writes: Vec<Write>,
    /// Commands in the order of completion.
    pub commands: Vec<Command>,
    /// Clients' requests that failed, by number, with their errors.
    pub failed: Vec<(u64, IoError)>,
    /// Longest response time of a client's request.
    pub longest: Nanos,
    /// Sectors of clients that the components are reading and writing.
    pub at_work: AtWork,
}

impl Log {
    /// Longest duration of a command.
    pub fn longest_command(&self) -> Nanos {
        self.commands.iter().map(|command| command.took).max().unwrap_or_default()
    }
}

/// A log that components and clients share.
pub type Shared = Rc<RefCell<Log>>;
