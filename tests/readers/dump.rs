//! Any text as a dump of a BOPT, restored over it: what is refused changes nothing; what is accepted opens, and is
//! dumped again as it was. Nothing panics.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use seekless_core::runtime::Runtime;
use seekless_core::{BlockDevice, Buffer, Extent, Hints};
use seekless_layers::registry::{self, Below, Entry};
use seekless_volume::live::tools::parse_dump;
use serde_json::{Value, json};

use super::bopt::{BOPT_PAGES, HOME_PAGES, bytes, component, used};

fn borg() -> &'static Entry {
    registry::find("borg").expect("a layer")
}

/// A table without options.
fn none<T: Default>() -> T {
    T::default()
}

/// An origin and a BOPT.
struct Devices([Rc<dyn BlockDevice>; 2]);

impl Devices {
    async fn new(bopt: Vec<u8>) -> Devices {
        let (home, device) = (component(0, HOME_PAGES), component(1, BOPT_PAGES));
        let all = Extent::of_pages(0, BOPT_PAGES);
        device.write(all, Buffer::from_vec(bopt), Hints::default()).await.expect("memory");
        Devices([home, device])
    }

    fn below(&self) -> Below {
        let [home, bopt] = self.0.clone();
        let devices = BTreeMap::from([("bopt".to_owned(), vec![bopt])]);
        Below { over: vec![home], devices, create: false, timing_only: false }
    }

    async fn dump(&self) -> Value {
        let dump = borg().tools.dump(self.below(), none()).await.expect("it is whole");
        serde_json::to_value(dump).expect("a table")
    }
}

/// Lists as sets: their order does not matter. Checksums are as they were computed.
fn sorted(mut dump: Value) -> Value {
    let map = dump.as_object_mut().expect("an object");
    map.remove("sums");
    if let Some(copies) = map.get_mut("copies").and_then(Value::as_array_mut) {
        copies.sort_by_key(ToString::to_string);
    }
    dump
}

async fn restore(bopt: Vec<u8>, text: &str) {
    let Ok(dump) = parse_dump(text) else { return };
    let devices = Devices::new(bopt.clone()).await;
    let restored = borg().tools.restore(devices.below(), none(), dump.clone(), true).await;
    if let Err(error) = restored {
        assert!(error.to_string().contains("expected"), "{error}");
        assert!(bytes(&*devices.0[1], BOPT_PAGES).await == bopt, "what is refused changes nothing: {error}");
        return;
    }
    let again = devices.dump().await;
    assert_eq!(sorted(again), sorted(serde_json::to_value(&dump).expect("a table")));
    let built = borg().build(devices.below(), &none()).await.expect("what was checked opens");
    bytes(&*built.device, HOME_PAGES).await;
    let at = Extent::of_pages(3, 9);
    built.device.write(at, Buffer::zeroed(at.bytes()), Hints::default()).await.expect("memory");
    built.layer.stop().await.expect("memory");
}

thread_local! {
    static USED: OnceCell<Vec<u8>> = const { OnceCell::new() };
}

fn known() -> Vec<u8> {
    USED.with(|known| known.get_or_init(|| Runtime::new(1).run(used()).expect("ends")).clone())
}

/// A dump, and some that differ in a number.
pub fn seeds() -> Vec<Vec<u8>> {
    let dump = Runtime::new(1).run(async { Devices::new(known()).await.dump().await }).expect("ends");
    let with = |key: &str, value: Value| {
        let mut changed = dump.clone();
        changed[key] = value;
        changed.to_string().into_bytes()
    };
    let largest = i64::MAX;
    vec![
        dump.to_string().into_bytes(),
        with("identity", json!("5a".repeat(16))),
        with("sums", json!([])),
        with("sums", json!([[0, 1], [0, 1]])),
        with("copies", json!([[0, 1, false], [3, 2, false]])),
        with("copies", json!([[0, 1, false], [0, 2, true]])),
        with("samples", json!([[HOME_PAGES, 7]])),
        with("samples", json!([[0, 7], [largest, 7]])),
        with("last_batch", json!(largest)),
        with("sessions", json!(largest)),
        with("segment_pages", json!(0)),
        b"{\"layer\": \"borg\"}".to_vec(),
    ]
}

pub fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    Runtime::new(1).run(restore(known(), text)).expect("ends");
}
