//! The array against a register for each sector: with any member missing, any block damaged, power cuts at every
//! request; and what is refused.

mod failed_writes;
mod log;
mod old;
mod replaced;

use std::collections::BTreeMap;

use proptest::prelude::*;
use seekless_core::Slice;
use seekless_drive::{Disk, QueueOptions, spec};

use super::*;
use crate::registry::Below;
use crate::under_test::{SECTORS, Step, Versions, steps, values, with_error, world, write};

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

/// Steps without discards, which leave everything as it is.
fn writes(most: usize) -> impl Strategy<Value = Vec<Step>> {
    steps(most).prop_map(|steps| {
        steps.into_iter().map(|(what, at, size)| (if what == 3 { 4 } else { what }, at, size)).collect()
    })
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
            assert_eq!(content(&devices.open().await.unwrap()).await, expected);
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

/// What a server prints of an array: a member that is gone at the start, one that fails, and a second one.
#[test]
fn what_is_out_of_service_is_told() {
    world(async || {
        let devices = Devices::new(true, "");
        devices.open().await.unwrap();
        let raid = devices.without(1).open().await.unwrap();
        let trouble = raid.trouble().unwrap();
        assert!(trouble.contains("member 1 is out of service (error: Gone"), "{trouble}");
        let gone = devices.map(|number, device| match number {
            2 => with_error(device, "kind = 'gone'\nfor_ever = true\nops = ['write']\nnth = 4"),
            0 => with_error(device, "kind = 'gone'\nfor_ever = true\nops = ['write']\nnth = 40"),
            _ => device.clone(),
        });
        let raid = gone.open().await.unwrap();
        let told: Rc<RefCell<Vec<String>>> = Rc::default();
        let tell = told.clone();
        raid.on_trouble(Box::new(move |line| tell.borrow_mut().push(line.to_owned())));
        assert_eq!(raid.trouble(), None);
        for value in 0..200 {
            if write(&*raid, 0, SECTORS, value).await.is_err() {
                break;
            }
        }
        let told = told.take();
        let expected =
            ["member 2 is out of service (error: Gone", "writes are refused: raid4: Medium: found member 0"];
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told.iter().zip(expected).all(|(line, expected)| line.starts_with(expected)), "{told:?}");
        let trouble = raid.trouble().unwrap();
        assert!(trouble.starts_with(&told[1]) && trouble.ends_with(&told[0]), "{trouble}");
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Writes, flushes and reads with a member missing from the start, or failing at some request: all reads are right,
    /// and so they are after a restart, without that member and, once it is rebuilt, without any other.
    #[test]
    fn one_failed_member_costs_nothing(
        steps in writes(24), failing in 0..3_usize, nth in 1..60_u64, log: bool, rotates: bool,
    ) {
        let options = if rotates { "rotation = 'left'" } else { "" };
        world(async || {
            let devices = Devices::new(log, options);
            devices.open().await.unwrap();
            let options = format!("kind = 'gone'\nfor_ever = true\nnth = {nth}");
            let failing_later = devices.map(|number, device| {
                if number == failing { with_error(device, &options) } else { device.clone() }
            });
            let mut versions = Versions::zeroes();
            let raid = failing_later.open().await.unwrap();
            versions.carry_out(&*raid, &steps, 1).await.unwrap();
            let expected = versions.last(0..SECTORS);
            assert_eq!(content(&raid).await, expected);
            raid.stop().await.unwrap();
            let raid = devices.open().await.unwrap();
            assert_eq!(content(&raid).await, expected, "restarted");
            raid.command("rebuild", Hints::default()).await.unwrap();
            assert_eq!((content(&raid).await, raid.members.out()), (expected.clone(), None), "rebuilt");
            raid.stop().await.unwrap();
            for missing in 0..3 {
                let raid = devices.without(missing).open().await.unwrap();
                assert_eq!(content(&raid).await, expected, "without member {missing}");
            }
        });
    }

    /// Blocks rot, one in each row at most, checksum blocks among them: all is read as it was written, and repaired.
    #[test]
    fn what_rots_is_repaired(member in 0..3_usize, bits in prop::collection::vec(2 * 32_768..10 * 32_768_usize, 1..9)) {
        world(async || {
            // Of a checksum block, only what it has of its three rows.
            let used = |bit: &usize| (bit / 32_768 + 2) % 4 != 0 || bit % 32_768 < 3 * 64 * 8;
            let bits: Vec<usize> = bits.iter().copied().filter(used).collect();
            let devices = Devices::new(false, "");
            let raid = devices.open().await.unwrap();
            write(&*raid, 0, SECTORS, 7).await.unwrap();
            raid.stop().await.unwrap();
            let whole = devices.members[member].clone();
            let bytes = async |device: &Device| {
                let all = Extent::new(0, MEMBER);
                device.read(all, Buffer::zeroed(all.bytes()), Hints::default()).await.unwrap().to_vec()
            };
            let before = bytes(&whole).await;
            let mut rotten = before.clone();
            for bit in &bits {
                rotten[bit / 8] ^= 1 << (bit % 8);
            }
            whole.write(Extent::new(0, MEMBER), Buffer::from_vec(rotten), Hints::default()).await.unwrap();
            let raid = devices.open().await.unwrap();
            let verify = Hints { verify: true, ..Hints::default() };
            let all = Extent::new(0, SECTORS);
            raid.read(all, Buffer::zeroed(all.bytes()), verify).await.unwrap();
            assert_eq!(content(&raid).await, [7; SECTORS as usize]);
            raid.stop().await.unwrap();
            // All but superblocks, which a stop wrote.
            let (from, to) = (geometry::HEAD as usize * 4_096, (geometry::HEAD + 8) as usize * 4_096);
            assert_eq!(bytes(&whole).await[from..to], before[from..to]);
        });
    }

    /// Two blocks of a row are weak, checksum blocks among them: a verifying read repairs both, since others read them.
    #[test]
    fn what_is_weak_in_two_blocks_of_a_row_is_repaired(
        first in 0..3_usize, other in 1..3_usize, block in 0..8_u64, sums: bool,
    ) {
        world(async || {
            let devices = Devices::new(false, "");
            let raid = devices.open().await.unwrap();
            write(&*raid, 0, SECTORS, 7).await.unwrap();
            raid.stop().await.unwrap();
            let weak = |block: u64| {
                let at = (geometry::HEAD + block) * 4_096;
                format!("until_written = true\nrate_pct = 100\nweak = true\nat = '{at}'\nsize = '4KiB'")
            };
            let second = if sums { block / 4 * 4 } else { block };
            let raid = devices.map(|number, device| match number {
                _ if number == first => with_error(device, &weak(block)),
                _ if number == (first + other) % 3 => with_error(device, &weak(second)),
                _ => device.clone(),
            });
            let raid = raid.open().await.unwrap();
            let (all, verify) = (Extent::new(0, SECTORS), Hints { verify: true, ..Hints::default() });
            raid.read(all, Buffer::zeroed(all.bytes()), verify).await.unwrap();
            assert!(raid.repaired.get() >= 2, "{}", raid.repaired.get());
            assert_eq!(content(&raid).await, [7; SECTORS as usize]);
        });
    }

    /// The program ends without a stop, with writes under way: flushed data is there, also without a member if the
    /// array has a log.
    #[test]
    fn what_was_answered_survives_the_program(steps in writes(16), missing in 0..4_usize, rotates: bool) {
        let options = if rotates { "rotation = 'left'" } else { "" };
        world(async || {
            let devices = Devices::new(true, options);
            let mut versions = Versions::zeroes();
            let raid = devices.open().await.unwrap();
            versions.carry_out(&*raid, &steps, 1).await.unwrap();
            drop(raid);
            let raid = devices.without(missing.min(2) + usize::from(missing == 3) * 9).open().await.unwrap();
            assert_eq!(content(&raid).await, versions.last(0..SECTORS));
        });
    }
}
