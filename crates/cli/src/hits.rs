//! `seekless lab hits`: hit ratios of eviction policies on a trace.

use clap::Args;
use seekless_core::{PAGE_BYTES, Size};
use seekless_lab::hits::{Hits, Simulated};
use seekless_layers::cache::policy::Kind;
use seekless_trace::Trace;

use crate::input::Input;
use crate::output::{self, Form};
use crate::progress::Progress;
use crate::table::Table;
use crate::text::{count, number};
use crate::trace;

/// Examples, as `--help` shows them.
pub const HELP: &str = "\
Examples:
  seekless lab hits data/mail
  seekless lab hits data/mail --policy lru,arc --size 16MiB,64MiB
  seekless lab hits data/mail --size 4MiB --json | jq '.[0].hit_pct'

Every page of 4 KiB that a read or write touches is an access, as with libCacheSim on objects of that size, \
and the parameters of the policies are its defaults. The policies: docs/book/caching.md.";

/// Arguments of `lab hits`.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    caches: Caches,
    #[command(flatten)]
    form: Form,
}

/// The caches to compare.
#[derive(Args)]
pub struct Caches {
    /// Policies: lru, clock, 2q, arc, s3-fifo, sieve, drop-when-read [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    policy: Vec<Kind>,
    /// Sizes of the cache
    #[arg(long, value_name = "SIZES", value_delimiter = ',', default_value = "16MiB,64MiB,256MiB", value_parser = size)]
    size: Vec<Size>,
}

fn size(text: &str) -> Result<Size, String> {
    let size: Size = text.parse().map_err(|error: seekless_core::units::UnitError| error.to_string())?;
    if size.0 >= PAGE_BYTES {
        Ok(size)
    } else {
        Err(format!("found {size}, expected a page of 4 KiB or more"))
    }
}

/// Requests between two questions whether to go on.
const ASKED: usize = 4096;

impl Caches {
    /// Plays the trace through every cache. `goes_on` is called now and then; once it returns false, that is all.
    pub fn on(&self, trace: &Trace, goes_on: &mut dyn FnMut() -> bool) -> Vec<Hits> {
        let known: Vec<Kind> = Kind::known().into_iter().map(|(kind, _)| kind).collect();
        let kinds = if self.policy.is_empty() { &known } else { &self.policy };
        let progress = Progress::measured();
        let (mut hits, of) = (Vec::new(), (kinds.len() * self.size.len()) as u64);
        for kind in kinds {
            for size in &self.size {
                progress.at("caching", hits.len() as u64, of);
                let mut cache = Simulated::new(*kind, size.0);
                for records in trace.records.chunks(ASKED) {
                    if !goes_on() {
                        return hits;
                    }
                    for record in records {
                        cache.follow(record);
                    }
                }
                hits.push(cache.hits());
            }
        }
        hits
    }
}

/// Prints the hits of every cache.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let trace = trace::load_as(&arguments.input)?;
    output::warn(&trace.warnings);
    let hits = arguments.caches.on(&trace, &mut || true);
    arguments.form.print_list(&hits, || text(&hits))
}

fn text(hits: &[Hits]) -> String {
    let mut table =
        Table::new(&["policy", ">size", ">accesses", ">hits", ">% of all", ">of reads", ">of writes"]);
    for row in hits {
        table.row([
            row.policy.clone(),
            Size(row.bytes).to_string(),
            count(row.accesses),
            count(row.hits),
            number(row.hit_pct, 2),
            number(row.read_hit_pct, 2),
            number(row.write_hit_pct, 2),
        ]);
    }
    table.text()
}
