//! Changes bytes of a log-structured logical disk, corrects its checksums, and opens it. Whatever the bytes are,
//! opening reports an error or succeeds, and an opened disk can be read, written and stopped; nothing panics.
//!
//! The input is the time in use before the power cut, and changes of four bytes each: the page, the offset in
//! it, the new value.

use std::rc::Rc;

use seekless_core::runtime::{Rng, Runtime};
use seekless_core::{BlockDevice, Buffer, Extent, Hints, Layer};
use seekless_lab::explore::component::Component;
use seekless_lab::explore::image::Image;
use seekless_layers::lld::{Cleaner, Options};
use seekless_layers::{Bytes, Lld};

/// Two copies of the checkpoint, and fourteen segments of four.
const PAGES: u64 = 2 + 14 * 4;
const BLOCKS: u64 = 12;
const PAGE: usize = 4096;

fn component() -> Rc<Component> {
    Component::instant(0, PAGES * 8, Image::new(PAGES * 8))
}

fn options() -> Options {
    let (size, segment) = (Some(Bytes(BLOCKS << 12)), Bytes(4 << 12));
    Options { size, segment, cleaner: Cleaner::Freeblock, free_threshold: 8, ..Options::default() }
}

async fn bytes(device: &dyn BlockDevice, pages: u64) -> Result<Vec<u8>, seekless_core::IoError> {
    let all = Extent::of_pages(0, pages);
    device.read(all, Buffer::zeroed(all.bytes()), Hints::default()).await.map(|read| read.to_vec())
}

/// A disk that was in use at the power cut.
async fn used(writes: u64) -> Vec<u8> {
    let device = component();
    let lld = Lld::open(device.clone(), options(), true).await.expect("a blank one");
    let mut rng = Rng::seeded(writes);
    for _ in 0..writes {
        let at = Extent::of_pages(rng.below(BLOCKS), 1);
        match rng.below(8) {
            0 => lld.flush(Hints::default()).await.expect("memory"),
            1 => lld.discard(at, Hints::default()).await.expect("memory"),
            value => {
                let page = Buffer::from_vec(vec![value as u8; PAGE]);
                lld.write(at, page, Hints::default()).await.expect("memory");
            }
        }
    }
    bytes(&*device, PAGES).await.expect("memory")
}

/// Corrects the checksums of the page of a summary or a checkpoint.
fn seal(number: u64, page: &mut [u8]) {
    match page.get(..8) {
        Some(b"SKLLLDC2") => {
            let part = crc32c::crc32c_append(crc32c::crc32c(b"SKLLLDC2"), &[0; 16]);
            for (sector, at) in page.chunks_exact_mut(512).zip(number * 8..) {
                let sum =
                    crc32c::crc32c_append(crc32c::crc32c_append(part, &at.to_le_bytes()), &sector[..508]);
                sector[508..].copy_from_slice(&sum.to_le_bytes());
            }
        }
        Some(b"SKLLLDSU") => {
            page[8..12].fill(0);
            // After that is the parity.
            let sum = crc32c::crc32c(&page[..PAGE - 512]);
            page[8..12].copy_from_slice(&sum.to_le_bytes());
        }
        _ => {}
    }
}

async fn open(found: Vec<u8>) {
    let device = component();
    let all = Extent::of_pages(0, PAGES);
    device.write(all, Buffer::from_vec(found), Hints::default()).await.expect("memory");
    match Lld::open(device, options(), true).await {
        Err(error) => assert!(error.to_string().contains("expected"), "{error}"),
        Ok(lld) => {
            bytes(&*lld, BLOCKS).await.expect("memory");
            for start in [0, 2, 5, 1, 4, 0] {
                let at = Extent::of_pages(start, BLOCKS / 2);
                // A checkpoint may claim that no segment is left.
                if lld.write(at, Buffer::zeroed(at.bytes()), Hints::default()).await.is_err() {
                    return;
                }
            }
            let _ = lld.stop().await;
        }
    }
}

pub fn run(input: &[u8]) {
    let (writes, changes) =
        input.split_first().map_or((40, input), |(first, rest)| (u64::from(*first), rest));
    let mut found = Runtime::new(1).run(used(writes)).expect("ends");
    for change in changes.chunks_exact(4) {
        let (page, offset) = (change[0] as usize, usize::from(u16::from_le_bytes([change[1], change[2]])));
        found[page % PAGES as usize * PAGE + offset % PAGE] = change[3];
    }
    found.chunks_exact_mut(PAGE).zip(0..).for_each(|(page, number)| seal(number, page));
    Runtime::new(1).run(open(found)).expect("ends");
}
