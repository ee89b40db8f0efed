//! A fork has the entries of its store, takes writes of its own, and leaves its original alone.

use proptest::prelude::*;

use super::*;
use crate::under_test::steps;

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    #[test]
    fn a_fork_has_the_entries_of_its_store(before in steps(40), after in steps(60)) {
        run(1, async {
            let disk = disk();
            let (origin, bopt) = (slice(&disk, 0, ORIGIN), slice(&disk, ORIGIN, 120 * 8));
            let options = Options { segment: crate::Bytes(16 << 10), ..Options::default() };
            let borg = formatted(origin, bopt, options).await;
            play(&borg, &before).await;
            let fork = borg.store.fork();
            let twin = self::disk();
            let devices = Devices::counted(slice(&twin, 0, ORIGIN), slice(&twin, ORIGIN, 120 * 8));
            let store = Store::from_map(devices.origin.clone(), devices.bopt.clone(), fork);
            let entries = |store: &Store| (0..ORIGIN / 8).map(|page| store.lookup(page)).collect::<Vec<_>>();
            let was = entries(&borg.store);
            let same = |one: &Option<store::Entry>, other: &Option<store::Entry>| {
                one.map(|entry| (entry.slot, entry.dirty)) == other.map(|entry| (entry.slot, entry.dirty))
            };
            assert!(was.iter().zip(&entries(&store)).all(|(one, other)| same(one, other)));
            let forked = Borg::over(devices, store, Options::default(), true);
            play(&forked, &after).await;
            forked.drain_all(Account::default()).await.unwrap();
            assert_eq!(forked.store.dirty(), 0);
            assert_eq!(entries(&borg.store), was);
        });
    }
}

async fn play(borg: &Borg, steps: &[crate::under_test::Step]) {
    for (what, start, sectors) in steps {
        let at = Extent::new(*start, *sectors);
        match what % 4 {
            0 | 1 => borg.write(at, Buffer::zeroed(at.bytes()), Hints::default()).await.unwrap(),
            2 => drop(borg.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await.unwrap()),
            _ => drop(borg.reconfigure(Account::default()).await.unwrap()),
        }
    }
}
