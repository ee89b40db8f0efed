//! Promise 6. Damaged metadata is detected and named, never followed; what has a second copy is repaired.
//!
//! Fault model: any byte of one home of the mapper's map, or of both, is not what was written. One damaged home is
//! taken for one that was being written when the power went: the other counts, which is the map of the flush
//! before, and the next flush writes the damaged one anew. Both damaged: the volume does not open, and says why.
//! That a home of the last flush was damaged later, and not torn, the mapper cannot tell.

use std::rc::Rc;

use seekless_core::runtime::Runtime;
use seekless_core::{BlockDevice, Buffer, ErrorKind, Extent, Hints};
use seekless_drive::{Disk, QueueOptions, spec};
use seekless_lab::check::{self, Found};
use seekless_layers::mapper::{Mapper, Options};

/// Pages of the volume: their map takes one page a home.
const PAGES: u64 = 40;

/// Room for the volume and as much again.
fn disk() -> Rc<dyn BlockDevice> {
    let disk = Disk::new(0, &spec::find("wd2500aaks").unwrap(), QueueOptions::default());
    Rc::new(seekless_core::Slice::new(Rc::new(disk), Extent::of_pages(0, 3 * PAGES)).unwrap())
}

async fn read(device: &dyn BlockDevice, at: Extent) -> Vec<u8> {
    device.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await.unwrap().to_vec()
}

async fn write(device: &dyn BlockDevice, at: Extent, bytes: Vec<u8>) {
    device.write(at, Buffer::from_vec(bytes), Hints::default()).await.unwrap();
}

fn options() -> Options {
    toml::from_str("size = \"160KiB\"").unwrap()
}

/// Which write each page holds, if the volume opens.
async fn told(disk: &Rc<dyn BlockDevice>) -> Result<u64, seekless_core::IoError> {
    let mapper = Mapper::open(disk.clone(), &options()).await?;
    let whole = Extent::of_pages(0, PAGES);
    let buffer = mapper.read(whole, Buffer::zeroed(whole.bytes()), Hints::default()).await?;
    let mut writes = Vec::new();
    check::found(&buffer, |_, found| writes.push(found));
    let Found::Stamp(first) = writes[0] else { panic!("{:?}", writes[0]) };
    for (sector, found) in (0..).zip(writes) {
        assert_eq!(found, Found::Stamp(check::Stamp { sector, write: first.write }), "all of one flush");
    }
    Ok(first.write)
}

#[test]
fn no_damaged_map_is_followed() {
    Runtime::new(1)
        .run(async {
            let disk = disk();
            let mapper = Mapper::open(disk.clone(), &options()).await.unwrap();
            for number in 1..=2 {
                let at = Extent::of_pages(0, PAGES);
                mapper.write(at, check::stamped(at, number), Hints::default()).await.unwrap();
                mapper.flush(Hints::default()).await.unwrap();
            }
            drop(mapper);
            let homes = [Extent::of_pages(0, 1), Extent::of_pages(1, 1)];
            let sound = [read(&*disk, homes[0]).await, read(&*disk, homes[1]).await];
            let (mut counted, mut refused) = ([0, 0], 0);
            for byte in 0..sound[0].len() {
                let mut damaged = sound.clone();
                for home in 0..2 {
                    damaged[home][byte] ^= 1 << (byte % 8);
                    write(&*disk, homes[home], damaged[home].clone()).await;
                    match told(&disk).await {
                        Ok(left) => counted[left as usize - 1] += 1,
                        // A map of another size is somebody else's: not even the other home is looked at.
                        Err(error) => {
                            assert!(
                                error.to_string().contains("expected one of 40 pages"),
                                "byte {byte}: {error}"
                            );
                            refused += 1;
                        }
                    }
                    write(&*disk, homes[home], sound[home].clone()).await;
                }
                for home in 0..2 {
                    write(&*disk, homes[home], damaged[home].clone()).await;
                }
                let error = told(&disk).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Corrupt, "byte {byte}: {error}");
                assert!(error.to_string().contains("expected"), "byte {byte}: {error}");
                for home in 0..2 {
                    write(&*disk, homes[home], sound[home].clone()).await;
                }
            }
            let bytes = sound[0].len();
            assert_eq!(refused, 2 * 8, "a number of pages is 8 bytes");
            assert_eq!(counted, [bytes - 8, bytes - 8], "the other home counts, whichever is damaged");
            println!("{} damaged maps, none followed", 4 * bytes);
        })
        .unwrap();
}

#[test]
fn a_home_that_was_damaged_is_written_anew() {
    Runtime::new(1)
        .run(async {
            let disk = disk();
            let at = Extent::of_pages(0, PAGES);
            let flush = async |number| {
                let mapper = Mapper::open(disk.clone(), &options()).await.unwrap();
                mapper.write(at, check::stamped(at, number), Hints::default()).await.unwrap();
                mapper.flush(Hints::default()).await.unwrap();
            };
            flush(1).await;
            flush(2).await;
            for number in 3..9 {
                // The home of the flush before, then its other one.
                for home in [0, 1] {
                    let sound = read(&*disk, Extent::of_pages(home, 1)).await;
                    write(&*disk, Extent::of_pages(home, 1), vec![0xA5; sound.len()]).await;
                    assert!([number - 2, number - 1].contains(&told(&disk).await.unwrap()), "flush {number}");
                    write(&*disk, Extent::of_pages(home, 1), sound).await;
                }
                write(&*disk, Extent::of_pages(number % 2, 1), vec![0xA5; 4_096]).await;
                let left = told(&disk).await.unwrap();
                flush(number).await;
                assert_eq!(told(&disk).await.unwrap(), number, "after {left}");
            }
        })
        .unwrap();
}
