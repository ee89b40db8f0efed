//! Replaying a stream through a volume and cutting its power: the volume is opened again on what its components then
//! hold, and read as by a client.

use std::collections::VecDeque;
use std::rc::Rc;

use seekless_core::device::LARGEST_REQUEST_SECTORS;
use seekless_core::runtime::{self, Rng, Runtime, Task};
use seekless_core::{BlockDevice, Buffer, Extent, Hints, IoError, Zeroes};
use seekless_layers::Topmost;

use super::{Action, Stream};
use crate::explore::choose::Choices;
use crate::explore::component::Component;
use crate::explore::conditions::Conditions;
use crate::explore::image::{Image, mixed};
use crate::explore::log::{Log, Shared};
use crate::explore::power::{Power, Survivor};
use crate::explore::restart::{self, Failure, Opener};
use seekless_volume::tree::{self, Bytes, Tree};

/// One in this many requests is followed by a command to the topmost layer, if it has commands of its own.
const COMMANDS: u64 = 40;

/// A replayed stream.
pub struct Replayed {
    log: Log,
    /// Marks passed, each with the number of events before it.
    marks: Vec<(usize, String)>,
}

/// A moment of a power cut.
pub struct Cut<'a> {
    /// Marks passed before it.
    pub marks: Vec<&'a str>,
    /// Content of the components.
    pub images: Vec<Image>,
    /// Hash of the content: equal for equal content.
    pub hash: u64,
    /// Number of events, and how much survived, for people.
    pub place: String,
}

/// The client: requests between two flushes in any order, several at once, but no overlapping ones.
struct Client<'a> {
    tree: &'a Tree,
    most: usize,
    flying: VecDeque<(Extent, Task<Result<(), IoError>>)>,
    commands: &'static [&'static str],
    rng: Rng,
}

/// Replays a stream on new components; as many requests are in flight as these conditions have clients.
///
/// # Errors
/// Why a cut cannot be checked: the volume does not open, a request fails, or is never answered.
pub fn replay(opener: &Opener, stream: &Stream, conditions: Conditions) -> Result<Replayed, String> {
    let runtime = Runtime::new(conditions.seed);
    runtime.count_from(conditions.numbers);
    let (log, mut marks) = (Shared::default(), Vec::new());
    let ended = runtime.run(async {
        let numbered = (0..).zip(&opener.sectors);
        let devices: Vec<Rc<dyn BlockDevice>> = numbered
            .map(|(number, sectors)| {
                let image = Image::new(*sectors);
                Component::recorded(number, *sectors, image, conditions, log.clone()) as Rc<dyn BlockDevice>
            })
            .collect();
        let tree = tree::build(&opener.description, opener.named(&devices), Bytes::Real).await;
        let tree = tree.map_err(|error| error.to_string())?;
        let has = tree.top.geometry().sectors;
        if has < stream.sectors {
            return Err(format!("found a volume of {has} sectors, expected {} or more", stream.sectors));
        }
        let mut client = Client::new(opener, &tree, conditions);
        for action in &stream.actions {
            client.ask(action).await.map_err(|error| error.to_string())?;
            if let Action::Mark(mark) = action {
                marks.push((log.borrow().events.len(), mark.clone()));
            }
        }
        client.wait(|_| true).await.map_err(|error| error.to_string())
    });
    ended.map_err(|stalled| stalled.to_string())??;
    drop(runtime);
    Ok(Replayed { log: log.take(), marks })
}

impl<'a> Client<'a> {
    fn new(opener: &Opener, tree: &'a Tree, conditions: Conditions) -> Client<'a> {
        let layer = opener.description.layers.get(&opener.description.top);
        let commands = layer.map_or(&[][..], |layer| layer.entry.commands);
        let most = conditions.clients.max(1) as usize;
        Client { tree, most, flying: VecDeque::new(), commands, rng: Rng::seeded(conditions.seed) }
    }

    /// Issues a request, once those before it that have to be answered are.
    async fn ask(&mut self, action: &Action) -> Result<(), IoError> {
        let top = self.tree.top.clone();
        let (at, task) = match action {
            Action::Mark(_) => return self.wait(|_| true).await,
            Action::Flush => {
                self.wait(|_| true).await?;
                return top.flush(Hints::default()).await;
            }
            // What follows depends on it, as on a flush.
            Action::Write(at, bytes, true) => {
                self.wait(|_| true).await?;
                return top.write(*at, bytes.clone(), Hints { fua: true, ..Hints::default() }).await;
            }
            Action::Write(at, bytes, false) => {
                self.wait(|other| other.overlaps(*at)).await?;
                let (at, bytes) = (*at, bytes.clone());
                (at, runtime::spawn(async move { top.write(at, bytes, Hints::default()).await }))
            }
            Action::Zeroes(at) => {
                self.wait(|other| other.overlaps(*at)).await?;
                let at = *at;
                let zeroes = Zeroes { may_unmap: true, ..Zeroes::default() };
                (at, runtime::spawn(async move { top.write_zeroes(at, Hints::default(), zeroes).await }))
            }
            Action::Discard(at) => {
                self.wait(|other| other.overlaps(*at)).await?;
                let at = *at;
                (at, runtime::spawn(async move { top.discard(at, Hints::default()).await }))
            }
        };
        self.flying.push_back((at, task));
        self.maybe_command();
        if self.flying.len() > self.most
            && let Some((_, oldest)) = self.flying.pop_front()
        {
            oldest.await?;
        }
        Ok(())
    }

    /// Waits for these of the requests in flight.
    async fn wait(&mut self, which: impl Fn(Extent) -> bool) -> Result<(), IoError> {
        for (at, task) in std::mem::take(&mut self.flying) {
            if which(at) {
                task.await?;
            } else {
                self.flying.push_back((at, task));
            }
        }
        Ok(())
    }

    /// Occasionally sends a command to the topmost layer, concurrent with the requests.
    fn maybe_command(&mut self) {
        let Some(topmost) = self.tree.topmost.clone().filter(|_| !self.commands.is_empty()) else { return };
        if self.rng.chance(1, COMMANDS) {
            let command = self.commands[self.rng.below(self.commands.len() as u64) as usize];
            runtime::spawn(command_layer(topmost, command)).detach();
        }
    }
}

/// A layer may fail because it cannot keep up with writers.
async fn command_layer(topmost: Rc<Topmost>, command: &'static str) {
    let _ = topmost.command(command, Hints::default()).await;
}

impl Replayed {
    /// `count` random power cuts after the first mark that reads `from`; in the order of the run.
    pub fn cuts(&self, opener: &Opener, from: &str, count: usize, seed: u64) -> Vec<Cut<'_>> {
        let mut rng = Rng::seeded(seed);
        let events = self.log.events.len();
        let first = self.marks.iter().find(|(_, mark)| mark == from).map_or(events, |(passed, _)| *passed);
        let mut places: Vec<usize> =
            (0..count).map(|_| first + rng.below((events - first + 1) as u64) as usize).collect();
        places.sort_unstable();
        let mut power = Power::new(opener.sectors.iter().map(|sectors| Image::new(*sectors)).collect());
        let mut happened = 0;
        let mut cuts = Vec::new();
        for place in places {
            for event in &self.log.events[happened..place] {
                power.follow(&self.log, event);
            }
            happened = place;
            let choices = Choices::new(&power.pending, &self.log, rng.bits());
            let turn = rng.below(choices.systematic() as u64 * 2) as usize;
            let survivors: Vec<Survivor> = { choices }.nth(turn).unwrap_or_default();
            let passed = self.marks.iter().take_while(|(events, _)| *events <= place);
            let images = power.cut(&self.log, &survivors);
            cuts.push(Cut {
                marks: passed.map(|(_, mark)| mark.as_str()).collect(),
                hash: images.iter().fold(0, |hash, image| mixed(hash, image.hash())),
                images,
                place: format!(
                    "after {place} of {events} events, with {} writes that are not durable, {} parts of which survive",
                    power.pending.len(),
                    survivors.len()
                ),
            });
        }
        cuts
    }
}

/// The first sectors of a volume that is opened after a power cut.
///
/// # Errors
/// What is wrong with it.
pub fn recovered(opener: &Opener, images: &[Image], sectors: u64) -> Result<Vec<u8>, Failure> {
    let read = Runtime::new(0).run(async {
        let top = restart::open_top(opener, images).await?;
        let mut bytes = Vec::new();
        for at in Extent::new(0, sectors).split(LARGEST_REQUEST_SECTORS) {
            let read = top.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await;
            let read =
                read.map_err(|error| Failure::Unreadable(format!("reading {at} after a restart: {error}")))?;
            bytes.extend(read.into_vec());
        }
        Ok(bytes)
    });
    read.map_err(|stalled| Failure::Stalled(stalled.to_string()))?
}
