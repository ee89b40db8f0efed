//! A copy from before is in the place of a member.

use super::*;

const ALL: usize = SECTORS as usize;

async fn copy(of: &Device) -> Device {
    let (all, copy) = (Extent::new(0, MEMBER), device(MEMBER));
    let content = of.read(all, Buffer::zeroed(all.bytes()), Hints::default()).await.unwrap();
    copy.write(all, content, Hints::default()).await.unwrap();
    copy
}

async fn write_all(mirror: &Mirror, value: u8) {
    write(mirror, 0, SECTORS, value).await.unwrap();
    mirror.flush(Hints::default()).await.unwrap();
}

/// The copy was made after a stop, or in a session that was killed; another session followed, which was stopped or killed.
#[test]
fn a_copy_from_before_the_last_session_is_not_read() {
    for case in 0..16 {
        let (member, three) = (case % 2, case / 2 % 2);
        let (first_stops, stops) = (case / 4 % 2 == 1, case / 8 == 1);
        let ((), edges) = world(async || {
            let devices = Devices::new(2 + three);
            let mirror = devices.open().await.unwrap();
            write_all(&mirror, 1).await;
            if first_stops {
                mirror.stop().await.unwrap();
            }
            drop(mirror);
            let old = devices.with(member, &copy(&devices.0[member]).await);
            let mirror = devices.open().await.unwrap();
            write_all(&mirror, 2).await;
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
            assert_eq!(on(&old.0[member]).await, [2; ALL]);
        });
        assert!(reached(&edges, "a member with old contents is out of service"));
    }
}

#[test]
fn a_copy_from_within_a_session_is_not_read_after_a_stop() {
    world(async || {
        let devices = Devices::new(2);
        let mirror = devices.open().await.unwrap();
        write_all(&mirror, 1).await;
        let old = devices.with(0, &copy(&devices.0[0]).await);
        write_all(&mirror, 2).await;
        mirror.stop().await.unwrap();
        drop(mirror);
        let mirror = old.open().await.unwrap();
        assert_eq!((mirror.members.first_out(), content(&mirror).await), (Some(0), vec![2; ALL]));
    });
}

/// The member was out of service for a while and caught up, and is so again; the copy is from before the first time.
#[test]
fn a_copy_from_before_a_member_came_back_does_not_catch_up() {
    world(async || {
        let devices = Devices::new(2);
        let mirror = devices.open().await.unwrap();
        write_all(&mirror, 1).await;
        mirror.stop().await.unwrap();
        drop(mirror);
        let old = devices.with(1, &copy(&devices.0[1]).await);
        let mirror = devices.without(1).open().await.unwrap();
        write_all(&mirror, 2).await;
        mirror.stop().await.unwrap();
        drop(mirror);
        let mirror = devices.open().await.unwrap();
        until_whole(&mirror).await;
        mirror.stop().await.unwrap();
        drop(mirror);
        let mirror = devices.without(1).open().await.unwrap();
        write(&*mirror, 0, 8, 3).await.unwrap();
        mirror.stop().await.unwrap();
        drop(mirror);
        let mirror = old.open().await.unwrap();
        assert_eq!((mirror.members.first_out(), mirror.members.is_known(1)), (Some(1), false));
        mirror.command("rebuild", Hints::default()).await.unwrap();
        assert_eq!(on(&old.0[1]).await, content(&mirror).await);
    });
}
