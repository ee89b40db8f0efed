//! Everything that reads bytes which others wrote, given any bytes: readers of traces and histories, of what layers keep
//! on disk, of volume files, of what clients send. Each panics where it breaks its promise. `fuzz/` makes bytes up for
//! them; the test replays those that it begins with, and those that it has learnt.

mod bopt;
mod history;
mod inputs;
mod lld;
mod mapper;
mod nbd;
pub mod seeds;
mod served;
mod trace;
mod volume;

/// Reads an input with the reader of this name; any name but those here is that of a format of traces.
pub fn read(name: &str, input: &[u8]) {
    match name {
        "bopt" => bopt::run(input),
        "history" => history::run(input),
        "inputs" => inputs::run(input),
        "lld" => lld::run(input),
        "mapper" => mapper::run(input),
        "nbd" => nbd::run(input),
        "volume" => volume::run(input),
        format => trace::run(format, input),
    }
}
