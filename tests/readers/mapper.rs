//! Changes bytes of a mapper's map, in its sealed sectors, and opens it: all seals corrected, or only some, so that
//! sectors are torn and rotten in all mixtures. Whatever the bytes are, opening reports an error or succeeds, and an
//! opened map can be read, written and stopped; nothing panics.
//!
//! The input is the number of flushes before the power cut, and changes of four bytes each: the sector and whether its
//! seal is corrected, the offset in it, the new value.

use std::rc::Rc;

use seekless_core::runtime::Runtime;
use seekless_core::{BlockDevice, Buffer, Extent, Hints, Layer};
use seekless_lab::explore::component::Component;
use seekless_lab::explore::image::Image;
use seekless_layers::Mapper;
use seekless_layers::mapper::Options;

/// Pages of a volume: each copy of its map has five sectors in use, and three that are not.
const PAGES: u64 = 500;
const ALL: u64 = 2 + PAGES + 40;
const SECTOR: usize = 512;

fn component() -> Rc<Component> {
    Component::instant(0, ALL * 8, Image::new(ALL * 8))
}

async fn write(device: &dyn BlockDevice, page: u64, value: u8) -> Result<(), seekless_core::IoError> {
    device.write(Extent::of_pages(page, 1), Buffer::from_vec(vec![value; 4_096]), Hints::default()).await
}

/// The map copies of a volume that was in use when the power went.
async fn used(flushes: u64) -> Vec<u8> {
    let device = component();
    let mapper = Mapper::open(device.clone(), &Options::of_pages(PAGES), true).await.expect("a blank one");
    for flush in 0..flushes {
        write(&*mapper, flush * 37 % PAGES, flush as u8).await.expect("memory");
        mapper.flush(Hints::default()).await.expect("memory");
    }
    let homes = Extent::of_pages(0, 2);
    device.read(homes, Buffer::zeroed(homes.bytes()), Hints::default()).await.expect("memory").to_vec()
}

fn seal(number: u64, sector: &mut [u8]) {
    let part = crc32c::crc32c_append(crc32c::crc32c(b"SKLMAP02"), &[0; 16]);
    let sum = crc32c::crc32c_append(crc32c::crc32c_append(part, &number.to_le_bytes()), &sector[..508]);
    sector[508..].copy_from_slice(&sum.to_le_bytes());
}

async fn open(found: Vec<u8>) {
    let device = component();
    let homes = Extent::of_pages(0, 2);
    device.write(homes, Buffer::from_vec(found), Hints::default()).await.expect("memory");
    match Mapper::open(device, &Options::of_pages(PAGES), true).await {
        Err(error) => assert!(error.to_string().contains("expected"), "{error}"),
        Ok(mapper) => {
            let all = Extent::of_pages(0, PAGES);
            mapper.read(all, Buffer::zeroed(all.bytes()), Hints::default()).await.expect("memory");
            for page in 0..60 {
                write(&*mapper, page, 1).await.expect("there is a slot");
            }
            mapper.stop().await.expect("memory");
        }
    }
}

pub fn run(input: &[u8]) {
    let (flushes, changes) = input.split_first().map_or((3, input), |(first, rest)| (*first, rest));
    let mut found = Runtime::new(1).run(used(u64::from(flushes % 16))).expect("ends");
    for change in changes.chunks_exact(4) {
        let number = usize::from(change[0] % 16);
        let offset = usize::from(u16::from_le_bytes([change[1], change[2]])) % SECTOR;
        let sector = &mut found[number * SECTOR..][..SECTOR];
        sector[offset] = change[3];
        if change[0] < 200 {
            seal(number as u64, sector);
        }
    }
    Runtime::new(1).run(open(found)).expect("ends");
}
