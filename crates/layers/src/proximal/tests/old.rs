//! A device with old contents is in the place of the right one: a copy from before a session, or one that was replaced.

use super::*;
use crate::under_test::copied;

type Devices = (Rc<dyn BlockDevice>, Rc<dyn BlockDevice>);

async fn copy_of(device: &Rc<dyn BlockDevice>, number: u32) -> Rc<dyn BlockDevice> {
    copied(device, self::device(number, device.geometry().sectors / PAGE_SECTORS)).await
}

async fn open_with(devices: &Devices, copies: bool) -> Result<Rc<Proximal>, IoError> {
    let options = Options { copies, ..options() };
    Proximal::open(devices.0.clone(), devices.1.clone(), &options, true, false).await
}

/// A change of a volume.
#[derive(Clone, Copy, Debug)]
enum Change {
    Write,
    Discard,
    Snapshot,
}

async fn change(volume: &Proximal, what: Change) {
    match what {
        Change::Write => write(volume, 8, 8, 7).await.unwrap(),
        Change::Discard => volume.discard(Extent::new(0, 8), Hints::default()).await.unwrap(),
        Change::Snapshot => {
            // Of that before the last one, there may be one of this name.
            let _ = volume.delete_snapshot("monday").await;
            volume.create_snapshot("monday").await.unwrap();
        }
    }
    volume.flush(Hints::default()).await.unwrap();
}

/// It is refused, also if the session was the first one or was cut short; a session that only read changes nothing.
#[test]
fn a_device_from_before_a_session_is_refused() {
    let changes = [Change::Write, Change::Discard, Change::Snapshot];
    let cases = (0..3).flat_map(|sessions| changes.map(|what| (sessions, what)));
    for (sessions, what) in cases {
        for (stops, copies, rots) in [
            (true, false, false),
            (false, false, false),
            (true, true, false),
            (false, true, false),
            (true, false, true),
        ] {
            in_a_world(async {
                let devices = devices();
                open_with(&devices, copies).await.unwrap().stop().await.unwrap();
                let session = async |changes: bool| {
                    let volume = open_with(&devices, copies).await.unwrap();
                    values(&*volume, Extent::of_pages(0, 70)).await.unwrap();
                    if changes {
                        change(&volume, what).await;
                    }
                    if stops {
                        volume.stop().await.unwrap();
                    }
                };
                for _ in 0..sessions {
                    session(true).await;
                }
                session(false).await;
                let old = (copy_of(&devices.0, 0).await, copy_of(&devices.1, 1).await);
                session(false).await;
                for mixed in [(&old.0, &devices.1), (&devices.0, &old.1)] {
                    let mixed = (copy_of(mixed.0, 0).await, copy_of(mixed.1, 1).await);
                    open_with(&mixed, copies).await.unwrap();
                }
                session(true).await;
                // A rotten sector of the newest number costs nothing.
                for (device, sector) in [(&devices.0, 5), (&devices.1, 3)].into_iter().filter(|_| rots) {
                    write(&**device, sector, 1, 9).await.unwrap();
                }
                for (key, mixed) in [("flash", (&devices.0, &old.1)), ("over", (&old.0, &devices.1))] {
                    let refused = open_with(&(mixed.0.clone(), mixed.1.clone()), copies).await.map(drop);
                    let refused = refused.unwrap_err().to_string();
                    let words = format!("{key}: found old contents");
                    assert!(refused.contains(&words), "{sessions} {what:?} {stops} {copies}: {refused}");
                }
                open_with(&devices, copies).await.unwrap();
                open_with(&old, copies).await.unwrap();
            });
        }
    }
}

/// A session may be cut short at each of its writes: the devices are one volume all the same.
#[test]
fn a_session_that_could_not_begin_leaves_a_volume() {
    for (nth, on_flash) in (1..7).flat_map(|nth| [(nth, false), (nth, true)]) {
        in_a_world(async {
            let devices = devices();
            open(&devices).await.unwrap().stop().await.unwrap();
            let failing = |device: &Rc<dyn BlockDevice>, fails: bool| {
                let options = format!("nth = {nth}\nfor_ever = true\nops = ['write']");
                if fails { with_error(device, &options) } else { device.clone() }
            };
            for _ in 0..2 {
                let cut = (failing(&devices.0, !on_flash), failing(&devices.1, on_flash));
                let volume = open(&cut).await.unwrap();
                let written = write(&*volume, 8, 8, 7).await;
                assert!(written.is_err() || nth > 3, "a session writes three times to each device: {nth}");
            }
            let volume = open(&devices).await.unwrap();
            write(&*volume, 8, 8, 5).await.unwrap();
            volume.stop().await.unwrap();
            assert_eq!(values(&*open(&devices).await.unwrap(), Extent::new(8, 8)).await.unwrap(), [5; 8]);
        });
    }
}

/// Flash that is made from the copies belongs to the data device.
#[test]
fn flash_made_from_copies_is_of_the_last_session() {
    in_a_world(async {
        let (data, flash) = devices();
        let volume = open_with(&(data.clone(), flash.clone()), true).await.unwrap();
        write(&*volume, 8, 8, 5).await.unwrap();
        volume.command("destage", Hints::default()).await.unwrap();
        volume.stop().await.unwrap();
        let new = device(2, FLASH);
        let options = Options { copies: true, ..options() };
        repair::flash_from_copies(&data, &new, &options).await.unwrap();
        let volume = open_with(&(data.clone(), new), true).await.unwrap();
        write(&*volume, 16, 8, 6).await.unwrap();
        volume.stop().await.unwrap();
        let refused = open_with(&(data, flash), true).await.map(drop).unwrap_err().to_string();
        assert!(refused.contains("flash: found old contents"), "{refused}");
    });
}
