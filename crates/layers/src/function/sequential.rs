//! The built-in function: reads ahead of clients that read one piece after the other, also of several at once.
//!
//! A read that begins where one of the last streams ended continues it. From its third piece on, the stream has
//! `window` pages fetched ahead of it, whenever less than half of that is left. The shipped module `sequential` is the
//! same, and a test compares them.

use seekless_core::{Class, Extent, Lba, Op, PAGE_SECTORS};

use super::abi::{Action, Request};
use super::{Failure, Function};

/// Streams that are followed; a new one takes the place of that which was read least recently.
const STREAMS: usize = 16;
/// Pieces, one after the other, that make a stream.
const PIECES: u64 = 3;
/// Pages that are fetched ahead, if the parameter is 0: 1 MiB.
const WINDOW: u64 = 256;

#[derive(Clone, Copy, Default)]
struct Stream {
    /// Where its next piece begins.
    next: u64,
    pieces: u64,
    /// End of what was fetched for it.
    fetched: u64,
    /// Number of its last read.
    read: u64,
}

/// The function.
pub struct Sequential {
    sectors: u64,
    window: u64,
    streams: [Stream; STREAMS],
    reads: u64,
}

impl Sequential {
    /// For a volume of this size. `parameter` is the number of pages that are fetched ahead, or 0.
    pub fn new(sectors: u64, parameter: u64) -> Sequential {
        let window = if parameter == 0 { WINDOW } else { parameter };
        let window = window.saturating_mul(PAGE_SECTORS);
        Sequential { sectors, window, streams: [Stream::default(); STREAMS], reads: 0 }
    }
}

impl Function for Sequential {
    fn seen(&mut self, request: &Request, actions: &mut Vec<Action>) -> Result<(), Failure> {
        if request.op != Op::Read || request.class > Class::Foreground || request.extent.sectors == 0 {
            return Ok(());
        }
        self.reads += 1;
        let (start, end) = (request.extent.start.0, request.extent.start.0 + request.extent.sectors);
        let continued = (0..STREAMS)
            .find(|&stream| self.streams[stream].pieces > 0 && self.streams[stream].next == start);
        let Some(stream) = continued else {
            let oldest = (0..STREAMS).min_by_key(|&stream| self.streams[stream].read).unwrap_or_default();
            self.streams[oldest] = Stream { next: end, pieces: 1, fetched: end, read: self.reads };
            return Ok(());
        };
        let stream = &mut self.streams[stream];
        (stream.next, stream.pieces, stream.read) = (end, stream.pieces + 1, self.reads);
        if stream.pieces < PIECES || stream.fetched >= end.saturating_add(self.window / 2) {
            return Ok(());
        }
        let (from, to) = (stream.fetched.max(end), end.saturating_add(self.window).min(self.sectors));
        if from < to {
            stream.fetched = to;
            let extent = Extent { start: Lba(from), sectors: to - from };
            actions.push(Action::Fetch { extent, class: Class::Background });
        }
        Ok(())
    }
}
