//! Zeroes that are written through a layer are a write to it: none lets them slip past to what is below.

use std::rc::Rc;

use proptest::prelude::*;
use seekless_core::runtime::{Runtime, now};
use seekless_core::{
    BlockDevice, Buffer, ErrorKind, Extent, Geometry, Hints, IoError, Nanos, PAGE_SECTORS, SECTOR_BYTES,
    Slice, Zeroes,
};
use seekless_drive::{Disk, QueueOptions, spec};
use seekless_layers::registry::{self, Below, Built, LAYERS};

/// Sectors that the tests look at.
const SECTORS: u64 = 16 * PAGE_SECTORS;

/// A simulated drive for it, and the layer with these options.
async fn layer(name: &str, options: &str) -> (Rc<dyn BlockDevice>, Built) {
    let disk = Rc::new(Disk::new(0, &spec::find("wd2500aaks").unwrap(), QueueOptions::default()));
    let part = |start: u64, sectors| -> Rc<dyn BlockDevice> {
        Rc::new(Slice::new(disk.clone(), Extent::new(start, sectors)).unwrap())
    };
    let entry = registry::find(name).unwrap();
    let devices = entry.devices.iter().map(|key| ((*key).to_owned(), vec![part(1 << 22, 1 << 22)])).collect();
    let over = part(0, 1 << 22);
    let several = (0..2).filter(|_| entry.is_over_several()).map(|number| part((2 + number) << 22, 1 << 22));
    let below = Below {
        over: std::iter::once(over.clone()).chain(several).collect(),
        devices,
        create: true,
        timing_only: false,
    };
    (over, entry.build(below, &toml::from_str(options).unwrap()).await.unwrap())
}

async fn write(device: &dyn BlockDevice, at: Extent, value: u8, how: Hints) -> Result<(), IoError> {
    device.write(at, Buffer::from_vec(vec![value; at.bytes() as usize]), how).await
}

async fn zero(device: &dyn BlockDevice, at: Extent, how: Hints) -> Result<(), IoError> {
    device.write_zeroes(at, how, Zeroes::default()).await
}

/// The first byte of each sector.
async fn values(device: &dyn BlockDevice, at: Extent) -> Vec<u8> {
    let read = device.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await.unwrap().to_vec();
    read.chunks(SECTOR_BYTES as usize).map(|sector| sector[0]).collect()
}

/// Baselines that answer requests exactly as `organpipe` does.
const AS_ORGANPIPE: [&str; 3] = ["alis", "lru", "smq"];

/// Options with which a layer does no harm.
fn harmless(name: &str) -> &'static str {
    match name {
        "error" | "lose" => "rate_pct = 0.0",
        "powercut" => "nth = 1_000_000",
        "delay" => "time = '1us'",
        "split" => "largest = '8KiB'",
        _ => "",
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    /// Writes of data and of zeroes anywhere, with FUA or without, and flushes: each layer reads as a register.
    #[test]
    fn zeroes_over_data_read_as_zeroes_through_every_layer(
        steps in prop::collection::vec((0..5_u8, 0..SECTORS, 1..40_u64), 1..24),
    ) {
        for entry in LAYERS.iter().filter(|entry| !AS_ORGANPIPE.contains(&entry.name)) {
            let run = async {
                let device = layer(entry.name, harmless(entry.name)).await.1.device;
                let mut model = vec![0; SECTORS as usize];
                for (value, (what, start, sectors)) in (1..).zip(&steps) {
                    let at = Extent::new(*start, (*sectors).min(SECTORS - start));
                    let how = Hints { fua: *what == 1, ..Hints::default() };
                    let part = &mut model[at.start.0 as usize..at.end().0 as usize];
                    match what {
                        0 | 1 => {
                            write(&*device, at, value, how).await.unwrap();
                            part.fill(value);
                        }
                        2 => device.flush(how).await.unwrap(),
                        _ => {
                            zero(&*device, at, how).await.unwrap();
                            part.fill(0);
                        }
                    }
                    assert_eq!(values(&*device, at).await, part, "{} at {at}", entry.name);
                }
                assert_eq!(values(&*device, Extent::new(0, SECTORS)).await, model, "{}", entry.name);
            };
            Runtime::new(1).run(run).unwrap();
        }
    }
}

/// Data through a layer, then zeroes over it: what these are answered, how long they took, what is below then, and the
/// layer.
async fn zeroed(name: &str, options: &str) -> (Result<(), IoError>, Nanos, u8, Built) {
    let (below, built) = layer(name, options).await;
    let at = Extent::new(0, 8);
    write(&*built.device, at, 7, Hints::default()).await.unwrap();
    built.device.flush(Hints::default()).await.unwrap();
    let began = now();
    let done = zero(&*built.device, at, Hints::default()).await;
    (done, now().since(began), values(&*below, at).await[0], built)
}

#[test]
fn faults_strike_zeroes_as_they_strike_writes() {
    let only = "ops = ['write zeroes']";
    Runtime::new(1)
        .run(async {
            let (done, _, below, _) = zeroed("error", only).await;
            assert_eq!(
                (done.unwrap_err().kind(), below),
                (ErrorKind::Medium, 7),
                "it fails, and changes nothing"
            );
            let (done, _, below, _) = zeroed("lose", only).await;
            assert_eq!((done, below), (Ok(()), 7), "it is lost");
            let (done, took, below, _) = zeroed("delay", &format!("time = '3s'\n{only}")).await;
            assert_eq!((done, below), (Ok(()), 0));
            assert!(took >= Nanos::from_millis(3_000), "{took}");
            // Written, flushed, zeroed: then a power cut loses the contents of the cache.
            let (done, _, below, built) = zeroed("powercut", "nth = 4\nkeep = 'none'").await;
            assert_eq!((done, below), (Ok(()), 7), "it is in the cache");
            assert_eq!(built.device.flush(Hints::default()).await.unwrap_err().kind(), ErrorKind::Gone);
        })
        .unwrap();
}

#[test]
fn what_a_cache_held_back_does_not_come_over_zeroes() {
    Runtime::new(1)
        .run(async {
            let (below, built) = layer("cache", "").await;
            let at = Extent::new(0, 8);
            write(&*below, at, 6, Hints::default()).await.unwrap();
            write(&*built.device, at, 7, Hints::default()).await.unwrap();
            assert_eq!(values(&*below, at).await[0], 6, "it is held back");
            zero(&*built.device, at, Hints::default()).await.unwrap();
            built.layer.detach().await.unwrap();
            assert_eq!(values(&*below, at).await[0], 0);
        })
        .unwrap();
}

/// A filter that lists nothing but what is below.
struct Nothing(Rc<dyn BlockDevice>);

impl BlockDevice for Nothing {
    fn below(&self) -> Option<&dyn BlockDevice> {
        Some(&*self.0)
    }
}

/// A device that lists nothing at all.
struct Alone;

impl BlockDevice for Alone {}

#[test]
fn what_a_filter_leaves_out_is_done_below_and_what_a_component_leaves_out_is_refused() {
    Runtime::new(1)
        .run(async {
            let (below, _) = layer("split", "").await;
            let (filter, at) = (Nothing(below.clone()), Extent::new(0, 8));
            assert_eq!(filter.geometry(), below.geometry());
            write(&filter, at, 7, Hints::default()).await.unwrap();
            filter.flush(Hints::default()).await.unwrap();
            assert_eq!(values(&filter, at).await, [7; 8]);
            zero(&filter, Extent::new(0, 4), Hints::default()).await.unwrap();
            filter.discard(Extent::new(4, 4), Hints::default()).await.unwrap();
            assert_eq!(values(&*below, at).await[..4], [0; 4]);

            assert_eq!(Alone.geometry(), Geometry::of_memory(0), "every request is past its end");
            let how = Hints::default;
            let fast = Zeroes { only_if_fast: true, ..Zeroes::default() };
            let refused = [
                Alone.read(at, Buffer::zeroed(at.bytes()), how()).await.map(drop),
                write(&Alone, at, 7, how()).await,
                Alone.flush(how()).await,
                Alone.discard(at, how()).await,
                zero(&Alone, at, how()).await,
                Alone.write_zeroes(at, how(), fast).await,
            ];
            for refused in refused {
                assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unsupported);
            }
            let error = Alone.flush(how()).await.unwrap_err().to_string();
            assert!(error.contains("found no flush of its own and nothing below"), "{error}");
        })
        .unwrap();
}
