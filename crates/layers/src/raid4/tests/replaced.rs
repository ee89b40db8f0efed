//! A member is replaced while clients go on; what is refused.

use std::future::ready;

use seekless_core::runtime::spawn;
use seekless_core::{ErrorKind, Nanos, runtime};

use super::*;
use crate::under_test::reached;

fn now_durable<'a>() -> IoFuture<'a, ()> {
    Box::pin(ready(Ok(())))
}

fn place(member: usize) -> (&'static str, usize) {
    if member == 2 { (PARITY, 0) } else { ("over", member) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// A client writes and reads while a member is replaced and rebuilt; the array is then whole with the new device,
    /// also without any one of the others, and after a kill. `lead` is how long the client has written before.
    #[test]
    fn a_member_is_replaced_under_clients(
        steps in writes(40), more in writes(10), member in 0..3_usize, lead in 0..200_u64, log: bool, rotates: bool,
        stops: bool, fails in prop_oneof![Just(None), (1..40_u64).prop_map(Some)],
    ) {
        let options = if rotates { "rotation = 'left'" } else { "" };
        let ((), edges) = world(async || {
            let devices = Devices::new(log, options);
            let new = device(MEMBER);
            devices.open().await.unwrap();
            // The old device may have failed before.
            let used = devices.map(|number, device| match fails {
                Some(nth) if number == member => {
                    with_error(device, &format!("kind = 'gone'\nfor_ever = true\nnth = {nth}"))
                }
                _ => device.clone(),
            });
            let raid = used.open().await.unwrap();
            let writer = raid.clone();
            let client = spawn(async move {
                let mut versions = Versions::zeroes();
                versions.carry_out(&*writer, &steps, 1).await.unwrap();
                versions
            });
            runtime::sleep(Nanos::from_millis(lead)).await;
            raid.replace_device(place(member), new.clone(), false, now_durable()).await.unwrap();
            assert_eq!(raid.members.out(), Some(member));
            raid.command("rebuild", Hints::default()).await.unwrap();
            assert_eq!(raid.members.out(), None);
            let mut versions = client.await;
            let expected = versions.last(0..SECTORS);
            assert_eq!(content(&raid).await, expected);
            versions.carry_out(&*raid, &more, 100).await.unwrap();
            let expected = versions.last(0..SECTORS);
            // Without a stop a journal is replayed.
            if stops || !log {
                raid.stop().await.unwrap();
            }
            let devices = devices.map(|number, device| {
                if number == member { new.clone() } else { device.clone() }
            });
            if !stops && log {
                let raid = devices.open().await.unwrap();
                assert_eq!(content(&raid).await, expected, "after a kill");
                raid.stop().await.unwrap();
            }
            for missing in (0..3).filter(|missing| *missing != member) {
                let raid = devices.without(missing).open().await.unwrap();
                assert_eq!(content(&raid).await, expected, "without member {missing}");
            }
        });
        assert!(reached(&edges, "a member is replaced"));
    }
}

/// The array as a crash leaves it after each step of the exchange: before the volume file names the new device, and
/// after.
#[test]
fn a_crash_while_a_member_is_replaced_leaves_an_array_without_it() {
    for (member, log) in [(0, true), (1, false), (2, true)] {
        world(async || {
            let (devices, new) = (Devices::new(log, ""), device(MEMBER));
            let raid = devices.open().await.unwrap();
            write(&*raid, 0, SECTORS, 3).await.unwrap();
            raid.stop().await.unwrap();
            let fails = IoError::new(ErrorKind::Medium, "test", None, "the volume file cannot be written");
            let commit = Box::pin(ready(Err(fails)));
            raid.replace_device(place(member), new.clone(), false, commit).await.unwrap_err();
            assert_eq!(content(&raid).await, [3; SECTORS as usize]);
            raid.stop().await.unwrap();
            for with_new in [false, true] {
                let devices =
                    devices.map(
                        |number, device| {
                            if number == member && with_new { new.clone() } else { device.clone() }
                        },
                    );
                let raid = devices.open().await.unwrap();
                assert_eq!((raid.members.out(), raid.members.rebuilt()), (Some(member), 0));
                assert_eq!(content(&raid).await, [3; SECTORS as usize]);
            }
        });
    }
}

/// A block has one version in a record from before its member was replaced, and a newer one that the rebuild wrote.
#[test]
fn a_replay_after_a_rebuild_leaves_what_the_rebuild_wrote() {
    for (member, rotates) in [(0, false), (2, false), (0, true), (1, true), (2, true)] {
        world(async || {
            let options = if rotates { "rotation = 'left'" } else { "" };
            let (devices, new) = (Devices::new(true, options), device(MEMBER));
            let raid = devices.open().await.unwrap();
            write(&*raid, 0, 16, 1).await.unwrap();
            raid.replace_device(place(member), new.clone(), false, now_durable()).await.unwrap();
            write(&*raid, 0, 16, 2).await.unwrap();
            raid.command("rebuild", Hints::default()).await.unwrap();
            let expected = content(&raid).await;
            let devices =
                devices.map(|number, device| if number == member { new.clone() } else { device.clone() });
            let raid = devices.open().await.unwrap();
            assert_eq!(content(&raid).await, expected, "after a kill");
            raid.stop().await.unwrap();
            for missing in 0..3 {
                let raid = devices.without(missing).open().await.unwrap();
                assert_eq!(content(&raid).await, expected, "member {member} new, without {missing}");
            }
        });
    }
}

#[test]
fn a_device_that_does_not_fit_is_refused_and_the_member_stays() {
    world(async || {
        let devices = Devices::new(true, "");
        let raid = devices.open().await.unwrap();
        write(&*raid, 0, SECTORS, 3).await.unwrap();
        let used = device(MEMBER);
        write(&*used, 70, 1, 9).await.unwrap();
        for (at, new, words) in [
            (("over", 0), device(MEMBER + 8), "found a device of 160 sectors, expected 152"),
            (("over", 0), used.clone(), "found data, expected zeroes: --replace discards"),
            (("over", 2), device(MEMBER), "found over, number 2, expected a member"),
            (("flash", 0), device(LOG_SECTORS), "found flash, number 0, expected a member"),
        ] {
            let error = raid.replace_device(at, new, false, now_durable()).await.unwrap_err().to_string();
            let digits =
                |text: &str| text.chars().filter(|letter| !letter.is_ascii_digit()).collect::<String>();
            assert!(digits(&error).contains(&digits(words)), "{error}");
        }
        assert_eq!(raid.members.out(), None, "nothing was changed");
        raid.replace_device(("over", 0), used, true, now_durable()).await.unwrap();
        let other = raid.replace_device(("over", 1), device(MEMBER), false, now_durable()).await.unwrap_err();
        assert!(other.to_string().contains("member 0 out of service, expected all others"), "{other}");
        raid.command("rebuild", Hints::default()).await.unwrap();
        assert_eq!(content(&raid).await, [3; SECTORS as usize]);
    });
}
