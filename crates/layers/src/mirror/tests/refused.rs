//! Members that are not taken for those of the mirror.

use super::*;

async fn refused(devices: &Devices) -> String {
    let options = toml::from_str("region = '8KiB'").unwrap();
    Mirror::open(&devices.below(false), &options).await.map(drop).unwrap_err().to_string()
}

#[test]
fn devices_that_are_not_the_members_are_refused_with_what_was_found() {
    world(async || {
        let (devices, others) = (Devices::new(2), Devices::new(2));
        assert!(refused(&devices).await.contains("found no mirror"));
        for devices in [&devices, &others] {
            let mirror = devices.open().await.unwrap();
            write(&*mirror, 0, SECTORS, 7).await.unwrap();
            mirror.stop().await.unwrap();
        }
        let (one, two) = (&devices.0[0], &devices.0[1]);
        let of = |members: &[&Device]| Devices(members.iter().map(|member| (*member).clone()).collect());
        let foreign = device(MEMBER);
        write(&*foreign, 0, 8, 1).await.unwrap();
        let small = device(MEMBER - 8);
        for (members, words) in [
            (of(&[two, one]), "member 1 of the mirror, expected member 0 in its place"),
            (of(&[one, one]), "member 0 of the mirror, expected member 1"),
            (of(&[one, &others.0[1]]), "of mirror"),
            (of(&[one, two, &device(MEMBER)]), "3 devices for a mirror of 2"),
            (of(&[one]), "1 devices, expected 2 to 4"),
            (of(&[one, &foreign]), "data on member 1 that is of no mirror"),
        ] {
            let found = refused(&members).await;
            assert!(found.contains(words), "{found}");
        }
        // A smaller device with the labels of a member.
        let head = Extent::of_pages(0, label::HEAD);
        let labels = two.read(head, Buffer::zeroed(head.bytes()), Hints::default()).await.unwrap();
        small.write(head, labels, Hints::default()).await.unwrap();
        let found = refused(&of(&[one, &small])).await;
        assert!(found.contains("member 1 with 120 sectors, expected 128 at least"), "{found}");
    });
}

#[test]
fn one_device_is_not_two_members() {
    world(async || {
        let one = device(MEMBER);
        let twice = Devices(vec![one.clone(), one]);
        let create = Mirror::create("over", twice.below(false), &Options::default(), false).await;
        let found = create.unwrap_err().to_string();
        assert!(found.contains("of the mirror, expected member"), "{found}");
    });
}

/// Members that were each written without the other are not put together again; one of them is given up.
#[test]
fn members_that_were_used_apart_are_refused() {
    let ((), edges) = world(async || {
        let devices = Devices::new(2);
        devices.open().await.unwrap();
        for missing in 0..2 {
            let mirror = devices.without(missing).open().await.unwrap();
            write(&*mirror, 8, 8, missing as u8 + 1).await.unwrap();
            mirror.stop().await.unwrap();
        }
        let found = refused(&devices).await;
        assert!(found.contains("members 0 and 1, each of which was written without the other"), "{found}");
        let devices = devices.with(0, &device(MEMBER));
        let mirror = devices.open().await.unwrap();
        assert_eq!(mirror.members.first_out(), Some(0));
        mirror.command("rebuild", Hints::default()).await.unwrap();
        assert_eq!((on(&devices.0[0]).await[8], mirror.members.first_out()), (1, None));
    });
    for edge in ["two members were used apart", "a member is rebuilt of which nothing is known"] {
        assert!(reached(&edges, edge), "{edge}");
    }
}

/// A member that lacks something does not stand in for those that have it, and catches up when it is there with them.
#[test]
fn a_member_that_lacks_something_is_not_read() {
    world(async || {
        let devices = Devices::new(2);
        devices.open().await.unwrap();
        let mirror = devices.without(1).open().await.unwrap();
        write(&*mirror, 0, SECTORS, 5).await.unwrap();
        mirror.stop().await.unwrap();
        drop(mirror);
        // It begins to catch up, and its label says that it lacks something.
        let mirror = devices.open().await.unwrap();
        assert_eq!(content(&mirror).await, [5; SECTORS as usize]);
        let knows = async || match label::find(&*devices.0[1]).await {
            label::Probed::Member(_, label) => label.is_out(1),
            found => panic!("{found:?}"),
        };
        while !knows().await {
            runtime::sleep(Nanos::from_micros(100)).await;
        }
        drop(mirror);
        let found = refused(&devices.without(0)).await;
        assert!(found.contains("only members that lack what was written without them (1)"), "{found}");
        let mirror = devices.open().await.unwrap();
        until_whole(&mirror).await;
        assert_eq!(on(&devices.0[1]).await, [5; SECTORS as usize]);
    });
}
