//! How long a BOPT takes to open, in virtual time: 8 GiB on the RE3's model, all of it in use, after a clean stop and
//! after none; what its map takes in memory; and how long it takes to compare all clean copies with what they are
//! copies of, in runs of 64 pages that are scattered over 64 GiB. Run it by `make bench`.

use std::rc::Rc;

use seekless_core::runtime::{self, Runtime, rng};
use seekless_core::{Account, BlockDevice, Buffer, Extent, Hints, Layer, Nanos, Slice};
use seekless_drive::{Disk, QueueOptions, spec};
use seekless_layers::Borg;
use seekless_layers::borg::Options;

const HOME_PAGES: u64 = 64 << 18;
const BOPT_PAGES: u64 = 8 << 18;
const PAGES_AT_ONCE: u64 = 64;

fn main() {
    let spec = spec::find("wd-re3-1tb").expect("the drive ships");
    let runtime = Runtime::new(1);
    runtime.run(measure(&spec)).expect("it does not stall");
}

async fn measure(spec: &seekless_drive::Spec) {
    let disk = Rc::new(Disk::new(0, spec, QueueOptions::default()));
    let slice = |first: u64, pages: u64| {
        Rc::new(Slice::new(disk.clone(), Extent::of_pages(first, pages)).expect("it fits"))
    };
    let open = async || {
        let began = runtime::now();
        let (home, bopt) = (slice(0, HOME_PAGES), slice(HOME_PAGES, BOPT_PAGES));
        let borg = Borg::open_creating(home, bopt, Options::default(), true).await.expect("it opens");
        (borg, runtime::now().since(began))
    };
    let (borg, _) = open().await;
    fill(&borg).await;
    drop(borg);
    let (borg, took) = open().await;
    print("without a clean stop", &borg, took);
    let at = Extent::of_pages(7, 1);
    borg.write(at, Buffer::hollow_sectors(at.sectors), Hints::default()).await.expect("written");
    let began = runtime::now();
    borg.stop().await.expect("stopped");
    println!("{:<24} {:>8.3} s", "a clean stop", runtime::now().since(began).seconds());
    drop(borg);
    let (borg, took) = open().await;
    print("after a clean stop", &borg, took);
    compared(&borg).await;
}

/// How long it takes until all clean copies are compared with the origin, when no client asks.
async fn compared(borg: &Borg) {
    let left = || counted(borg, "copies_not_compared");
    let (copies, began) = (left(), runtime::now() + Options::default().idle_after);
    while left() > 0 {
        runtime::sleep(Nanos::from_millis(100)).await;
    }
    let took = runtime::now().since(began).seconds();
    let gib = copies as f64 / f64::from(1 << 18);
    println!(
        "{:<24} {took:>8.3} s, {copies:>9} pages: {:.1} s for 4 GiB",
        "compared in idle time",
        took / gib * 4.0
    );
}

/// What the layer counts.
fn counted(borg: &Borg, name: &str) -> u64 {
    borg.counters().iter().find(|(key, _)| *key == name).map_or(0, |(_, value)| *value)
}

/// Reads so much that a plan fills the read cache, then writes so much that the log is full.
async fn fill(borg: &Borg) {
    let mut rng = rng("fill");
    let groups = HOME_PAGES / PAGES_AT_ONCE;
    for _ in 0..BOPT_PAGES / PAGES_AT_ONCE {
        let at = Extent::of_pages(rng.below(groups) * PAGES_AT_ONCE, PAGES_AT_ONCE);
        borg.read(at, Buffer::hollow_sectors(at.sectors), Hints::default()).await.expect("read");
    }
    borg.reconfigure_now(Account(1)).await.expect("reconfigured");
    for _ in 0..BOPT_PAGES * 6 / 10 / PAGES_AT_ONCE {
        let at = Extent::of_pages(rng.below(groups) * PAGES_AT_ONCE, PAGES_AT_ONCE);
        borg.write(at, Buffer::hollow_sectors(at.sectors), Hints::default()).await.expect("written");
    }
}

fn print(when: &str, borg: &Borg, took: Nanos) {
    let of = |name| counted(borg, name);
    println!(
        "{when:<24} {:>8.3} s, {:>9} pages mapped, {:>9} dirty, map {:.4} % of the BOPT",
        took.seconds(),
        of("pages_mapped"),
        of("pages_dirty"),
        100.0 * of("map_bytes") as f64 / (BOPT_PAGES * 4096) as f64
    );
}
