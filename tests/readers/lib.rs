//! Every reader of foreign data, given any bytes: readers of traces and histories, of on-disk formats of layers,
//! of volume files, of clients. Each panics where it breaks its guarantees. `fuzz/` generates bytes for
//! them; the test replays the seeds, and inputs found before.

mod bopt;
mod control;
mod dedup;
mod dump;
mod extents;
mod functions;
mod history;
mod inputs;
mod learned;
mod lld;
mod machine;
mod mapper;
mod nbd;
mod partial;
pub mod seeds;
mod sequences;
mod served;
mod trace;
mod volume;

/// Reads an input with the reader of this name; any other name is that of a trace format.
pub fn read(name: &str, input: &[u8]) {
    match name {
        "bopt" => bopt::run(input),
        "control" => control::run(input),
        "dedup" => dedup::run(input),
        "dump" => dump::run(input),
        "extents" => extents::run(input),
        "functions" => functions::run(input),
        "history" => history::run(input),
        "inputs" => inputs::run(input),
        "learned" => learned::run(input),
        "lld" => lld::run(input),
        "machine" => machine::run(input),
        "mapper" => mapper::run(input),
        "nbd" => nbd::run(input),
        "partial" => partial::run(input),
        "sequences" => sequences::run(input),
        "volume" => volume::run(input),
        format => trace::run(format, input),
    }
}
