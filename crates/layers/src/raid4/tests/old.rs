//! A device with old contents is in the place of a member: a copy from before, or one that was replaced.

use std::future::ready;

use super::*;
use crate::under_test::{copied, reached};

async fn copy(of: &Device) -> Device {
    copied(of, device(MEMBER)).await
}

fn with(devices: &Devices, member: usize, other: &Device) -> Devices {
    devices.map(|number, device| if number == member { other.clone() } else { device.clone() })
}

const ALL: usize = SECTORS as usize;

#[test]
fn a_copy_from_before_the_last_session_is_not_read() {
    let cases =
        (0..3).flat_map(|member| [(member, false, true), (member, true, false), (member, true, true)]);
    for (member, log, stops) in cases {
        let ((), edges) = world(async || {
            let devices = Devices::new(log, "");
            let raid = devices.open().await.unwrap();
            write(&*raid, 0, SECTORS, 1).await.unwrap();
            raid.stop().await.unwrap();
            let old = copy(&devices.members[member]).await;
            let raid = devices.open().await.unwrap();
            write(&*raid, 0, SECTORS, 2).await.unwrap();
            raid.flush(Hints::default()).await.unwrap();
            if stops {
                raid.stop().await.unwrap();
            }
            let raid = with(&devices, member, &old).open().await.unwrap();
            assert_eq!((raid.members.out(), raid.members.rebuilt()), (Some(member), 0));
            assert_eq!(content(&raid).await, [2; ALL]);
            let trouble = raid.trouble().unwrap();
            let expected = format!("member {member} is out of service (its contents are old)");
            assert!(trouble.starts_with(&expected), "{trouble}");
            raid.command("rebuild", Hints::default()).await.unwrap();
            raid.stop().await.unwrap();
            assert_eq!(raid.trouble(), None);
            let other = (member + 1) % 3;
            let raid = with(&devices, member, &old).without(other).open().await.unwrap();
            assert_eq!((raid.members.out(), content(&raid).await), (Some(other), vec![2; ALL]), "rebuilt");
        });
        assert!(reached(&edges, "a member with old contents is out of service"));
    }
}

#[test]
fn a_copy_from_within_a_session_is_not_read_after_a_stop() {
    world(async || {
        let devices = Devices::new(false, "");
        let raid = devices.open().await.unwrap();
        write(&*raid, 0, SECTORS, 1).await.unwrap();
        raid.flush(Hints::default()).await.unwrap();
        let old = copy(&devices.members[1]).await;
        write(&*raid, 0, SECTORS, 2).await.unwrap();
        raid.stop().await.unwrap();
        let raid = with(&devices, 1, &old).open().await.unwrap();
        assert_eq!((raid.members.out(), content(&raid).await), (Some(1), vec![2; ALL]));
    });
}

#[test]
fn two_copies_from_before_are_refused() {
    world(async || {
        let devices = Devices::new(true, "");
        let raid = devices.open().await.unwrap();
        let old = [copy(&devices.members[0]).await, copy(&devices.members[2]).await];
        write(&*raid, 0, SECTORS, 1).await.unwrap();
        raid.stop().await.unwrap();
        let error = with(&with(&devices, 0, &old[0]), 2, &old[1]).open().await.err().unwrap().to_string();
        assert!(error.contains("members 0 and 2 missing, blank, out of service or with old"), "{error}");
    });
}

/// The device that was replaced is in its place again, after a rebuild and in the middle of one.
#[test]
fn a_device_that_was_replaced_is_not_read_when_it_returns() {
    for (member, log, all) in [(0, true, true), (1, false, true), (2, true, false), (0, false, false)] {
        world(async || {
            let (devices, new) = (Devices::new(log, ""), device(MEMBER));
            let raid = devices.open().await.unwrap();
            write(&*raid, 0, SECTORS, 1).await.unwrap();
            raid.stop().await.unwrap();
            let place = if member == 2 { (PARITY, 0) } else { ("over", member) };
            raid.replace_device(place, new.clone(), false, Box::pin(ready(Ok(())))).await.unwrap();
            write(&*raid, 0, SECTORS, 2).await.unwrap();
            if all {
                raid.command("rebuild", Hints::default()).await.unwrap();
            } else {
                raid.members.begin_rebuild().await.unwrap();
                raid.rebuild_group(member, 0, &Hints::default()).await.unwrap();
                raid.members.device(member).flush(Hints::default()).await.unwrap();
                raid.members.record_rebuild(false).await.unwrap();
            }
            raid.stop().await.unwrap();
            let raid = with(&devices, member, &new).open().await.unwrap();
            let expected = if all { (None, 0) } else { (Some(member), 1) };
            assert_eq!((raid.members.out(), raid.members.rebuilt()), expected);
            let raid = devices.open().await.unwrap();
            assert_eq!((raid.members.out(), raid.members.rebuilt()), (Some(member), 0));
            assert_eq!(content(&raid).await, [2; ALL]);
        });
    }
}

/// A crash leaves a member one event behind, and the newer copy of its superblock rots: its contents are not old.
#[test]
fn a_member_that_a_crash_left_behind_and_of_which_a_superblock_rots_is_not_old() {
    for member in 0..3 {
        world(async || {
            let devices = Devices::new(false, "");
            let raid = devices.open().await.unwrap();
            write(&*raid, 0, SECTORS, 1).await.unwrap();
            raid.stop().await.unwrap();
            let newest = raid.members.superblock();
            let faulty = devices.map(|number, device| {
                let options = "ops = ['write']\nfor_ever = true";
                if number == member { with_error(device, options) } else { device.clone() }
            });
            write(&*faulty.open().await.unwrap(), 0, 8, 2).await.unwrap_err();
            write(&*devices.members[member], newest.copy() * PAGE_SECTORS, 1, 9).await.unwrap();
            let raid = devices.open().await.unwrap();
            assert_eq!((raid.members.out(), content(&raid).await), (None, vec![1; ALL]), "member {member}");
            raid.stop().await.unwrap_or_default();
            let raid = devices.open().await.unwrap();
            write(&*raid, 0, SECTORS, 3).await.unwrap();
            assert_eq!((raid.members.out(), content(&raid).await), (None, vec![3; ALL]), "member {member}");
        });
    }
}

/// A member whose superblock cannot be written for several starts lacks nothing: without a log, writes are refused.
#[test]
fn a_member_whose_superblock_was_not_written_is_not_old() {
    for member in 0..3 {
        world(async || {
            let devices = Devices::new(false, "");
            let raid = devices.open().await.unwrap();
            write(&*raid, 0, SECTORS, 1).await.unwrap();
            raid.stop().await.unwrap();
            let faulty = devices.map(|number, device| {
                let options = "ops = ['write']\nfor_ever = true\nat = '0B'\nsize = '8KiB'";
                if number == member { with_error(device, options) } else { device.clone() }
            });
            for _ in 0..3 {
                let raid = faulty.open().await.unwrap();
                write(&*raid, 0, 8, 2).await.unwrap_err();
                assert_eq!(content(&raid).await, [1; ALL]);
            }
            let raid = devices.open().await.unwrap();
            assert_eq!((raid.members.out(), content(&raid).await), (None, vec![1; ALL]));
            write(&*raid, 0, SECTORS, 3).await.unwrap();
            raid.stop().await.unwrap();
            let raid = devices.open().await.unwrap();
            assert_eq!((raid.members.out(), content(&raid).await), (None, vec![3; ALL]));
        });
    }
}
