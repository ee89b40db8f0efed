//! The modules that ship, in `examples/functions`: what each is good for, and that one of them is the built-in
//! function.

use proptest::prelude::*;
use seekless_core::ProcessId;

use super::super::module::{Running, of_bytes};
use super::*;

fn module(name: &str) -> Vec<u8> {
    let file = format!("{}/../../examples/functions/{name}.wasm", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&file).expect(&file)
}

fn started(name: &str, options: &Options, sectors: u64) -> Running {
    Running::start(&of_bytes(&module(name)).unwrap(), options, sectors).unwrap()
}

fn layer(name: &str, sectors: u64) -> Functional {
    let function = started(name, &options(""), sectors);
    Functional::with(disk(sectors), options(""), Box::new(function))
}

/// A process reads these pages one after the other; returns how long it took.
async fn start(device: &dyn BlockDevice, pages: impl Iterator<Item = u64>) -> Nanos {
    let begin = now();
    for page in pages {
        let at = Extent::of_pages(page, 2);
        device.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await.unwrap();
        // It computes.
        sleep(Nanos::from_millis(5)).await;
    }
    let took = now() - begin;
    sleep(Nanos::from_millis(5_000)).await;
    took
}

#[test]
fn all_are_small() {
    for name in ["template", "sequential", "starts", "successors"] {
        let bytes = module(name).len();
        assert!(bytes <= 20 << 10, "{name}: {bytes} bytes");
    }
}

proptest! {
    /// The module `sequential` takes the actions of the built-in function, whatever is requested.
    #[test]
    fn the_module_sequential_is_the_built_in_function(
        parameter in prop_oneof![Just(0), 1..40_u64, Just(u64::MAX)],
        requests in prop::collection::vec((0..5_usize, 0..24_u64, 0..20_u64, any::<u8>()), 1..400),
    ) {
        let sectors = 1 << 16;
        let set = Options { parameter, ..Options::default() };
        let mut module = started("sequential", &set, sectors);
        let mut built_in = Sequential::new(sectors, parameter);
        let mut streams: Vec<u64> = (0..24).map(|number| number * 2_720).collect();
        let (mut of_module, mut of_built_in) = (Vec::new(), Vec::new());
        for (at, (op, stream, sectors, jump)) in (1..).zip(requests) {
            let next = &mut streams[stream as usize];
            if jump < 20 {
                *next = u64::from(jump) * 3_000;
            }
            let (extent, class) = (Extent::new(*next, sectors), Class::ALL[usize::from(jump) % 4]);
            *next = (*next + sectors) % 60_000;
            let op = [Op::Read, Op::Read, Op::Read, Op::Write, Op::Flush][op];
            let how = Hints { class, ..Hints::default() };
            let request = Request::arriving(Nanos(at), op, extent, &how);
            module.seen(&request, &mut of_module).unwrap();
            built_in.seen(&request, &mut of_built_in).unwrap();
            prop_assert_eq!(&of_module, &of_built_in);
        }
    }
}

#[test]
fn what_a_program_reads_when_it_starts_is_fetched_the_second_time() {
    world(async || {
        let layer = layer("starts", 1 << 24);
        let pages = || (0..100).map(|number| 1_000 + number * 7_919 % 100_000);
        let (first, second) = (start(&layer, pages()).await, start(&layer, pages()).await);
        let _other = start(&layer, pages().map(|page| page + 3)).await;
        let fourth = start(&layer, pages()).await;
        assert_eq!(layer.failure(), None);
        assert!(second.0 * 4 < first.0 * 3, "{second} instead of {first}");
        assert!(fourth.0 * 4 < first.0 * 3, "{fourth} instead of {first}");
        assert_eq!(counted(&layer, "pages_fetched"), 2 * 200);
        layer.stop().await.unwrap();
    });
}

#[test]
fn what_followed_before_is_fetched() {
    world(async || {
        let layer = layer("successors", 1 << 24);
        // Three times the same thirty places, then others.
        for _ in 0..3 {
            start(&layer, (0..30).map(|number| number * 5_003 % 90_000)).await;
        }
        assert!(counted(&layer, "reads_prefetched") >= 20, "{:?}", layer.counters());
        let before = counted(&layer, "actions");
        start(&layer, (0..30).map(|number| 100_000 + number * 5_003 % 90_000)).await;
        assert_eq!(counted(&layer, "actions"), before, "of those nothing is known");
        assert_eq!(layer.failure(), None);
        layer.stop().await.unwrap();
    });
}

#[test]
fn the_template_does_what_its_comment_says() {
    let mut function = started("template", &options(""), 100);
    let mut actions = Vec::new();
    let origin = seekless_core::Origin { process: ProcessId(7), ..Default::default() };
    let how = Hints { origin, ..Hints::default() };
    for (start, sectors) in [(10, 20), (80, 20), (70, 20)] {
        let request = Request::arriving(Nanos(1), Op::Read, Extent::new(start, sectors), &how);
        function.seen(&request, &mut actions).unwrap();
    }
    let fetch =
        |start, sectors| Action::Fetch { extent: Extent::new(start, sectors), class: Class::Background };
    assert_eq!(actions, [fetch(30, 20), fetch(90, 10)]);
}
