//! Any bytes as the inputs of a run, given to the volume that was served: whatever they are, the replay ends,
//! with the place of a divergence or without, and nothing panics.
//!
//! The first byte of the input says whether the rest is the file, or records that lack only frame and checksum.

use std::io::Cursor;
use std::sync::Arc;

use super::served::{facts, framed, serve};
use seekless_core::runtime::Runtime;
use seekless_serve::component::Opened;
use seekless_serve::reactor::inputs::{Replayer, placeholder};
use seekless_serve::reactor::{Kind, Reactor};
use seekless_serve::server::Listener;

/// A record of a turn, the shortest possible.
const TURN_BYTES: usize = 9;

pub fn run(input: &[u8]) {
    let Some((first, rest)) = input.split_first() else { return };
    let file = if *first == 0 { rest.to_vec() } else { framed(rest) };
    let Ok((replayer, ())) = Replayer::from_reader(Cursor::new(file), |_| Ok(((), Kind::Threads))) else {
        return;
    };
    let (reactor, runtime) = (Reactor::replaying(replayer), Runtime::new(1));
    let opened = Opened::from_recording(facts()).expect("a file that stands for it");
    let listener = Listener::from_recording().expect("a socket that stands for it");
    let stop = Arc::new(placeholder().expect("another one"));
    let served = async {
        let served = std::pin::pin!(serve(&reactor, opened, listener, stop));
        let over = std::pin::pin!(reactor.replay_end());
        futures_util::future::select(served, over).await;
    };
    runtime.run_live(served, &*reactor).expect("it goes on as long as there are inputs");
    reactor.end(runtime.event_hash());
    let found = reactor.outcome();
    assert!(found.turns as usize <= input.len() / TURN_BYTES, "{found:?}");
    assert!(found.ended.is_none() || found.diverged.is_none(), "{found:?}");
}
