//! Upgrade of a volume of the first format to sealed sectors. No data moves: if the copies would be larger, it is
//! refused.
//!
//! The volume is stopped clean, so that a checkpoint covers everything and the log is empty. The same checkpoint,
//! sealed, replaces the older copy, and then the other. Faults: after a power failure one copy is whole, in either
//! format, and both have the same contents; an interrupted upgrade is repeated by the next one.

use std::rc::Rc;

use seekless_core::{BlockDevice, Class, ErrorKind, Extent, Hints, IoError, Layer};

use super::{Lld, Options, checkpoint, sealed};

impl Lld {
    /// Upgrades a volume of the first format to the second, which older programs do not open; one of the second is
    /// unchanged. Fails as opening does, or with the device's error: then it is in either format. `Unsupported` if data
    /// would have to move.
    pub async fn upgrade(below: Rc<dyn BlockDevice>, options: Options) -> Result<(), IoError> {
        let layout = options.built(below.geometry().sectors)?;
        let lld = Lld::open(below.clone(), options, false).await?;
        if lld.layout.sealed {
            return Ok(());
        }
        let mut divided = lld.layout;
        divided.sealed = true;
        if divided != layout {
            let why = "found a volume without room for sealed checkpoints, expected it: data would have to move, so \
                       copy it to a new volume";
            return Err(IoError::new(ErrorKind::Unsupported, "lld", None, why));
        }
        let how = Hints { class: Class::Foreground, ..Hints::default() };
        lld.begin(&how).await?;
        lld.stop().await?;
        let (head, bytes) = {
            let state = lld.state.borrow();
            let head = checkpoint::Head { generation: state.disk.generation + 1, ..state.disk };
            let recorded: Vec<u64> = state.segments.iter().map(|(_, segment)| segment.recorded).collect();
            (head, checkpoint::encode(&head, &state.slots, &recorded, &layout))
        };
        let _turn = lld.flushing.exclusive(Extent::new(0, 1), &how).await;
        checkpoint::write(&*below, &layout, head.generation, &bytes, &how).await?;
        below.flush(how.clone()).await?;
        sealed::copy(&*below, &layout, head.generation, &how).await?;
        below.flush(how).await
    }
}

#[cfg(test)]
mod tests {
    use seekless_core::runtime::Runtime;
    use seekless_core::{Buffer, PAGE_SECTORS, Slice};
    use seekless_drive::{Disk, QueueOptions, spec};

    use super::*;
    use crate::Bytes;
    use crate::fault::powercut::{self, Keep, PowerCut};

    const BLOCKS: u64 = 40;

    fn options() -> Options {
        Options { size: Some(Bytes(BLOCKS << 12)), segment: Bytes(16 << 10), ..Options::default() }
    }

    /// What is below, with a volume of the first format that holds its numbers.
    async fn of_the_first_format() -> Rc<dyn BlockDevice> {
        let disk = Rc::new(Disk::new(0, &spec::find("wd2500aaks").unwrap(), QueueOptions::default()));
        let below: Rc<dyn BlockDevice> = Rc::new(Slice::new(disk, Extent::of_pages(0, 120)).unwrap());
        let old = options().first_format(below.geometry().sectors).unwrap();
        let found = checkpoint::Recovered::default();
        let lld = Lld::of(below.clone(), options(), old, found).await.unwrap();
        for round in 0..3 {
            for block in 0..BLOCKS {
                let at = Extent::of_pages(block, 1);
                let bytes = Buffer::from_vec(vec![block as u8 + 100 * round; 4_096]);
                lld.write(at, bytes, Hints::default()).await.unwrap();
            }
            lld.flush(Hints::default()).await.unwrap();
        }
        below
    }

    async fn holds_its_numbers(below: &Rc<dyn BlockDevice>) -> bool {
        let lld = Lld::open(below.clone(), options(), true).await.unwrap();
        for block in 0..BLOCKS {
            let at = Extent::new(block * PAGE_SECTORS, 1);
            let read = lld.read(at, Buffer::zeroed(512), Hints::default()).await.unwrap();
            assert_eq!(read.to_vec(), [block as u8 + 200; 512], "block {block}");
        }
        lld.layout.sealed
    }

    #[test]
    fn power_may_go_at_any_request_of_an_upgrade() {
        for nth in 1.. {
            let ended = Runtime::new(nth).run(async {
                let durable = of_the_first_format().await;
                let cut = Rc::new(PowerCut::new(durable.clone(), powercut::Options { nth, keep: Keep::Any }));
                let ended = Lld::upgrade(cut.clone(), options()).await.is_ok();
                cut.cut().await.unwrap();
                let sealed = holds_its_numbers(&durable).await;
                assert!(sealed || !ended, "it ended, and is of the first format");
                Lld::upgrade(durable.clone(), options()).await.unwrap();
                assert!(holds_its_numbers(&durable).await);
                ended
            });
            if ended.unwrap() {
                assert!(nth > 5);
                break;
            }
        }
    }
}
