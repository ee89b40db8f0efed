//! Memory as a component: for experiments, and to measure the cost of everything else. Its data is gone when the server
//! ends.
//!
//! It uses the largest pages that the system has: with small ones, address translation at random costs more than the
//! rest of a request.

use std::cell::RefCell;
use std::future::ready;

use seekless_core::device::{LARGEST_REQUEST_SECTORS, check};
use seekless_core::{BlockDevice, Buffer, Extent, Geometry, Hints, IoError, IoFuture, Zeroes};

/// Name of the component in errors.
const COMPONENT: &str = "memory";

/// Size and alignment of a large page; a system with another size adapts the request.
const LARGE_PAGE: usize = 2 << 20;

/// Sectors in memory. The system allocates pages as they are written, large ones where it has them.
pub struct MemoryComponent {
    bytes: RefCell<Vec<u8>>,
    geometry: Geometry,
}

impl MemoryComponent {
    /// `sectors` sectors, all zeroes; `None` if memory does not suffice.
    pub fn new(sectors: u64) -> Option<MemoryComponent> {
        let bytes = usize::try_from(sectors.checked_mul(512)?).ok()?;
        // Reserved first: a failed allocation would end the program.
        Vec::<u8>::new().try_reserve_exact(bytes).ok()?;
        let geometry = Geometry {
            sectors,
            logical_sectors: 1,
            physical_sectors: 8,
            volatile_cache: false,
            rotational: false,
            discard_sectors: 1,
            largest_sectors: LARGEST_REQUEST_SECTORS,
        };
        let mut all = vec![0; bytes];
        want_large_pages(&mut all);
        Some(MemoryComponent { bytes: RefCell::new(all), geometry })
    }

    fn zero(&self, at: Extent) -> Result<(), IoError> {
        check(&Geometry { largest_sectors: u64::MAX, ..self.geometry }, at, COMPONENT)?;
        self.bytes.borrow_mut()[bytes(at)].fill(0);
        Ok(())
    }
}

/// Requests large pages; works without them.
fn want_large_pages(all: &mut [u8]) {
    let start = all.as_ptr().align_offset(LARGE_PAGE).min(all.len());
    let whole = &mut all[start..];
    let len = whole.len() / LARGE_PAGE * LARGE_PAGE;
    if len > 0 {
        // SAFETY: the range is memory of ours, whole pages of it, and `madvise` only affects how it is laid out, not
        // its content.
        #[allow(unsafe_code)]
        let _ = unsafe { libc::madvise(whole.as_mut_ptr().cast(), len, libc::MADV_HUGEPAGE) };
    }
}

fn bytes(at: Extent) -> std::ops::Range<usize> {
    let start = at.start.0 as usize * 512;
    start..start + at.bytes() as usize
}

impl BlockDevice for MemoryComponent {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn read(&self, at: Extent, into: Buffer, _how: Hints) -> IoFuture<'_, Buffer> {
        let done = check(&self.geometry, at, COMPONENT).map(|()| {
            into.put(0, &self.bytes.borrow()[bytes(at)]);
            into
        });
        Box::pin(ready(done))
    }

    fn write(&self, at: Extent, from: Buffer, _how: Hints) -> IoFuture<'_, ()> {
        let done = check(&self.geometry, at, COMPONENT).map(|()| {
            let target = &mut self.bytes.borrow_mut()[bytes(at)];
            from.for_each(|offset, len, bytes| match bytes {
                Some(bytes) => target[offset..offset + len].copy_from_slice(bytes),
                None => target[offset..offset + len].fill(0),
            });
        });
        Box::pin(ready(done))
    }

    fn flush(&self, _how: Hints) -> IoFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    fn discard(&self, at: Extent, _how: Hints) -> IoFuture<'_, ()> {
        Box::pin(ready(self.zero(at)))
    }

    fn write_zeroes(&self, at: Extent, _how: Hints, _zeroes: Zeroes) -> IoFuture<'_, ()> {
        Box::pin(ready(self.zero(at)))
    }
}
