//! The mirror against a register for each sector: with any member failing, missing, damaged, stale or replaced; and
//! what is refused.

mod old;
mod refused;
mod replaced;

use proptest::prelude::*;
use seekless_core::Slice;
use seekless_drive::{Disk, QueueOptions, spec};

use super::*;
use crate::registry::Below;
use crate::under_test::{SECTORS, Step, Versions, reached, steps, values, with_error, world, write};

/// Sectors of a member.
const MEMBER: u64 = label::HEAD * PAGE_SECTORS + SECTORS;

type Device = Rc<dyn BlockDevice>;

fn device(sectors: u64) -> Device {
    let disk = Rc::new(Disk::new(0, &spec::find("wd2500aaks").unwrap(), QueueOptions::default()));
    Rc::new(Slice::new(disk, Extent::new(0, sectors)).unwrap())
}

/// The members of a mirror.
#[derive(Clone)]
struct Devices(Vec<Device>);

impl Devices {
    fn new(members: usize) -> Devices {
        Devices((0..members).map(|_| device(MEMBER)).collect())
    }

    fn below(&self, create: bool) -> Below {
        let devices = std::collections::BTreeMap::new();
        Below { over: self.0.clone(), devices, create, timing_only: false }
    }

    async fn open(&self) -> Result<Rc<Mirror>, IoError> {
        let options = toml::from_str("region = '8KiB'\nclean_after = '10ms'").unwrap();
        Mirror::open(&self.below(true), &options).await
    }

    /// As it is now, with each device replaced by what `with` makes of it.
    fn map(&self, with: impl Fn(usize, &Device) -> Device) -> Devices {
        Devices(self.0.iter().enumerate().map(|(number, device)| with(number, device)).collect())
    }

    /// With one of them replaced.
    fn with(&self, member: usize, other: &Device) -> Devices {
        self.map(|number, device| if number == member { other.clone() } else { device.clone() })
    }

    /// With a member that is gone.
    fn without(&self, missing: usize) -> Devices {
        self.with(missing, &with_error(&self.0[missing], "kind = 'gone'\nfor_ever = true"))
    }
}

async fn content(mirror: &Mirror) -> Vec<u8> {
    values(mirror, Extent::new(0, SECTORS)).await.unwrap()
}

/// What a member has of the data.
async fn on(device: &Device) -> Vec<u8> {
    values(&**device, Members::place(Extent::new(0, SECTORS))).await.unwrap()
}

/// Waits until members that were gone have caught up.
async fn until_whole(mirror: &Mirror) {
    for _ in 0..1_000 {
        if mirror.members.first_out().is_none() {
            return;
        }
        runtime::sleep(Nanos::from_millis(20)).await;
    }
    panic!("a member stays out of service");
}

#[test]
fn what_is_written_is_on_each_member() {
    world(async || {
        let devices = Devices::new(3);
        let mirror = devices.open().await.unwrap();
        assert_eq!(mirror.geometry().sectors, SECTORS);
        for start in 0..SECTORS {
            write(&*mirror, start, 1, start as u8).await.unwrap();
        }
        mirror.write_zeroes(Extent::new(3, 9), Hints::default(), Zeroes::default()).await.unwrap();
        mirror.discard(Extent::new(40, 16), Hints::default()).await.unwrap();
        let expected: Vec<u8> =
            (0..SECTORS as u8).map(|sector| if (3..12).contains(&sector) { 0 } else { sector }).collect();
        assert_eq!(content(&mirror).await, expected);
        mirror.stop().await.unwrap();
        assert!(mirror.members.is_clean());
        for (missing, member) in devices.0.iter().enumerate() {
            assert_eq!(on(member).await, expected);
            let mirror = devices.without(missing).open().await.unwrap();
            assert_eq!(content(&mirror).await, expected, "without member {missing}");
            drop(mirror);
            let mirror = devices.open().await.unwrap();
            until_whole(&mirror).await;
            mirror.stop().await.unwrap();
        }
    });
}

/// A region is clean again a while after it was written, and not before.
#[test]
fn regions_are_clean_again_after_a_while() {
    world(async || {
        let options = toml::from_str("region = '8KiB'\nclean_after = '1s'").unwrap();
        let mirror = Mirror::open(&Devices::new(2).below(true), &options).await.unwrap();
        let dirty = || mirror.members.label().differ.each().collect::<Vec<_>>();
        write(&*mirror, 0, 4, 1).await.unwrap();
        write(&*mirror, 64, 4, 1).await.unwrap();
        assert_eq!(dirty(), [0, 4]);
        runtime::sleep(Nanos::from_millis(1_100)).await;
        assert_eq!(dirty(), [4]);
        write(&*mirror, 66, 4, 1).await.unwrap();
        runtime::sleep(Nanos::from_millis(1_000)).await;
        assert_eq!(dirty(), [4], "it was written again");
        runtime::sleep(Nanos::from_millis(1_000)).await;
        assert!(mirror.members.is_clean());
    });
}

/// Steps without discards, which may leave everything as it is.
fn writes(most: usize) -> impl Strategy<Value = Vec<Step>> {
    steps(most).prop_map(|steps| {
        steps.into_iter().map(|(what, at, size)| (if what == 3 { 4 } else { what }, at, size)).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Writes, flushes and reads with a member that fails at some request: all reads are right; so they are after a
    /// restart, once that member has caught up, and without any other.
    #[test]
    fn a_member_that_fails_costs_nothing(
        steps in writes(24), members in 2..4_usize, failing in 0..4_usize, nth in 1..60_u64,
        kind in prop_oneof![Just("gone"), Just("medium"), Just("timeout")], for_ever: bool, stops: bool,
    ) {
        let failing = failing % members;
        world(async || {
            let devices = Devices::new(members);
            devices.open().await.unwrap();
            let options = format!("kind = '{kind}'\nfor_ever = {for_ever}\nnth = {nth}");
            let failing_later = devices.with(failing, &with_error(&devices.0[failing], &options));
            let mut versions = Versions::zeroes();
            let mirror = failing_later.open().await.unwrap();
            versions.carry_out(&*mirror, &steps, 1).await.unwrap();
            let expected = versions.last(0..SECTORS);
            assert_eq!(content(&mirror).await, expected);
            if stops {
                mirror.stop().await.unwrap();
            }
            drop(mirror);
            let mirror = devices.open().await.unwrap();
            assert_eq!(content(&mirror).await, expected, "restarted");
            until_whole(&mirror).await;
            assert_eq!(content(&mirror).await, expected, "caught up");
            mirror.stop().await.unwrap();
            for missing in 0..members {
                assert_eq!(on(&devices.0[missing]).await, expected, "member {missing}");
            }
        });
    }

    /// A page cannot be read on a member, and another one not on another member, or it has other data on a later
    /// member: all is read as it was written, and repaired.
    #[test]
    fn what_cannot_be_read_is_repaired(pages in prop::collection::vec((0..12_u64, 0..3_usize), 1..5), rots: bool, verify: bool) {
        world(async || {
            let devices = Devices::new(3);
            let mirror = devices.open().await.unwrap();
            write(&*mirror, 0, SECTORS, 7).await.unwrap();
            mirror.stop().await.unwrap();
            drop(mirror);
            let mut damaged = devices.clone();
            for (page, member) in &pages {
                let at = Members::place(Extent::of_pages(*page, 1));
                if rots {
                    let other = Buffer::from_vec(vec![9; 4_096]);
                    devices.0[*page as usize % 3].write(at, other, Hints::default()).await.unwrap();
                } else {
                    let kind = ["medium", "corrupt"][*page as usize % 2];
                    let options =
                        format!("kind = '{kind}'\nuntil_written = true\nat = '{}'\nsize = '4KiB'", at.start.0 * 512);
                    if damaged.0.iter().zip(&devices.0).filter(|(one, other)| !Rc::ptr_eq(one, other)).count() < 2 {
                        damaged = damaged.with(*member, &with_error(&damaged.0[*member], &options));
                    }
                }
            }
            let mirror = damaged.open().await.unwrap();
            let all = Extent::new(0, SECTORS);
            let how = Hints { verify: verify || rots, ..Hints::default() };
            mirror.read(all, Buffer::zeroed(all.bytes()), how).await.unwrap();
            assert_eq!(content(&mirror).await, [7; SECTORS as usize]);
            assert!(!rots || mirror.mismatches.get() > 0);
            if verify || rots {
                for member in &damaged.0 {
                    assert_eq!(on(member).await, [7; SECTORS as usize]);
                }
            }
        });
    }
}
