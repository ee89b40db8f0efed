//! Bytes in the area of a BOPT for what was learned, in whole sectors with right checksums, and a BOPT that is opened
//! with them. Whatever the bytes are, opening succeeds, takes them up or begins anew, and the layer plans; nothing
//! panics.

use std::cell::OnceCell;
use std::rc::Rc;

use seekless_core::runtime::Runtime;
use seekless_core::{Account, BlockDevice, Buffer, Extent, Hints, Layer};
use seekless_lab::explore::component::Component;
use seekless_lab::explore::image::Image;
use seekless_layers::borg::{Borg, Options};

const HOME_PAGES: u64 = 256;
/// 26 segments of four pages: 13 are the write buffer, and the last is the area.
const BOPT_PAGES: u64 = 160;
const PAGE: usize = 4096;
const MAGIC: [u8; 8] = *b"SKLBORG5";

fn component(number: u32, pages: u64) -> Rc<Component> {
    Component::instant(number, pages * 8, Image::new(pages * 8))
}

fn options() -> Options {
    Options { write_buffer: 0.5, ..Options::default() }
}

async fn bytes(device: &dyn BlockDevice, pages: u64) -> Vec<u8> {
    let all = Extent::of_pages(0, pages);
    device.read(all, Buffer::zeroed(all.bytes()), Hints::default()).await.expect("memory").to_vec()
}

/// Reads and writes, and a reconfiguration.
async fn uses(borg: &Borg) {
    for page in 0..20 {
        let at = Extent::of_pages(page * 7 % HOME_PAGES, 1 + page % 3);
        if page % 5 == 0 {
            borg.write(at, Buffer::zeroed(at.bytes()), Hints::default()).await.expect("memory");
        } else {
            borg.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await.expect("memory");
        }
    }
    borg.reconfigure_now(Account::default()).await.expect("memory");
}

/// A BOPT that was in use, and stopped.
async fn used() -> Vec<u8> {
    let (home, bopt) = (component(0, HOME_PAGES), component(1, BOPT_PAGES));
    let borg = Borg::open_creating(home, bopt.clone(), options(), false).await.expect("a blank one");
    for _ in 0..2 {
        uses(&borg).await;
    }
    borg.stop().await.expect("memory");
    bytes(&*bopt, BOPT_PAGES).await
}

thread_local! {
    static USED: OnceCell<Vec<u8>> = const { OnceCell::new() };
}

/// The BOPT, its first page of the area, and the pages of a copy.
fn known() -> (Vec<u8>, usize, usize) {
    let used = || Runtime::new(1).run(used()).expect("ends");
    let bopt = USED.with(|known| known.get_or_init(used).clone());
    let number = |at: usize| u64::from_le_bytes(bopt[at..at + 8].try_into().expect("eight bytes")) as usize;
    let (first, pages) = (number(120), number(128));
    assert!(pages > 1, "there is an area");
    (bopt, first, pages / 2)
}

/// What a layer wrote there.
pub fn seed() -> Vec<u8> {
    let (bopt, first, pages) = known();
    let copy = |copy: usize| &bopt[(first + copy * pages) * PAGE..][..pages * PAGE];
    let generation = |copy: &[u8]| u64::from_le_bytes(copy[496..504].try_into().expect("eight bytes"));
    let whole = [0, 1].map(copy).into_iter().filter(|copy| copy.starts_with(&MAGIC));
    let newest = whole.max_by_key(|copy| generation(copy)).expect("a copy");
    let data: Vec<u8> = newest.chunks_exact(512).flat_map(|sector| &sector[..496]).copied().collect();
    let length = u64::from_le_bytes(data[8..16].try_into().expect("eight bytes")) as usize;
    data[24..24 + length].to_vec()
}

/// Writes a copy that is newer than all.
fn write(bopt: &mut [u8], first: usize, input: &[u8]) {
    let identity: [u8; 16] = bopt[24..40].try_into().expect("a page");
    let mut head = [0; 24];
    head[..8].copy_from_slice(&MAGIC);
    head[8..16].copy_from_slice(&(input.len() as u64).to_le_bytes());
    head[16..20].copy_from_slice(&crc32c::crc32c(input).to_le_bytes());
    let data = [&head[..], input].concat();
    for (data, number) in data.chunks(496).zip(first as u64 * 8..) {
        let mut sector = [0; 512];
        sector[..data.len()].copy_from_slice(data);
        sector[496..504].copy_from_slice(&(1_u64 << 40).to_le_bytes());
        let sum = crc32c::crc32c_append(crc32c::crc32c(&MAGIC), &identity);
        let sum = crc32c::crc32c_append(sum, &number.to_le_bytes());
        let sum = crc32c::crc32c_append(sum, &sector[..508]);
        sector[508..].copy_from_slice(&sum.to_le_bytes());
        bopt[number as usize * 512..][..512].copy_from_slice(&sector);
    }
}

async fn open(bopt: Vec<u8>) {
    let (home, device) = (component(0, HOME_PAGES), component(1, BOPT_PAGES));
    let all = Extent::of_pages(0, BOPT_PAGES);
    device.write(all, Buffer::from_vec(bopt), Hints::default()).await.expect("memory");
    for _ in 0..2 {
        let borg = Borg::open(home.clone(), device.clone(), options(), false).await.expect("it is harmless");
        uses(&borg).await;
        borg.stop().await.expect("memory");
    }
}

pub fn run(input: &[u8]) {
    let (mut bopt, first, pages) = known();
    let room = pages * 8 * 496 - 24;
    write(&mut bopt, first, &input[..input.len().min(room)]);
    Runtime::new(1).run(open(bopt)).expect("ends");
}
