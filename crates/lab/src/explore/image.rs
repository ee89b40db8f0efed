//! Content of a component, copy-on-write: a crash state is a fork, not a copy.
//!
//! A tree of pages that forks share. Its hash depends only on the content of every sector, and is updated by each
//! write; so is that of its metadata, which is every sector with bytes other than a stamp. Invariant: a sector that
//! reads as zeroes counts as nothing, whatever its history.

use std::rc::Rc;

use seekless_core::{Buffer, Extent, PAGE_BYTES, PAGE_SECTORS, SECTOR_BYTES};

/// Bytes of a stamp in a sector.
const STAMP: usize = 16;
const SECTOR: usize = SECTOR_BYTES as usize;
/// Children of a node: few, since copying a path touches each of them.
const FAN: usize = 16;

/// Content of a sector.
#[derive(Clone, Debug, Default)]
pub enum Content {
    /// Zeroes.
    #[default]
    Zero,
    /// Zeroes but for the first bytes.
    Stamp([u8; STAMP]),
    /// Any bytes, with their hash.
    Bytes(Rc<(u64, [u8; SECTOR])>),
    /// Nothing that could be read.
    Unreadable,
}

impl PartialEq for Content {
    fn eq(&self, other: &Content) -> bool {
        match (self, other) {
            (Content::Zero, Content::Zero) | (Content::Unreadable, Content::Unreadable) => true,
            (Content::Stamp(one), Content::Stamp(other)) => one == other,
            (Content::Bytes(one), Content::Bytes(other)) => Rc::ptr_eq(one, other) || one.1 == other.1,
            _ => false,
        }
    }
}

impl Content {
    fn of(bytes: &[u8; SECTOR]) -> Content {
        let (stamp, rest) = bytes.split_at(STAMP);
        match (stamp.try_into(), rest == [0; SECTOR - STAMP]) {
            (Ok(stamp), true) if stamp == [0; STAMP] => Content::Zero,
            (Ok(stamp), true) => Content::Stamp(stamp),
            _ => Content::Bytes(Rc::new((hash(bytes), *bytes))),
        }
    }

    /// The content of each sector of a buffer; hollow parts are zeroes.
    pub fn of_buffer(buffer: &Buffer) -> Vec<Content> {
        buffer.look(|bytes| {
            let sectors = bytes.chunks_exact(SECTOR).filter_map(|sector| sector.try_into().ok());
            sectors.map(Content::of).collect()
        })
    }

    fn hash(&self) -> u64 {
        match self {
            Content::Zero => 0,
            Content::Stamp(stamp) => hash(stamp),
            Content::Bytes(bytes) => bytes.0,
            Content::Unreadable => u64::MAX,
        }
    }

    /// Whether it counts as metadata.
    pub fn is_metadata(&self) -> bool {
        matches!(self, Content::Bytes(_))
    }

    /// Whether it is metadata, or with `data` that too.
    pub fn can_rot(&self, data: bool) -> bool {
        self.is_metadata() || data && matches!(self, Content::Stamp(_))
    }
}

/// Mixes words so that each of their bits affects each bit of the result (the finaliser of `SplitMix64`).
pub fn mixed(hash: u64, word: u64) -> u64 {
    let z = (hash.rotate_left(29) ^ word).wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

fn hash(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(8).map(|eight| eight.try_into().map_or(0, u64::from_be_bytes));
    words.fold(1, mixed)
}

#[derive(Clone)]
enum Node {
    Inner([Option<Rc<Node>>; FAN]),
    Page([Content; PAGE_SECTORS as usize]),
}

/// Content of a component; initially zeroes.
#[derive(Clone, Default)]
pub struct Image {
    root: Option<Rc<Node>>,
    /// Levels of inner nodes above the pages.
    height: u32,
    hash: u64,
    metadata: u64,
    /// Number of unreadable sectors.
    unreadable: u64,
    /// Shares of the hash that no mark shows, and those that the time of the last write does not show.
    unmarked: u64,
    timeless: u64,
}

impl Image {
    /// Zeroes, for a component of `sectors` sectors.
    pub fn new(sectors: u64) -> Image {
        let pages = sectors.div_ceil(PAGE_SECTORS);
        let height = (0..16).find(|height| (FAN as u64).saturating_pow(*height) >= pages).unwrap_or(16);
        Image { height, ..Image::default() }
    }

    /// Hash of the content: 64 bits, equal for equal content.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Hash of the metadata alone.
    pub fn metadata(&self) -> u64 {
        self.metadata
    }

    /// Puts content into sectors, those for which `keep` holds.
    pub fn put(&mut self, start: u64, contents: &[Content], keep: impl Fn(usize) -> bool) {
        let mut index = 0;
        while index < contents.len() {
            let page = (start + index as u64) / PAGE_SECTORS;
            let behind = (((page + 1) * PAGE_SECTORS - start) as usize).min(contents.len());
            let sectors = page_of(&mut self.root, self.height, page);
            for index in (index..behind).filter(|index| keep(*index)) {
                let (sector, content) = (start + index as u64, &contents[index]);
                let old = std::mem::replace(&mut sectors[(sector % PAGE_SECTORS) as usize], content.clone());
                for (content, was) in [(&old, true), (content, false)] {
                    let share = if *content == Content::Zero { 0 } else { mixed(sector, content.hash()) };
                    // A sum, so that content restored leaves no trace and order does not matter.
                    let change =
                        |hash: u64| if was { hash.wrapping_sub(share) } else { hash.wrapping_add(share) };
                    self.hash = change(self.hash);
                    if content.is_metadata() {
                        self.metadata = change(self.metadata);
                    }
                }
                self.unreadable += u64::from(*content == Content::Unreadable);
                self.unreadable -= u64::from(old == Content::Unreadable);
            }
            index = behind;
        }
    }

    /// As `put`, for what leaves no mark: a write that failed, and is carried out later.
    pub fn put_unmarked(&mut self, start: u64, contents: &[Content], keep: impl Fn(usize) -> bool) {
        let before = self.hash;
        self.put(start, contents, keep);
        self.unmarked = self.unmarked.wrapping_add(self.hash.wrapping_sub(before));
    }

    /// As `put`, of everything, by someone else; of which the time of the last write may tell nothing.
    pub fn edit(&mut self, start: u64, contents: &[Content], keeps_time: bool) {
        let before = self.hash;
        self.put(start, contents, |_| true);
        if keeps_time {
            self.timeless = self.timeless.wrapping_add(self.hash.wrapping_sub(before));
        }
    }

    /// What stands for the times of the last write and of the last change: equal for equal content.
    pub fn times(&self) -> (u64, u64) {
        let changed = self.hash.wrapping_sub(self.unmarked);
        (changed.wrapping_sub(self.timeless), changed)
    }

    fn page(&self, page: u64) -> Option<&[Content; PAGE_SECTORS as usize]> {
        let mut node = self.root.as_deref()?;
        let mut height = self.height;
        loop {
            match node {
                Node::Page(sectors) => return Some(sectors),
                Node::Inner(children) => {
                    height -= 1;
                    node = children[(page / (FAN as u64).pow(height)) as usize % FAN].as_deref()?;
                }
            }
        }
    }

    /// Content of a sector; `None` for one of a page that was never written.
    pub fn content(&self, sector: u64) -> Option<&Content> {
        self.page(sector / PAGE_SECTORS).map(|sectors| &sectors[(sector % PAGE_SECTORS) as usize])
    }

    /// The first sector that cannot be read, if any.
    pub fn first_unreadable(&self, at: Extent) -> Option<u64> {
        let unreadable = |sector: &u64| self.content(*sector) == Some(&Content::Unreadable);
        (self.unreadable > 0).then(|| (at.start.0..at.end().0).find(unreadable))?
    }

    /// Whether any sector cannot be read.
    pub fn has_unreadable(&self) -> bool {
        self.unreadable > 0
    }

    /// Sectors with metadata, in order; also those with data, if `data`.
    pub fn used_sectors(&self, data: bool) -> Vec<u64> {
        let mut found = Vec::new();
        differs(None, self.root.as_ref(), self.height, 0, &mut |page| {
            let sectors = self.page(page).into_iter().flatten().zip(page * PAGE_SECTORS..);
            found.extend(sectors.filter(|(content, _)| content.can_rot(data)).map(|(_, sector)| sector));
        });
        found
    }

    /// Reads sectors into a buffer.
    pub fn read(&self, at: Extent, into: &Buffer) {
        for page in at.pages() {
            let (first, end) =
                (at.start.0.max(page * PAGE_SECTORS), at.end().0.min((page + 1) * PAGE_SECTORS));
            let mut bytes = [0; PAGE_BYTES as usize];
            let sectors = bytes.chunks_exact_mut(SECTOR).zip(self.page(page).into_iter().flatten());
            for (bytes, content) in sectors {
                match content {
                    Content::Bytes(content) => bytes.copy_from_slice(&content.1),
                    Content::Stamp(stamp) => bytes[..STAMP].copy_from_slice(stamp),
                    Content::Zero | Content::Unreadable => {}
                }
            }
            let here = |sector: u64| (sector - page * PAGE_SECTORS) as usize * SECTOR;
            into.put((first - at.start.0) as usize * SECTOR, &bytes[here(first)..here(end)]);
        }
    }

    /// Calls `each` for every page that differs.
    pub fn differs(&self, other: &Image, each: &mut impl FnMut(u64)) {
        differs(self.root.as_ref(), other.root.as_ref(), self.height, 0, each);
    }
}

/// The page in the tree; shared nodes on the path are copied.
fn page_of(root: &mut Option<Rc<Node>>, height: u32, page: u64) -> &mut [Content; PAGE_SECTORS as usize] {
    let empty = || {
        Rc::new(if height == 0 { Node::Page(Default::default()) } else { Node::Inner(Default::default()) })
    };
    match Rc::make_mut(root.get_or_insert_with(empty)) {
        Node::Page(sectors) => sectors,
        Node::Inner(children) => {
            let child = (page / (FAN as u64).pow(height - 1)) as usize % FAN;
            page_of(&mut children[child], height - 1, page)
        }
    }
}

fn differs(
    one: Option<&Rc<Node>>,
    other: Option<&Rc<Node>>,
    height: u32,
    first: u64,
    each: &mut impl FnMut(u64),
) {
    let same = match (one, other) {
        (Some(one), Some(other)) => Rc::ptr_eq(one, other),
        (None, None) => true,
        _ => false,
    };
    if same {
        return;
    }
    if height == 0 {
        // A page that was never written equals one of zeroes.
        let same = (0..PAGE_SECTORS as usize).all(|index| sector(one, index) == sector(other, index));
        if !same {
            each(first);
        }
        return;
    }
    let below = (FAN as u64).pow(height - 1);
    for index in 0..FAN {
        differs(child(one, index), child(other, index), height - 1, first + index as u64 * below, each);
    }
}

fn child(node: Option<&Rc<Node>>, index: usize) -> Option<&Rc<Node>> {
    match node.map(|node| &**node) {
        Some(Node::Inner(children)) => children[index].as_ref(),
        _ => None,
    }
}

fn sector(node: Option<&Rc<Node>>, index: usize) -> &Content {
    match node.map(|node| &**node) {
        Some(Node::Page(sectors)) => &sectors[index],
        _ => &Content::Zero,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    fn content(value: u8) -> Content {
        let mut bytes = [0; SECTOR];
        match value {
            0 => {}
            1..=9 => bytes[0] = value,
            _ => bytes[300] = value,
        }
        Content::of(&bytes)
    }

    #[test]
    fn a_mark_shows_what_was_written_but_not_what_hides() {
        let mut image = Image::new(16);
        image.put(0, &[content(1)], |_| true);
        let before = image.times();
        image.put(0, &[content(2)], |_| true);
        assert_ne!(image.times(), before);
        image.put(0, &[content(1)], |_| true);
        assert_eq!(image.times(), before, "equal content");
        image.put_unmarked(3, &[content(3)], |_| true);
        assert_eq!(image.times(), before, "a write that failed");
        image.edit(5, &[content(4)], true);
        assert!(image.times().0 == before.0 && image.times().1 != before.1, "its time was set back");
        image.edit(6, &[content(4)], false);
        assert_ne!(image.times().0, before.0);
    }

    const SECTORS: u64 = 9_000;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Against a map of sectors: reads, differences between forks, and equal hashes of equal content.
        #[test]
        fn forks_hold_what_was_put_into_them(
            before in proptest::collection::vec((0..SECTORS, 0..20_u8), 0..40),
            one in proptest::collection::vec((0..SECTORS, 0..20_u8), 0..10),
            other in proptest::collection::vec((0..SECTORS, 0..20_u8), 0..10),
        ) {
            let fill = |mut image: Image, mut map: BTreeMap<u64, u8>, puts: &[(u64, u8)]| {
                for &(sector, value) in puts {
                    image.put(sector, &[content(value)], |_| true);
                    map.insert(sector, value);
                }
                map.retain(|_, value| *value != 0);
                (image, map)
            };
            let (base, map) = fill(Image::new(SECTORS), BTreeMap::new(), &before);
            let (one, one_map) = fill(base.clone(), map.clone(), &one);
            let (other, other_map) = fill(base.clone(), map, &other);
            for (image, map) in [(&one, &one_map), (&other, &other_map)] {
                let (fresh, _) = fill(Image::new(SECTORS), BTreeMap::new(), &map.iter().map(|(s, v)| (*s, *v)).collect::<Vec<_>>());
                prop_assert_eq!((fresh.hash(), fresh.metadata()), (image.hash(), image.metadata()));
                let at = Extent::new(0, SECTORS);
                let buffer = Buffer::zeroed(at.bytes());
                image.read(at, &buffer);
                for (sector, bytes) in (0..).zip(buffer.to_vec().chunks(SECTOR)) {
                    let value = map.get(&sector).copied().unwrap_or(0);
                    prop_assert_eq!(Content::of(bytes.try_into().unwrap()), content(value));
                }
            }
            let mut found = BTreeSet::new();
            one.differs(&other, &mut |page| { found.insert(page); });
            let differ = (0..SECTORS).filter(|sector| one_map.get(sector) != other_map.get(sector));
            prop_assert_eq!(found, differ.map(|sector| sector / PAGE_SECTORS).collect());
            prop_assert_eq!(one.hash() == other.hash(), one_map == other_map);
        }
    }
}
