//! What a call of a function costs: the modules that ship, beside the function that is built in. Reads of four clients
//! that read one piece after the other, and a read somewhere else after each eight. The time is the processor's, the
//! median of rounds that take turns; of a call it has what the layer does for it: writing the request, checking the
//! actions.

use std::hint::black_box;
use std::time::Instant;

use seekless_core::{Extent, Hints, Nanos, Op};
use seekless_layers::function::abi::Request;
use seekless_layers::function::{Function, Options, start};

const CALLS: u64 = 100_000;
const ROUNDS: usize = 11;
/// 1 TB.
const SECTORS: u64 = 1_953_525_168;

fn request(number: u64) -> Request {
    let client = number % 4 * 400_000_000;
    let start = if number % 8 == 7 { (number * 7_919_117 % SECTORS) & !7 } else { client + number / 4 * 64 };
    let extent = Extent::new(start.min(SECTORS - 64), 64);
    Request::arriving(Nanos(number * 1_000_000), Op::Read, extent, &Hints::default())
}

/// Nanoseconds a call, and actions a call.
fn round(function: &mut dyn Function, requests: &[Request]) -> (f64, f64) {
    let mut actions = Vec::new();
    let mut count = 0;
    // A benchmark reads the clock.
    #[allow(clippy::disallowed_methods)]
    let begin = Instant::now();
    for request in requests {
        function.seen(black_box(request), &mut actions).expect("a function that ships");
        count += actions.len();
        actions.clear();
    }
    (begin.elapsed().as_nanos() as f64 / requests.len() as f64, count as f64 / requests.len() as f64)
}

/// Name, function, times of the rounds, and actions a call.
type Measured = (String, Box<dyn Function>, Vec<f64>, f64);

fn main() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/functions");
    let modules = ["template", "sequential", "starts", "successors"];
    let mut all: Vec<Measured> = Vec::new();
    let built_in = start(&Options::default(), SECTORS).expect("it is built in");
    all.push(("sequential, built in".to_owned(), built_in, Vec::new(), 0.0));
    for name in modules {
        let module = Some(format!("{folder}/{name}.wasm"));
        let function = start(&Options { module, ..Options::default() }, SECTORS).expect(name);
        all.push((format!("{name}, module"), function, Vec::new(), 0.0));
    }
    for number in 0..ROUNDS as u64 {
        let requests: Vec<Request> = (0..CALLS).map(|at| request(number * CALLS + at)).collect();
        for (_, function, times, count) in &mut all {
            let (time, actions) = round(&mut **function, &requests);
            times.push(time);
            *count = actions;
        }
    }
    println!("function                 ns a call   actions a call");
    for (name, _, times, actions) in &mut all {
        times.sort_by(f64::total_cmp);
        println!("{name:<24} {:>9.0} {actions:>16.3}", times[ROUNDS / 2]);
    }
}
