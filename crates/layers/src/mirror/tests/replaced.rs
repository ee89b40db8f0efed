//! A member is replaced while clients go on; what is refused.

use std::future::ready;

use seekless_core::runtime::spawn;

use super::*;

fn now_durable<'a>() -> IoFuture<'a, ()> {
    Box::pin(ready(Ok(())))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// A client writes and reads while a member is replaced and rebuilt; each member has everything then, also after a
    /// kill. `lead` is how long the client has written before.
    #[test]
    fn a_member_is_replaced_under_clients(
        steps in writes(40), more in writes(10), members in 2..4_usize, member in 0..3_usize, lead in 0..200_u64,
        stops: bool, fails in prop_oneof![Just(None), (1..40_u64).prop_map(Some)],
    ) {
        let member = member % members;
        let ((), edges) = world(async || {
            let devices = Devices::new(members);
            let new = device(MEMBER + 16);
            devices.open().await.unwrap();
            // The old device may have failed before.
            let options = |nth| format!("kind = 'gone'\nfor_ever = true\nnth = {nth}");
            let failing = fails.map(|nth| with_error(&devices.0[member], &options(nth)));
            let used = failing.map_or(devices.clone(), |failing| devices.with(member, &failing));
            let mirror = used.open().await.unwrap();
            let writer = mirror.clone();
            let client = spawn(async move {
                let mut versions = Versions::zeroes();
                versions.carry_out(&*writer, &steps, 1).await.unwrap();
                versions
            });
            runtime::sleep(Nanos::from_millis(lead)).await;
            // A member that failed may just be written again, which fails too: until then it is not replaced.
            let mut waits = 0..100;
            while let Err(error) = mirror.replace_device(("over", member), new.clone(), false, now_durable()).await {
                assert!(error.to_string().contains("found a member being rebuilt"), "{error}");
                assert!(waits.next().is_some(), "{error}");
                runtime::sleep(Nanos::from_millis(10)).await;
            }
            assert_eq!(mirror.members.first_out(), Some(member));
            mirror.command("rebuild", Hints::default()).await.unwrap();
            assert_eq!(mirror.members.first_out(), None);
            let mut versions = client.await;
            assert_eq!(content(&mirror).await, versions.last(0..SECTORS));
            versions.carry_out(&*mirror, &more, 100).await.unwrap();
            let expected = versions.last(0..SECTORS);
            if stops {
                mirror.stop().await.unwrap();
            }
            drop(mirror);
            let devices = devices.with(member, &new);
            for device in &devices.0 {
                assert_eq!(on(device).await, expected);
            }
            let mirror = devices.open().await.unwrap();
            assert_eq!(content(&mirror).await, expected, "opened again");
        });
        assert!(reached(&edges, "a member is replaced"));
    }
}

/// A crash while a member is replaced: before the volume file names the new device, and after. The old one is not taken
/// for one that only lacks what was written since.
#[test]
fn a_crash_while_a_member_is_replaced_leaves_a_mirror_without_it() {
    for member in 0..2 {
        world(async || {
            let (devices, new) = (Devices::new(2), device(MEMBER));
            let mirror = devices.open().await.unwrap();
            write(&*mirror, 0, SECTORS, 3).await.unwrap();
            mirror.stop().await.unwrap();
            let fails = IoError::new(ErrorKind::Medium, "test", None, "the volume file cannot be written");
            let commit = Box::pin(ready(Err(fails)));
            mirror.replace_device(("over", member), new.clone(), false, commit).await.unwrap_err();
            assert_eq!(content(&mirror).await, [3; SECTORS as usize]);
            mirror.stop().await.unwrap();
            drop(mirror);
            for with in [new.clone(), devices.0[member].clone()] {
                let mirror = devices.with(member, &with).open().await.unwrap();
                runtime::sleep(Nanos::from_millis(2_000)).await;
                assert_eq!(mirror.members.first_out(), Some(member), "it is rebuilt by a command only");
                assert_eq!(content(&mirror).await, [3; SECTORS as usize]);
                mirror.command("rebuild", Hints::default()).await.unwrap();
                assert_eq!(on(&with).await, [3; SECTORS as usize]);
                mirror.stop().await.unwrap();
            }
        });
    }
}

/// The rebuild of a replaced member is cut short; what it had is not taken for the old device's.
#[test]
fn the_old_device_does_not_come_back_for_the_new_one() {
    world(async || {
        let (devices, new) = (Devices::new(2), device(MEMBER));
        let mirror = devices.open().await.unwrap();
        write(&*mirror, 0, SECTORS, 3).await.unwrap();
        mirror.stop().await.unwrap();
        mirror.replace_device(("over", 1), new.clone(), false, now_durable()).await.unwrap();
        write(&*mirror, 0, SECTORS, 4).await.unwrap();
        mirror.members.begin_rebuild(1).await.unwrap();
        drop(mirror);
        let mirror = devices.open().await.unwrap();
        runtime::sleep(Nanos::from_millis(2_000)).await;
        assert_eq!((mirror.members.first_out(), mirror.members.is_known(1)), (Some(1), false));
        drop(mirror);
        let mirror = devices.with(1, &new).open().await.unwrap();
        until_whole(&mirror).await;
        assert_eq!(on(&new).await, [4; SECTORS as usize]);
    });
}

#[test]
fn a_device_that_does_not_fit_is_refused_and_the_member_stays() {
    world(async || {
        let devices = Devices::new(2);
        let mirror = devices.open().await.unwrap();
        write(&*mirror, 0, SECTORS, 3).await.unwrap();
        let used = device(MEMBER);
        write(&*used, 70, 1, 9).await.unwrap();
        for (at, new, words) in [
            (("over", 0), device(MEMBER - 8), "found a device of 120 sectors, expected 128 at least"),
            (("over", 0), used.clone(), "found data, expected zeroes: --replace discards"),
            (("over", 2), device(MEMBER), "found over, number 2, expected a member"),
            (("log", 0), device(MEMBER), "found log, number 0, expected a member"),
        ] {
            let error = mirror.replace_device(at, new, false, now_durable()).await.unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        assert_eq!(mirror.members.first_out(), None, "nothing was changed");
        mirror.replace_device(("over", 0), used, true, now_durable()).await.unwrap();
        let other =
            mirror.replace_device(("over", 1), device(MEMBER), false, now_durable()).await.unwrap_err();
        assert!(other.to_string().contains("found the last member in service"), "{other}");
        mirror.command("rebuild", Hints::default()).await.unwrap();
        assert_eq!(content(&mirror).await, [3; SECTORS as usize]);
    });
}
