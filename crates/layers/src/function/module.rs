//! A function as a WebAssembly module: compiled, started, and called for each request.
//!
//! A module has no imports: it sees what the layer writes into its memory, and nothing else. Each call has its fuel,
//! its memory has a limit, and NaNs have one representation, so that the same requests give the same actions
//! everywhere. Fault model: a module may do anything. An invalid file is an error at the start. A call ends with a
//! trap, at the latest when its fuel is used up, or with actions, each of which is checked before it is carried out.
//!
//! Invariant: its two buffers lie within its memory, which never shrinks.

use std::cell::RefCell;
use std::fmt;

use wasmtime::{
    Config, Engine, ExternType, Instance, Memory, Module, ResourceLimiter, Store, Trap, TypedFunc, ValType,
};

use super::abi::{ACTION_BYTES, Action, MOST_ACTIONS, REQUEST_BYTES, Request, VERSION, decode_all};
use super::options::Options;
use super::{Failure, Function};
use crate::{Refused, files};

/// Bytes of the largest module, which takes seconds to compile.
const LARGEST: u64 = 4 << 20;
/// Compiled modules that a thread keeps: explorations start the same one thousands of times.
const KEPT: usize = 8;
/// Stack of a module, in bytes.
const STACK: usize = 256 << 10;
/// Elements of all of a module's tables.
const TABLE_ELEMENTS: usize = 65_536;
/// Calls take as much fuel as they are allowed; starting may take this many times as much.
const FUEL_TO_START: u64 = 10;

/// The memory that a module exports.
const MEMORY: &str = "memory";
/// The functions that it exports: their parameters, and each has one 32-bit result.
const EXPORTS: [(&str, &[ValType]); 3] = [
    ("seekless_abi", &[]),
    ("seekless_start", &[ValType::I64, ValType::I64, ValType::I64]),
    ("seekless_requests", &[ValType::I32]),
];

thread_local! {
    static ENGINE: RefCell<Option<Engine>> = const { RefCell::new(None) };
    /// Bytes of modules, and what they were compiled to; the last one used is the last one.
    static COMPILED: RefCell<Vec<(Vec<u8>, Module)>> = const { RefCell::new(Vec::new()) };
}

/// The engine of this thread.
fn engine() -> Result<Engine, Refused> {
    if let Some(engine) = ENGINE.with_borrow(Clone::clone) {
        return Ok(engine);
    }
    let mut config = Config::new();
    config
        .consume_fuel(true)
        .cranelift_nan_canonicalization(true)
        .wasm_relaxed_simd(false)
        .wasm_memory64(false)
        .wasm_multi_memory(false)
        .wasm_backtrace(false)
        .max_wasm_stack(STACK)
        // The program's own signal handlers stay as they are.
        .signals_based_traps(false)
        // No address space beside what a module uses.
        .memory_reservation(0)
        .memory_guard_size(0)
        .memory_init_cow(false);
    let engine = Engine::new(&config).map_err(|error| {
        let found = format!("no way to run modules on this machine ({error})");
        Refused::new("module", found, "x86-64, AArch64, RISC-V or s390x, or a built-in function")
    })?;
    ENGINE.set(Some(engine.clone()));
    Ok(engine)
}

/// The module of this file, compiled, with the exports that it should have.
fn compiled(file: &str) -> Result<Module, Refused> {
    let expected = "a WebAssembly module";
    let bytes = files::read("module", file, LARGEST, expected)?;
    of_bytes(&bytes)
        .map_err(|(found, expected)| Refused::new("module", format!("'{file}': {found}"), expected))
}

/// What was found and what was expected.
type Mismatch = (String, String);

/// As [`compiled`], of the file's bytes.
pub(super) fn of_bytes(bytes: &[u8]) -> Result<Module, Mismatch> {
    let known = COMPILED.with_borrow_mut(|all| {
        let at = all.iter().position(|(known, _)| known == bytes)?;
        let found = all.remove(at);
        all.push(found);
        all.last().map(|(_, module)| module.clone())
    });
    if let Some(module) = known {
        return Ok(module);
    }
    let engine = engine().map_err(|refused| (refused.found, refused.expected))?;
    if !bytes.starts_with(b"\0asm") {
        return Err(("other bytes".to_owned(), "a WebAssembly module, which begins with \\0asm".to_owned()));
    }
    let module = Module::new(&engine, bytes).map_err(|error| {
        let why = error.root_cause().to_string();
        (why.trim_end().to_owned(), "a valid WebAssembly module without threads or relaxed SIMD".to_owned())
    })?;
    check_exports(&module)?;
    COMPILED.with_borrow_mut(|all| {
        if all.len() == KEPT {
            all.remove(0);
        }
        all.push((bytes.to_vec(), module.clone()));
    });
    Ok(module)
}

/// Checks what a module wants and what it has.
fn check_exports(module: &Module) -> Result<(), Mismatch> {
    if let Some(import) = module.imports().next() {
        let found = format!("an import, {}.{}", import.module(), import.name());
        return Err((found, "a module without imports: it sees requests, and nothing else".to_owned()));
    }
    if !matches!(module.get_export(MEMORY), Some(ExternType::Memory(_))) {
        return Err((format!("no exported memory `{MEMORY}`"), "one".to_owned()));
    }
    for (name, parameters) in EXPORTS {
        let expected =
            format!("{name}({}) -> i32", parameters.iter().map(show).collect::<Vec<_>>().join(", "));
        let Some(ExternType::Func(found)) = module.get_export(name) else {
            return Err((format!("no exported function `{name}`"), format!("`{expected}`")));
        };
        let same = |all: &mut dyn Iterator<Item = ValType>, wanted: &[ValType]| {
            let all: Vec<ValType> = all.collect();
            all.len() == wanted.len() && all.iter().zip(wanted).all(|(one, wanted)| ValType::eq(one, wanted))
        };
        if !same(&mut found.params(), parameters) || !same(&mut found.results(), &[ValType::I32]) {
            return Err((format!("an export `{name}` of another type: {found}"), format!("`{expected}`")));
        }
    }
    Ok(())
}

fn show(value: &ValType) -> String {
    value.to_string()
}

/// The first thing that is wrong with this file.
pub fn check(file: &str) -> Result<(), Refused> {
    compiled(file).map(drop)
}

/// A module that runs.
pub struct Running {
    store: Store<Limits>,
    memory: Memory,
    call: TypedFunc<u32, u32>,
    buffers: Buffers,
    fuel: u64,
    sectors: u64,
    /// Bytes of the last answer.
    answer: Vec<u8>,
}

/// Where a module has its buffers: addresses in its memory, and records that they hold.
#[derive(Clone, Copy, Debug)]
struct Buffers {
    requests: u32,
    actions: u32,
    actions_at_most: u32,
}

/// Starts the module of this file, for a volume of this many sectors.
///
/// # Errors
/// An invalid module, or one that fails as it starts.
pub fn start(file: &str, options: &Options, sectors: u64) -> Result<Box<dyn Function>, Failure> {
    let module = compiled(file).map_err(|refused| Failure::Answer(refused.to_string()))?;
    Ok(Box::new(Running::start(&module, options, sectors)?))
}

impl Running {
    /// Starts it.
    pub(super) fn start(module: &Module, options: &Options, sectors: u64) -> Result<Running, Failure> {
        let limit = options.memory.0;
        let mut store = Store::new(module.engine(), Limits { limit });
        store.limiter(|limits| limits);
        let fuel = options.fuel.saturating_mul(FUEL_TO_START);
        let refuel = |store: &mut Store<Limits>| store.set_fuel(fuel).map_err(|error| failure(&error, fuel));
        refuel(&mut store)?;
        let instance = Instance::new(&mut store, module, &[]).map_err(|error| failure(&error, fuel))?;
        let lacks = |error: wasmtime::Error| Failure::Answer(error.to_string());
        let memory = instance.get_memory(&mut store, MEMORY);
        let memory =
            memory.ok_or_else(|| Failure::Answer(format!("found no memory `{MEMORY}`, expected one")))?;
        let abi = instance.get_typed_func::<(), u32>(&mut store, EXPORTS[0].0).map_err(lacks)?;
        let begin =
            instance.get_typed_func::<(u64, u64, u64), u32>(&mut store, EXPORTS[1].0).map_err(lacks)?;
        let call = instance.get_typed_func::<u32, u32>(&mut store, EXPORTS[2].0).map_err(lacks)?;
        let version = abi.call(&mut store, ()).map_err(|error| failure(&error, fuel))?;
        if version != VERSION {
            let found = format!("found version {version} of the interface, expected {VERSION}");
            return Err(Failure::Answer(found));
        }
        refuel(&mut store)?;
        let table = begin.call(&mut store, (sectors, options.pages(), options.parameter));
        let table = table.map_err(|error| failure(&error, fuel))?;
        let buffers = Buffers::read(memory.data(&store), table)?;
        let fuel = options.fuel;
        Ok(Running { store, memory, call, buffers, fuel, sectors, answer: Vec::new() })
    }

    /// The actions of a call with this request, and whether all of it went well.
    fn called(&mut self, request: &Request) -> Result<Vec<Action>, Failure> {
        self.store.set_fuel(self.fuel).map_err(|error| failure(&error, self.fuel))?;
        let beyond = |_| Failure::Answer("found a buffer outside the memory, expected it inside".to_owned());
        let at = self.buffers.requests as usize;
        self.memory.write(&mut self.store, at, &request.encode()).map_err(beyond)?;
        let count = self.call.call(&mut self.store, 1).map_err(|error| failure(&error, self.fuel))?;
        if count > self.buffers.actions_at_most {
            let most = self.buffers.actions_at_most;
            return Err(Failure::Answer(format!(
                "found {count} actions, expected {most} at most, as it said"
            )));
        }
        if count == 0 {
            return Ok(Vec::new());
        }
        self.answer.resize(count as usize * ACTION_BYTES, 0);
        let at = self.buffers.actions as usize;
        self.memory.read(&self.store, at, &mut self.answer).map_err(beyond)?;
        decode_all(&self.answer, self.sectors).map_err(Failure::Answer)
    }
}

impl Function for Running {
    fn seen(&mut self, request: &Request, actions: &mut Vec<Action>) -> Result<(), Failure> {
        actions.extend(self.called(request)?);
        Ok(())
    }
}

impl Buffers {
    /// Reads the table at this address: requests, their number, actions, their number.
    fn read(memory: &[u8], table: u32) -> Result<Buffers, Failure> {
        let within = |start: u32, bytes: u64, what: &str| {
            let (start, end) = (u64::from(start), u64::from(start) + bytes);
            if start > 0 && end <= memory.len() as u64 {
                return Ok(start as usize);
            }
            Err(Failure::Answer(format!(
                "found {what} at bytes {start} to {end} of its memory, expected them within 1 to {}",
                memory.len()
            )))
        };
        let at = within(table, 16, "the table of seekless_start")?;
        let word =
            |number: usize| u32::from_le_bytes(std::array::from_fn(|byte| memory[at + number * 4 + byte]));
        let (requests, requests_at_most, actions, actions_at_most) = (word(0), word(1), word(2), word(3));
        if requests_at_most == 0 {
            return Err(Failure::Answer("found room for 0 requests, expected 1 or more".to_owned()));
        }
        if !(1..=MOST_ACTIONS).contains(&actions_at_most) {
            let found = format!("found room for {actions_at_most} actions, expected 1 to {MOST_ACTIONS}");
            return Err(Failure::Answer(found));
        }
        let requests_at =
            within(requests, u64::from(requests_at_most) * REQUEST_BYTES as u64, "the requests")? as u64;
        let actions_at =
            within(actions, u64::from(actions_at_most) * ACTION_BYTES as u64, "the actions")? as u64;
        let requests_end = requests_at + u64::from(requests_at_most) * REQUEST_BYTES as u64;
        let actions_end = actions_at + u64::from(actions_at_most) * ACTION_BYTES as u64;
        if requests_at < actions_end && actions_at < requests_end {
            let found = format!(
                "found requests at {requests_at} to {requests_end}, actions at {actions_at} to {actions_end} of its memory"
            );
            return Err(Failure::Answer(format!("{found}, expected them apart")));
        }
        Ok(Buffers { requests, actions, actions_at_most })
    }
}

/// Limits of a module.
struct Limits {
    /// Of its memory, in bytes.
    limit: u64,
}

/// More memory than it may have.
#[derive(Clone, Copy, Debug)]
struct OverMemory {
    found: u64,
    limit: u64,
}

impl fmt::Display for OverMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of memory, {} allowed", self.found, self.limit)
    }
}

impl std::error::Error for OverMemory {}

impl ResourceLimiter for Limits {
    fn memory_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let (found, limit) = (desired as u64, self.limit);
        if found > limit { Err(OverMemory { found, limit }.into()) } else { Ok(true) }
    }

    fn table_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        Ok(desired <= TABLE_ELEMENTS)
    }
}

/// What an error of a call means.
fn failure(error: &wasmtime::Error, fuel: u64) -> Failure {
    if let Some(OverMemory { found, limit }) = error.downcast_ref() {
        return Failure::Memory { found: *found, limit: *limit };
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => Failure::Fuel(fuel),
        Some(trap) => Failure::Trap(trap.to_string().trim_start_matches("wasm trap: ").to_owned()),
        None => Failure::Trap(error.root_cause().to_string()),
    }
}
