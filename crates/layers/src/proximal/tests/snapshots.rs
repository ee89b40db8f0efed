//! Snapshots while nothing fails: what they hold, what they take, and what is refused.

use super::*;
use crate::proximal::versions::Versions;

async fn content(volume: &Proximal, name: &str, at: Extent) -> Vec<u8> {
    let view = volume.views().into_iter().find(|view| view.name == name).expect(name);
    values(&*view.device, at).await.unwrap()
}

fn space(volume: &Proximal) -> Vec<(String, u64, u64)> {
    let all = volume.snapshots().unwrap().into_iter();
    all.map(|SnapshotSpace { name, blocks, unique, .. }| (name, blocks, unique)).collect()
}

async fn destage(volume: &Proximal) {
    volume.command("destage", Hints::default()).await.unwrap();
}

#[test]
fn a_snapshot_keeps_what_was_staged_and_what_was_not() {
    in_a_world(async {
        let both = devices();
        let volume = open(&both).await.unwrap();
        write(&*volume, 0, 256, 1).await.unwrap();
        write(&*volume, 16, 8, 2).await.unwrap();
        let counts = || (count(&volume, "pages_staged"), count(&volume, "pages_placed"));
        let before = counts();
        volume.create_snapshot("one").await.unwrap();
        assert_eq!(counts(), before, "nothing is copied");
        // A whole page that is staged for the snapshot, part of one, and part of one on the disk.
        write(&*volume, 16, 3, 3).await.unwrap();
        write(&*volume, 81, 2, 4).await.unwrap();
        let expected = |changed: &[(usize, usize, u8)]| {
            let mut all = vec![1; 256];
            all[16..24].fill(2);
            for (start, sectors, value) in changed {
                all[*start..start + sectors].fill(*value);
            }
            all
        };
        let all = Extent::new(0, 256);
        let now = expected(&[(16, 3, 3), (81, 2, 4)]);
        for destaged in [false, true] {
            assert_eq!(content(&volume, "one", all).await, expected(&[]), "destaged: {destaged}");
            assert_eq!(values(&*volume, all).await.unwrap(), now, "destaged: {destaged}");
            destage(&volume).await;
        }
        volume.create_snapshot("two").await.unwrap();
        volume.discard(Extent::new(80, 16), Hints::default()).await.unwrap();
        let after = expected(&[(16, 3, 3), (80, 16, 0)]);
        assert_eq!(values(&*volume, all).await.unwrap(), after);
        volume.stop().await.unwrap();
        let volume = open(&both).await.unwrap();
        assert_eq!(content(&volume, "one", all).await, expected(&[]));
        assert_eq!(content(&volume, "two", all).await, now);
        assert_eq!(values(&*volume, all).await.unwrap(), after);
        let view = volume.views().remove(0).device;
        let error = view.write(all, Buffer::zeroed(all.bytes()), Hints::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ReadOnly);
        volume.delete_snapshot("one").await.unwrap();
        let gone = view.read(all, Buffer::zeroed(all.bytes()), Hints::default()).await.unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::Gone);
        assert_eq!(content(&volume, "two", all).await, now);
    });
}

#[test]
fn space_is_accounted_to_the_block_and_returned() {
    in_a_world(async {
        let volume = open(&devices()).await.unwrap();
        for first in [0, 128, 256] {
            write(&*volume, first, 128, 1).await.unwrap();
        }
        volume.flush(Hints::default()).await.unwrap();
        let free = count(&volume, "blocks_free");
        let name = |name: &str, blocks, unique| (name.to_owned(), blocks, unique);
        let update = async |pages: std::ops::Range<u64>, value| {
            for page in pages {
                write(&*volume, page * 8, 8, value).await.unwrap();
            }
            destage(&volume).await;
        };
        volume.create_snapshot("a").await.unwrap();
        update(0..4, 2).await;
        volume.create_snapshot("b").await.unwrap();
        assert_eq!(space(&volume), [name("a", 48, 4), name("b", 48, 0)]);
        update(2..9, 3).await;
        volume.create_snapshot("c").await.unwrap();
        // Of pages 2 and 3 each has a block of its own; 4 to 8 are shared by a and b.
        assert_eq!(space(&volume), [name("a", 48, 4), name("b", 48, 2), name("c", 48, 0)]);
        assert_eq!(count(&volume, "blocks_of_snapshots"), 11);
        assert_eq!(count(&volume, "blocks_free"), free - 11);
        volume.delete_snapshot("a").await.unwrap();
        assert_eq!(space(&volume), [name("b", 48, 7), name("c", 48, 0)]);
        assert_eq!(count(&volume, "blocks_free"), free - 7);
        volume.delete_snapshot("b").await.unwrap();
        volume.delete_snapshot("c").await.unwrap();
        assert_eq!((count(&volume, "blocks_free"), count(&volume, "blocks_of_snapshots")), (free, 0));
        let expected = [vec![2; 2 * 8], vec![3; 7 * 8], vec![1; 39 * 8]].concat();
        assert_eq!(values(&*volume, Extent::new(0, 384)).await.unwrap(), expected);
    });
}

#[test]
fn without_room_a_write_fails_until_a_snapshot_is_deleted() {
    in_a_world(async {
        let both = devices();
        let volume = open(&both).await.unwrap();
        let pages = volume.geometry().sectors / PAGE_SECTORS;
        let fill = async |value| {
            for first in (0..pages).step_by(32) {
                write(&*volume, first * 8, 32.min(pages - first) * 8, value).await?;
            }
            Ok::<_, IoError>(())
        };
        fill(1).await.unwrap();
        volume.create_snapshot("full").await.unwrap();
        let error = fill(2).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
        assert!(error.to_string().contains("snapshots hold"), "{error}");
        assert!(content(&volume, "full", Extent::of_pages(0, pages)).await.iter().all(|value| *value == 1));
        volume.flush(Hints::default()).await.unwrap();
        volume.delete_snapshot("full").await.unwrap();
        fill(3).await.unwrap();
        assert!(values(&*volume, Extent::of_pages(0, pages)).await.unwrap().iter().all(|value| *value == 3));
    });
}

#[test]
fn names_and_numbers_that_do_not_fit_are_refused() {
    in_a_world(async {
        let both = devices();
        let volume = open(&both).await.unwrap();
        let refused = async |name: &str| volume.create_snapshot(name).await.unwrap_err().to_string();
        volume.create_snapshot("daily.1").await.unwrap();
        assert!(refused("daily.1").await.contains("found a snapshot 'daily.1' already"));
        for name in ["", "a b", "a@b", "../x", &"x".repeat(41)] {
            assert!(refused(name).await.contains("expected 1 to 40 letters"), "{name}");
        }
        let unknown = volume.delete_snapshot("weekly").await.unwrap_err().to_string();
        assert!(unknown.contains("found the snapshot 'weekly', expected daily.1"), "{unknown}");
        for number in 2..=64 {
            volume.create_snapshot(&format!("daily.{number}")).await.unwrap();
        }
        assert!(refused("one.more").await.contains("found 64 snapshots, expected fewer"));
        volume.stop().await.unwrap();
        let volume = open(&both).await.unwrap();
        let names: Vec<String> = volume.views().into_iter().map(|view| view.name).collect();
        assert_eq!(names.len(), 64);
        volume.delete_snapshot("daily.30").await.unwrap();
        volume.create_snapshot("one.more").await.unwrap();
    });
}

#[test]
fn a_volume_from_before_there_were_snapshots_opens_and_has_none() {
    in_a_world(async {
        let both = devices();
        let options = options();
        let shape = options.shape(both.0.geometry().sectors).unwrap();
        let old = format::Shape { records: 0, ..shape };
        let how = Hints::default;
        let identity = 77;
        let page = super_page::Super {
            shape: old,
            identity,
            committed: u64::MAX,
            session: 0,
            snapshots: super_page::Snapshots::default(),
        };
        let label = Buffer::from_vec(format::encode_label(identity, 2));
        both.0.write(Extent::of_pages(0, 1), label, how()).await.unwrap();
        opening::write_super(&*both.1, &page).await.unwrap();
        let staging = Extent::of_pages(old.staging(), FLASH - old.staging());
        let opened = opening::open(&both.0, &both.1, &options, false, false).await.unwrap();
        let placed = Placed::open(both.0.clone(), both.1.clone(), opened, &options, false).await.unwrap();
        let staging: Rc<dyn BlockDevice> = Rc::new(Slice::new(both.1.clone(), staging).unwrap());
        Borg::format_new(placed.clone(), staging.clone(), options.staging(), true).await.unwrap();
        let staging = Borg::open(placed.clone(), staging, options.staging(), false).await.unwrap();
        let volume = Versions::open(placed, staging, options.canary()).await.unwrap();
        write(&*volume, 8, 16, 5).await.unwrap();
        volume.staging.stop().await.unwrap();
        volume.placed.stop().await.unwrap();
        let volume = Proximal::open(both.0.clone(), both.1.clone(), &options, false, false).await.unwrap();
        assert_eq!(values(&*volume, Extent::new(8, 16)).await.unwrap(), [5; 16]);
        let refused = volume.create_snapshot("x").await.unwrap_err().to_string();
        assert!(refused.contains("an earlier version created"), "{refused}");
        assert_eq!(volume.snapshots().unwrap(), []);
    });
}
