//! Families of processes that make the requests, distinguished by few colours.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use seekless_core::{NameId, Names};
use seekless_trace::stats::family;

/// Number of families with colours of their own; the others share one more.
pub const FAMILIES: usize = 8;
/// Limit of families while counting: a bound for hostile names.
const MOST: usize = 4_096;

/// Families and their requests.
#[derive(Debug, Default)]
pub struct Families {
    /// Index of the family of each name.
    of_name: Vec<Option<u16>>,
    by_name: BTreeMap<String, u16>,
    requests: Vec<u64>,
}

impl Families {
    /// Adds a request of this name; returns the index of its family.
    pub fn number(&mut self, name: NameId, names: &Names) -> u16 {
        let place = name.0 as usize;
        if self.of_name.len() <= place {
            self.of_name.resize(place + 1, None);
        }
        let number = self.of_name[place].unwrap_or_else(|| self.learn(family(names.get(name))));
        self.of_name[place] = Some(number);
        self.requests[usize::from(number)] += 1;
        number
    }

    fn learn(&mut self, family: &str) -> u16 {
        if let Some(&number) = self.by_name.get(family) {
            return number;
        }
        let number = self.requests.len().min(MOST - 1) as u16;
        if usize::from(number) == self.requests.len() {
            self.requests.push(0);
            self.by_name.insert(family.to_owned(), number);
        }
        number
    }

    /// The families with the most requests, descending, then all others together; and the position there of each
    /// family.
    pub fn ranked(&self) -> (Vec<Family>, Vec<u16>) {
        let mut named: Vec<(&String, u16)> =
            self.by_name.iter().map(|(name, &number)| (name, number)).collect();
        named.sort_by_key(|&(name, number)| (Reverse(self.requests[usize::from(number)]), name));
        let mut places = vec![FAMILIES as u16; self.requests.len()];
        let mut families = Vec::new();
        for (place, (name, number)) in (0..).zip(named.iter().take(FAMILIES)) {
            places[usize::from(*number)] = place;
            families.push(Family { name: (*name).clone(), requests: self.requests[usize::from(*number)] });
        }
        let others = named.get(FAMILIES..).unwrap_or_default();
        if !others.is_empty() {
            let requests = others.iter().map(|&(_, number)| self.requests[usize::from(number)]).sum();
            families.push(Family { name: format!("{} others", others.len()), requests });
        }
        (families, places)
    }
}

/// Processes of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Family {
    /// Name.
    pub name: String,
    /// Number of requests.
    pub requests: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_have_their_own_place() {
        let (mut names, mut families) = (Names::default(), Families::default());
        for at in 0..12_u32 {
            let name = names.intern(&format!("p{at:02}/x"));
            (0..=at).for_each(|_| _ = families.number(name, &names));
        }
        let (ranked, places) = families.ranked();
        assert_eq!(ranked.len(), FAMILIES + 1);
        assert_eq!(ranked[0], Family { name: "p11".into(), requests: 12 });
        assert_eq!(ranked[8], Family { name: "4 others".into(), requests: 1 + 2 + 3 + 4 });
        assert_eq!(places[..5], [8, 8, 8, 8, 7]);
    }

    #[test]
    fn hostile_names_are_bounded() {
        let (mut names, mut families) = (Names::default(), Families::default());
        for at in 0..MOST + 100 {
            let name = names.intern(&at.to_string());
            families.number(name, &names);
        }
        assert_eq!(families.requests.len(), MOST);
        assert_eq!(families.requests.iter().sum::<u64>(), MOST as u64 + 100);
    }
}
