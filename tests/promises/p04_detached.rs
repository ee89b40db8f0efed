//! Promise 4. A transparent layer can always be detached, in time proportional to its dirty data, and leaves the
//! component in the volume's own order.
//!
//! Fault model: none. Data is written through every transparent layer that holds data, the layer is detached, and the
//! device below is read; BORG is also detached and attached while clients read and write. (Power cuts meanwhile belong
//! to promise 5.)

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use seekless_core::runtime::{self, Runtime};
use seekless_core::{BlockDevice, Buffer, ErrorKind, Extent, Hints, Layer, Nanos, switch};
use seekless_drive::{Disk, QueueOptions, spec};
use seekless_lab::check::{self, SectorContent};
use seekless_lab::explore::Options;
use seekless_lab::explore::campaign::Campaign;
use seekless_lab::workload;
use seekless_layers::Topmost;
use seekless_layers::cache::{self, Cache};
use seekless_layers::fault::powercut::{self, PowerCut};
use seekless_layers::fault::{Faulty, delay, error, lose};
use seekless_promises as common;
use seekless_volume::description::Description;
use seekless_volume::tree::{self, Bytes, Tree};

fn disk() -> Rc<dyn BlockDevice> {
    Rc::new(Disk::new(0, &spec::find("wd2500aaks").unwrap(), QueueOptions::default()))
}

/// Writes scattered pages, some of them twice, detaches the layer, and reads the device below.
async fn write_and_detach(layer: &dyn Layer, below: &dyn BlockDevice, pages: u64) -> Nanos {
    let place = |page: u64| Extent::of_pages(page * 7_919 % 100_000, 1);
    for write in 1..=pages {
        layer.write(place(write), check::stamped(place(write), write), Hints::default()).await.unwrap();
    }
    let again = pages / 2 + 1;
    layer.write(place(again), check::stamped(place(again), pages + 1), Hints::default()).await.unwrap();
    let began = runtime::now();
    layer.detach().await.unwrap();
    let took = runtime::now().since(began);
    for write in 1..=pages {
        let at = place(write);
        let read = below.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await.unwrap();
        let last = if write == again { pages + 1 } else { write };
        check::classify(&read, |index, found| {
            let stamp = check::Stamp { sector: at.start.0 + index, write: last };
            assert_eq!(found, SectorContent::Stamp(stamp), "page {}", at.start.page());
        });
    }
    took
}

#[test]
fn a_volatile_cache_is_written_back_in_the_time_that_its_contents_take() {
    let took = |pages| {
        Runtime::new(1)
            .run(async {
                let disk = disk();
                let options = powercut::Options { nth: u64::MAX, ..powercut::Options::default() };
                write_and_detach(&PowerCut::new(disk.clone(), options), &*disk, pages).await
            })
            .unwrap()
    };
    let (few, many) = (took(50), took(500));
    println!("50 dirty pages took {few}, 500 took {many}");
    assert!(many.0 > 5 * few.0 && many.0 < 20 * few.0, "{few} and {many}");
}

#[test]
fn a_buffer_cache_is_written_back_in_the_time_that_what_is_dirty_takes() {
    let took = |pages| {
        Runtime::new(1)
            .run(async {
                let disk = disk();
                let cache = Cache::new(disk.clone(), cache::Options::default());
                write_and_detach(&*cache, &*disk, pages).await
            })
            .unwrap()
    };
    let (few, many) = (took(50), took(500));
    println!("50 dirty pages took {few}, 500 took {many}");
    assert!(many.0 > 3 * few.0 && many.0 < 20 * few.0, "{few} and {many}");
}

#[test]
fn layers_that_hold_nothing_back_leave_all_in_its_place() {
    Runtime::new(1)
        .run(async {
            let disk = disk();
            let slow = delay::Options { time: Nanos::from_millis(1), ..delay::Options::default() };
            let slow = Faulty::new(disk.clone(), delay::Delay::new(slow));
            assert_eq!(write_and_detach(&slow, &*disk, 40).await, Nanos::ZERO);
            let fails: error::Options = toml::from_str("ops = [\"discard\"]").unwrap();
            let fails = Faulty::new(disk.clone(), error::Error::new(&fails));
            assert_eq!(write_and_detach(&fails, &*disk, 40).await, Nanos::ZERO);
            let loses = lose::Options { nth: 1 << 40, ..lose::Options::default() };
            let loses = Faulty::new(disk.clone(), lose::Lose::new(&loses));
            assert_eq!(write_and_detach(&loses, &*disk, 40).await, Nanos::ZERO);
        })
        .unwrap();
}

/// A client's pages: every fourth.
fn page_of(client: u64, draw: u64) -> Extent {
    Extent::of_pages(draw * 4 + client, 1)
}

/// The contents of each sector, by the number of the write.
type Holds = BTreeMap<u64, u64>;

/// Writes parts of its pages and whole ones with these numbers, reads in between, and records the contents.
async fn client(top: Rc<dyn BlockDevice>, number: u64, writes: Range<u64>, mut holds: Holds) -> Holds {
    let mut rng = runtime::rng("client");
    for write in writes {
        let page = page_of(number, rng.below(PAGES / 4));
        let at = if rng.chance(1, 3) { Extent::new(page.start.0 + rng.below(5), 3) } else { page };
        top.write(at, check::stamped(at, write), Hints::default()).await.unwrap();
        holds.extend((at.start.0..at.end().0).map(|sector| (sector, write)));
        let at = page_of(number, rng.below(PAGES / 4));
        let read = top.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await.unwrap();
        expect(&holds, at, &read);
    }
    holds
}

/// Checks that the buffer holds the last writes to these sectors.
fn expect(holds: &Holds, at: Extent, buffer: &Buffer) {
    check::classify(buffer, |index, found| {
        let sector = at.start.0 + index;
        let stamp = |write: &u64| SectorContent::Stamp(check::Stamp { sector, write: *write });
        assert_eq!(found, holds.get(&sector).map_or(SectorContent::Zeroes, stamp), "sector {sector}");
    });
}

/// Pages of the volume with BORG, which begins at the start of its disk.
const PAGES: u64 = 4_096;

/// BORG over simulated disks, and the disk below it.
async fn borg() -> (Tree, Rc<dyn BlockDevice>) {
    borg_with(&common::volume("borg")).await
}

async fn borg_with(volume: &Description) -> (Tree, Rc<dyn BlockDevice>) {
    let disk = disk();
    let components = BTreeMap::from([("disk".to_owned(), disk.clone())]);
    (tree::build(volume, components, Bytes::Real).await.unwrap(), disk)
}

/// Runs the command, which may time out while clients write that fast.
async fn send(topmost: &Topmost, command: &str) {
    let done = topmost.command(command, Hints::default()).await;
    let too_fast = done.as_ref().is_err_and(|error| error.kind() == ErrorKind::Timeout);
    assert!(done.is_ok() || (too_fast && command == "drain"), "{command}: {done:?}");
}

fn dirty(topmost: &Topmost) -> u64 {
    let counters = topmost.layer().expect("it is in").counters();
    counters.iter().find(|(name, _)| *name == "pages_dirty").expect("BORG tells it").1
}

#[test]
fn borg_goes_and_comes_back_under_load_and_then_the_disk_is_the_volume() {
    Runtime::new(1)
        .run(async {
            let (tree, disk) = borg().await;
            let topmost = tree.topmost.clone().unwrap();
            let clients = (0..4_u64).map(|number| {
                let writes = number * 10_000 + 1..number * 10_000 + 3_000;
                runtime::spawn(client(tree.top.clone(), number, writes, Holds::new()))
            });
            let clients: Vec<_> = clients.collect();
            let mut came_back = 0;
            while clients.iter().any(|client| !client.is_finished()) {
                for command in ["reconfigure", "remove", "reconfigure", "insert", "drain"] {
                    send(&topmost, command).await;
                    runtime::sleep(Nanos::from_millis(300)).await;
                }
                came_back += 1;
            }
            let mut holds = Holds::new();
            for client in clients {
                holds.extend(client.await);
            }
            // There are dirty pages to drain, once the BOPT of the last insertion is formatted.
            let mut next = 50_000;
            while dirty(&topmost) == 0 && next < 51_000 {
                holds = client(tree.top.clone(), 0, next..next + 20, holds).await;
                next += 20;
            }
            let whole = Extent::of_pages(0, PAGES);
            let read = async |device: &dyn BlockDevice| {
                device.read(whole, Buffer::zeroed(whole.bytes()), Hints::default()).await.unwrap()
            };
            let (dirty, volume) = (dirty(&topmost), read(&*tree.top).await);
            expect(&holds, whole, &volume);
            send(&topmost, "remove").await;
            let home = read(&*disk).await;
            println!("BORG came back {came_back} times, and took {dirty} dirty pages home");
            assert!(came_back >= 3 && dirty > 0, "{came_back} times, {dirty} dirty pages");
            volume.look(|volume| home.look(|home| assert!(volume == home, "the disk is not the volume")));
        })
        .unwrap();
}

#[test]
fn borg_goes_in_the_time_that_its_dirty_pages_take() {
    let took = |pages: u64| {
        let removal = Runtime::new(1).run(async {
            // Room for all of them, each with its batch's page.
            let mut volume = common::volume("borg");
            let options = &mut volume.layers.get_mut("borg").unwrap().options;
            options.extend([("write_buffer".to_owned(), 0.9.into()), ("drain_below".to_owned(), 0.0.into())]);
            let (tree, _) = borg_with(&volume).await;
            let topmost = tree.topmost.clone().unwrap();
            // The first write goes to the origin, and starts the formatting of the BOPT.
            let first = Extent::of_pages(0, 1);
            tree.top.write(first, check::stamped(first, pages + 1), Hints::default()).await.unwrap();
            runtime::sleep(Nanos::from_millis(1_000)).await;
            for number in 0..pages {
                let at = Extent::of_pages(number * 1_021 % PAGES, 1);
                tree.top.write(at, check::stamped(at, number + 1), Hints::default()).await.unwrap();
            }
            assert_eq!(dirty(&topmost), pages);
            let began = runtime::now();
            send(&topmost, "remove").await;
            runtime::now().since(began)
        });
        removal.unwrap()
    };
    let (none, few, many) = (took(0), took(40), took(400));
    println!("nothing dirty took {none}, 40 dirty pages {few}, 400 {many}");
    assert!(many.0 > 2 * few.0 && many.0 < 20 * few.0, "{few} and {many}");
}

#[test]
fn borg_may_come_and_go_at_any_time_and_no_read_tells() {
    let (volume, load) = (common::volume("borg"), workload::parse("churn:reads=30%").unwrap());
    let options = Options { plain: Some(30), states: 0, seed: 3, ..Options::default() };
    let (requests, commands, fault_requests) = (600, 30, 0);
    let campaign = Campaign {
        description: &volume,
        load: Some(&load),
        requests,
        commands: Some(commands),
        clients: Some(6),
        fault_requests,
        options,
        reduces: true,
    };
    let explored = common::found_nothing("borg", campaign.explore(&|_| ()).unwrap());
    let changed = explored.tally.edges[switch::EDGES[0]];
    println!("{} commands, {changed} times in or out while requests were held", explored.tally.commands);
    assert!(explored.tally.commands >= 300 && changed >= 50);
}
