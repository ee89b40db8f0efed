//! Tests of the reactor, on both of its kinds.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use seekless_core::runtime::{Runtime, now, offload, sleep, spawn};

use super::*;

fn on_both<T: Future<Output = ()>>(test: impl Fn(Rc<Reactor>) -> T) {
    for kind in [Kind::Uring, Kind::Threads] {
        let reactor = match Reactor::start(Some(kind)) {
            Ok((reactor, _)) => Rc::new(reactor),
            Err(error) if kind == Kind::Uring => {
                eprintln!("skipped: no io_uring here: {error}");
                continue;
            }
            Err(error) => panic!("{kind}: {error}"),
        };
        let (runtime, workers) = (Runtime::new(1), reactor.clone());
        runtime.offload_to(Rc::new(move |work| workers.offload(work)));
        runtime.run_live(test(reactor.clone()), &*reactor).unwrap();
    }
}

fn socket() -> (Arc<OwnedFd>, Arc<OwnedFd>) {
    let (here, there) = UnixStream::pair().unwrap();
    (Arc::new(here.into()), Arc::new(there.into()))
}

#[test]
fn files_are_written_and_read_up_to_their_end() {
    on_both(|reactor| async move {
        let file: Arc<OwnedFd> = Arc::new(tempfile::tempfile().unwrap().into());
        let bytes: Vec<u8> = (0..8192).map(|at| (at % 251) as u8).collect();
        for op in [Op::Write(0), Op::WriteThrough(4096)] {
            let done = reactor.submit(Job::new(op, &file, Memory::of(bytes.clone()))).await;
            assert_eq!(done.result.unwrap(), 8192);
        }
        reactor.submit(Job::without(Op::Sync, &file)).await.result.unwrap();
        let done = reactor.submit(Job::new(Op::Read(4096), &file, Memory::aligned(16384))).await;
        assert_eq!(done.result.unwrap(), 8192, "the file ends there");
        assert_eq!(done.memory.part()[..8192], bytes);
        assert_eq!(done.memory.part().as_ptr().align_offset(4096), 0);
        let read_only: Arc<OwnedFd> = Arc::new(File::open("/dev/null").unwrap().into());
        let refused = reactor.submit(Job::new(Op::Write(0), &read_only, Memory::of(vec![1]))).await;
        assert!(refused.result.is_err());
    });
}

/// More than the kernel takes in one call.
#[test]
fn thousands_of_jobs_of_an_instant_are_all_carried_out() {
    on_both(|reactor| async move {
        let file: Arc<OwnedFd> = Arc::new(tempfile::tempfile().unwrap().into());
        let bytes = |number: u64| vec![(number % 251) as u8 + 1; 8];
        let write = |number: u64| Job::new(Op::Write(number * 8), &file, Memory::of(bytes(number)));
        let written: Vec<_> = (0..5_000).map(|number| reactor.submit(write(number))).collect();
        for done in written {
            assert_eq!(done.await.result.unwrap(), 8);
        }
        let done = reactor.submit(Job::new(Op::Read(0), &file, Memory::of(vec![0; 40_000]))).await;
        assert_eq!(done.memory.part(), (0..5_000).flat_map(bytes).collect::<Vec<u8>>());
    });
}

#[test]
fn registered_memory_does_what_other_memory_does_and_comes_back() {
    on_both(|reactor| async move {
        let kind = reactor.kind();
        assert!(reactor.pooled(512).is_none(), "not requested yet");
        if let Err(error) = reactor.register() {
            eprintln!("skipped: the kernel holds no memory for us: {error}");
            return;
        }
        reactor.register().expect("a second time it is there already");
        let Some(mut memory) = reactor.pooled(8192) else {
            assert_eq!(kind, Kind::Threads, "threads have no use for it");
            return;
        };
        let file: Arc<OwnedFd> = Arc::new(tempfile::tempfile().unwrap().into());
        let bytes: Vec<u8> = (0..8192).map(|at| (at % 251) as u8).collect();
        memory.part_mut().copy_from_slice(&bytes);
        for op in [Op::Write(0), Op::WriteThrough(4096)] {
            let done = reactor.submit(Job::new(op, &file, memory)).await;
            assert_eq!(done.result.unwrap(), 8192);
            memory = done.memory;
        }
        // A part of a piece, short at the end of the file, and one whose completion is dropped.
        memory.part_mut().fill(0);
        let done = reactor.submit(Job::new(Op::Read(4096 + 512), &file, memory.cut(512..8192))).await;
        assert_eq!(done.result.unwrap(), 7680);
        assert_eq!(done.memory.part(), &bytes[512..]);
        assert_eq!(done.memory.back(512).part()[..512], [0; 512]);
        let read_only: Arc<OwnedFd> = Arc::new(File::open("/dev/null").unwrap().into());
        let refused = reactor.submit(Job::new(Op::Write(0), &read_only, reactor.pooled(1).unwrap())).await;
        assert!(refused.result.is_err());
        drop(refused);
        let all = |reactor: &Reactor| std::iter::from_fn(|| reactor.pooled(512)).collect::<Vec<_>>().len();
        let free = all(&reactor);
        drop(reactor.submit(Job::new(Op::Read(0), &file, reactor.pooled(512).unwrap())));
        assert_eq!(all(&reactor), free - 1, "the kernel has it");
        sleep(Nanos::from_millis(5)).await;
        assert_eq!(all(&reactor), free);
    });
}

#[test]
fn sockets_wait_for_each_other_and_time_passes_meanwhile() {
    on_both(|reactor| async move {
        let (here, there) = socket();
        let waits = reactor.submit(Job::new(Op::Receive, &here, Memory::of(vec![0; 100])));
        let waits = spawn(waits);
        let began = now();
        sleep(Nanos::from_millis(20)).await;
        assert!(now().since(began) >= Nanos::from_millis(20));
        let sent = reactor.submit(Job::new(Op::Send, &there, Memory::of(b"hello".to_vec()))).await;
        assert_eq!(sent.result.unwrap(), 5);
        let got = waits.await;
        assert_eq!((got.result.unwrap(), &got.memory.part()[..5]), (5, &b"hello"[..]));
    });
}

#[test]
fn what_is_sent_is_sent_whole_however_slowly_it_is_taken() {
    on_both(|reactor| async move {
        let (here, there) = socket();
        let sent = spawn(reactor.submit(Job::new(Op::Send, &there, Memory::of(vec![7; 4 << 20]))));
        let mut got = 0;
        while got < 4 << 20 {
            let done = reactor.submit(Job::new(Op::Receive, &here, Memory::of(vec![0; 100_000]))).await;
            got += done.result.unwrap();
        }
        assert_eq!(sent.await.result.unwrap(), 4 << 20);
    });
}

#[test]
fn an_answer_that_nobody_wants_leaves_its_memory_to_the_kernel_until_it_comes() {
    on_both(|reactor| async move {
        let (here, there) = socket();
        drop(reactor.submit(Job::new(Op::Receive, &here, Memory::of(vec![0; 10]))));
        assert_eq!(reactor.jobs.borrow().len(), 1);
        reactor.submit(Job::new(Op::Send, &there, Memory::of(vec![1; 10]))).await.result.unwrap();
        sleep(Nanos::from_millis(5)).await;
        assert_eq!(reactor.jobs.borrow().len(), 0);
    });
}

#[test]
fn what_is_offloaded_holds_nobody_up_and_is_the_last_of_the_system() {
    on_both(|reactor| async move {
        let began = now();
        let work = || {
            #[allow(clippy::disallowed_methods)] // it is on a thread of its own
            std::thread::sleep(Duration::from_millis(60));
            rustix::process::getpriority_process(None).unwrap()
        };
        let offloaded = spawn(offload(work, |_| Nanos::ZERO));
        let mut turns = 0;
        while !offloaded.is_finished() {
            sleep(Nanos::from_millis(5)).await;
            turns += 1;
        }
        assert!(turns >= 5, "others had {turns} turns meanwhile");
        assert!(now().since(began) >= Nanos::from_millis(60));
        assert_eq!(offloaded.await, 19);
        drop(reactor);
    });
}
