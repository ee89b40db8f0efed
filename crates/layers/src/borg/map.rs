//! `borg_map` (section 4.6): where the copy of a page is, which page a slot holds, and whether the
//! copy is newer than home.
//!
//! Instead of the paper's radix tree, whose leaves are mostly empty when pages are scattered, a hash
//! table of buckets of a cache line, 92 % full at the most, for any distribution of pages and any
//! size of volume. A page has two buckets that it may be in, as in cuckoo hashing; a lookup looks
//! into both. The hashes are bijections of the page number, so what the bucket's number says of a
//! page need not be stored in it (quotienting), and what is found is certain: nothing else has to be
//! asked. Backward, each slot names the bucket that its page is in.
//!
//! Memory: 8.16 bytes a slot for 8 GiB of BOPT on volumes below 256 TiB: 0.2 % of the BOPT. After
//! [`BorgMap::new`] nothing is allocated, but for pages that find no place near either bucket; those
//! go to an ordered map, and only numbers made to collide do.
//!
//! Invariants: `slot_of` and `page_at` are inverses; a slot without a page is clean; `mapped` and
//! `dirty` are kept, not counted. It is in memory only and is rebuilt after a crash.

use std::collections::BTreeMap;

/// A page's place in the BOPT, counted over read cache and write buffer.
pub type Slot = u32;

/// 64-bit words of a bucket: a cache line.
const WORDS: usize = 8;
/// Words of a bucket that hold tags, four in each; entries are in the others.
const TAG_WORDS: usize = 3;
/// Entries of a bucket, if they are narrow enough.
const LANES: u32 = 4 * TAG_WORDS as u32;
/// Bits of a tag: the part of a page that a lookup compares first.
const TAG_BITS: u32 = 16;
/// How full the table is when all slots are mapped.
const FULL: f64 = 0.92;
/// Entries that an insertion may move out of each other's way.
const MOVES: u32 = 256;

/// A one in each lane of a word, and the highest bit of each.
const ONES: u64 = 0x0001_0001_0001_0001;
const HIGHS: u64 = ONES << 15;

/// Odd, so that multiplication modulo a power of two can be undone; the bits are those of square
/// roots and the golden ratio.
const FACTORS: [u64; 3] = [0x9E37_79B9_7F4A_7C15, 0x6A09_E667_F3BC_C909, 0xBB67_AE85_84CA_A73B];
const INVERSES: [u64; 3] = [inverse(FACTORS[0]), inverse(FACTORS[1]), inverse(FACTORS[2])];

/// The number that undoes a multiplication by `odd` modulo 2^64 (Newton's iteration).
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
pub struct BorgMap {
    pages: u64,
    slots: u32,
    shape: Shape,
    buckets: Vec<Bucket>,
    /// For each slot the bucket that its page is in, or one of two marks.
    backward: Vec<u64>,
    dirty_bits: Vec<u64>,
    /// Pages that found no place in the table.
    homeless: BTreeMap<u64, Slot>,
    mapped: usize,
    dirty: usize,
}

/// Tags, then entries: the slot plus one, which of the page's two buckets this is, and what of the
/// page neither the bucket's number nor the tag says. An empty entry is 0.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Bucket([u64; WORDS]);

/// How many bits each thing has; follows from the sizes of volume and BOPT.
#[derive(Clone, Copy)]
struct Shape {
    /// Page numbers are hashed to numbers of as many bits.
    page_mask: u64,
    /// Half of them, rounded up.
    half: u32,
    /// The hash shifted right by so much, times the buckets, shifted right by so much.
    shifts: [u32; 2],
    buckets: u64,
    /// Hashes of one bucket differ in these bits.
    rest_mask: u64,
    slot_bits: u32,
    entry_bits: u32,
    lanes: u32,
    /// Bits of a bucket's number, or a mark.
    backward_bits: u32,
}

/// Where a page may be.
#[derive(Clone, Copy)]
struct Way {
    bucket: usize,
    /// What distinguishes it there.
    rest: u64,
}

/// Where a page is.
struct Found {
    slot: Slot,
    /// Bucket and lane; `None` if it is homeless.
    at: Option<(usize, u32)>,
}

impl BorgMap {
    /// An empty map of a volume of `pages` pages over `slots` slots.
    pub fn new(pages: u64, slots: u32) -> BorgMap {
        let shape = Shape::new(pages, slots);
        let words = |bits: u64| vec![0; bits.div_ceil(64) as usize + 1];
        let mut map = BorgMap {
            pages,
            slots,
            shape,
            buckets: vec![Bucket([0; WORDS]); shape.buckets as usize],
            backward: words(u64::from(slots) * u64::from(shape.backward_bits)),
            dirty_bits: words(u64::from(slots)),
            homeless: BTreeMap::new(),
            mapped: 0,
            dirty: 0,
        };
        for slot in 0..slots {
            map.set_backward(slot, shape.unmapped());
        }
        map
    }

    /// Where the copy of a page is.
    pub fn slot_of(&self, page: u64) -> Option<Slot> {
        self.find(page).map(|found| found.slot)
    }

    /// Which page a slot holds.
    pub fn page_at(&self, slot: Slot) -> Option<u64> {
        let bucket = self.backward(slot);
        if bucket == self.shape.unmapped() {
            return None;
        }
        if bucket == self.shape.homeless() {
            return self.homeless.iter().find(|(_, there)| **there == slot).map(|(page, _)| *page);
        }
        let lanes = 0..self.shape.lanes;
        let mut pages = lanes.filter_map(|lane| self.entry(bucket as usize, lane));
        pages.find(|(there, _)| *there == slot).map(|(_, page)| page)
    }

    /// Whether the copy in a slot is newer than home.
    pub fn is_dirty(&self, slot: Slot) -> bool {
        self.dirty_bits[slot as usize / 64] >> (slot % 64) & 1 == 1
    }

    /// Says whether the copy in a slot is newer than home.
    pub fn set_dirty(&mut self, slot: Slot, dirty: bool) {
        let was = self.is_dirty(slot);
        self.dirty_bits[slot as usize / 64] ^= u64::from(was != dirty) << (slot % 64);
        self.dirty = self.dirty + usize::from(dirty) - usize::from(was);
    }

    /// Maps a page to a slot.
    ///
    /// # Panics
    /// When the slot holds another page: a page would be lost.
    pub fn insert(&mut self, page: u64, slot: Slot, dirty: bool) {
        assert!(page < self.pages, "found page {page}, expected one below {}", self.pages);
        assert!(self.backward(slot) == self.shape.unmapped(), "slot {slot} is taken");
        self.remove(page);
        self.place(page, slot);
        self.set_dirty(slot, dirty);
        self.mapped += 1;
    }

    /// Forgets the copy of a page, and says where it was.
    pub fn remove(&mut self, page: u64) -> Option<Slot> {
        let found = self.find(page)?;
        if let Some((bucket, lane)) = found.at {
            self.buckets[bucket].put(&self.shape, lane, 0, 0);
        } else {
            self.homeless.remove(&page);
        }
        self.set_backward(found.slot, self.shape.unmapped());
        self.set_dirty(found.slot, false);
        self.mapped -= 1;
        Some(found.slot)
    }

    /// How many pages have a copy.
    pub fn mapped(&self) -> usize {
        self.mapped
    }

    /// How many copies are newer than home.
    pub fn dirty(&self) -> usize {
        self.dirty
    }

    /// All copies as (slot, page, dirty), in order of slots.
    pub fn iter(&self) -> impl Iterator<Item = (Slot, u64, bool)> {
        (0..self.slots).filter_map(|slot| Some((slot, self.page_at(slot)?, self.is_dirty(slot))))
    }

    /// Memory in use, in bytes.
    pub fn bytes(&self) -> u64 {
        let words = WORDS * self.buckets.len() + self.backward.len() + self.dirty_bits.len();
        let homeless = self.homeless.len() * size_of::<(u64, Slot)>();
        (words * size_of::<u64>() + homeless) as u64
    }

    /// Looks into both buckets of a page, without a branch between: which one it is in cannot be
    /// foretold, and a wrong guess costs more than the other line.
    #[inline]
    fn find(&self, page: u64) -> Option<Found> {
        if page >= self.pages {
            return None;
        }
        let ways = self.shape.ways(page);
        let [first, second] = ways.map(|way| self.buckets[way.bucket].matches(way.rest as u16));
        // Lanes of a word are 16 bits apart; from the top, the words of the first bucket, then the other's.
        let mut matches = first | second >> TAG_WORDS;
        while matches != 0 {
            let bit = matches.trailing_zeros();
            let word = 15 - bit % 16;
            let choice = u32::from(word >= TAG_WORDS as u32);
            let lane = (word - choice * TAG_WORDS as u32) * 4 + bit / 16;
            let way = ways[choice as usize];
            let entry = self.buckets[way.bucket].entry(&self.shape, lane);
            let slot = entry & ((1 << self.shape.slot_bits) - 1);
            if slot != 0 && entry >> self.shape.slot_bits == u64::from(choice) | way.rest >> TAG_BITS << 1 {
                return Some(Found { slot: (slot - 1) as Slot, at: Some((way.bucket, lane)) });
            }
            matches &= matches - 1;
        }
        if self.homeless.is_empty() {
            return None;
        }
        self.homeless.get(&page).map(|slot| Found { slot: *slot, at: None })
    }

    /// Puts a page where there is room. Without any, it takes another's place, which is put into its
    /// own other bucket, and so on.
    fn place(&mut self, mut page: u64, mut slot: Slot) {
        let mut left = usize::MAX;
        for step in 0..MOVES {
            let ways = self.shape.ways(page);
            let [first, second] = ways.map(|way| self.buckets[way.bucket].empty(&self.shape));
            let choice = match (first, second) {
                ((0, _), (0, _)) => usize::from(ways[0].bucket == left),
                ((first, _), (second, _)) => usize::from(second > first),
            };
            let (room, lane) = [first, second][choice];
            let bucket = ways[choice].bucket;
            let lane = if room > 0 { lane } else { (slot ^ step) % self.shape.lanes };
            let evicted = self.entry(bucket, lane);
            let entry = u64::from(slot) + 1
                | (choice as u64 | ways[choice].rest >> TAG_BITS << 1) << self.shape.slot_bits;
            self.buckets[bucket].put(&self.shape, lane, ways[choice].rest as u16, entry);
            self.set_backward(slot, bucket as u64);
            let Some(evicted) = evicted else { return };
            (slot, page) = evicted;
            left = bucket;
        }
        self.set_backward(slot, self.shape.homeless());
        self.homeless.insert(page, slot);
    }

    /// The slot and page of an entry, unless it is empty.
    fn entry(&self, bucket: usize, lane: u32) -> Option<(Slot, u64)> {
        let entry = self.buckets[bucket].entry(&self.shape, lane);
        let slot = (entry & ((1 << self.shape.slot_bits) - 1)).checked_sub(1)?;
        let said = entry >> self.shape.slot_bits;
        let rest = said >> 1 << TAG_BITS | u64::from(self.buckets[bucket].tag(lane));
        Some((slot as Slot, self.shape.page(Way { bucket, rest }, said & 1 == 1)))
    }

    fn backward(&self, slot: Slot) -> u64 {
        let bits = self.shape.backward_bits;
        read_bits(&self.backward, u64::from(slot) * u64::from(bits), bits)
    }

    fn set_backward(&mut self, slot: Slot, bucket: u64) {
        let bits = self.shape.backward_bits;
        write_bits(&mut self.backward, u64::from(slot) * u64::from(bits), bits, bucket);
    }
}

impl Bucket {
    /// The lanes whose tag is `tag`: their highest bit, the second word's shifted right by one and so
    /// on. Lanes that are not in use may be among them.
    #[inline]
    fn matches(&self, tag: u16) -> u64 {
        let tags = u64::from(tag) * ONES;
        let differ = |word: u64| (((word ^ tags) & !HIGHS) + !HIGHS | word ^ tags) & HIGHS;
        let [a, b, c, ..] = self.0;
        (differ(a) | differ(b) >> 1 | differ(c) >> 2) ^ (HIGHS | HIGHS >> 1 | HIGHS >> 2)
    }

    fn tag(&self, lane: u32) -> u16 {
        (self.0[lane as usize / 4] >> (lane % 4 * TAG_BITS)) as u16
    }

    #[inline]
    fn entry(&self, shape: &Shape, lane: u32) -> u64 {
        read_bits(&self.0[TAG_WORDS..], u64::from(lane * shape.entry_bits), shape.entry_bits)
    }

    fn put(&mut self, shape: &Shape, lane: u32, tag: u16, entry: u64) {
        let bit = u64::from(lane * TAG_BITS);
        write_bits(&mut self.0[..TAG_WORDS], bit, TAG_BITS, u64::from(tag));
        let bit = u64::from(lane * shape.entry_bits);
        write_bits(&mut self.0[TAG_WORDS..], bit, shape.entry_bits, entry);
    }

    /// How many lanes are empty, and one of them.
    fn empty(&self, shape: &Shape) -> (u32, u32) {
        let empty = (0..shape.lanes).filter(|&lane| self.entry(shape, lane) == 0);
        empty.fold((0, 0), |(count, _), lane| (count + 1, lane))
    }
}

impl Shape {
    fn new(pages: u64, slots: u32) -> Shape {
        let page_bits = (64 - pages.saturating_sub(1).leading_zeros()).max(1);
        let slot_bits = 32 - slots.leading_zeros();
        // Of the hash, the upper 32 bits say the bucket.
        let upper = page_bits.min(32);
        let mut lanes = LANES;
        loop {
            let buckets = (f64::from(slots) / (f64::from(lanes) * FULL)).ceil().max(1.0) as u64;
            let rest_bits = bits_of((1_u64 << upper).div_ceil(buckets) - 1) + page_bits - upper;
            let entry_bits = slot_bits + 1 + rest_bits.saturating_sub(TAG_BITS);
            if lanes * entry_bits <= 64 * (WORDS - TAG_WORDS) as u32 {
                return Shape {
                    page_mask: (1 << page_bits) - 1,
                    half: page_bits.div_ceil(2),
                    shifts: [page_bits - upper, upper],
                    buckets,
                    rest_mask: (1 << rest_bits) - 1,
                    slot_bits,
                    entry_bits,
                    lanes,
                    backward_bits: bits_of(buckets + 1),
                };
            }
            lanes -= 1;
        }
    }

    /// The mark of a slot that holds no page.
    fn unmapped(&self) -> u64 {
        self.buckets
    }

    /// The mark of a slot whose page found no place in the table.
    fn homeless(&self) -> u64 {
        self.buckets + 1
    }

    /// The two buckets that a page may be in.
    #[inline]
    fn ways(&self, page: u64) -> [Way; 2] {
        let once = page.wrapping_mul(FACTORS[0]) & self.page_mask;
        let first = (once ^ once >> self.half).wrapping_mul(FACTORS[1]) & self.page_mask;
        let second = (first ^ first >> self.half).wrapping_mul(FACTORS[2]) & self.page_mask;
        [self.way(first), self.way(second)]
    }

    #[inline]
    fn way(&self, hash: u64) -> Way {
        let bucket = (hash >> self.shifts[0]) * self.buckets >> self.shifts[1];
        Way { bucket: bucket as usize, rest: hash & self.rest_mask }
    }

    /// Undoes [`Shape::ways`].
    fn page(&self, way: Way, second: bool) -> u64 {
        // The hashes of a bucket are neighbours, and fewer than the rest can tell apart.
        let least = ((way.bucket as u64) << self.shifts[1]).div_ceil(self.buckets) << self.shifts[0];
        let above = way.rest.wrapping_sub(least) & self.rest_mask;
        let undo = |hash: u64, inverse: u64| hash.wrapping_mul(inverse) & self.page_mask;
        let unshift = |hash: u64| hash ^ hash >> self.half;
        let mut hash = least + above;
        if second {
            hash = unshift(undo(hash, INVERSES[2]));
        }
        undo(unshift(undo(hash, INVERSES[1])), INVERSES[0])
    }
}

/// Bits that a number needs.
fn bits_of(number: u64) -> u32 {
    64 - number.leading_zeros()
}

/// Reads `width` bits, fewer than 64, from bit `at` on; there are at least two words.
#[inline]
fn read_bits(words: &[u64], at: u64, width: u32) -> u64 {
    // Always two words, so that no branch asks whether the bits go on in the next.
    let word = (at as usize / 64).min(words.len() - 2);
    let both = u128::from(words[word]) | u128::from(words[word + 1]) << 64;
    (both >> (at - word as u64 * 64)) as u64 & ((1 << width) - 1)
}

/// Writes `width` bits, fewer than 64, from bit `at` on.
fn write_bits(words: &mut [u64], at: u64, width: u32, bits: u64) {
    let (word, shift) = (at as usize / 64, at as u32 % 64);
    let mask = (1_u64 << width) - 1;
    words[word] = words[word] & !(mask << shift) | bits << shift;
    if shift + width > 64 {
        let next = &mut words[word + 1];
        *next = *next & !(mask >> (64 - shift)) | bits >> (64 - shift);
    }
}

#[cfg(test)]
mod tests;
