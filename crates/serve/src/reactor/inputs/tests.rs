//! Recording and replaying a program: the same, another one, and files that are cut short or damaged.

use std::cell::RefCell;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;

use proptest::prelude::*;
use seekless_core::device::{Content, ExtentState};
use seekless_core::runtime::{Runtime, sleep, spawn};
use seekless_core::{Extent, Nanos};

use super::record::{Completion, next_frame, read_header};
use super::*;
use crate::reactor::{Job, Kind, Memory, Op, Reactor};

/// A program with inputs: a file that is written and read, and a peer that sends something.
async fn program(reactor: Rc<Reactor>, file: Arc<OwnedFd>, socket: Arc<OwnedFd>, pages: u64) -> Vec<u8> {
    let said = spawn(reactor.submit(Job::new(Op::Receive, &socket, Memory::of(vec![0; 100]))));
    for page in 0..pages {
        let mut memory = Memory::aligned(4096);
        memory.part_mut().fill(page as u8 + 1);
        reactor.submit(Job::new(Op::Write(page << 12), &file, memory)).await.result.unwrap();
    }
    sleep(Nanos::from_millis(1)).await;
    let at = Extent::new(0, 8);
    let found =
        reactor.query_extents(at, move || vec![ExtentState { extent: at, content: Content::Data }]).await;
    assert_eq!(found.len(), 1);
    assert_eq!(reactor.observe(|| vec![3, 1, 2]), [3, 1, 2]);
    let read = reactor.submit(Job::new(Op::Read(4096), &file, Memory::aligned(4096))).await;
    let mut all = said.await.memory.part()[..5].to_vec();
    all.extend(&read.memory.part()[..5]);
    all
}

/// Records the program on a kind of reactor; its file of inputs, if there is such a reactor here.
fn recorded(kind: Kind) -> Option<tempfile::NamedTempFile> {
    let inputs = tempfile::NamedTempFile::new().unwrap();
    let Ok((reactor, _)) = Reactor::start(Some(kind)) else {
        eprintln!("skipped: no {kind} here");
        return None;
    };
    let recorder = Recorder::create(inputs.path(), "a text", |why| panic!("{why}")).unwrap();
    let (reactor, runtime) = (Rc::new(reactor.recorded(recorder)), Runtime::new(1));
    let workers = reactor.clone();
    runtime.offload_to(Rc::new(move |work| workers.offload(work)));
    let (here, mut there) = UnixStream::pair().unwrap();
    there.write_all(b"hello").unwrap();
    let file = Arc::new(OwnedFd::from(tempfile::tempfile().unwrap()));
    let work = program(reactor.clone(), file, Arc::new(here.into()), 3);
    assert_eq!(runtime.run_live(work, &*reactor).unwrap(), b"hello\x02\x02\x02\x02\x02");
    reactor.end(runtime.event_hash());
    Some(inputs)
}

/// Replays the program with `pages` pages; the replay's result, and the program's if it reached its end.
fn replayed(inputs: &std::path::Path, pages: u64) -> (Replayed, Option<Vec<u8>>) {
    let (replayer, text) = Replayer::open(inputs, |text| Ok((text.to_owned(), Kind::Uring))).unwrap();
    assert_eq!(text, "a text");
    let (reactor, runtime) = (Reactor::replaying(replayer), Runtime::new(1));
    let workers = reactor.clone();
    runtime.offload_to(Rc::new(move |work| workers.offload(work)));
    let given = Rc::new(RefCell::new(None));
    let handle = || Arc::new(placeholder().unwrap());
    let work = async {
        let work = program(reactor.clone(), handle(), handle(), pages);
        let work = async { given.replace(Some(work.await)) };
        let (work, over) = (std::pin::pin!(work), std::pin::pin!(reactor.replay_end()));
        futures_util::future::select(work, over).await;
    };
    runtime.run_live(work, &*reactor).unwrap();
    reactor.end(runtime.event_hash());
    (reactor.outcome(), given.take())
}

#[test]
fn the_same_program_does_the_same_on_the_same_inputs() {
    for kind in [Kind::Uring, Kind::Threads] {
        let Some(inputs) = recorded(kind) else { continue };
        let (found, given) = replayed(inputs.path(), 3);
        assert_eq!(found.diverged, None, "{kind}");
        assert!(found.ended.is_some() && found.jobs == 6 && found.component_jobs == 4, "{kind}: {found:?}");
        assert_eq!(given.unwrap(), b"hello\x02\x02\x02\x02\x02");
    }
}

#[test]
fn where_another_program_diverges_is_reported() {
    for kind in [Kind::Uring, Kind::Threads] {
        let Some(inputs) = recorded(kind) else { continue };
        let (found, given) = replayed(inputs.path(), 4);
        let why = found.diverged.unwrap();
        assert!(why.contains("job 4") && why.contains("write of 4096 bytes at 12288"), "{kind}: {why}");
        assert_eq!((found.jobs, found.ended, given), (4, None, None));
    }
}

#[test]
fn a_file_that_is_cut_short_is_replayed_to_where_it_ends() {
    let Some(inputs) = recorded(Kind::Threads) else { return };
    let whole = std::fs::read(inputs.path()).unwrap();
    // The end of the header's frame: nothing of the run itself.
    let text = MAGIC_BYTES + 8 + "a text".len();
    for end in [text, text + 3, text + 9, whole.len() - 1] {
        std::fs::write(inputs.path(), &whole[..end]).unwrap();
        let (found, given) = replayed(inputs.path(), 3);
        assert_eq!((found.diverged, found.ended, found.jobs, given), (None, None, 0, None), "{end}");
    }
}

const MAGIC_BYTES: usize = 16;

#[test]
fn a_byte_that_changed_is_found() {
    let Some(inputs) = recorded(Kind::Threads) else { return };
    let whole = std::fs::read(inputs.path()).unwrap();
    let text = MAGIC_BYTES + 8 + "a text".len();
    for at in text..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        let mut rest = &bytes[..];
        read_header(&mut rest).unwrap();
        // A length that is too long is like a file that is cut short.
        let read = next_frame(&mut rest);
        assert!(matches!(read, Err(_) | Ok(None)), "byte {at}");
    }
    for (bytes, word) in [(&b"hello"[..], "other bytes"), (b"SEEKLESS INPUTS\x07", "version 7")] {
        assert!(read_header(&mut &bytes[..]).unwrap_err().contains(word));
    }
}

fn completion() -> impl Strategy<Value = Completion> {
    (any::<i64>(), prop::collection::vec(any::<u8>(), 0..50))
        .prop_map(|(result, data)| Completion { result, data })
}

fn sector() -> std::ops::Range<u64> {
    0..1 << 54
}

fn record() -> impl Strategy<Value = Record> {
    let state = |(start, sectors, hole): (u64, u64, bool)| ExtentState {
        extent: Extent::new(start, sectors),
        content: if hole { Content::Hole } else { Content::Unknown },
    };
    prop_oneof![
        (0..9_u8, any::<u32>(), any::<u64>(), any::<u64>(), any::<u32>())
            .prop_map(|(op, handle, at, len, digest)| Record::Submitted { op, handle, at, len, digest }),
        completion().prop_map(Record::Immediate),
        (any::<u64>(), completion()).prop_map(|(job, completion)| Record::Completed { job, completion }),
        (sector(), sector(), prop::collection::vec((sector(), sector(), any::<bool>()), 0..5)).prop_map(
            move |(start, sectors, states)| Record::Extents {
                at: Extent::new(start, sectors),
                states: states.into_iter().map(state).collect(),
            }
        ),
        any::<u64>().prop_map(Record::Turn),
        any::<u64>().prop_map(Record::End),
    ]
}

proptest! {
    #[test]
    fn records_are_read_as_they_were_written(records in prop::collection::vec(record(), 0..20)) {
        let mut bytes = Vec::new();
        for record in &records {
            record.put(&mut bytes);
        }
        let mut rest = &bytes[..];
        for record in &records {
            let read = Record::take(&mut rest);
            prop_assert_eq!(read.as_ref(), Some(record));
        }
        prop_assert!(rest.is_empty());
    }

    #[test]
    fn no_extent_ends_where_no_sector_is(start in any::<u64>(), sectors in any::<u64>()) {
        let at = Extent::new(start, sectors);
        let mut bytes = Vec::new();
        Record::Extents { at, states: Vec::new() }.put(&mut bytes);
        let there_is = start.checked_add(sectors).is_some_and(|end| end <= u64::MAX / 512);
        prop_assert_eq!(Record::take(&mut &bytes[..]).is_some(), there_is);
    }

    #[test]
    fn any_bytes_are_records_or_none(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut rest = &bytes[..];
        while !rest.is_empty() && Record::take(&mut rest).is_some() {}
        let _ = read_header(&mut &bytes[..]);
        let _ = next_frame(&mut &bytes[..]);
    }
}
