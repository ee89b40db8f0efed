//! temporary
use seekless_core::*;
fn main() {
    for t in std::env::args().skip(1) {
        let trace = seekless_trace::load(&[&t]).unwrap();
        let mut c = std::collections::BTreeMap::new();
        for r in &trace.records {
            *c.entry((
                format!("{:?}", r.op),
                r.flags.has(Flags::FUA),
                r.flags.has(Flags::PREFLUSH),
                r.flags.has(Flags::SYNC),
            ))
            .or_insert((0, 0)) = {
                let e = c
                    .get(&(
                        format!("{:?}", r.op),
                        r.flags.has(Flags::FUA),
                        r.flags.has(Flags::PREFLUSH),
                        r.flags.has(Flags::SYNC),
                    ))
                    .copied()
                    .unwrap_or((0, 0));
                (e.0 + 1, e.1 + r.extent.sectors)
            };
        }
        println!("{t}");
        for (k, v) in c {
            println!("  {k:?} {v:?}");
        }
    }
}
