//! Arbitrary bytes from a virtual machine: of its messages, and in the memory that it shares. Nothing panics, every
//! walk ends, and what a chain has is in memory.
//!
//! The first byte says what the others are. If it is even, they are messages: a byte with the number of descriptors, a
//! header, its payload, and so on. If it is odd, they are the memory, which begins with a ring; its bits are the ring's
//! next index, and whether notices are by index.

use seekless_serve::vhost::block::{self, HEADER_BYTES, RANGE_BYTES, Range};
use seekless_serve::vhost::chain::{bytes, gather, scatter};
use seekless_serve::vhost::message::{self, Header, Message};
use seekless_serve::vhost::{Addresses, GuestMemory, Ring};

const MEMORY: usize = 64 << 10;
const ENTRIES: u16 = 16;
const AT: Addresses = Addresses { descriptors: 0, available: 0x100, used: 0x140 };

pub fn run(input: &[u8]) {
    match input.split_first() {
        Some((first, rest)) if first % 2 == 0 => messages(rest),
        Some((first, rest)) => ring(*first, rest),
        None => {}
    }
}

fn messages(mut rest: &[u8]) {
    while let Some((descriptors, after)) = rest.split_first() {
        let Some((bytes, after)) = after.split_first_chunk::<{ message::HEADER_BYTES }>() else { return };
        let Ok(header) = Header::read(bytes) else { return };
        let Some((payload, after)) = after.split_at_checked(header.bytes) else { return };
        if let Ok(message) = Message::read(header, payload, usize::from(*descriptors)) {
            if let Message::SetMemTable(regions) = &message {
                assert!(regions.len() == usize::from(*descriptors), "each region has a descriptor");
            }
            let ring = match message {
                Message::SetVringKick { ring }
                | Message::GetVringBase { ring }
                | Message::SetVringNum { ring, .. }
                | Message::SetVringEnable { ring, .. } => ring,
                _ => 0,
            };
            assert!(ring < block::RINGS);
        }
        rest = after;
    }
}

fn ring(first: u8, shared: &[u8]) {
    let memory = GuestMemory::zeroed(&[(0, MEMORY)]).expect("memory");
    memory.write(0, &shared[..shared.len().min(MEMORY)]).expect("it fits");
    let Ok(mut ring) = Ring::new(&memory, AT, ENTRIES, u16::from(first >> 2), first & 2 != 0) else { return };
    // What is written to chains may change the ring itself, so it need not end.
    for _ in 0..4 * ENTRIES {
        let Ok(Some(head)) = ring.take(&memory) else { return };
        assert!(head < ENTRIES);
        let Ok(chain) = ring.chain(&memory, head) else { continue };
        let (out_bytes, in_bytes) = (bytes(chain.readable()), bytes(chain.writable()));
        // Parts of a chain may be the same memory again and again.
        let mut data = vec![0; out_bytes.min(1 << 16) as usize];
        gather(&memory, chain.readable(), 0, &mut data).expect("all of it is in memory");
        if let Some((header, ranges)) = data.split_first_chunk::<HEADER_BYTES>() {
            block::Header::read(header);
            for range in ranges.chunks_exact(RANGE_BYTES) {
                Range::read(range.first_chunk().expect("a whole one"));
            }
        }
        let data = vec![first; in_bytes.min(1 << 10) as usize];
        scatter(&memory, chain.writable(), in_bytes - data.len() as u64, &data)
            .expect("all of it is in memory");
        ring.put_used(&memory, head, data.len() as u32).expect("the ring is in memory");
        ring.wants_notice(&memory).expect("the ring is in memory");
        ring.wish_for_kicks(&memory, head % 2 == 0).expect("the ring is in memory");
    }
}

/// Messages that set up a ring; and rings with a read, and with a table of its own that refers to itself.
pub fn seeds() -> Vec<Vec<u8>> {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
    let message = |descriptors: u8, request: u32, payload: &[u8]| {
        [&[descriptors], &words(&[request, 1, payload.len() as u32])[..], payload].concat()
    };
    let table = [words(&[1, 0]), vec![0; 8], 65_536_u64.to_ne_bytes().to_vec(), vec![0; 16]].concat();
    let messages = [
        vec![0],
        message(0, 2, &block::features(false).to_ne_bytes()),
        message(1, 5, &table),
        message(0, 8, &words(&[0, 16])),
        message(0, 9, &[0; 40]),
        message(1, 12, &[0; 8]),
        message(0, 24, &[words(&[0, 4, 0]), vec![0; 4]].concat()),
        message(1, 32, &[0; 20]),
    ];
    let descriptor = |at: u64, bytes: u32, flags: u16, next: u16| {
        [&at.to_le_bytes()[..], &bytes.to_le_bytes(), &flags.to_le_bytes(), &next.to_le_bytes()].concat()
    };
    let ring = |descriptors: &[Vec<u8>]| {
        let mut memory = descriptors.concat();
        memory.resize(0x100, 0);
        // One head, the first, is available.
        memory.extend([0, 0, 1, 0, 0, 0]);
        [&[3][..], &memory].concat()
    };
    let read = [descriptor(0x1000, 16, 1, 1), descriptor(0x2000, 512, 3, 2), descriptor(0x3000, 1, 2, 0)];
    vec![messages.concat(), ring(&read), ring(&[descriptor(0, 32, 4, 0), descriptor(0x1000, 16, 1, 0)])]
}
