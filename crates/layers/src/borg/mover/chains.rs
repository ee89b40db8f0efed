//! Chains and cycles of moves (section 5.2).
//!
//! A move into a slot that holds another moving page depends on that page's move. Dependent moves form a chain or a
//! cycle. A round holds whole chains as far as they fit: where one is cut, a page is evicted to the origin and copied
//! in again.

use rustc_hash::FxHashMap;

use super::Move;
use crate::borg::store::Slot;

/// Splits moves into rounds of at most `most`, in slot order except that chains stay together; `occupant` returns the
/// page in a slot.
pub fn rounds(moves: &[Move], most: usize, occupant: impl Fn(Slot) -> Option<u64>) -> Vec<Vec<Move>> {
    let number: FxHashMap<u64, usize> =
        moves.iter().enumerate().map(|(index, (page, _))| (*page, index)).collect();
    let depends_on = |index: usize| -> Option<usize> {
        let (page, slot) = moves[index];
        occupant(slot).filter(|there| *there != page).and_then(|there| number.get(&there).copied())
    };
    let mut wanted_by = vec![None; moves.len()];
    for index in 0..moves.len() {
        if let Some(other) = depends_on(index) {
            wanted_by[other] = Some(index);
        }
    }
    let mut done = vec![false; moves.len()];
    let mut rounds: Vec<Vec<Move>> = Vec::new();
    for index in 0..moves.len() {
        // To the last of the chain, whose target slot is not vacated by a move; in a cycle, once round.
        let mut last = index;
        while let Some(next) = depends_on(last).filter(|next| *next != index && !done[*next]) {
            last = next;
        }
        let mut chain = Vec::new();
        let mut next = Some(last);
        while let Some(index) = next.filter(|index| !done[*index]) {
            done[index] = true;
            chain.push(moves[index]);
            next = wanted_by[index];
        }
        for part in chain.chunks(most) {
            match rounds.last_mut() {
                Some(round) if round.len() + part.len() <= most => round.extend(part),
                _ => rounds.push(part.to_vec()),
            }
        }
    }
    rounds
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_chain_and_a_cycle_stay_together() {
        // Pages 1, 2, 3 lie in slots 1, 2, 3 and move one on; 5 and 6 change places; 9 comes from elsewhere.
        let at = |slot: Slot| [1, 2, 3, 5, 6].contains(&slot).then_some(u64::from(slot));
        let moves = [(1, 2), (2, 3), (3, 4), (5, 6), (6, 5), (9, 8)];
        assert_eq!(rounds(&moves, 3, at), [vec![(3, 4), (2, 3), (1, 2)], vec![(6, 5), (5, 6), (9, 8)]]);
        assert_eq!(rounds(&moves, 2, at).concat().len(), 6);
        assert!(rounds(&[], 2, at).is_empty());
    }

    proptest! {
        /// Every move is made once, no round is too large, and no chain that fits is cut.
        #[test]
        fn every_move_is_in_one_round(targets in Just((0..40_u32).collect::<Vec<_>>()).prop_shuffle(), count in 0..40_usize, most in 1..50_usize) {
            // Page n is in slot n.
            let moves: Vec<Move> = targets.iter().take(count).zip(0..).map(|(slot, page)| (page, *slot)).collect();
            let at = |slot: Slot| (slot < 30).then_some(u64::from(slot));
            let rounds = rounds(&moves, most, at);
            prop_assert!(rounds.iter().all(|round| !round.is_empty() && round.len() <= most));
            let mut all = rounds.concat();
            all.sort_unstable();
            prop_assert_eq!(all, moves.clone());
            if most >= count {
                prop_assert!(rounds.len() <= 1);
            }
        }
    }
}
