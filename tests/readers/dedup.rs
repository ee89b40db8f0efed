//! Changes bytes of the metadata of a volume with equal and compressed pages, and of its first pieces, and opens it:
//! all seals corrected, or only some. Whatever the bytes are, opening reports an error or succeeds, an opened volume
//! can be read and written, with errors or without, and stopped; nothing panics.
//!
//! The input is the number of writes before the power cut, and changes of four bytes each: the sector and whether its
//! seal is corrected, the offset in it, the new value.

use std::rc::Rc;

use seekless_core::runtime::Runtime;
use seekless_core::{BlockDevice, Buffer, Extent, Hints, Layer};
use seekless_lab::explore::component::Component;
use seekless_lab::explore::image::Image;
use seekless_layers::Dedup;
use seekless_layers::dedup::{Compress, Options};

/// Pages of the device: two for the super page, a few for the map, and blocks.
const ALL: u64 = 40;
/// Sectors that are changed: those of the metadata, and of the first blocks.
const CHANGED: usize = 64;
const SECTOR: usize = 512;

fn component() -> Rc<Component> {
    Component::instant(0, ALL * 8, Image::new(ALL * 8))
}

fn options() -> Options {
    Options { compress: Compress::Lz4, ..Options::default() }
}

/// A page: some compress well, others not at all.
fn page(value: u8) -> Buffer {
    let byte = |at: usize| if value % 3 == 0 { ((at * (at + usize::from(value))) >> 3) as u8 } else { value };
    Buffer::from_vec((0..4_096).map(byte).collect())
}

async fn write(device: &dyn BlockDevice, number: u64, value: u8) -> Result<(), seekless_core::IoError> {
    device.write(Extent::of_pages(number, 1), page(value), Hints::default()).await
}

/// The first sectors of a volume that was in use when the power went.
async fn used(writes: u64) -> Vec<u8> {
    let device = component();
    let volume = Dedup::open(device.clone(), &options(), true, false).await.expect("a blank one");
    for number in 0..writes {
        write(&*volume, number * 7 % 30, (number % 9) as u8).await.expect("memory");
        volume.flush(Hints::default()).await.expect("memory");
    }
    let first = Extent::new(0, CHANGED as u64);
    device.read(first, Buffer::zeroed(first.bytes()), Hints::default()).await.expect("memory").to_vec()
}

/// Corrects the seal of a sector of the super page, or of the map of the volume with this identity.
fn seal(number: usize, identity: &[u8], sector: &mut [u8]) {
    let part = if number < 16 {
        crc32c::crc32c_append(crc32c::crc32c(b"SKLDEDU1"), &[0; 16])
    } else {
        crc32c::crc32c_append(crc32c::crc32c(b"SKLDEDUM"), identity)
    };
    let sum =
        crc32c::crc32c_append(crc32c::crc32c_append(part, &(number as u64).to_le_bytes()), &sector[..508]);
    sector[508..].copy_from_slice(&sum.to_le_bytes());
}

async fn open(found: Vec<u8>) {
    let device = component();
    let first = Extent::new(0, CHANGED as u64);
    device.write(first, Buffer::from_vec(found), Hints::default()).await.expect("memory");
    match Dedup::open(device, &options(), false, false).await {
        Err(error) => assert!(error.to_string().contains("expected"), "{error}"),
        Ok(volume) => {
            let pages = volume.geometry().sectors / 8;
            for number in 0..pages.min(40) {
                let at = Extent::of_pages(number, 1);
                let read = volume.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await;
                assert!(read.map_or_else(|error| error.to_string().contains("expected"), |_| true));
                let _ = write(&*volume, number, (number % 5) as u8).await;
            }
            volume.stop().await.expect("memory");
        }
    }
}

pub fn run(input: &[u8]) {
    let (writes, changes) = input.split_first().map_or((3, input), |(first, rest)| (*first, rest));
    let mut found = Runtime::new(1).run(used(u64::from(writes % 32))).expect("ends");
    let identity = found[16..32].to_vec();
    for change in changes.chunks_exact(4) {
        let number = usize::from(change[0]) % CHANGED;
        let offset = usize::from(u16::from_le_bytes([change[1], change[2]])) % SECTOR;
        let sector = &mut found[number * SECTOR..][..SECTOR];
        sector[offset] = change[3];
        if change[0] < 192 && number < 32 {
            seal(number, &identity, sector);
        }
    }
    Runtime::new(1).run(open(found)).expect("ends");
}
