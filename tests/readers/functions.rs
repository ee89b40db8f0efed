//! What a function answers, as a module would: any bytes are actions within the volume, which are carried out while
//! clients read and write, or an error that turns the function off. Either way data stays right.
//!
//! The input is a number of actions for each request, and the actions.

use std::rc::Rc;

use seekless_core::runtime::Runtime;
use seekless_core::{BlockDevice, Buffer, Extent, Hints, Layer};
use seekless_lab::explore::component::Component;
use seekless_lab::explore::image::Image;
use seekless_layers::function::abi::{ACTION_BYTES, Action, Request, decode_all};
use seekless_layers::function::{Failure, Function, Functional, Options};

/// Sectors of the volume: the last page is cut short.
const SECTORS: u64 = 301;
/// Requests of a run.
const STEPS: u64 = 12;

/// Answers with the input.
struct Answers {
    rest: Vec<u8>,
    at_once: usize,
}

impl Function for Answers {
    fn seen(&mut self, _: &Request, actions: &mut Vec<Action>) -> Result<(), Failure> {
        let bytes = self.rest.len().min(self.at_once * ACTION_BYTES);
        let answer: Vec<u8> = self.rest.drain(..bytes).collect();
        actions.extend(decode_all(&answer, SECTORS).map_err(Failure::Answer)?);
        Ok(())
    }
}

fn action(kind: u32, class: u32, start: u64, sectors: u64) -> Vec<u8> {
    let words = [kind, class].map(u32::to_le_bytes).concat();
    [words, [start, sectors, 0].map(u64::to_le_bytes).concat()].concat()
}

/// Fetches, drops, and what reaches beyond the volume.
pub fn seeds() -> [Vec<u8>; 3] {
    let good: Vec<u8> = (0..20).flat_map(|at| action(1 + at % 2, 0, u64::from(at) * 13, 40)).collect();
    let beyond = action(1, 2, 290, 12);
    [[vec![2], good.clone()].concat(), [vec![3], good, beyond].concat(), vec![1]]
}

async fn check(input: &[u8]) {
    let Some((&at_once, rest)) = input.split_first() else { return };
    let below = Component::instant(0, SECTORS, Image::new(SECTORS));
    let answers = Answers { rest: rest.to_vec(), at_once: usize::from(at_once % 16) };
    let options = Options { size: seekless_layers::Bytes(1 << 20), ..Options::default() };
    let layer = Rc::new(Functional::with(below, options, Box::new(answers)));
    let mut holds = vec![0; SECTORS as usize * 512];
    for step in 0..STEPS {
        let at = Extent::new(step * 47 % 256, 1 + step * 5 % 40);
        let bytes = at.start.0 as usize * 512..at.end().0 as usize * 512;
        if step % 3 == 0 {
            holds[bytes].fill(step as u8);
            let data = Buffer::from_vec(vec![step as u8; at.bytes() as usize]);
            layer.write(at, data, Hints::default()).await.expect("memory");
        } else {
            let read = layer.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await.expect("memory");
            assert!(read.to_vec() == holds[bytes], "step {step}: another version");
        }
    }
    layer.stop().await.expect("memory");
    if let Some(failure) = layer.failure() {
        assert!(failure.to_string().contains("expected"), "{failure}");
    }
}

pub fn run(input: &[u8]) {
    Runtime::new(1).run(check(input)).expect("it ends");
}
