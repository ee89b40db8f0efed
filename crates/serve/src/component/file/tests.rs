//! A file as a component, and other programs that change it meanwhile.

use std::fs::{File, OpenOptions};
use std::future::Future;
use std::os::unix::fs::FileExt;
use std::task::{Context, Waker};

use seekless_core::runtime::Runtime;

use super::*;
use crate::reactor::Kind;

/// Runs a test with a file of `bytes` bytes and a component of it, on both kinds of reactor.
fn with_file<T: Future<Output = ()>>(bytes: u64, test: impl Fn(File, Rc<FileComponent>) -> T) {
    for kind in [Kind::Uring, Kind::Threads] {
        let Ok((reactor, _)) = Reactor::start(Some(kind)) else {
            eprintln!("skipped: no {kind} here");
            continue;
        };
        let (reactor, runtime) = (Rc::new(reactor), Runtime::new(1));
        let workers = reactor.clone();
        runtime.offload_to(Rc::new(move |work| workers.offload(work)));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.img");
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
        file.set_len(bytes).unwrap();
        let opened = Opened::open(&path, false, false).unwrap();
        let component = Rc::new(FileComponent::new(&reactor, "disk", opened));
        runtime.run_live(test(file, component), &*reactor).unwrap();
    }
}

#[test]
fn what_a_file_holds_is_asked_beside_the_volume() {
    with_file(1 << 20, |file, component| async move {
        file.write_all_at(&vec![7; 64 << 10], 128 << 10).unwrap();
        // An immediate completion may be a fast one; if all are, the volume is blocked by them.
        let waits = (0..100).all(|_| {
            let mut pending = component.extents(Extent::new(0, 2048));
            pending.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
        });
        assert!(!waits, "the volume waits for the file system's answer");
        let states = component.extents(Extent::new(0, 2048)).await.unwrap();
        let states: Vec<_> = states.iter().map(|state| (state.extent.start.0, state.content)).collect();
        assert_eq!(states, [(0, Content::Hole), (256, Content::Data), (384, Content::Hole)]);
    });
}

/// Kinds of the errors of a page's write, with FUA or not, and of a flush.
async fn page(component: &FileComponent, at: u64, fua: bool) -> Option<ErrorKind> {
    let how = Hints { fua, ..Hints::default() };
    let written = component.write(Extent::new(at, 8), Buffer::from_vec(vec![9; 4096]), how).await;
    written.err().map(|error| error.kind())
}

async fn flush(component: &FileComponent) -> Option<ErrorKind> {
    component.flush(Hints::default()).await.err().map(|error| error.kind())
}

/// The completion of an abandoned flush is not seen, and the system reports an error only once.
#[test]
fn no_flush_succeeds_behind_one_that_was_given_up() {
    with_file(1 << 20, |_, component| async move {
        assert_eq!(page(&component, 0, false).await, None);
        // A fast one is not abandoned.
        let given_up = (0..100).any(|_| {
            let mut pending = component.flush(Hints::default());
            pending.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()
        });
        assert!(given_up);
        assert_eq!(flush(&component).await, Some(ErrorKind::Medium));
    });
}

#[test]
fn a_file_that_was_emptied_does_not_get_its_size_back() {
    with_file(1 << 20, |file, component| async move {
        assert_eq!((page(&component, 2040, false).await, flush(&component).await), (None, None));
        file.set_len(0).unwrap();
        assert_eq!(page(&component, 2040, false).await, Some(ErrorKind::Gone), "its last block");
        assert_eq!(file.metadata().unwrap().len(), 0);
        assert!(flush(&component).await.is_some());
        // Growing the file again does not help.
        file.set_len(1 << 20).unwrap();
        assert!(flush(&component).await.is_some(), "what was lost stays lost");
    });
}

#[test]
fn a_file_that_was_cut_and_grew_again_fails_its_flushes() {
    with_file(1 << 20, |file, component| async move {
        assert_eq!((page(&component, 1024, false).await, flush(&component).await), (None, None));
        file.set_len(256 << 10).unwrap();
        assert_eq!(page(&component, 1536, true).await, Some(ErrorKind::Gone), "durable when answered");
        let _ = page(&component, 1536, false).await;
        assert!(file.metadata().unwrap().len() < 1 << 20);
        assert!(flush(&component).await.is_some());
        assert!(flush(&component).await.is_some(), "none succeeds after that");
        // Also where it is long enough again.
        file.set_len(1 << 20).unwrap();
        let read =
            async |at| component.read(Extent::new(at, 8), Buffer::zeroed(4_096), Hints::default()).await;
        assert_eq!(read(1024).await.err().map(|error| error.kind()), Some(ErrorKind::Gone));
        assert!(read(504).await.is_ok(), "the rest can be read");
    });
}

/// A round of a mover is tens of thousands of requests.
#[test]
fn a_client_does_not_wait_behind_a_round_of_background_work() {
    with_file(BACKGROUND_BYTES + (4 << 20), |_, component| async move {
        let order: Rc<RefCell<Vec<Class>>> = Rc::default();
        let write = |page: u64, class: Class| {
            let (component, order) = (component.clone(), order.clone());
            runtime::spawn(async move {
                let how = Hints { class, ..Hints::default() };
                let data = Buffer::from_vec(vec![9; 4096]);
                component.write(Extent::of_pages(page, 1), data, how).await.unwrap();
                order.borrow_mut().push(class);
            })
        };
        let mut tasks: Vec<_> = (0..1000).map(|page| write(page, Class::Background)).collect();
        tasks.push(write(1000, Class::Foreground));
        for task in tasks {
            task.await;
        }
        let before = order.borrow().iter().position(|class| *class == Class::Foreground).unwrap();
        assert!(before <= 500, "{before} of 1,000 background writes were answered before it");
        // One that is larger than the limit passes too.
        let largest = Buffer::zeroed(component.geometry().sectors * SECTOR_BYTES);
        let how = Hints { class: Class::Background, ..Hints::default() };
        component.write(Extent::new(0, component.geometry().sectors), largest, how).await.unwrap();
    });
}
