//! Reads ahead of clients that read one piece after the other, also of several at once: what the layer `function` does
//! without a module. From the third piece of a stream on, `parameter` pages (256 if it is 0) are fetched ahead of it,
//! whenever less than half of that is left.

#[path = "abi.rs"]
#[macro_use]
mod abi;

use abi::{Actions, Function, Request, BACKGROUND, PAGE_SECTORS};

/// A client that reads one piece after the other.
#[derive(Clone, Copy, Default)]
struct Stream {
    /// Where its next piece begins.
    next: u64,
    pieces: u64,
    /// How far pages were fetched for it.
    fetched: u64,
    /// Number of its last read.
    last: u64,
}

struct Sequential {
    sectors: u64,
    ahead: u64,
    streams: [Stream; 16],
    reads: u64,
}

impl Function for Sequential {
    fn start(sectors: u64, _pages: u64, parameter: u64) -> Sequential {
        let pages = if parameter > 0 { parameter } else { 256 };
        let ahead = pages.saturating_mul(PAGE_SECTORS);
        Sequential { sectors, ahead, streams: [Stream::default(); 16], reads: 0 }
    }

    fn seen(&mut self, request: &Request, actions: &mut Actions) {
        if !request.is_read() {
            return;
        }
        self.reads += 1;
        let (reads, end) = (self.reads, request.end());
        let known = self.streams.iter_mut().find(|stream| stream.pieces > 0 && stream.next == request.start);
        let Some(stream) = known else {
            // A new stream takes the place of the one that was read least recently.
            if let Some(oldest) = self.streams.iter_mut().min_by_key(|stream| stream.last) {
                *oldest = Stream { next: end, pieces: 1, fetched: end, last: reads };
            }
            return;
        };
        (stream.next, stream.last) = (end, reads);
        stream.pieces += 1;
        let enough = stream.fetched >= end.saturating_add(self.ahead / 2);
        let to = end.saturating_add(self.ahead).min(self.sectors);
        let from = stream.fetched.max(end);
        if stream.pieces >= 3 && !enough && from < to {
            stream.fetched = to;
            actions.fetch(from, to - from, BACKGROUND);
        }
    }
}

export!(Sequential);
