//! Unaligned requests on slow memory in blocks, compared with a model; and several writers of one block.

use seekless_core::device::{Content, ExtentState, io};
use seekless_core::runtime::{Runtime, rng, sleep, spawn};
use seekless_core::{IoFuture, Nanos};

use super::*;
use crate::component::MemoryComponent;

/// Slow memory in blocks of 4 KiB, with requests of at most 16 KiB.
struct Slow(MemoryComponent);

impl Slow {
    async fn pause() {
        sleep(Nanos(1 + rng("pauses").bits() % 100)).await;
    }
}

impl BlockDevice for Slow {
    fn geometry(&self) -> Geometry {
        Geometry { logical_sectors: 8, largest_sectors: 32, ..self.0.geometry() }
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        assert!(at.start.0 % 8 == 0 && at.sectors % 8 == 0 && at.sectors <= 32, "{at}");
        io(async move {
            let read = self.0.read(at, into, how).await;
            Slow::pause().await;
            read
        })
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        assert!(at.start.0 % 8 == 0 && at.sectors % 8 == 0 && at.sectors <= 32, "{at}");
        io(async move {
            Slow::pause().await;
            self.0.write(at, from, how).await
        })
    }

    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        self.0.flush(how)
    }

    /// A result that is older than its completion.
    fn extents(&self, at: Extent) -> IoFuture<'_, Vec<ExtentState>> {
        io(async move {
            sleep(Nanos(1_000)).await;
            Ok(vec![ExtentState { extent: at, content: Content::Hole }])
        })
    }

    fn discard(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        assert!(at.start.0 % 8 == 0 && at.sectors % 8 == 0, "{at}");
        self.0.discard(at, how)
    }

    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        assert!(at.start.0 % 8 == 0 && at.sectors % 8 == 0 && at.sectors <= 32, "{at}");
        self.0.write_zeroes(at, how, zeroes)
    }
}

const SIZE: u64 = 128 << 10;

fn slow() -> Rc<ByteAdapter> {
    ByteAdapter::new(Rc::new(Slow(MemoryComponent::new(SIZE / SECTOR_BYTES).unwrap())))
}

fn any(most: u64) -> ByteRange {
    let mut rng = rng("places");
    let start = rng.bits() % SIZE;
    let len = 1 + rng.bits() % if rng.bits() % 4 == 0 { most } else { 600 };
    ByteRange { start, end: (start + len).min(SIZE) }
}

/// Reads into a buffer that is not zeroed.
async fn read(device: &ByteAdapter, at: ByteRange) -> Result<Buffer, IoError> {
    let room = at.touched(device.block()).bytes() as usize;
    device.read(at, Buffer::from_vec(vec![0xa5; room]), Hints::default()).await
}

#[test]
fn any_bytes_are_written_zeroed_and_read() {
    let all = ByteRange { start: 0, end: SIZE };
    Runtime::new(1)
        .run(async {
            let (device, mut model) = (slow(), vec![0_u8; SIZE as usize]);
            let _permit = device.allow_unaligned().await;
            for turn in 0..2_000_u32 {
                let at = any(40 << 10);
                let range = at.start as usize..at.end as usize;
                match turn % 4 {
                    0 => {
                        device.write_zeroes(at, Hints::default(), Zeroes::default()).await.unwrap();
                        model[range].fill(0);
                    }
                    1 => {
                        let bytes: Vec<u8> = range.clone().map(|byte| (byte as u32 ^ turn) as u8).collect();
                        model[range].copy_from_slice(&bytes);
                        device.write(at, Buffer::from_vec(bytes), Hints::default()).await.unwrap();
                    }
                    2 => assert_eq!(read(&device, at).await.unwrap().to_vec(), model[range]),
                    // Whole discarded blocks read as zeroes: memory's behaviour.
                    _ => {
                        device.discard(at, Hints::default()).await.unwrap();
                        if let Some(whole) = at.within(4096) {
                            let start = whole.start.0 as usize * 512;
                            model[start..start + whole.bytes() as usize].fill(0);
                        }
                    }
                }
            }
            assert_eq!(read(&device, all).await.unwrap().to_vec(), model);
        })
        .unwrap();
}

#[test]
fn writers_of_one_block_leave_each_other_what_they_wrote() {
    Runtime::new(1)
        .run(async {
            let device = slow();
            // Some began when no client could write partial blocks; they and a writer of its half share the last block.
            let late = ByteRange { start: SIZE - 4096, end: SIZE };
            let early = (0..20).map(|_| {
                let device = device.clone();
                spawn(async move {
                    let bytes = Buffer::from_vec(vec![99; 4096]);
                    device.write(late, bytes, Hints::default()).await.unwrap();
                })
            });
            let early: Vec<_> = early.collect();
            sleep(Nanos(1)).await;
            let permit = device.allow_unaligned().await;
            let half = ByteRange { start: SIZE - 2048, ..late };
            device.write(half, Buffer::from_vec(vec![55; 2048]), Hints::default()).await.unwrap();
            for writer in early {
                writer.await;
            }
            let found = read(&device, late).await.unwrap().to_vec();
            assert_eq!(found, [[99; 2048], [55; 2048]].concat());
            // Each writes every seventh byte, or a block of its own between those.
            let writers = (0..7_u64).map(|writer| {
                let device = device.clone();
                spawn(async move {
                    for byte in (writer..3 * 4096).step_by(7) {
                        let at = ByteRange { start: byte, end: byte + 1 };
                        let value = Buffer::from_vec(vec![writer as u8 + 1]);
                        device.write(at, value, Hints::default()).await.unwrap();
                    }
                })
            });
            let whole = spawn({
                let device = device.clone();
                async move {
                    for value in 1..=50_u8 {
                        let at = ByteRange { start: 3 * 4096, end: 4 * 4096 };
                        let bytes = Buffer::from_vec(vec![value; 4096]);
                        device.write(at, bytes, Hints::default()).await.unwrap();
                        let across = ByteRange { start: 4 * 4096 - 100, end: 4 * 4096 + 100 };
                        device.write_zeroes(across, Hints::default(), Zeroes::default()).await.unwrap();
                    }
                }
            });
            for writer in writers.collect::<Vec<_>>() {
                writer.await;
            }
            whole.await;
            let found = read(&device, ByteRange { start: 0, end: 5 * 4096 }).await.unwrap().to_vec();
            assert!((0..3 * 4096).all(|byte| found[byte] == (byte % 7) as u8 + 1), "a byte is lost");
            assert_eq!(found[3 * 4096..4 * 4096 - 100], [50; 4096 - 100]);
            assert!(found[4 * 4096 - 100..].iter().all(|byte| *byte == 0));
            drop(permit);
            assert_eq!(device.unaligned_clients.get(), 0);
        })
        .unwrap();
}

#[test]
fn what_is_written_during_a_query_is_reported_as_data() {
    let states = Runtime::new(1)
        .run(async {
            let device = slow();
            let query = spawn({
                let device = device.clone();
                async move { device.extents(Extent::new(0, 64)).await.unwrap() }
            });
            sleep(Nanos(500)).await;
            let (at, bytes) = (ByteRange { start: 8192, end: 16384 }, Buffer::zeroed(8192));
            device.write(at, bytes, Hints::default()).await.unwrap();
            let during = query.await;
            let after = device.extents(Extent::new(0, 64)).await.unwrap();
            [during, after].map(|states| {
                states.iter().map(|state| (state.extent.sectors, state.content)).collect::<Vec<_>>()
            })
        })
        .unwrap();
    let (hole, data) = (Content::Hole, Content::Data);
    assert_eq!(states, [vec![(16, hole), (16, data), (32, hole)], vec![(64, hole)]]);
}
