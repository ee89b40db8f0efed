//! A BOPT that is emptied while clients write.

use std::cell::Cell;

use super::*;

/// Clients write pages that were never written, faster than pages are drained: the drain ends all the same, and
/// afterwards writes are absorbed as before.
#[test]
fn a_drain_ends_while_clients_go_on_writing() {
    run(1, async {
        let World { borg, .. } = world(Options::default(), 4_000).await;
        let mut next = 0;
        let write_next = async |borg: &Borg, next: &mut u64| {
            write(borg, Extent::of_pages(*next * 7 % 2_000, 1), 1).await;
            *next += 1;
        };
        for _ in 0..300 {
            write_next(&borg, &mut next).await;
        }
        assert_eq!(borg.store.dirty(), 300);
        let drained = Rc::new(Cell::new(None));
        let (to, draining) = (drained.clone(), borg.clone());
        let drain = spawn(async move {
            to.set(Some(draining.drain_all(Account(1)).await));
        });
        let before = next;
        let ended = loop {
            if let Some(ended) = drained.take() {
                break ended;
            }
            write_next(&borg, &mut next).await;
            sleep(Nanos::from_millis(1)).await;
            assert!(borg.store.dirty() <= 301, "{} pages are dirty: they were absorbed", borg.store.dirty());
        };
        ended.unwrap();
        drop(drain);
        assert!(next > before + 30, "{} writes beside it", next - before);
        assert!(borg.store.dirty() <= 1, "{}", borg.store.dirty());
        write_next(&borg, &mut next).await;
        write_next(&borg, &mut next).await;
        assert!(borg.store.dirty() > 0, "writes are absorbed again");
    });
}
