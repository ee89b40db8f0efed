//! Clients side by side, each with pages of its own among those of the others, and a register for each sector.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Pages, the last one of which has three sectors.
const PAGES: u64 = 60;
const SECTORS: u64 = (PAGES - 1) * PAGE_SECTORS + 3;
const CLIENTS: u64 = 3;

/// A step: what, which of the client's pages, from which sector, how many, and how long it waits before.
type Step = (u8, u64, u64, u64, u64);

fn steps() -> impl Strategy<Value = Vec<Vec<Step>>> {
    let step = (0..12_u8, 0..PAGES / CLIENTS, 0..8_u64, 1..9_u64, prop_oneof![3 => Just(0), 1 => 0..40_u64]);
    prop::collection::vec(prop::collection::vec(step, 1..60), CLIENTS as usize)
}

/// The values that a sector may have.
#[derive(Default)]
struct Register(BTreeMap<u64, Vec<u8>>);

impl Register {
    fn may(&self, sector: u64) -> Vec<u8> {
        self.0.get(&sector).cloned().unwrap_or_else(|| vec![0])
    }

    fn written(&mut self, at: Extent, value: u8, done: bool) {
        for sector in at.start.0..at.end().0 {
            let before = if done { Vec::new() } else { self.may(sector) };
            self.0.insert(sector, before.into_iter().chain([value]).collect());
        }
    }

    fn read(&mut self, at: Extent, values: &[u8]) {
        for (sector, value) in (at.start.0..).zip(values) {
            let may = self.may(sector);
            assert!(may.contains(value), "sector {sector}: {value}, expected one of {may:?}");
            self.0.insert(sector, vec![*value]);
        }
    }
}

async fn client(cache: Rc<Cache>, number: u64, steps: Vec<Step>) -> Register {
    let mut register = Register::default();
    for (step, (what, page, first, sectors, wait)) in (1..).zip(steps) {
        sleep(Nanos::from_millis(wait)).await;
        let page = Extent::of_pages(page * CLIENTS + number, 1);
        let at = Extent::new(page.start.0 + first, sectors.min(PAGE_SECTORS - first));
        let at = Extent { sectors: at.sectors.min(SECTORS.saturating_sub(at.start.0)), ..at };
        if at.sectors == 0 {
            continue;
        }
        match what {
            0 => drop(flush(&*cache).await),
            1..=4 => {
                if let Ok(values) = values(&*cache, at).await {
                    register.read(at, &values);
                }
            }
            5 => {
                let done = cache.write_zeroes(at, Hints::default(), Zeroes::default()).await;
                register.written(at, 0, done.is_ok());
            }
            // Below nothing is discarded.
            6 => drop(cache.discard(at, Hints::default()).await),
            7 => {
                let done = write_fua(&*cache, at.start.0, at.sectors, step).await;
                register.written(at, step, done.is_ok());
            }
            _ => {
                let done = write(&*cache, at.start.0, at.sectors, step).await;
                register.written(at, step, done.is_ok());
            }
        }
        agrees(&cache);
    }
    register
}

/// Carries all of it out; what then is below is what the clients wrote, if the flush says so.
fn carry_out(steps: Vec<Vec<Step>>, options: &str, errors: Option<&str>) -> Result<(), IoError> {
    let (done, _) = world(async || {
        let disk = disk(SECTORS);
        let below = errors.map_or(disk.clone(), |errors| with_error(&disk, errors));
        let cache = cache(&below, options);
        let clients =
            (0..).zip(steps).map(|(number, steps)| runtime::spawn(client(cache.clone(), number, steps)));
        let mut all = Register::default();
        for client in clients.collect::<Vec<_>>() {
            all.0.extend(client.await.0);
        }
        let flushed = cache.detach().await;
        agrees(&cache);
        if flushed.is_ok() {
            let held = cache.state.borrow().held();
            assert_eq!(held, cache.state.borrow().held_by_pages(), "nothing is on its way any more");
            assert_eq!(counted(&cache, "pages_dirty"), 0);
            let whole = Extent::new(0, SECTORS);
            all.read(whole, &values(&*disk, whole).await.unwrap());
        }
        flushed
    });
    done
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn clients_read_what_they_wrote_and_then_it_is_below(
        steps in steps(),
        prewrite: bool,
        dirty in 1..9_u8,
        policy in 0..7_usize,
        write in prop_oneof![2 => Just("back"), 1 => Just("through"), 1 => Just("around")],
    ) {
        let prewrite = prewrite && write == "back";
        let options = format!(
            "policy = '{}'\nwrite = '{write}'\nsize = '128KiB'\nprewrite = {prewrite}\nsettle = '5ms'\nexpire = '60ms'\nprefetch = '8KiB'\ndirty = {}",
            policy::Kind::ALL[policy].1,
            f64::from(dirty) / 8.0
        );
        carry_out(steps, &options, None).unwrap();
    }

    #[test]
    fn what_fails_fails_alone(steps in steps(), rate in 1..40_u8, flushes: bool) {
        let options = "size = '64KiB'\nprewrite = true\nsettle = '5ms'\nexpire = '60ms'";
        let ops = if flushes { "" } else { "\nops = ['read', 'write']" };
        let _ = carry_out(steps, options, Some(&format!("rate_pct = {rate}.0{ops}")));
    }
}
