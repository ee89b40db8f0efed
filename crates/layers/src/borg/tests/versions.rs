//! Two versions of what lies on disk: an old BOPT stays as it was, bit for bit readable by the program that made it.

use super::super::store::format::{OLD, PAGE, PageState, SEALED, old};
use super::*;

/// A BOPT that is made by a program that knows version 1 only.
pub async fn old_one(origin: Rc<dyn BlockDevice>, bopt: Rc<dyn BlockDevice>, options: Options) -> Rc<Borg> {
    let borg = Borg::open_creating(origin, bopt, options, false).await.unwrap();
    {
        assert_eq!(borg.store.identity(), None, "it is blank");
        borg.store.make_old();
    }
    borg.store.begin_mapping(&Hints::default()).await.unwrap();
    borg
}

async fn pages_of(disk: &Disk, first: u64, pages: u64) -> Vec<u8> {
    read(disk, Extent::of_pages(ORIGIN / 8 + first, pages)).await
}

#[test]
fn what_is_of_version_one_stays_so() {
    run(1, async {
        let disk = disk();
        let parts = || (slice(&disk, 0, ORIGIN), slice(&disk, ORIGIN, 400 * 8));
        let (origin, bopt) = parts();
        let mut borg = old_one(origin, bopt, Options::default()).await;
        for round in 0..4 {
            for page in 0..30 {
                write(&*borg, Extent::of_pages(page * 5 % 90, 1), round).await;
            }
            borg.flush(Hints::default()).await.unwrap();
            borg.reconfigure_now(Account(1)).await.unwrap();
            if round % 2 == 1 {
                borg.stop().await.unwrap();
            }
            drop(borg);
            let supers = pages_of(&disk, 0, 2).await;
            let mut generations = Vec::new();
            for (page, at) in supers.chunks(PAGE).zip(0..) {
                let Ok(PageState::Whole(found)) = old::decode_super(at, page) else {
                    panic!("round {round}: no super page of version 1 at {at}")
                };
                assert_eq!((found.version, found.generation % 2), (OLD, at), "its copy follows from it");
                generations.push(found.generation);
            }
            assert_eq!(generations[0].abs_diff(generations[1]), 1);
            let (origin, bopt) = parts();
            borg = Borg::open(origin, bopt, Options::default(), false).await.unwrap();
            assert_eq!(borg.store.disk().super_page.version, OLD);
            let (layout, identity) = (borg.store.layout(), borg.store.disk().super_page.identity);
            for segment in 0..layout.segments() {
                let copies = [0, 1].map(|copy| layout.map_page(segment, copy));
                for at in copies {
                    let bytes = pages_of(&disk, at, 1).await;
                    let whole = old::decode_map(at, identity, segment, layout.segment, &bytes);
                    assert!(whole.is_some(), "round {round}: segment {segment}");
                }
            }
            for page in 0..30 {
                let at = Extent::of_pages(page * 5 % 90, 1);
                assert!(read(&*borg, at).await.starts_with(&at.start.0.to_le_bytes()));
            }
        }
    });
}

#[test]
fn what_is_new_is_of_version_two() {
    run(1, async {
        let World { borg, disk } = world(Options::default(), 400).await;
        assert_eq!(borg.store.disk().super_page.version, SEALED);
        let pages = pages_of(&disk, 0, 2).await;
        for (page, at) in pages.chunks(PAGE).zip(0..) {
            assert_eq!(old::decode_super(at, page), Ok(PageState::Torn), "the program before refuses it");
        }
    });
}
