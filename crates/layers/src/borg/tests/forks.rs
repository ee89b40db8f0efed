//! A fork has the entries of its store, and takes writes of its own in another runtime.

use proptest::prelude::*;

use super::*;
use crate::under_test::steps;

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    #[test]
    fn a_fork_has_the_entries_of_its_store(before in steps(40), after in steps(60)) {
        let options = Options { segment: crate::Bytes(16 << 10), ..Options::default() };
        let (fork, entries) = run(1, async {
            let disk = disk();
            let (origin, bopt) = (slice(&disk, 0, ORIGIN), slice(&disk, ORIGIN, 120 * 8));
            let borg = formatted(origin, bopt, options.clone()).await;
            play(&borg, &before).await;
            (borg.store.fork(), entries(&borg.store))
        });
        run(2, async {
            let twin = disk();
            let devices = Devices::counted(slice(&twin, 0, ORIGIN), slice(&twin, ORIGIN, 120 * 8));
            let store = Store::from_map(devices.origin.clone(), devices.bopt.clone(), fork);
            assert_eq!(self::entries(&store), entries);
            let forked = Borg::over(devices, store, options, true);
            play(&forked, &after).await;
            forked.drain_all(Account::default()).await.unwrap();
            assert_eq!(forked.store.dirty(), 0);
        });
    }
}

/// The slot of each page, and whether it is dirty.
fn entries(store: &Store) -> Vec<Option<(Slot, bool)>> {
    (0..ORIGIN / 8).map(|page| store.lookup(page).map(|entry| (entry.slot, entry.dirty))).collect()
}

async fn play(borg: &Borg, steps: &[crate::under_test::Step]) {
    for (what, start, sectors) in steps {
        let at = Extent::new(*start, *sectors);
        match what % 4 {
            0 | 1 => borg.write(at, Buffer::zeroed(at.bytes()), Hints::default()).await.unwrap(),
            2 => drop(borg.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await.unwrap()),
            _ => drop(borg.reconfigure_now(Account::default()).await.unwrap()),
        }
    }
}
