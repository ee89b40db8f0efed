//! How fast the mapper opens: a crash explorer does little else. A volume of 4,096 pages that are all mapped, on a
//! device in memory; by processor time, the median of several rounds. Run it by `make bench`.

use std::cell::RefCell;
use std::rc::Rc;

use seekless_core::runtime::Runtime;
use seekless_core::{BlockDevice, Buffer, Extent, Geometry, Hints, IoFuture, PAGE_SECTORS, SECTOR_BYTES};
use seekless_layers::Mapper;
use seekless_layers::mapper::Options;

const PAGES: u64 = 4_096;
const OPENS: u32 = 5_000;
const ROUNDS: usize = 7;

/// Bytes in memory.
struct Memory(RefCell<Vec<u8>>);

fn bytes(at: Extent) -> std::ops::Range<usize> {
    (at.start.0 * SECTOR_BYTES) as usize..(at.end().0 * SECTOR_BYTES) as usize
}

fn done<'a, T: 'a>(value: T) -> IoFuture<'a, T> {
    Box::pin(std::future::ready(Ok(value)))
}

impl BlockDevice for Memory {
    fn geometry(&self) -> Geometry {
        Geometry::of_memory(self.0.borrow().len() as u64 / SECTOR_BYTES)
    }

    fn read(&self, at: Extent, into: Buffer, _: Hints) -> IoFuture<'_, Buffer> {
        into.put(0, &self.0.borrow()[bytes(at)]);
        done(into)
    }

    fn write(&self, at: Extent, from: Buffer, _: Hints) -> IoFuture<'_, ()> {
        from.look(|from| self.0.borrow_mut()[bytes(at)].copy_from_slice(from));
        done(())
    }

    fn flush(&self, _: Hints) -> IoFuture<'_, ()> {
        done(())
    }

    fn discard(&self, _: Extent, _: Hints) -> IoFuture<'_, ()> {
        done(())
    }
}

fn main() {
    let memory: Rc<dyn BlockDevice> =
        Rc::new(Memory(RefCell::new(vec![0; ((PAGES * 18 / 17) * PAGE_SECTORS * SECTOR_BYTES) as usize])));
    let options = Options::of_pages(PAGES);
    let runtime = Runtime::new(1);
    let times = runtime.run(async {
        let mapper = Mapper::open(memory.clone(), &options, true).await.expect("it fits");
        for page in 0..PAGES {
            let at = Extent::of_pages(page * 97 % PAGES, 1);
            mapper.write(at, Buffer::zeroed(at.bytes()), Hints::default()).await.expect("written");
        }
        for _ in 0..2 {
            mapper.flush(Hints::default()).await.expect("flushed");
        }
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            let before = cpu_seconds();
            for _ in 0..OPENS {
                Mapper::open(memory.clone(), &options, true).await.expect("it was left whole");
            }
            times.push((cpu_seconds() - before) / f64::from(OPENS));
        }
        times.sort_by(f64::total_cmp);
        times
    });
    let median = times.expect("nothing waits")[ROUNDS / 2];
    println!("the mapper opens {PAGES} pages in {:.2} us: {:.0} times a second", median * 1e6, 1.0 / median);
}

/// Time that this thread was on a processor.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}
