//! What passes between a function and the layer, for functions in Rust: begin with `template.rs`, and leave this file
//! as it is. It is version 1 of the interface, which decision 52 describes.
//!
//! Nothing here is unsafe: the layer writes to buffers of atomic numbers, which a module without threads reads as it
//! reads any other.

#![allow(dead_code)] // each function uses a part of it

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Kinds of requests.
pub const READ: u32 = 0;

/// Classes: more urgent ones are smaller.
pub const FOREGROUND: u32 = 1;
pub const BACKGROUND: u32 = 2;

/// Sectors of a page: memory is filled by pages of 4 KiB.
pub const PAGE_SECTORS: u64 = 8;

/// Requests of a call, at most: the layer shows one at a time.
const REQUESTS: usize = 1;
/// 64-bit numbers of a request, and of an action.
const REQUEST: usize = 6;
const ACTION: usize = 4;
/// Actions of a call, at most; more are dropped.
const ACTIONS: usize = 4_096;

static SHOWN: [AtomicU64; REQUESTS * REQUEST] = [const { AtomicU64::new(0) }; REQUESTS * REQUEST];
static ANSWER: [AtomicU64; ACTIONS * ACTION] = [const { AtomicU64::new(0) }; ACTIONS * ACTION];
static TABLE: [AtomicU32; 4] = [const { AtomicU32::new(0) }; 4];

/// A function.
pub trait Function {
    /// For a volume of this many sectors, with memory for this many pages; `parameter` is the option of this name, 0 if
    /// it is not set.
    fn start(sectors: u64, pages: u64, parameter: u64) -> Self;

    /// A request arrives.
    fn seen(&mut self, request: &Request, actions: &mut Actions);
}

/// A request that passes.
pub struct Request {
    /// Nanoseconds since the volume was started.
    pub at_ns: u64,
    /// Its first sector, and their number.
    pub start: u64,
    pub sectors: u64,
    /// 0 read, 1 write, 2 flush, 3 discard, 4 write of zeroes.
    pub op: u32,
    /// 0 urgent, 1 foreground, 2 background, 3 free.
    pub class: u32,
    /// The process, its name, and the stream, volume or client; 0 where they are not known.
    pub process: u32,
    pub name: u32,
    pub stream: u32,
    /// Bit 0: durable when answered.
    pub flags: u32,
}

impl Request {
    /// The request at this place in the buffer.
    fn shown(number: usize) -> Request {
        let long = |at: usize| SHOWN[number * REQUEST + at].load(Relaxed);
        let word = |at: usize| (long(3 + at / 2) >> (at % 2 * 32)) as u32;
        Request {
            at_ns: long(0),
            start: long(1),
            sectors: long(2),
            op: word(0),
            class: word(1),
            process: word(2),
            name: word(3),
            stream: word(4),
            flags: word(5),
        }
    }

    /// Whether it is a read that a client waits for.
    pub fn is_read(&self) -> bool {
        self.op == READ && self.class <= FOREGROUND && self.sectors > 0
    }

    /// The sector behind its last one.
    pub fn end(&self) -> u64 {
        self.start + self.sectors
    }
}

/// The actions of a call.
pub struct Actions(usize);

impl Actions {
    /// Has these sectors fetched, unless they are in memory.
    pub fn fetch(&mut self, start: u64, sectors: u64, class: u32) {
        self.push(1 | u64::from(class) << 32, start, sectors);
    }

    /// Drops these sectors from memory.
    pub fn drop(&mut self, start: u64, sectors: u64) {
        self.push(2, start, sectors);
    }

    fn push(&mut self, kind: u64, start: u64, sectors: u64) {
        if self.0 < ACTIONS && sectors > 0 {
            for (at, number) in [kind, start, sectors, 0].into_iter().enumerate() {
                ANSWER[self.0 * ACTION + at].store(number, Relaxed);
            }
            self.0 += 1;
        }
    }
}

/// Tells the layer where the buffers are.
pub fn table() -> u32 {
    let address = |place: *const AtomicU64| place as usize as u32;
    let all = [address(SHOWN.as_ptr()), REQUESTS as u32, address(ANSWER.as_ptr()), ACTIONS as u32];
    for (place, number) in TABLE.iter().zip(all) {
        place.store(number, Relaxed);
    }
    TABLE.as_ptr() as usize as u32
}

/// Shows this many requests to a function; the number of its actions.
pub fn show(function: &mut impl Function, count: u32) -> u32 {
    let mut actions = Actions(0);
    for number in 0..(count as usize).min(REQUESTS) {
        function.seen(&Request::shown(number), &mut actions);
    }
    actions.0 as u32
}

/// The exports of a module with this function.
#[macro_export]
macro_rules! export {
    ($function:ty) => {
        static FUNCTION: std::sync::Mutex<Option<$function>> = std::sync::Mutex::new(None);

        #[no_mangle]
        pub extern "C" fn seekless_abi() -> u32 {
            1
        }

        #[no_mangle]
        pub extern "C" fn seekless_start(sectors: u64, pages: u64, parameter: u64) -> u32 {
            if let Ok(mut function) = FUNCTION.lock() {
                *function = Some(<$function as abi::Function>::start(sectors, pages, parameter));
            }
            abi::table()
        }

        #[no_mangle]
        pub extern "C" fn seekless_requests(count: u32) -> u32 {
            let Ok(mut function) = FUNCTION.lock() else { return 0 };
            function.as_mut().map_or(0, |function| abi::show(function, count))
        }
    };
}
