//! Clones while nothing fails: what they hold, what they take, and what is refused.

use std::collections::BTreeMap;

use proptest::prelude::*;
use seekless_core::device::View;

use super::*;

/// Pages of a volume that steps use.
const PAGES: u64 = 24;

fn view(volume: &Proximal, name: &str) -> Rc<dyn BlockDevice> {
    volume.views().into_iter().find(|view| view.name == name).expect(name).device
}

async fn destage(volume: &Proximal) {
    volume.command("destage", Hints::default()).await.unwrap();
}

async fn pages(device: &dyn BlockDevice) -> Vec<u8> {
    let all = values(device, Extent::of_pages(0, PAGES)).await.unwrap();
    all.chunks(PAGE_SECTORS as usize).map(|page| page[0]).collect()
}

#[test]
fn a_clone_is_written_beside_the_volume_and_its_base() {
    in_a_world(async {
        let both = devices();
        let volume = open(&both).await.unwrap();
        write(&*volume, 0, 192, 1).await.unwrap();
        write(&*volume, 16, 8, 2).await.unwrap();
        let counts = || (count(&volume, "pages_staged"), count(&volume, "pages_placed"));
        let before = counts();
        volume.create_snapshot("base").await.unwrap();
        volume.create_clone("later", None).await.unwrap();
        volume.create_clone("of-base", Some("base")).await.unwrap();
        assert_eq!(counts(), before, "nothing is copied");
        // Part of a page that is staged for the base, and part of one on the disk.
        write(&*view(&volume, "later"), 18, 2, 3).await.unwrap();
        write(&*view(&volume, "of-base"), 82, 2, 4).await.unwrap();
        write(&*volume, 0, 8, 5).await.unwrap();
        view(&volume, "later").discard(Extent::of_pages(20, 1), Hints::default()).await.unwrap();
        let all = Extent::of_pages(0, PAGES);
        let expected = |changed: &[(usize, usize, u8)]| {
            let mut all = vec![1; 192];
            all[16..24].fill(2);
            for (start, sectors, value) in changed {
                all[*start..start + sectors].fill(*value);
            }
            all
        };
        let held = [
            ("base", expected(&[])),
            ("later", expected(&[(18, 2, 3), (160, 8, 0)])),
            ("of-base", expected(&[(82, 2, 4)])),
        ];
        for round in 0..3 {
            for (name, held) in &held {
                let found = values(&*view(&volume, name), all).await.unwrap();
                assert_eq!(&found, held, "{name}, round {round}");
            }
            assert_eq!(values(&*volume, all).await.unwrap(), expected(&[(0, 8, 5)]));
            destage(&volume).await;
        }
        let clone = view(&volume, "later");
        let how = Hints { fua: true, ..Hints::default() };
        clone.write(Extent::of_pages(23, 1), crate::under_test::filled(9, 8), how).await.unwrap();
        clone.flush(Hints::default()).await.unwrap();
        // Nothing is stopped: what was acknowledged with FUA is there anyway.
        let volume = open(&both).await.unwrap();
        assert_eq!(pages(&*view(&volume, "later")).await[23], 9);
        assert_eq!(pages(&*volume).await[23], 1);
    });
}

#[test]
fn a_deleted_base_stays_until_its_last_clone_is_deleted() {
    in_a_world(async {
        let both = devices();
        let volume = open(&both).await.unwrap();
        write(&*volume, 0, 192, 1).await.unwrap();
        volume.flush(Hints::default()).await.unwrap();
        let free = count(&volume, "blocks_free");
        volume.create_snapshot("base").await.unwrap();
        for name in ["a", "b"] {
            volume.create_clone(name, Some("base")).await.unwrap();
        }
        write(&*volume, 0, 64, 2).await.unwrap();
        write(&*view(&volume, "a"), 64, 64, 3).await.unwrap();
        destage(&volume).await;
        assert_eq!(count(&volume, "blocks_free"), free - 16);
        volume.delete_snapshot("base").await.unwrap();
        assert_eq!(count(&volume, "blocks_free"), free - 16, "clones see its blocks");
        volume.stop().await.unwrap();
        let volume = open(&both).await.unwrap();
        let names: Vec<(String, bool)> =
            volume.views().into_iter().map(|view| (view.name, view.is_clone)).collect();
        assert_eq!(names, [("a".to_owned(), true), ("b".to_owned(), true)]);
        assert_eq!(pages(&*view(&volume, "b")).await, [1; PAGES as usize]);
        let gone = view(&volume, "b");
        volume.delete_snapshot("b").await.unwrap();
        let error = write(&*gone, 0, 8, 1).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Gone);
        assert_eq!(pages(&*view(&volume, "a")).await[8..16], [3; 8]);
        volume.delete_snapshot("a").await.unwrap();
        assert_eq!((count(&volume, "blocks_free"), count(&volume, "blocks_of_snapshots")), (free, 0));
    });
}

#[test]
fn what_does_not_suit_a_clone_is_refused() {
    in_a_world(async {
        let volume = open(&devices()).await.unwrap();
        let refused = async |name: &str, from: Option<&str>| {
            volume.create_clone(name, from).await.unwrap_err().to_string()
        };
        assert!(refused("a", Some("base")).await.contains("expected none: there is none"));
        volume.create_snapshot("base").await.unwrap();
        volume.create_clone("a", Some("base")).await.unwrap();
        assert!(refused("a", None).await.contains("found a snapshot 'a' already"));
        assert!(refused("b", Some("a")).await.contains("found the snapshot 'a', expected base"));
        assert!(refused("now", None).await.contains("stands for the present state"));
        for number in 2..64 {
            volume.create_clone(&format!("a{number}"), Some("base")).await.unwrap();
        }
        assert!(refused("more", Some("base")).await.contains("found 64 snapshots, expected fewer"));
        volume.delete_snapshot("a2").await.unwrap();
        assert!(refused("more", None).await.contains("found 63 snapshots, expected fewer"));
        volume.create_clone("more", Some("base")).await.unwrap();
    });
}

#[test]
fn a_clone_without_room_fails_and_loses_nothing() {
    in_a_world(async {
        let volume = open(&devices()).await.unwrap();
        let all = volume.geometry().sectors / PAGE_SECTORS;
        let fill = async |device: &dyn BlockDevice, value| {
            for first in (0..all).step_by(32) {
                write(device, first * 8, 32.min(all - first) * 8, value).await?;
            }
            Ok::<_, IoError>(())
        };
        fill(&*volume, 1).await.unwrap();
        volume.create_clone("full", None).await.unwrap();
        let error = fill(&*view(&volume, "full"), 2).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
        let whole = Extent::of_pages(0, all);
        assert!(values(&*volume, whole).await.unwrap().iter().all(|value| *value == 1));
        volume.delete_snapshot("full").await.unwrap();
        fill(&*volume, 3).await.unwrap();
        assert!(values(&*volume, whole).await.unwrap().iter().all(|value| *value == 3));
    });
}

#[test]
fn a_record_of_a_clone_that_is_not_there_is_named() {
    in_a_world(async {
        let both = devices();
        let volume = open(&both).await.unwrap();
        write(&*volume, 0, 192, 1).await.unwrap();
        volume.create_clone("a", None).await.unwrap();
        write(&*view(&volume, "a"), 0, 64, 2).await.unwrap();
        destage(&volume).await;
        volume.stop().await.unwrap();
        let (shape, identity) = (volume.versions.placed.shape, volume.identity().unwrap());
        let snapshots = volume.versions.placed.state.borrow().snapshots.clone();
        let committed = volume.versions.placed.state.borrow().committed;
        let without = super_page::Snapshots { clones: Vec::new(), ..snapshots };
        let page = super_page::Super { shape, identity, committed, session: 0, snapshots: without };
        opening::write_super(&*both.1, &page).await.unwrap();
        let error = open(&both).await.map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        let expected = format::map_pair(shape.maps);
        assert!(error.to_string().contains("expected one of a page and a snapshot or clone"), "{error}");
        assert!(error.extent().is_some_and(|at| expected.start <= at.start && at.end() <= expected.end()));
    });
}

/// A step of the property test.
#[derive(Clone, Debug)]
enum Do {
    Snapshot(u8),
    Clone(u8, Option<u8>),
    Delete(u8),
    /// Writes or discards pages of the volume, or of one that can be written.
    Change(Option<u8>, u64, u64, Option<u8>),
    Destage,
    Reopen,
}

fn step() -> impl Strategy<Value = Do> {
    let name = 0..5_u8;
    prop_oneof![
        2 => name.clone().prop_map(Do::Snapshot),
        2 => (name.clone(), proptest::option::of(name.clone())).prop_map(|(name, from)| Do::Clone(name, from)),
        2 => name.clone().prop_map(Do::Delete),
        12 => (proptest::option::of(name), 0..PAGES - 4, 1..5_u64, proptest::option::weighted(0.9, 1..=250_u8))
            .prop_map(|(to, first, count, value)| Do::Change(to, first, count, value)),
        2 => Just(Do::Destage),
        1 => Just(Do::Reopen),
    ]
}

/// Contents by page: of the volume under the empty name, of the others with whether they are clones.
type Model = BTreeMap<String, (Vec<u8>, bool)>;

async fn agree(volume: &Proximal, model: &Model) {
    assert_eq!(pages(volume).await, model[""].0);
    let found: Vec<View> = volume.views();
    assert_eq!(found.len(), model.len() - 1);
    for View { name, device, is_clone, .. } in found {
        assert_eq!((pages(&*device).await, is_clone), model[&name], "{name}");
    }
}

/// Deletes each in turn: as many blocks are free then as the list promised.
async fn delete_all(volume: &Proximal) {
    loop {
        destage(volume).await;
        volume.flush(Hints::default()).await.unwrap();
        let Some(first) = volume.snapshots().unwrap().pop() else { break };
        let free = count(volume, "blocks_free");
        volume.delete_snapshot(&first.name).await.unwrap();
        assert_eq!(count(volume, "blocks_free"), free + first.unique, "{first:?}");
    }
    assert_eq!(count(volume, "blocks_of_snapshots"), 0);
}

async fn carry_out(volume: &Proximal, model: &mut Model, step: &Do) {
    let name = |number: &u8| format!("v{number}");
    match step {
        Do::Snapshot(number) => {
            let done = volume.create_snapshot(&name(number)).await;
            assert_eq!(done.is_ok(), !model.contains_key(&name(number)));
            let held = model[""].0.clone();
            model.entry(name(number)).or_insert((held, false));
        }
        Do::Clone(number, from) => {
            let from = from.as_ref().map(name);
            let held = match &from {
                Some(from) => model.get(from).filter(|one| !one.1).map(|one| one.0.clone()),
                None => Some(model[""].0.clone()),
            };
            let held = held.filter(|_| !model.contains_key(&name(number)));
            let done = volume.create_clone(&name(number), from.as_deref()).await;
            assert_eq!(done.is_ok(), held.is_some());
            model.extend(held.map(|held| (name(number), (held, true))));
        }
        Do::Delete(number) => {
            let done = volume.delete_snapshot(&name(number)).await;
            assert_eq!(done.is_ok(), model.remove(&name(number)).is_some());
        }
        Do::Change(to, first, count, value) => {
            let to = to.as_ref().map(name).filter(|to| model.get(to).is_some_and(|one| one.1));
            let held = &mut model.get_mut(to.as_deref().unwrap_or_default()).unwrap().0;
            let device: Rc<dyn BlockDevice> =
                to.map_or_else(|| volume.versions.clone() as Rc<dyn BlockDevice>, |to| view(volume, &to));
            if let Some(value) = value {
                write(&*device, first * 8, count * 8, *value).await.unwrap();
                held[*first as usize..(first + count) as usize].fill(*value);
            } else {
                let at = Extent::of_pages(*first, *count);
                device.discard(at, Hints::default()).await.unwrap();
                let after = values(&*device, at).await.unwrap();
                for (page, after) in (*first as usize..).zip(after.chunks(8)) {
                    assert!(after[0] == 0 || after[0] == held[page], "{after:?}");
                    held[page] = after[0];
                }
            }
        }
        Do::Destage | Do::Reopen => destage(volume).await,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn snapshots_and_clones_hold_what_a_model_of_them_holds(steps in proptest::collection::vec(step(), 1..70)) {
        in_a_world(async {
            let both = devices();
            let mut volume = open(&both).await.unwrap();
            let mut model = Model::from([(String::new(), (vec![0; PAGES as usize], false))]);
            for step in &steps {
                carry_out(&volume, &mut model, step).await;
                if matches!(step, Do::Reopen) {
                    volume.stop().await.unwrap();
                    volume = open(&both).await.unwrap();
                }
                agree(&volume, &model).await;
            }
            delete_all(&volume).await;
            assert_eq!(pages(&*volume).await, model[""].0);
        });
    }
}
