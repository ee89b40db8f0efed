//! Functions over a simulated disk: what they fetch is in memory, and data stays right.

#[cfg(feature = "wat")]
mod modules;
#[cfg(feature = "wasm")]
mod shipped;

use proptest::prelude::*;
use seekless_core::runtime::{now, sleep, spawn};
use seekless_core::{Nanos, Slice};
use seekless_drive::{Disk, QueueOptions, spec};

use super::*;
use crate::under_test::{filled, reached, values, with_error, world};

fn disk(sectors: u64) -> Rc<dyn BlockDevice> {
    let disk = Disk::new(0, &spec::find("wd6400aaks").unwrap(), QueueOptions::default());
    Rc::new(Slice::new(Rc::new(disk), Extent::new(0, sectors)).unwrap())
}

fn options(text: &str) -> Options {
    let options: Options = toml::from_str(text).unwrap();
    options.check().unwrap();
    options
}

fn counted(layer: &Functional, name: &str) -> u64 {
    layer.counters().iter().find(|(key, _)| *key == name).unwrap().1
}

/// Reads pieces of 16 KiB one after the other, and computes between them; returns the time.
async fn stream(device: &dyn BlockDevice, from: u64, pieces: u64) -> Nanos {
    let begin = now();
    for piece in 0..pieces {
        let at = Extent::new(from + piece * 32, 32);
        device.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await.unwrap();
        sleep(Nanos::from_millis(3)).await;
    }
    now() - begin
}

#[test]
fn two_interleaved_streams_are_read_ahead() {
    world(async || {
        let plain = disk(1 << 24);
        let layer = Functional::new(disk(1 << 24), options("")).unwrap();
        let both = async |device: &dyn BlockDevice| {
            let begin = now();
            for piece in 0..200 {
                for from in [0, 1 << 22] {
                    stream(device, from + piece * 32, 1).await;
                }
            }
            // Without the time between the reads.
            (now() - begin).0 - 400 * 3_000_000
        };
        let (without, with) = (both(&*plain).await, both(&layer).await);
        assert!(with * 2 < without, "waited {with} ns instead of {without}");
        assert_eq!(counted(&layer, "requests_shown"), 400);
        assert_eq!(counted(&layer, "turned_off"), 0);
        let (fetched, used) = (counted(&layer, "pages_fetched"), counted(&layer, "pages_fetched_used"));
        assert!(used > 1_500 && fetched < used + 2 * 256 + 8, "{fetched} pages fetched, {used} used");
        layer.stop().await.unwrap();
    });
}

/// A function that answers with what it was given, a few actions for each request.
struct Given(Vec<(bool, u64, u64, u8)>);

impl Function for Given {
    fn seen(&mut self, _: &Request, actions: &mut Vec<Action>) -> Result<(), Failure> {
        let from = self.0.len().saturating_sub(2);
        actions.extend(self.0.drain(from..).map(|(fetches, start, sectors, class)| {
            let extent = Extent::new(start, sectors);
            let class = Class::ALL[usize::from(class)];
            if fetches { Action::Fetch { extent, class } } else { Action::Drop { extent } }
        }));
        Ok(())
    }
}

/// Fetches and drops all of a volume, a thousand times for each request; has its sectors.
struct Greedy(u64);

impl Function for Greedy {
    fn seen(&mut self, _: &Request, actions: &mut Vec<Action>) -> Result<(), Failure> {
        let extent = Extent::new(0, self.0);
        let both = [Action::Fetch { extent, class: Class::Free }, Action::Drop { extent }];
        actions.extend((0..1_000).flat_map(|_| both));
        Ok(())
    }
}

/// Sectors of a volume whose last page is cut short.
const SECTORS: u64 = 101;

proptest! {
    /// Whatever is fetched and dropped while others write, and though reads below fail: data stays right.
    #[test]
    fn data_is_right_whatever_a_function_does(
        actions in prop::collection::vec((any::<bool>(), 0..SECTORS - 40, 1..40_u64, 0..4_u8), 0..120),
        steps in prop::collection::vec((any::<bool>(), 0..SECTORS - 20, 1..20_u64, 0..3_u64), 1..60),
        fails in any::<bool>(),
    ) {
        world(async || {
            let plain = disk(SECTORS);
            plain.write(Extent::new(0, SECTORS), filled(0, SECTORS), Hints::default()).await.unwrap();
            let below = if fails { with_error(&plain, "rate_pct = 30.0\nops = ['read']") } else { plain };
            let layer = Rc::new(Functional::with(below, options("size = '1MiB'"), Box::new(Given(actions))));
            let mut holds = [0; SECTORS as usize];
            for (value, (writes, start, sectors, wait)) in (1..).zip(steps) {
                let at = Extent::new(start, sectors);
                let expected = &mut holds[start as usize..(start + sectors) as usize];
                if writes {
                    // A reader beside it gets old or new.
                    let (reader, into) = (layer.clone(), Buffer::zeroed(at.bytes()));
                    let beside = spawn(async move { reader.read(at, into, Hints::default()).await.map(drop) });
                    layer.write(at, filled(value, sectors), Hints::default()).await.unwrap();
                    expected.fill(value);
                    drop(beside.await);
                } else if let Ok(found) = values(&*layer, at).await {
                    assert_eq!(found, expected.to_vec());
                }
                sleep(Nanos::from_millis(wait * 7)).await;
            }
            layer.stop().await.unwrap();
            assert!(layer.ahead.is_idle());
            assert_eq!(layer.failure(), None);
        });
    }
}

#[test]
fn fetches_beyond_memory_are_skipped() {
    let ((), edges) = world(async || {
        let all = (0..8).map(|number| (true, number << 11, 1 << 11, 0)).collect();
        let layer = Functional::with(disk(1 << 20), options("size = '1MiB'"), Box::new(Given(all)));
        stream(&layer, 1 << 18, 1).await;
        // Two fetches of 1 MiB: the first one takes all.
        assert_eq!((counted(&layer, "pages_fetched"), counted(&layer, "pages_skipped")), (256, 256));
        layer.stop().await.unwrap();
    });
    assert!(reached(&edges, "memory is full of fetches: one is skipped"));
}

/// A function may ask for all of a volume, many times for one request: the rest is skipped without a look at each page.
#[test]
fn fetches_and_drops_of_a_whole_volume_end() {
    world(async || {
        let most = 1_u64 << 28;
        let layer = Functional::with(disk(most), options("size = '1MiB'"), Box::new(Greedy(most)));
        let read = layer.read(Extent::new(0, 8), Buffer::zeroed(4_096), Hints::default());
        read.await.unwrap();
        let pages = most / PAGE_SECTORS;
        let [fetched, skipped] = ["pages_fetched", "pages_skipped"].map(|name| counted(&layer, name));
        assert_eq!((fetched + skipped) % pages, 0, "{fetched} {skipped}");
        assert!(fetched <= 256 * 1_000 && skipped > 900 * pages, "{fetched} {skipped}");
        layer.stop().await.unwrap();
    });
}

#[test]
fn options_that_make_no_sense_are_refused() {
    for (text, error) in [
        ("size = '4KiB'", "size: found 4096 bytes, expected 1MiB or more"),
        ("memory = '32KiB'", "memory: found 32768 bytes, expected 64KiB to 1GiB"),
        ("memory = '100KiB'", "memory: found 102400 bytes"),
        ("fuel = 10", "fuel: found 10, expected 1000 or more"),
        ("at_once = 0", "at_once: found 0, expected 1 to 1024"),
        (
            "function = 'sequential'\nmodule = 'a.wasm'",
            "module: found a function as well, expected one of the two",
        ),
        ("function = 'clairvoyant'", "clairvoyant"),
        #[cfg(feature = "wasm")]
        ("module = 'nowhere.wasm'", "module: found 'nowhere.wasm' (No such file"),
        #[cfg(not(feature = "wasm"))]
        (
            "module = 'a.wasm'",
            "a program built without the feature `wasm`, expected a program built with modules",
        ),
    ] {
        let found = ENTRY.check(&toml::from_str(text).unwrap()).unwrap_err().to_string();
        assert!(found.contains(error), "{found}, expected {error}");
    }
}
