//! `borg_map` (section 4.6): where the copy of a page is, which page a slot holds, and whether the
//! copy is newer than the origin.
//!
//! Instead of the paper's radix tree, whose leaves are mostly empty when pages are scattered, a hash
//! table of buckets of a cache line, 92 % full at the most, for any distribution of pages and any
//! size of volume. A page has two buckets that it may be in, as in cuckoo hashing; a lookup looks
//! into both. The hashes are bijections of the page number, so the part of a page that follows from the bucket's number
//! need not be stored (quotienting), and a match is certain. Backward, each slot names the bucket of its page.
//!
//! Memory: 8.18 bytes a slot for 8 GiB of BOPT on volumes up to 256 TiB: 0.2 % of the BOPT. After
//! [`BorgMap::new`] nothing is allocated, but for pages that find no place near either bucket; those
//! go to an ordered map; only page numbers chosen to collide do that.
//!
//! A property test holds that `slot_of` and `page_at` are inverses, that a slot without a page is clean, and that
//! `mapped` and `dirty`, which are maintained incrementally, are right. The map is in memory only, and is rebuilt after
//! a crash.

use std::collections::BTreeMap;

/// A page's slot in the BOPT, numbered over read cache and write buffer.
pub type Slot = u32;

/// Bits of a tag: the part of a page compared first, with all tags of a word at once.
const TAG_BITS: u32 = 10;
/// Tags of a word.
const WORD_TAGS: u32 = 64 / TAG_BITS;
/// Entries of a bucket.
const LANES: u32 = 2 * WORD_TAGS;
/// Fill of the table when all slots are mapped.
const FULL: f64 = 0.92;
/// Entries that an insertion may displace.
const MOVES: u32 = 256;

/// Masks: a one in each tag of a word; the highest bit of each; all other bits.
const ONES: u64 = (1 << (TAG_BITS * WORD_TAGS)) / ((1 << TAG_BITS) - 1);
const HIGHS: u64 = ONES << (TAG_BITS - 1);
const LOWS: u64 = HIGHS - ONES;

/// Odd, so that multiplication modulo a power of two is invertible; bits of the golden ratio and of a square root.
const FACTORS: [u64; 2] = [0x9E37_79B9_7F4A_7C15, 0x6A09_E667_F3BC_C909];
const INVERSES: [u64; 2] = [inverse(FACTORS[0]), inverse(FACTORS[1])];

/// The inverse of `odd` modulo 2^64 (Newton's iteration).
const fn inverse(odd: u64) -> u64 {
    let mut x = odd;
    let mut step = 0;
    while step < 5 {
        x = x.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(x)));
        step += 1;
    }
    x
}

/// The indirection map.
#[derive(Clone)]
pub struct BorgMap {
    pages: u64,
    slots: u32,
    shape: Shape,
    buckets: Vec<Bucket>,
    /// For each slot the bucket of its page, or one of two marks; the first word is unused.
    backward: Vec<u64>,
    dirty_bits: Vec<u64>,
    /// Pages that found no place in the table.
    overflow: BTreeMap<u64, Slot>,
    mapped: usize,
    dirty: usize,
}

/// A cache line. An entry is the slot plus one, and above it as much of the remainder of the page as fits; an empty one
/// is 0.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Bucket {
    tags: [u64; 2],
    entries: [u32; LANES as usize],
}

/// Widths of the parts, from the sizes of volume and BOPT.
#[derive(Clone, Copy)]
struct Shape {
    /// Page numbers and their hashes are the upper bits of a word; this many lower bits are 0.
    unused: u32,
    /// Half of the bits of a page number, rounded up.
    half: u32,
    buckets: u64,
    /// Hashes of one bucket differ in these bits, counted from the lowest that is used.
    rest_mask: u64,
    slot_bits: u32,
    /// Bits of the remainder in an entry. The others are stored beside the bucket's number in `backward`.
    remainder_bits: u32,
    bucket_bits: u32,
    backward_bits: u32,
}

/// A possible place of a page.
#[derive(Clone, Copy)]
struct Way {
    bucket: usize,
    tag: u64,
    /// Which of a page's two ways it is, and above that the part of its hash that follows from neither bucket nor tag.
    remainder: u64,
}

impl BorgMap {
    /// An empty map of a volume of `pages` pages over `slots` slots.
    pub fn new(pages: u64, slots: u32) -> BorgMap {
        let shape = Shape::new(pages, slots);
        let words = |bits: u64| vec![0; bits.div_ceil(64) as usize];
        let mut map = BorgMap {
            pages,
            slots,
            shape,
            buckets: vec![Bucket { tags: [0; 2], entries: [0; LANES as usize] }; shape.buckets as usize],
            backward: words(64 + u64::from(slots) * u64::from(shape.backward_bits)),
            dirty_bits: words(u64::from(slots)),
            overflow: BTreeMap::new(),
            mapped: 0,
            dirty: 0,
        };
        for slot in 0..slots {
            map.set_backward(slot, shape.unmapped(), 0);
        }
        map
    }

    /// Where the copy of a page is.
    ///
    /// Looks into both of its buckets, without a branch between: which one holds it is unpredictable, and a
    /// misprediction costs more than the second cache line.
    #[inline]
    pub fn slot_of(&self, page: u64) -> Option<Slot> {
        if page >= self.pages {
            return None;
        }
        let [first, second] = self.shape.ways(page);
        let mut matches = self.buckets[first.bucket].matches(first.tag)
            | self.buckets[second.bucket].matches(second.tag) >> 2;
        while matches != 0 {
            let bit = matches.trailing_zeros();
            let word = TAG_BITS - 1 - bit % TAG_BITS;
            let lane = word % 2 * WORD_TAGS + bit / TAG_BITS;
            let other = u64::from(word / 2).wrapping_neg();
            let bucket = first.bucket ^ (first.bucket ^ second.bucket) & other as usize;
            let remainder = first.remainder ^ (first.remainder ^ second.remainder) & other;
            if let Some(slot) = self.slot_in(bucket, lane, remainder) {
                return Some(slot);
            }
            matches &= matches - 1;
        }
        if self.overflow.is_empty() { None } else { self.overflow.get(&page).copied() }
    }

    /// Which page a slot holds.
    pub fn page_at(&self, slot: Slot) -> Option<u64> {
        let (bucket, _) = self.backward(slot);
        if bucket == self.shape.unmapped() {
            return None;
        }
        if bucket == self.shape.overflow() {
            return self.overflow.iter().find(|(_, there)| **there == slot).map(|(page, _)| *page);
        }
        let lane = self.lane_of(bucket, slot)?;
        self.entry(bucket, lane).map(|(_, page)| page)
    }

    /// Whether the copy in a slot is newer than the origin.
    pub fn is_dirty(&self, slot: Slot) -> bool {
        self.dirty_bits[slot as usize / 64] >> (slot % 64) & 1 == 1
    }

    /// Sets whether the copy in a slot is newer than the origin.
    pub fn set_dirty(&mut self, slot: Slot, dirty: bool) {
        let was = self.is_dirty(slot);
        self.dirty_bits[slot as usize / 64] ^= u64::from(was != dirty) << (slot % 64);
        self.dirty = self.dirty + usize::from(dirty) - usize::from(was);
    }

    /// Maps a page to a slot, and returns its former slot.
    ///
    /// # Panics
    /// If the slot holds a page: it would be lost.
    pub fn insert(&mut self, page: u64, slot: Slot, dirty: bool) -> Option<Slot> {
        assert!(page < self.pages, "found page {page}, expected one below {}", self.pages);
        assert!(self.backward(slot).0 == self.shape.unmapped(), "slot {slot} is taken");
        let was = self.remove(page);
        self.place(page, slot);
        self.set_dirty(slot, dirty);
        self.mapped += 1;
        was
    }

    /// Unmaps a page, and returns its slot.
    pub fn remove(&mut self, page: u64) -> Option<Slot> {
        let slot = self.slot_of(page)?;
        let (bucket, _) = self.backward(slot);
        if bucket == self.shape.overflow() {
            self.overflow.remove(&page);
        } else if let Some(lane) = self.lane_of(bucket, slot) {
            self.buckets[bucket].put(lane, 0, 0);
        }
        self.set_backward(slot, self.shape.unmapped(), 0);
        self.set_dirty(slot, false);
        self.mapped -= 1;
        Some(slot)
    }

    /// Number of pages that have a copy.
    pub fn mapped(&self) -> usize {
        self.mapped
    }

    /// Number of dirty copies.
    pub fn dirty(&self) -> usize {
        self.dirty
    }

    /// The slots that hold a page, in their order. Cheaper by far than looking for their pages; 64 slots without one
    /// are skipped at once.
    pub fn mapped_slots(&self) -> impl Iterator<Item = Slot> {
        let bits = self.shape.backward_bits;
        let mut empty = vec![0; 1 + bits as usize];
        for slot in 0..64 {
            write_bits(&mut empty, 64 + slot * u64::from(bits), bits, self.shape.unmapped() as u64);
        }
        let groups = self.backward[1..].chunks(bits as usize).zip(0_u32..);
        groups
            .filter(move |(group, _)| **group != empty[1..])
            .flat_map(|(_, group)| group * 64..self.slots.min(group * 64 + 64))
            .filter(|slot| self.backward(*slot).0 != self.shape.unmapped())
    }

    /// All copies as (slot, page, dirty), in order of slots.
    pub fn iter(&self) -> impl Iterator<Item = (Slot, u64, bool)> {
        self.mapped_slots().filter_map(|slot| Some((slot, self.page_at(slot)?, self.is_dirty(slot))))
    }

    /// Memory in use, in bytes.
    pub fn bytes(&self) -> u64 {
        let words = self.backward.len() + self.dirty_bits.len();
        let overflow = self.overflow.len() * size_of::<(u64, Slot)>();
        (size_of_val(&*self.buckets) + words * size_of::<u64>() + overflow) as u64
    }

    /// The slot in a lane whose tag matches, if the remainder matches too.
    #[inline]
    fn slot_in(&self, bucket: usize, lane: u32, remainder: u64) -> Option<Slot> {
        let entry = self.buckets[bucket].entries[lane as usize];
        let slot = self.shape.slot(entry)?;
        let in_entry =
            u64::from(entry) >> self.shape.slot_bits == remainder & ((1 << self.shape.remainder_bits) - 1);
        let spilled = remainder >> self.shape.remainder_bits;
        let spills = self.shape.backward_bits > self.shape.bucket_bits;
        (in_entry && (!spills || self.backward(slot).1 == spilled)).then_some(slot)
    }

    /// Inserts a page where there is room, or else displaces another, which is moved to its other bucket, and so on.
    fn place(&mut self, mut page: u64, mut slot: Slot) {
        let mut left = usize::MAX;
        for step in 0..MOVES {
            let ways = self.shape.ways(page);
            let [first, second] = ways.map(|way| self.buckets[way.bucket].empty());
            let choice = match (first, second) {
                ((0, _), (0, _)) => usize::from(ways[0].bucket == left),
                ((first, _), (second, _)) => usize::from(second > first),
            };
            let (room, lane) = [first, second][choice];
            let Way { bucket, tag, remainder } = ways[choice];
            let lane = if room > 0 { lane } else { (slot ^ step) % LANES };
            let evicted = self.entry(bucket, lane);
            let in_entry = (remainder & ((1 << self.shape.remainder_bits) - 1)) << self.shape.slot_bits;
            self.buckets[bucket].put(lane, tag, (slot + 1) | in_entry as u32);
            self.set_backward(slot, bucket, remainder >> self.shape.remainder_bits);
            let Some(evicted) = evicted else { return };
            (slot, page) = evicted;
            left = bucket;
        }
        self.set_backward(slot, self.shape.overflow(), 0);
        self.overflow.insert(page, slot);
    }

    /// The lane of a slot in its bucket.
    fn lane_of(&self, bucket: usize, slot: Slot) -> Option<u32> {
        let entries = self.buckets[bucket].entries;
        (0..LANES).find(|&lane| self.shape.slot(entries[lane as usize]) == Some(slot))
    }

    /// The slot and page of an entry, unless it is empty.
    fn entry(&self, bucket: usize, lane: u32) -> Option<(Slot, u64)> {
        let entry = self.buckets[bucket].entries[lane as usize];
        let slot = self.shape.slot(entry)?;
        let spilled = self.backward(slot).1 << self.shape.remainder_bits;
        let remainder = u64::from(entry) >> self.shape.slot_bits | spilled;
        let tag = self.buckets[bucket].tag(lane);
        Some((slot, self.shape.page(Way { bucket, tag, remainder })))
    }

    /// The bucket of a slot, or a mark, and the part of the remainder that had no room in the entry.
    fn backward(&self, slot: Slot) -> (usize, u64) {
        let bits = self.shape.backward_bits;
        let both = read_bits(&self.backward, 64 + u64::from(slot) * u64::from(bits), bits);
        ((both & ((1 << self.shape.bucket_bits) - 1)) as usize, both >> self.shape.bucket_bits)
    }

    fn set_backward(&mut self, slot: Slot, bucket: usize, spilled: u64) {
        let bits = self.shape.backward_bits;
        let both = bucket as u64 | spilled << self.shape.bucket_bits;
        write_bits(&mut self.backward, 64 + u64::from(slot) * u64::from(bits), bits, both);
    }
}

impl Bucket {
    /// The lanes whose tag is `tag`: the highest bit of each tag, shifted right by one for the second
    /// word. Empty lanes may be among them.
    #[inline]
    fn matches(&self, tag: u64) -> u64 {
        let tags = tag * ONES;
        let differ = |word: u64| (((word ^ tags) & LOWS) + LOWS) | word ^ tags;
        let [first, second] = self.tags;
        !differ(first) & HIGHS | (!differ(second) & HIGHS) >> 1
    }

    fn tag(&self, lane: u32) -> u64 {
        self.tags[(lane / WORD_TAGS) as usize] >> (lane % WORD_TAGS * TAG_BITS) & ((1 << TAG_BITS) - 1)
    }

    fn put(&mut self, lane: u32, tag: u64, entry: u32) {
        let bit = lane % WORD_TAGS * TAG_BITS;
        let word = &mut self.tags[(lane / WORD_TAGS) as usize];
        *word = *word & !(((1 << TAG_BITS) - 1) << bit) | tag << bit;
        self.entries[lane as usize] = entry;
    }

    /// Number of empty lanes, and one of them.
    fn empty(&self) -> (u32, u32) {
        let empty = (0..LANES).filter(|&lane| self.entries[lane as usize] == 0);
        empty.fold((0, 0), |(count, _), lane| (count + 1, lane))
    }
}

impl Shape {
    fn new(pages: u64, slots: u32) -> Shape {
        let page_bits = bits_of(pages.saturating_sub(1)).max(1);
        let slot_bits = bits_of(u64::from(slots));
        let buckets = (f64::from(slots) / (f64::from(LANES) * FULL)).ceil().max(1.0) as u64;
        let rest_bits = bits_of((1_u64 << page_bits).div_ceil(buckets) - 1);
        let needed_bits = 1 + rest_bits.saturating_sub(TAG_BITS);
        let remainder_bits = needed_bits.min(Slot::BITS - slot_bits);
        let bucket_bits = bits_of(buckets + 1);
        Shape {
            unused: u64::BITS - page_bits,
            half: page_bits.div_ceil(2),
            buckets,
            rest_mask: (1 << rest_bits) - 1,
            slot_bits,
            remainder_bits,
            bucket_bits,
            backward_bits: bucket_bits + needed_bits - remainder_bits,
        }
    }

    /// The mark of a slot that holds no page.
    fn unmapped(&self) -> usize {
        self.buckets as usize
    }

    /// The mark of a slot whose page found no place in the table.
    fn overflow(&self) -> usize {
        self.buckets as usize + 1
    }

    /// The slot of an entry, unless it is empty.
    #[inline]
    fn slot(&self, entry: u32) -> Option<Slot> {
        ((u64::from(entry) & ((1 << self.slot_bits) - 1)) as Slot).checked_sub(1)
    }

    /// The two places that a page may be in.
    #[inline]
    fn ways(&self, page: u64) -> [Way; 2] {
        let first = (page << self.unused).wrapping_mul(FACTORS[0]);
        let second = self.fold(first).wrapping_mul(FACTORS[1]);
        [self.way(first, 0), self.way(second, 1)]
    }

    /// XORs the upper half of a hash into the lower; its own inverse.
    #[inline]
    fn fold(&self, hash: u64) -> u64 {
        hash ^ hash >> self.half & u64::MAX << self.unused
    }

    #[inline]
    fn way(&self, hash: u64, which: u64) -> Way {
        let bucket = ((u128::from(hash) * u128::from(self.buckets)) >> 64) as usize;
        let rest = hash >> self.unused & self.rest_mask;
        Way { bucket, tag: rest & ((1 << TAG_BITS) - 1), remainder: rest >> TAG_BITS << 1 | which }
    }

    /// Undoes [`Shape::ways`].
    fn page(&self, way: Way) -> u64 {
        // The hashes of a bucket are adjacent, and fewer than the remainder can distinguish.
        let least = ((way.bucket as u128) << 64).div_ceil(u128::from(self.buckets)) as u64;
        let least = least.div_ceil(1 << self.unused);
        let rest = way.remainder >> 1 << TAG_BITS | way.tag;
        let mut hash = (least + (rest.wrapping_sub(least) & self.rest_mask)) << self.unused;
        if way.remainder & 1 == 1 {
            hash = self.fold(hash.wrapping_mul(INVERSES[1]));
        }
        hash.wrapping_mul(INVERSES[0]) >> self.unused
    }
}

/// Bits that a number needs.
fn bits_of(number: u64) -> u32 {
    64 - number.leading_zeros()
}

/// Reads `width` bits, fewer than 64, from bit `at` on; there is a word before the last of them.
#[inline]
fn read_bits(words: &[u64], at: u64, width: u32) -> u64 {
    // Always two words, to avoid a branch.
    let word = (at as usize + width as usize - 1) / 64 - 1;
    let both = u128::from(words[word]) | u128::from(words[word + 1]) << 64;
    (both >> (at - word as u64 * 64)) as u64 & ((1 << width) - 1)
}

/// Writes `width` bits, fewer than 64, from bit `at` on; there is a word before the last of them.
fn write_bits(words: &mut [u64], at: u64, width: u32, bits: u64) {
    let word = (at as usize + width as usize - 1) / 64 - 1;
    let shift = at - word as u64 * 64;
    let both = u128::from(words[word]) | u128::from(words[word + 1]) << 64;
    let both = both & !(((1 << width) - 1) << shift) | u128::from(bits) << shift;
    (words[word], words[word + 1]) = (both as u64, (both >> 64) as u64);
}

#[cfg(test)]
mod tests;
