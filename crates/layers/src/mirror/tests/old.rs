//! A copy from before is in the place of a member.

use super::*;
use crate::under_test::copied;

const ALL: usize = SECTORS as usize;

async fn copy(of: &Device) -> Device {
    copied(of, device(MEMBER)).await
}

/// Writes everything again and again, with pauses in which regions become clean.
async fn session(mirror: &Mirror, value: u8) {
    for _ in 0..10 {
        write(mirror, 0, SECTORS, value).await.unwrap();
        runtime::sleep(Nanos::from_millis(200)).await;
    }
    mirror.flush(Hints::default()).await.unwrap();
}

/// The copy was made after a stop, or in a session that was killed; another session followed, which was stopped or
/// killed.
#[test]
fn a_copy_from_before_the_last_session_is_not_read() {
    for case in 0..16 {
        let (member, three) = (case % 2, case / 2 % 2);
        let (first_stops, stops) = (case / 4 % 2 == 1, case / 8 == 1);
        let ((), edges) = world(async || {
            let devices = Devices::new(2 + three);
            let mirror = devices.open().await.unwrap();
            write(&*mirror, 0, SECTORS, 1).await.unwrap();
            if first_stops {
                mirror.stop().await.unwrap();
            }
            drop(mirror);
            let old = devices.with(member, &copy(&devices.0[member]).await);
            let mirror = devices.open().await.unwrap();
            session(&mirror, 2).await;
            if stops {
                mirror.stop().await.unwrap();
            }
            drop(mirror);
            let mirror = old.open().await.unwrap();
            assert_eq!((mirror.members.first_out(), mirror.members.is_known(member)), (Some(member), false));
            assert_eq!(content(&mirror).await, [2; ALL], "case {case}");
            let trouble = mirror.trouble().unwrap();
            let expected = format!("member {member} is out of service (its contents are old)");
            assert!(trouble.starts_with(&expected), "{trouble}");
            mirror.command("rebuild", Hints::default()).await.unwrap();
            assert_eq!((on(&old.0[member]).await, mirror.trouble()), (vec![2; ALL], None));
        });
        assert!(reached(&edges, "a member with old contents is out of service"));
    }
}

/// A session of one write. If it was stopped, the copy is out of service; if it was killed, a crash could have left the
/// member so, and what was being written comes from the other one.
#[test]
fn a_copy_from_before_a_short_session_is_not_read() {
    for case in 0..8 {
        let (member, three, stops) = (case % 2, case / 2 % 2, case / 4 == 1);
        world(async || {
            let devices = Devices::new(2 + three);
            let mirror = devices.open().await.unwrap();
            write(&*mirror, 0, SECTORS, 1).await.unwrap();
            mirror.stop().await.unwrap();
            drop(mirror);
            let old = devices.with(member, &copy(&devices.0[member]).await);
            let mirror = devices.open().await.unwrap();
            write(&*mirror, 0, SECTORS, 2).await.unwrap();
            mirror.flush(Hints::default()).await.unwrap();
            if stops {
                mirror.stop().await.unwrap();
            }
            drop(mirror);
            let mirror = old.open().await.unwrap();
            assert_eq!(mirror.members.first_out(), stops.then_some(member), "case {case}");
            assert_eq!(content(&mirror).await, [2; ALL], "case {case}");
        });
    }
}

/// A member is gone for a session. The copy was made long before that, and has none of what was written in between.
#[test]
fn a_copy_from_long_before_a_member_left_gets_everything() {
    for is_old in [false, true] {
        world(async || {
            let devices = Devices::new(2);
            let mirror = devices.open().await.unwrap();
            write(&*mirror, 0, SECTORS, 1).await.unwrap();
            mirror.stop().await.unwrap();
            let old = copy(&devices.0[1]).await;
            let mirror = devices.open().await.unwrap();
            session(&mirror, 2).await;
            mirror.stop().await.unwrap();
            let mirror = devices.without(1).open().await.unwrap();
            write(&*mirror, 0, 8, 3).await.unwrap();
            mirror.stop().await.unwrap();
            let returned = if is_old { devices.with(1, &old) } else { devices };
            let mirror = returned.open().await.unwrap();
            assert_eq!((mirror.members.first_out(), mirror.members.is_known(1)), (Some(1), !is_old));
            if is_old {
                mirror.command("rebuild", Hints::default()).await.unwrap();
            } else {
                until_whole(&mirror).await;
            }
            assert_eq!(on(&returned.0[1]).await, [[3; 8].to_vec(), vec![2; ALL - 8]].concat());
        });
    }
}
