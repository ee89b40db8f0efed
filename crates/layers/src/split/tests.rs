//! It does what a device does without it, in parts that are not too large.

use proptest::prelude::*;
use seekless_core::runtime::{self, Runtime};
use seekless_core::{ErrorKind, Op};
use seekless_drive::{Disk, QueueOptions, spec};

use super::*;
use crate::fault::{Act, Fault, Faulty};

/// Refuses what is larger than it takes, and everything behind a sector.
struct Picky {
    largest: u64,
    fails_at: u64,
}

impl Fault for Picky {
    fn meet(&self, op: Op, at: Extent, _: u64) -> Act {
        assert!(at.sectors <= self.largest || op == Op::Discard, "{op} of {} sectors", at.sectors);
        if at.end().0 <= self.fails_at {
            return Act::Pass;
        }
        Act::Fail(IoError::new(ErrorKind::Medium, "picky", Some(at), "it is behind the limit"))
    }
}

fn split(sectors: u64, fails_at: u64) -> Rc<Split> {
    let spec = spec::find("wd2500aaks").unwrap();
    let disk = Rc::new(Disk::new(0, &spec, QueueOptions::default()));
    let below = Rc::new(Faulty::new(disk, Picky { largest: sectors, fails_at }));
    Rc::new(Split::new(below, &Options { largest: Bytes(sectors * SECTOR_BYTES) }))
}

fn filled(value: u8, sectors: u64) -> Buffer {
    Buffer::from_vec(vec![value; (sectors * SECTOR_BYTES) as usize])
}

proptest! {
    /// Requests that are in flight together have their effect in the order in which they came.
    #[test]
    fn it_does_what_a_device_does(
        largest in 1..20_u64,
        writes in proptest::collection::vec((0..60_u64, 1..60_u64), 1..20),
    ) {
        Runtime::new(1).run(async {
            let (layer, mut expected) = (split(largest, u64::MAX), vec![0; 120]);
            let mut tasks = Vec::new();
            for (value, &(start, sectors)) in (1..).zip(&writes) {
                expected[start as usize..(start + sectors) as usize].fill(value);
                let layer = layer.clone();
                tasks.push(runtime::spawn(async move {
                    layer.write(Extent::new(start, sectors), filled(value, sectors), Hints::default()).await
                }));
            }
            for task in tasks {
                task.await.unwrap();
            }
            let whole = Extent::new(0, 120);
            let read = layer.read(whole, Buffer::zeroed(whole.bytes()), Hints::default()).await.unwrap();
            let found: Vec<u8> = read.to_vec().into_iter().step_by(SECTOR_BYTES as usize).collect();
            assert_eq!(found, expected);
        }).unwrap();
    }
}

#[test]
fn a_part_that_fails_fails_its_request_and_parts_are_counted() {
    let runtime = Runtime::new(1);
    runtime
        .run(async {
            let layer = split(8, 20);
            let write = |start, sectors| {
                layer.write(Extent::new(start, sectors), filled(1, sectors), Hints::default())
            };
            write(4, 8).await.unwrap();
            assert_eq!(layer.counters(), [("parts", 2)]);
            assert_eq!(write(4, 20).await.unwrap_err().extent(), Some(Extent::new(16, 8)));
            assert_eq!(layer.counters(), [("parts", 5)]);
            layer.discard(Extent::new(0, 20), Hints::default()).await.unwrap();
        })
        .unwrap();
    assert_eq!(runtime.edges(), [("a request goes in parts", 2)]);
}

#[test]
fn a_part_without_sectors_is_refused() {
    let error = Options { largest: Bytes(0) }.check().unwrap_err().to_string();
    assert!(error.contains("largest") && error.contains("a sector"), "{error}");
}
