//! Changes bytes of a BOPT, corrects its checksums, and opens it. Whatever the bytes are, opening reports an error
//! or succeeds, and an opened BOPT can be read, written and stopped; nothing panics.
//!
//! The input is changes of four bytes each: the page, the offset in it, the new value.

use std::cell::OnceCell;
use std::rc::Rc;

use seekless_core::runtime::Runtime;
use seekless_core::{Account, BlockDevice, Buffer, Extent, Hints, Layer};
use seekless_lab::explore::component::Component;
use seekless_lab::explore::image::Image;
use seekless_layers::borg::{Borg, Options};

pub const HOME_PAGES: u64 = 64;
/// Five segments of four pages: two super pages, ten map pages, and the data.
pub const BOPT_PAGES: u64 = 32;
const PAGE: usize = 4096;

pub fn component(number: u32, pages: u64) -> Rc<Component> {
    Component::instant(number, pages * 8, Image::new(pages * 8))
}

pub async fn bytes(device: &dyn BlockDevice, pages: u64) -> Vec<u8> {
    let all = Extent::of_pages(0, pages);
    device.read(all, Buffer::zeroed(all.bytes()), Hints::default()).await.expect("memory").to_vec()
}

/// A BOPT that was in use at the power cut.
pub async fn used() -> Vec<u8> {
    let (home, bopt) = (component(0, HOME_PAGES), component(1, BOPT_PAGES));
    let borg = Borg::open_creating(home, bopt.clone(), Options::default(), false).await.expect("a blank one");
    for page in 0..20 {
        let at = Extent::of_pages(page * 7 % HOME_PAGES, 1);
        if page % 3 == 0 {
            borg.write(at, Buffer::zeroed(at.bytes()), Hints::default()).await.expect("memory");
        } else {
            borg.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await.expect("memory");
        }
        if page % 8 == 7 {
            borg.reconfigure_now(Account::default()).await.expect("memory");
        }
    }
    bytes(&*bopt, BOPT_PAGES).await
}

/// Corrects the checksums of a page: those of the sectors of super and map pages, or that of a batch's page.
fn seal(number: u64, identity: &[u8; 16], page: &mut [u8]) {
    let magic: [u8; 8] = page[..8].try_into().expect("a page");
    let identity = match &magic {
        b"SKLBORG2" => &[0; 16],
        b"SKLBORG3" => identity,
        b"SKLBORG4" => {
            page[8..12].fill(0);
            let sum = crc32c::crc32c(&page[..3584]);
            page[8..12].copy_from_slice(&sum.to_le_bytes());
            return;
        }
        _ => return,
    };
    for (sector, at) in page.chunks_exact_mut(512).zip(number * 8..) {
        let sum = crc32c::crc32c_append(crc32c::crc32c(&magic), identity);
        let sum = crc32c::crc32c_append(sum, &u64::to_le_bytes(at));
        let sum = crc32c::crc32c_append(sum, &sector[..508]);
        sector[508..].copy_from_slice(&sum.to_le_bytes());
    }
}

async fn open(bopt: Vec<u8>) {
    let (home, device) = (component(0, HOME_PAGES), component(1, BOPT_PAGES));
    let all = Extent::of_pages(0, BOPT_PAGES);
    device.write(all, Buffer::from_vec(bopt), Hints::default()).await.expect("memory");
    match Borg::open_creating(home, device, Options::default(), false).await {
        Err(error) => assert!(error.to_string().contains("expected"), "{error}"),
        Ok(borg) => {
            bytes(&*borg, HOME_PAGES).await;
            let at = Extent::of_pages(3, 9);
            borg.write(at, Buffer::zeroed(at.bytes()), Hints::default()).await.expect("memory");
            borg.reconfigure_now(Account::default()).await.expect("memory");
            borg.stop().await.expect("memory");
        }
    }
}

thread_local! {
    static USED: OnceCell<Vec<u8>> = const { OnceCell::new() };
}

pub fn run(changes: &[u8]) {
    let used = || Runtime::new(1).run(used()).expect("ends");
    let mut bopt = USED.with(|known| known.get_or_init(used).clone());
    for change in changes.chunks_exact(4) {
        let (page, offset) = (change[0] as usize, usize::from(u16::from_le_bytes([change[1], change[2]])));
        bopt[page % BOPT_PAGES as usize * PAGE + offset % PAGE] = change[3];
    }
    let identity: [u8; 16] = bopt[24..40].try_into().expect("a page");
    bopt.chunks_exact_mut(PAGE).zip(0..).for_each(|(page, number)| seal(number, &identity, page));
    Runtime::new(1).run(open(bopt)).expect("ends");
}
