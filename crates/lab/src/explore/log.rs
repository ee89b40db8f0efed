//! What happened in a run that is explored, in order: what clients asked and were answered, what the components
//! were asked to write, and when that was done.

use std::cell::RefCell;
use std::rc::Rc;

use seekless_core::{Extent, IoError, Nanos};

use super::image::Content;
use crate::check::history;

/// One thing that happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// A client asked, or was answered.
    Client(history::Event),
    /// The topmost layer was told to do this.
    Told(&'static str),
    /// It was done, or was not; which, of [`Log::commands`].
    Carried(usize),
    /// A component took a write; which, of [`Log::writes`].
    Began(usize),
    /// It answered.
    Ended(usize),
    /// A component took a flush.
    FlushBegan(u32),
    /// It answered a flush that it took when so many events had happened.
    FlushEnded(u32, usize),
    /// The same, with an error: what it should have made durable no later flush does.
    FlushFailed(u32, usize),
}

/// What a component was asked to write.
#[derive(Clone, Debug)]
pub struct Write {
    /// The component's number.
    pub component: u32,
    /// Where.
    pub at: Extent,
    /// What, by sector.
    pub contents: Vec<Content>,
    /// Whether it is durable when it is answered.
    pub fua: bool,
}

/// What the topmost layer was told to do, and what came of it.
#[derive(Clone, Debug)]
pub struct Command {
    /// What.
    pub name: &'static str,
    /// How long that took.
    pub took: Nanos,
    /// Why it was not done.
    pub error: Option<IoError>,
}

/// The log of a run.
#[derive(Debug, Default)]
pub struct Log {
    /// What happened, in order.
    pub events: Vec<Event>,
    /// What the events of components are about.
    pub writes: Vec<Write>,
    /// What was told, in the order in which it was done.
    pub commands: Vec<Command>,
    /// The longest that a client waited for an answer.
    pub longest: Nanos,
}

impl Log {
    /// The longest that a command took.
    pub fn longest_command(&self) -> Nanos {
        self.commands.iter().map(|command| command.took).max().unwrap_or_default()
    }
}

/// A log that components and clients share.
pub type Shared = Rc<RefCell<Log>>;
