//! The array against a register for each sector: with any member missing, any block damaged, power cuts at every request;
//! and what is refused.

use std::collections::BTreeMap;

use proptest::prelude::*;
use seekless_core::runtime::Runtime;
use seekless_core::{ErrorKind, Slice};
use seekless_drive::{Disk, QueueOptions, spec};

use super::*;
use crate::fault::powercut::{self, Keep, PowerCut};
use crate::registry::Below;
use crate::under_test::{
    PAGES, SECTORS, Versions, filled, flush, reached, steps, values, with_error, world, write,
};

/// Sectors of a member: two units of three blocks and a checksum block.
const MEMBER: u64 = (geometry::HEAD + 8) * PAGE_SECTORS;
/// Sectors of a log.
const LOG_SECTORS: u64 = 40 * PAGE_SECTORS;

type Device = Rc<dyn BlockDevice>;

fn device(sectors: u64) -> Device {
    let disk = Rc::new(Disk::new(0, &spec::find("wd2500aaks").unwrap(), QueueOptions::default()));
    Rc::new(Slice::new(disk, Extent::new(0, sectors)).unwrap())
}

/// The devices of an array: members, and a log perhaps.
#[derive(Clone)]
struct Devices {
    members: Vec<Device>,
    log: Option<Device>,
    options: Options,
}

impl Devices {
    fn new(log: bool, options: &str) -> Devices {
        let options = toml::from_str(&format!("unit = '16KiB'\n{options}")).unwrap();
        let log = log.then(|| device(LOG_SECTORS));
        Devices { members: (0..3).map(|_| device(MEMBER)).collect(), log, options }
    }

    fn below(&self, create: bool) -> Below {
        let (parity, data) = self.members.split_last().unwrap();
        let mut devices = BTreeMap::from([(PARITY.to_owned(), vec![parity.clone()])]);
        devices.extend(self.log.iter().map(|log| (LOG.to_owned(), vec![log.clone()])));
        Below { over: data.to_vec(), devices, create, timing_only: false }
    }

    async fn open(&self) -> Result<Rc<Raid>, IoError> {
        Raid::open(&self.below(true), &self.options).await
    }

    /// As it is now, with each device replaced by what `with` makes of it.
    fn map(&self, with: impl Fn(usize, &Device) -> Device) -> Devices {
        let members = self.members.iter().enumerate().map(|(number, device)| with(number, device)).collect();
        let log = self.log.as_ref().map(|log| with(self.members.len(), log));
        Devices { members, log, options: self.options.clone() }
    }

    /// With a member that is gone.
    fn without(&self, missing: usize) -> Devices {
        self.map(|number, device| {
            if number == missing {
                with_error(device, "kind = 'gone'\nfor_ever = true")
            } else {
                device.clone()
            }
        })
    }
}

async fn content(raid: &Raid) -> Vec<u8> {
    values(raid, Extent::new(0, SECTORS)).await.unwrap()
}

#[test]
fn what_is_written_is_read_and_found_again() {
    for (log, options) in [(false, ""), (true, ""), (false, "rotation = 'left'"), (true, "rotation = 'left'")]
    {
        world(async || {
            let devices = Devices::new(log, options);
            let raid = devices.open().await.unwrap();
            assert_eq!(raid.geometry().sectors, SECTORS);
            write(&*raid, 0, SECTORS, 1).await.unwrap();
            for start in 0..SECTORS {
                write(&*raid, start, 1, start as u8).await.unwrap();
            }
            let expected: Vec<u8> = (0..SECTORS as u8).collect();
            assert_eq!(content(&raid).await, expected);
            raid.stop().await.unwrap();
            assert_eq!(content(&*devices.open().await.unwrap()).await, expected);
            for missing in 0..3 {
                let raid = devices.without(missing).open().await.unwrap();
                assert_eq!(content(&raid).await, expected, "without member {missing}");
            }
        });
    }
}

#[test]
fn an_update_of_one_block_takes_eight_commands() {
    world(async || {
        let raid = Devices::new(false, "").open().await.unwrap();
        write(&*raid, 0, SECTORS, 1).await.unwrap();
        let before = (raid.members.reads.get(), raid.members.writes.get());
        write(&*raid, 8, 8, 2).await.unwrap();
        let after = (raid.members.reads.get(), raid.members.writes.get());
        assert_eq!((after.0 - before.0, after.1 - before.1), (4, 4));
    });
}
