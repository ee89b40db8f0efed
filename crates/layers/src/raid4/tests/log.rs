//! The device of the log: old, blank, lost, failing, and replaced while clients go on.

use std::future::ready;

use seekless_core::runtime::spawn;
use seekless_core::{ErrorKind, Nanos, runtime};

use super::*;
use crate::durable::session::{self, Number};
use crate::raid4::head::{Head, Probed};
use crate::tools::Tools;
use crate::under_test::{copied, reached};

const ALL: usize = SECTORS as usize;

async fn copy(of: &Device, sectors: u64) -> Device {
    copied(of, device(sectors)).await
}

fn with_log(devices: &Devices, log: &Device) -> Devices {
    Devices { log: Some(log.clone()), ..devices.clone() }
}

async fn refusal(devices: &Devices) -> String {
    devices.open().await.err().expect("it is refused").to_string()
}

/// Another log, made by the repair; what it gave up.
async fn repaired(devices: &Devices) -> Result<(Devices, Vec<String>), IoError> {
    let new = device(LOG_SECTORS);
    let options = toml::Table::try_from(&devices.options).unwrap();
    let repaired = RaidTools.repair(devices.below(false), options, new.clone()).await?;
    Ok((with_log(devices, &new), repaired.given_up))
}

async fn check_whole(devices: &Devices, expected: &[u8]) {
    for missing in 0..3 {
        // A copy: an array that was dirty records which member it lacks.
        let mut copies = devices.clone();
        for member in &mut copies.members {
            *member = copy(member, MEMBER).await;
        }
        copies.log = Some(copy(devices.log.as_ref().unwrap(), LOG_SECTORS).await);
        let raid = copies.without(missing).open().await.unwrap();
        assert_eq!(content(&raid).await, expected, "without member {missing}");
    }
}

proptest! {
    /// A header is read as it was written, also with a rotten sector, and not as that of another array.
    #[test]
    fn a_header_is_read_as_it_was_written(
        identity in 1_u128.., number in prop_oneof![Just(0), session::FIRST..1 << 60], lost: bool, rotten in 0..16_u64,
    ) {
        world(async || {
            let device = device(LOG_SECTORS);
            let head = Head::new(device.clone(), identity);
            assert_eq!(head.find().await.unwrap(), Probed::Blank);
            head.create(number, lost).await.unwrap();
            let other = Head::new(device.clone(), identity ^ 1).find().await.unwrap();
            assert!(matches!(other, Probed::Other(words) if words.starts_with("the log of array")));
            write(&*device, rotten, 1, 0x5A).await.unwrap();
            let found = Head::new(device.clone(), identity);
            assert_eq!(found.find().await.unwrap(), Probed::Log(Number::of(number, number == 0)));
            assert_eq!(found.has_lost_records(), lost);
        });
    }
}

/// A copy of the log from before a session: of a dirty array it is refused, of a clean one nothing of it is replayed,
/// also if the next session is cut short before its first record.
#[test]
fn an_old_copy_of_the_log_is_not_replayed() {
    for (sessions, stops) in (0..3).flat_map(|sessions| [(sessions, true), (sessions, false)]) {
        world(async || {
            let devices = Devices::new(true, "");
            devices.open().await.unwrap().stop().await.unwrap();
            let session = async |value: u8, stops: bool| {
                let raid = devices.open().await.unwrap();
                write(&*raid, 0, SECTORS, value).await.unwrap();
                if stops {
                    raid.stop().await.unwrap();
                }
            };
            for value in 0..sessions {
                session(1 + value, true).await;
            }
            // Also with records that were needed then.
            if sessions == 2 {
                session(8, false).await;
            }
            let old = copy(devices.log.as_ref().unwrap(), LOG_SECTORS).await;
            session(9, stops).await;
            let with_old = with_log(&devices, &old);
            if stops {
                let raid = with_old.open().await.unwrap();
                raid.members.begin().await.unwrap();
                let raid = with_old.open().await.unwrap();
                assert_eq!(content(&raid).await, [9; ALL]);
                return;
            }
            let error = refusal(&with_old).await;
            assert!(
                error.contains("a copy of the log from before") && error.contains("volume repair"),
                "{error}"
            );
            let raid = devices.open().await.unwrap();
            assert_eq!(content(&raid).await, [9; ALL], "the right one");
        });
    }
}

#[test]
fn members_from_before_are_refused_below_a_newer_log() {
    for stops in [true, false] {
        world(async || {
            let devices = Devices::new(true, "");
            let raid = devices.open().await.unwrap();
            write(&*raid, 0, SECTORS, 1).await.unwrap();
            raid.stop().await.unwrap();
            let mut old = Vec::new();
            for member in &devices.members {
                old.push(copy(member, MEMBER).await);
            }
            let raid = devices.open().await.unwrap();
            write(&*raid, 0, SECTORS, 2).await.unwrap();
            if stops {
                raid.stop().await.unwrap();
            }
            let error = refusal(&Devices { members: old, ..devices.clone() }).await;
            assert!(error.contains("found the log newer than the members"), "{error}");
        });
    }
}

/// The first number of a session may be durable in the log alone, and a session may end at each of its writes there.
#[test]
fn a_session_that_could_not_begin_leaves_an_array() {
    for nth in 1..12 {
        world(async || {
            let devices = Devices::new(true, "");
            let raid = devices.open().await.unwrap();
            write(&*raid, 0, SECTORS, 1).await.unwrap();
            raid.stop().await.unwrap();
            for _ in 0..2 {
                let failing = devices.map(|number, device| {
                    let options = format!("ops = ['write']\nkind = 'medium'\nnth = {nth}\nfor_ever = true");
                    if number == 3 { with_error(device, &options) } else { device.clone() }
                });
                let raid = failing.open().await.unwrap();
                let failed = write(&*raid, 0, SECTORS, 2).await.is_err();
                assert!(failed || nth > 2, "a session has two numbers: {nth}");
                let raid = devices.open().await.unwrap();
                let found = content(&raid).await;
                assert!(found.iter().all(|value| [1, 2].contains(value)), "{nth}: {found:?}");
            }
        });
    }
}

#[test]
fn a_blank_log_is_taken_by_a_clean_array_only() {
    let ((), edges) = world(async || {
        let devices = Devices::new(true, "");
        let raid = devices.open().await.unwrap();
        write(&*raid, 0, SECTORS, 1).await.unwrap();
        raid.stop().await.unwrap();
        let new = with_log(&devices, &device(LOG_SECTORS));
        let raid = new.open().await.unwrap();
        write(&*raid, 0, SECTORS, 2).await.unwrap();
        let error = refusal(&with_log(&devices, &device(LOG_SECTORS))).await;
        assert!(
            error.contains("found zeroes, but the array was not stopped") && error.contains("volume repair"),
            "{error}"
        );
        let error = refusal(&devices).await;
        assert!(error.contains("a copy of the log from before"), "{error}");
        check_whole(&new, &[2; ALL]).await;
    });
    assert!(reached(&edges, "a blank log of a clean array"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// A crash takes the log with it: the repair makes another one, and each sector holds something that was written to
    /// it since the last stop. Then the array survives the loss of any member.
    #[test]
    fn a_log_lost_in_a_crash_is_made_anew(steps in writes(20), more in writes(20), lead in 0..300_u64, rotates: bool) {
        let options = if rotates { "rotation = 'left'" } else { "" };
        world(async || {
            let devices = Devices::new(true, options);
            let raid = devices.open().await.unwrap();
            let mut versions = Versions::zeroes();
            versions.carry_out(&*raid, &more, 100).await.unwrap();
            let expected = versions.last(0..SECTORS);
            raid.stop().await.unwrap();
            let raid = devices.open().await.unwrap();
            let (writer, steps) = (raid.clone(), &steps);
            let cut = {
                let steps = steps.clone();
                spawn(async move { versions.carry_out(&*writer, &steps, 1).await })
            };
            runtime::sleep(Nanos::from_millis(lead)).await;
            let is_clean = raid.members.superblock().state == superblock::State::Clean;
            drop((cut, raid));
            if is_clean {
                return Ok(());
            }
            let error = refusal(&with_log(&devices, &device(LOG_SECTORS))).await;
            assert!(error.contains("the array was not stopped"), "{error}");
            let (new, given_up) = repaired(&devices).await.unwrap();
            assert!(given_up[0].contains("after the members were flushed last"), "{given_up:?}");
            let error = refusal(&new.without(1)).await;
            assert!(error.contains("a member missing, expected all members"), "{error}");
            let raid = new.open().await.unwrap();
            let found = content(&raid).await;
            for (sector, value) in found.iter().enumerate() {
                let written = (1..).zip(steps).filter(|(_, (what, at, size))| {
                    !matches!(what, 0 | 2) && (*at..*at + *size).contains(&(sector as u64))
                });
                let written = written.map(|(number, (what, ..))| if *what == 4 { 0 } else { number });
                let mut may_be = written.chain([expected[sector]]);
                prop_assert!(may_be.any(|may_be| may_be == *value), "sector {sector}: {value}");
            }
            // A second crash, before all rows are consistent: the new log has the last write.
            write(&*raid, 3, 9, 77).await.unwrap();
            let raid = new.open().await.unwrap();
            let mut expected = found;
            expected[3..12].fill(77);
            prop_assert_eq!(&content(&raid).await, &expected);
            while raid.unsettled.left() > 0 {
                runtime::sleep(Nanos::from_millis(10)).await;
            }
            raid.stop().await.unwrap();
            check_whole(&new, &expected).await;
            Ok(())
        }).0?;
    }

    /// A client writes and reads while the log is replaced, perhaps by a copy of it from before, perhaps after it
    /// failed.
    #[test]
    fn the_log_is_replaced_under_clients(
        steps in writes(40), more in writes(10), lead in 0..200_u64, old: bool, fails: bool, rotates: bool,
    ) {
        let options = if rotates { "rotation = 'left'" } else { "" };
        let ((), edges) = world(async || {
            let devices = Devices::new(true, options);
            devices.open().await.unwrap();
            let new = device(LOG_SECTORS + 8);
            if old {
                let raid = devices.open().await.unwrap();
                write(&*raid, 0, SECTORS, 99).await.unwrap();
                copied(devices.log.as_ref().unwrap(), new.clone()).await;
                write(&*raid, 0, SECTORS, 0).await.unwrap();
                raid.stop().await.unwrap();
            }
            let raid = devices.open().await.unwrap();
            let writer = raid.clone();
            let client = spawn(async move {
                let mut versions = Versions::zeroes();
                versions.carry_out(&*writer, &steps, 1).await.unwrap();
                versions
            });
            runtime::sleep(Nanos::from_millis(lead)).await;
            let versions = if fails {
                let mut versions = client.await;
                raid.members.refuse_for_log(&IoError::new(ErrorKind::Medium, "test", None, "the log fails"));
                write(&*raid, 0, 1, 9).await.unwrap_err();
                assert!(raid.trouble().unwrap().contains("the log fails"));
                raid.replace_device((LOG, 0), new.clone(), old, Box::pin(ready(Ok(())))).await.unwrap();
                assert_eq!(raid.trouble(), None);
                versions.carry_out(&*raid, &more, 100).await.unwrap();
                versions
            } else {
                raid.replace_device((LOG, 0), new.clone(), old, Box::pin(ready(Ok(())))).await.unwrap();
                client.await
            };
            let expected = versions.last(0..SECTORS);
            assert_eq!(content(&raid).await, expected);
            let devices = with_log(&devices, &new);
            check_whole(&devices, &expected).await;
        });
        assert!(reached(&edges, "the log is replaced"));
    }
}

/// If the volume file cannot be written, or the new log fails, the array goes on with the old one.
#[test]
fn a_log_that_could_not_be_replaced_stays() {
    world(async || {
        let devices = Devices::new(true, "");
        let raid = devices.open().await.unwrap();
        write(&*raid, 0, SECTORS, 1).await.unwrap();
        let fails = || IoError::new(ErrorKind::Medium, "test", None, "the volume file cannot be written");
        let new = device(LOG_SECTORS);
        raid.replace_device((LOG, 0), new.clone(), false, Box::pin(ready(Err(fails())))).await.unwrap_err();
        write(&*raid, 0, SECTORS, 2).await.unwrap();
        let failing =
            with_error(&device(LOG_SECTORS), "ops = ['write']\nkind = 'medium'\nnth = 3\nfor_ever = true");
        let error = raid.replace_device((LOG, 0), failing, false, Box::pin(ready(Ok(())))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Medium);
        let small = device(80);
        let error = raid.replace_device((LOG, 0), small, false, Box::pin(ready(Ok(())))).await.unwrap_err();
        assert!(error.to_string().contains("expected"), "{error}");
        let again = raid.replace_device((LOG, 0), new, false, Box::pin(ready(Ok(())))).await.unwrap_err();
        assert!(again.to_string().contains("--replace"), "{again}");
        write(&*raid, 0, SECTORS, 3).await.unwrap();
        check_whole(&devices, &[3; ALL]).await;
        let without = Devices::new(false, "").open().await.unwrap();
        let none =
            without.replace_device((LOG, 0), device(LOG_SECTORS), false, Box::pin(ready(Ok(())))).await;
        assert!(none.unwrap_err().to_string().contains("an array without a log"));
    });
}
