//! Tests of messages, rings, chains, and of the area of requests in flight.

use std::collections::BTreeMap;
use std::rc::Rc;

use proptest::prelude::*;

use super::chain::{gather, scatter};
use super::message::{Area, HEADER_BYTES, Header, Message};
use super::*;

const MEMORY: usize = 1 << 20;
const AT: Addresses = Addresses { descriptors: 0x1000, available: 0x8000, used: 0xa000 };

fn memory() -> GuestMemory {
    GuestMemory::zeroed(&[(0, MEMORY)]).unwrap()
}

/// Puts a descriptor into the table at `table`.
fn put(memory: &GuestMemory, table: u64, index: u16, at: u64, bytes: u32, flags: u16, next: u16) {
    let mut descriptor = Vec::new();
    descriptor.extend(at.to_le_bytes());
    descriptor.extend(bytes.to_le_bytes());
    descriptor.extend(flags.to_le_bytes());
    descriptor.extend(next.to_le_bytes());
    memory.write(table + u64::from(index) * 16, &descriptor).unwrap();
}

/// Makes heads available, as a guest does.
fn offer(memory: &GuestMemory, entries: u16, heads: &[u16]) {
    for head in heads {
        let index = memory.load(AT.available + 2).unwrap();
        memory.store(AT.available + 4 + 2 * u64::from(index % entries), *head).unwrap();
        memory.store(AT.available + 2, index.wrapping_add(1)).unwrap();
    }
}

#[test]
fn a_chain_is_read_with_its_parts_in_order_and_through_a_table_of_its_own() {
    let memory = memory();
    put(&memory, AT.descriptors, 3, 0x2_0000, 16, 1, 5);
    put(&memory, AT.descriptors, 5, 0x3_0000, 100, 1 | 2, 0);
    put(&memory, AT.descriptors, 0, 0x4_0000, 1, 2, 0);
    let chain = Chain::read(&memory, AT.descriptors, 8, 3).unwrap();
    assert_eq!(chain.readable(), [Segment { at: 0x2_0000, bytes: 16 }]);
    assert_eq!(chain.writable(), [Segment { at: 0x3_0000, bytes: 100 }, Segment { at: 0x4_0000, bytes: 1 }]);
    // The same in a table outside of the ring's.
    put(&memory, AT.descriptors, 7, 0x5_0000, 48, 4, 0);
    put(&memory, 0x5_0000, 0, 0x2_0000, 16, 1, 2);
    put(&memory, 0x5_0000, 2, 0x3_0000, 100, 1 | 2, 1);
    put(&memory, 0x5_0000, 1, 0x4_0000, 1, 2, 0);
    assert_eq!(Chain::read(&memory, AT.descriptors, 8, 7).unwrap(), chain);
    // Bytes are copied over the borders of parts.
    let bytes: Vec<u8> = (0..50).collect();
    scatter(&memory, chain.writable(), 51, &bytes).unwrap();
    let mut back = vec![0; 50];
    gather(&memory, chain.writable(), 51, &mut back).unwrap();
    assert_eq!((back, memory_byte(&memory, 0x4_0000)), (bytes, 49));
    assert!(scatter(&memory, chain.writable(), 52, &[0; 50]).is_err(), "one byte more than there are");
}

fn memory_byte(memory: &GuestMemory, at: u64) -> u8 {
    let mut byte = [0];
    memory.read(at, &mut byte).unwrap();
    byte[0]
}

/// Index, address, bytes, flags and next of a descriptor.
type Descriptor = (u16, u64, u32, u16, u16);

#[test]
fn a_malformed_chain_says_what_is_wrong_with_it() {
    let end = MEMORY as u64;
    // The descriptors, and words of the error for head 0.
    let cases: [(&[Descriptor], [&str; 2]); 9] = [
        (&[(0, 0, 16, 1, 8)], ["found 8", "below 8"]),
        (&[(0, 0, 16, 1, 1), (1, 0, 1, 1, 0)], ["no end", "at most 1024"]),
        (&[(0, end - 8, 16, 0, 0)], ["16 bytes at 0xffff8", "memory of the guest"]),
        (&[(0, u64::MAX, 16, 0, 0)], ["0xffffffffffffffff", "memory of the guest"]),
        (&[(0, 0, 16, 3, 1), (1, 0, 16, 0, 0)], ["a part to read after one to write", "first"]),
        (&[(0, 0x5_0000, 40, 4, 0)], ["a table of 40 bytes", "16 bytes"]),
        (&[(0, 0x5_0000, 0, 4, 0)], ["a table of 0 bytes", "1 to 1024"]),
        (&[(0, 0x5_0000, 16, 5, 1)], ["a table and a next", "one of them"]),
        (&[(0, AT.descriptors, 16, 4, 0)], ["a table in a table", "a part of memory"]),
    ];
    for (descriptors, words) in cases {
        let memory = memory();
        for (index, at, bytes, flags, next) in descriptors {
            put(&memory, AT.descriptors, *index, *at, *bytes, *flags, *next);
        }
        let why = Chain::read(&memory, AT.descriptors, 8, 0).unwrap_err().to_string();
        assert!(words.iter().all(|word| why.contains(word)), "no {words:?} in {why}");
    }
}

#[test]
fn a_ring_gives_each_head_once_and_wraps() {
    let memory = memory();
    for by_index in [false, true] {
        // Indices near their end.
        memory.store(AT.available + 2, 65_530).unwrap();
        memory.store(AT.used + 2, 65_530).unwrap();
        let mut ring = Ring::new(&memory, AT, 8, 65_530, by_index).unwrap();
        for round in 0..5_u16 {
            let heads: Vec<u16> = (0..4).map(|number| (round + number) % 8).collect();
            offer(&memory, 8, &heads);
            let taken: Vec<u16> = std::iter::from_fn(|| ring.take(&memory).unwrap()).collect();
            assert_eq!(taken, heads);
            for head in heads {
                let index = ring.used_index();
                ring.put_used(&memory, head, u32::from(head) + 1).unwrap();
                let slot = AT.used + 4 + 8 * u64::from(index % 8);
                assert_eq!(memory.load(slot).unwrap(), head);
                assert_eq!(memory.load(slot + 4).unwrap(), head + 1);
                assert_eq!(memory.load(AT.used + 2).unwrap(), index.wrapping_add(1));
            }
        }
        memory.store(AT.available + 2, ring.next_available().wrapping_add(9)).unwrap();
        let why = ring.take(&memory).unwrap_err().to_string();
        assert!(why.contains("found 9 heads, expected at most 8"), "{why}");
    }
    offer(&memory, 8, &[8]);
    let next = memory.load(AT.available + 2).unwrap().wrapping_sub(1);
    let why = Ring::new(&memory, AT, 8, next, false).unwrap().take(&memory).unwrap_err().to_string();
    assert!(why.contains("found head 8, expected below 8"), "{why}");
}

#[test]
fn a_guest_is_notified_as_it_wishes() {
    let memory = memory();
    let mut ring = Ring::new(&memory, AT, 8, 0, false).unwrap();
    assert!(!ring.wants_notice(&memory).unwrap(), "nothing was answered");
    ring.put_used(&memory, 1, 0).unwrap();
    assert!(ring.wants_notice(&memory).unwrap());
    memory.store(AT.available, 1).unwrap();
    ring.put_used(&memory, 2, 0).unwrap();
    assert!(!ring.wants_notice(&memory).unwrap(), "it asked for none");
    ring.wish_for_kicks(&memory, false).unwrap();
    assert_eq!(memory.load(AT.used).unwrap(), 1);
    ring.wish_for_kicks(&memory, true).unwrap();
    assert_eq!(memory.load(AT.used).unwrap(), 0);
    // By index: at the third answer from here.
    let mut ring = Ring::new(&memory, AT, 8, 0, true).unwrap();
    memory.store(AT.available + 4 + 16, ring.used_index() + 2).unwrap();
    let mut notices = Vec::new();
    for _ in 0..4 {
        ring.put_used(&memory, 1, 0).unwrap();
        notices.push(ring.wants_notice(&memory).unwrap());
    }
    assert_eq!(notices, [false, false, true, false]);
    ring.skip_to(77);
    ring.wish_for_kicks(&memory, true).unwrap();
    assert_eq!(memory.load(AT.used + 4 + 64).unwrap(), 77);
}

#[test]
fn a_ring_that_cannot_be_is_refused() {
    let memory = memory();
    let cases = [
        (AT, 0, "0 entries"),
        (AT, 6, "6 entries"),
        (AT, 2048, "2048 entries"),
        (Addresses { descriptors: MEMORY as u64 - 64, ..AT }, 8, "descriptor table"),
        (Addresses { available: 0x8001, ..AT }, 8, "a multiple of 2"),
        (Addresses { used: u64::MAX - 4, ..AT }, 8, "used ring"),
    ];
    for (at, entries, word) in cases {
        let why = Ring::new(&memory, at, entries, 0, false).unwrap_err().to_string();
        assert!(why.contains(word), "no '{word}' in {why}");
    }
}

/// Takes and answers heads until the area takes no more stores.
fn run(memory: &GuestMemory, ring: &mut Ring, track: &mut Track, order: &[usize]) -> Result<(), Malformed> {
    let mut taken = track.recover(ring.used_index())?;
    ring.skip_to(ring.used_index().wrapping_add(taken.len() as u16));
    for turn in order.iter().cycle() {
        while taken.len() < 4 {
            let Some(head) = ring.take(memory)? else { break };
            track.begin(head)?;
            taken.push(head);
        }
        if taken.is_empty() {
            return Ok(());
        }
        let head = taken.remove(turn % taken.len());
        track.answer(head)?;
        ring.put_used(memory, head, 1)?;
        track.end(head, ring.used_index())?;
    }
    Ok(())
}

#[test]
fn a_server_that_is_killed_at_any_store_has_answered_each_head_once_after_the_next_one() {
    let heads: Vec<u16> = (0..8).collect();
    let mut stores = 0;
    loop {
        let memory = memory();
        offer(&memory, 8, &heads);
        let (file, area) = Inflight::create(2, 8).unwrap();
        let open = |left: usize| {
            let opened = Inflight::open(file.try_clone().unwrap(), &area).unwrap();
            opened.stores_left.set(left);
            opened.track(1, 8).unwrap()
        };
        let mut killed = false;
        // Killed twice, then not any more.
        for left in [stores, stores / 3 + 1, usize::MAX] {
            let (mut ring, mut track) = (Ring::new(&memory, AT, 8, 0, false).unwrap(), open(left));
            killed |= run(&memory, &mut ring, &mut track, &[2, 0, 3, 1]).is_err();
        }
        let answered = memory.load(AT.used + 2).unwrap();
        let mut times: BTreeMap<u16, u32> = BTreeMap::new();
        for slot in 0..answered {
            *times.entry(memory.load(AT.used + 4 + 8 * u64::from(slot)).unwrap()).or_default() += 1;
        }
        let once: BTreeMap<u16, u32> = heads.iter().map(|head| (*head, 1)).collect();
        assert_eq!(times, once, "killed after {stores} stores");
        assert!(open(usize::MAX).recover(answered).unwrap().is_empty(), "nothing is in flight");
        if !killed {
            break;
        }
        stores += 1;
    }
    assert!(stores > 40, "only {stores} stores");
}

#[test]
fn the_heads_of_a_killed_server_come_in_the_order_in_which_it_took_them() {
    let (file, area) = Inflight::create(1, 16).unwrap();
    let open = || Inflight::open(file.try_clone().unwrap(), &area).unwrap().track(0, 16).unwrap();
    let mut track = open();
    assert!(track.recover(7).unwrap().is_empty());
    for head in [9, 2, 15, 0, 4] {
        track.begin(head).unwrap();
    }
    track.answer(15).unwrap();
    track.end(15, 8).unwrap();
    let mut next = open();
    assert_eq!(next.recover(8).unwrap(), [9, 2, 0, 4]);
    // What it takes itself comes after those.
    next.begin(1).unwrap();
    assert!(next.has(1).unwrap() && !next.has(15).unwrap());
    assert_eq!(open().recover(8).unwrap(), [9, 2, 0, 4, 1]);
}

#[test]
fn an_area_that_cannot_be_is_refused_and_the_guests_choice_is_kept() {
    for (rings, entries) in [(0, 8), (65, 8), (1, 0), (1, 2048)] {
        assert!(Inflight::create(rings, entries).is_err());
    }
    let (file, area) = Inflight::create(2, 8).unwrap();
    let open = |area: &Area| Inflight::open(file.try_clone().unwrap(), area);
    for wrong in [
        Area { bytes: 64, ..area },
        Area { bytes: 1 << 40, ..area },
        Area { offset: u64::MAX, ..area },
        Area { entries: 64, ..area },
    ] {
        assert!(open(&wrong).is_err(), "{wrong:?}");
    }
    let opened = open(&area).unwrap();
    assert_eq!((opened.write_back(), opened.is_new()), (None, true));
    opened.note_write_back(false).unwrap();
    opened.track(1, 8).unwrap().recover(0).unwrap();
    let opened = open(&area).unwrap();
    assert_eq!((opened.write_back(), opened.is_new()), (Some(false), false));
    assert!(opened.track(2, 8).is_err() && opened.track(0, 16).is_err());
    let mut other = opened.track(1, 4).unwrap();
    assert!(other.recover(0).unwrap_err().to_string().contains("for 8 entries"));
    // Of an area of another server there is no choice, and no room for one.
    let theirs = Inflight::open(file.try_clone().unwrap(), &Area { bytes: area.bytes - 8, ..area }).unwrap();
    theirs.note_write_back(true).unwrap();
    assert_eq!(theirs.write_back(), None);
    assert_eq!(opened.write_back(), Some(false));
}

/// The bytes of a message.
fn bytes(request: u32, flags: u32, payload: &[u8]) -> Vec<u8> {
    let words = [request, flags, payload.len() as u32].map(u32::to_ne_bytes).concat();
    [&words, payload].concat()
}

/// Reads a message as the server does.
fn read(bytes: &[u8], descriptors: usize) -> Result<Message, Malformed> {
    let header = Header::read(bytes.first_chunk::<HEADER_BYTES>().unwrap())?;
    Message::read(header, &bytes[HEADER_BYTES..][..header.bytes.min(bytes.len() - HEADER_BYTES)], descriptors)
}

#[test]
fn messages_are_read_and_wrong_ones_say_why() {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
    assert_eq!(read(&bytes(8, 1, &words(&[3, 256])), 0), Ok(Message::SetVringNum { ring: 3, entries: 256 }));
    assert_eq!(read(&bytes(12, 1, &message::number(2)), 1), Ok(Message::SetVringKick { ring: 2 }));
    assert_eq!(read(&bytes(13, 9, &message::number(0x102)), 0), Ok(Message::SetVringCall { ring: 2 }));
    let area = Area { bytes: 5, offset: 6, rings: 7, entries: 8 };
    let header = Header { request: 31, needs_reply: false, bytes: 24 };
    assert_eq!(read(&bytes(31, 1, &message::area(&area, header)), 0), Ok(Message::GetInflightFd(area)));
    let cases = [
        (bytes(1, 2, &[]), 0, "version 2"),
        (bytes(1, 5, &[]), 0, "a reply"),
        (bytes(1, 1, &[0]), 0, "1 bytes after the end"),
        (bytes(1, 1, &[]), 1, "1 descriptors"),
        (bytes(2, 1, &[0; 7]), 0, "7 bytes"),
        (bytes(5, 1, &words(&[9, 0])), 0, "9 regions"),
        (bytes(6, 1, &[0; 16]), 0, "request 6"),
        (bytes(8, 1, &words(&[64, 1])), 0, "ring 64"),
        (bytes(8, 1, &words(&[0, 65_536])), 0, "65536"),
        (bytes(12, 1, &message::number(2)), 0, "0 descriptors"),
        (bytes(25, 1, &message::config(32, 0, &[1, 2])[..13]), 0, "1 bytes of configuration"),
        (bytes(24, 1, &[0; 600]), 0, "600 bytes"),
        (bytes(99, 1, &[]), 0, "request 99"),
    ];
    for (bytes, descriptors, word) in cases {
        let why = read(&bytes, descriptors).unwrap_err().to_string();
        assert!(why.contains(word) && why.contains("expected"), "no '{word}' in {why}");
    }
}

#[test]
fn configuration_space_has_the_device() {
    let geometry = seekless_core::Geometry {
        sectors: 1 << 20,
        logical_sectors: 1,
        physical_sectors: 8,
        ..seekless_core::Geometry::of_memory(1 << 20)
    };
    let space = block::config(&geometry, false);
    let word = |at: usize| u32::from_le_bytes(chain::field(&space, at));
    assert_eq!(space.len(), 60);
    assert_eq!(u64::from_le_bytes(chain::field(&space, 0)), 1 << 20);
    assert_eq!(
        (word(20), space[24], space[32], u16::from_le_bytes(chain::field(&space, 34))),
        (512, 3, 0, 64)
    );
    assert_eq!(block::config(&geometry, true)[block::WRITE_BACK_AT as usize], 1);
    assert!(u64::from(word(8)) * u64::from(word(12)) == block::MOST_BYTES && block::MOST_BYTES <= 32 << 20);
    // A driver that can neither flush nor choose needs every write durable.
    let (all, flush) = (block::features(false), block::F_FLUSH);
    assert!(block::writes_through(0, true) && !block::writes_through(flush, true));
    assert!(block::writes_through(all, false) && !block::writes_through(all, true));
}

#[test]
fn memory_that_a_file_does_not_have_is_refused() {
    let file = || tempfile::tempfile().unwrap();
    let long = file();
    long.set_len(1 << 20).unwrap();
    let region = |guest, bytes, offset| Region { guest, bytes, user: guest + 0x1000, offset };
    let map = |regions: &[Region]| {
        GuestMemory::map(regions, regions.iter().map(|_| long.try_clone().unwrap().into()).collect())
    };
    let mapped = map(&[region(0x10_0000, 0x8000, 0x8000), region(0, 0x8000, 0)]).unwrap();
    assert_eq!(mapped.guest_address(0x10_1004), Some(0x10_0004));
    assert_eq!(mapped.guest_address(0x9000), None);
    mapped.write(0x10_0000, &[7; 16]).unwrap();
    assert!(mapped.write(0x7fff, &[7; 2]).is_err(), "it does not go on there");
    let mut byte = [0];
    std::os::unix::fs::FileExt::read_at(&long, &mut byte, 0x8000).unwrap();
    assert_eq!(byte, [7], "it is the file's");
    for wrong in [
        region(0, 0, 0),
        region(0, 1 << 21, 0),
        region(0, 0x8000, u64::MAX - 4),
        region(0, 0x8000, 5),
        region(u64::MAX - 0x4000, 0x8000, 0),
    ] {
        assert!(map(&[Region { user: 0, ..wrong }]).is_err(), "{wrong:?}");
    }
    assert!(map(&[region(0, 0x8000, 0), region(0x4000, 0x8000, 0)]).is_err(), "they overlap");
}

proptest! {
    /// Any bytes in memory: no panic, no end of a walk missing, and all parts of a chain are in memory.
    #[test]
    fn any_memory_is_a_ring_or_an_error(
        table in proptest::collection::vec((0..0x11_0000_u64, 0..0x2_0000_u32, 0..8_u16, 0..20_u16), 16),
        heads in proptest::collection::vec(0..18_u16, 0..20),
        by_index: bool,
    ) {
        let memory = memory();
        for (index, (at, bytes, flags, next)) in (0..).zip(&table) {
            // Every second table outside of the ring's is the ring's own.
            let at = if flags & 4 != 0 && at % 2 == 0 { AT.descriptors } else { *at };
            let bytes = if flags & 4 != 0 { bytes / 512 * 16 } else { *bytes };
            put(&memory, AT.descriptors, index, at, bytes, *flags, *next);
        }
        offer(&memory, 16, &heads);
        let mut ring = Ring::new(&memory, AT, 16, 0, by_index).unwrap();
        let mut taken = 0;
        while let Ok(Some(head)) = ring.take(&memory) {
            taken += 1;
            prop_assert!(taken <= heads.len());
            let Ok(chain) = ring.chain(&memory, head) else { continue };
            for parts in [chain.readable(), chain.writable()] {
                let mut data = vec![0; chain::bytes(parts) as usize];
                gather(&memory, parts, 0, &mut data).unwrap();
            }
        }
    }

    /// Any bytes of a message are one, or an error.
    #[test]
    fn any_bytes_are_a_message_or_an_error(
        request in 0..40_u32,
        payload in proptest::collection::vec(any::<u8>(), 0..300),
        descriptors in 0..9_usize,
    ) {
        let _ = read(&bytes(request, 1, &payload), descriptors);
    }

    /// An area that another process has filled with anything: recovered in bounded time, or an error.
    #[test]
    fn any_area_is_recovered_or_refused(noise in proptest::collection::vec(any::<u8>(), 16 + 8 * 16), used: u16) {
        let (file, area) = Inflight::create(1, 8).unwrap();
        let mut noise = noise;
        noise[8..12].copy_from_slice(&[1, 0, 8, 0]);
        std::os::unix::fs::FileExt::write_all_at(&std::fs::File::from(file.try_clone().unwrap()), &noise, 0).unwrap();
        let opened: Rc<Inflight> = Inflight::open(file, &area).unwrap();
        if let Ok(heads) = opened.track(0, 8).unwrap().recover(used) {
            prop_assert!(heads.len() <= 8);
        }
    }
}
