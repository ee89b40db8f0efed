//! temporary
use seekless_lab::*;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let wb: f64 = args[2].parse().unwrap();
    let share: u8 = args[3].parse().unwrap();
    for t in args[4..].iter() {
        let mut trace = seekless_trace::load(&[t]).unwrap();
        let d = trace.devices()[0].device;
        trace.keep_device(d);
        let e = Experiment {
            drive: seekless_drive::spec::find("wd2500aaks").unwrap(),
            over_sectors: None,
            layer: Some(LayerSetup {
                name: "borg".into(),
                options: seekless_layers::borg::Options { write_buffer: wb, ..Default::default() },
                bopt_sectors: args[1].parse::<seekless_core::Size>().unwrap().sectors(),
                bopt_at_sector: None,
            }),
            queue: seekless_drive::QueueOptions { background_share_pct: share, ..Default::default() },
            pace: Pace::Closed { outstanding: 8 },
            reconfigure: 4,
            clock: Clock::Run,
            seed: 1,
        };
        let t0 = std::time::Instant::now();
        let c = compare(&trace, &e, &|_| ()).unwrap();
        println!(
            "{t}: reduction {} net {} fg {} reconf% {} [{:?}]",
            c.reduction_pct,
            c.net_reduction_pct,
            c.foreground_reduction_pct,
            c.reconfiguring_requests_pct,
            t0.elapsed()
        );
        for v in &c.variants {
            let w = &v.work;
            println!(
                "  {:8} busy {:.1} seek {:.1} rot {:.1} xfer {:.1} ovh {:.1} fg {:.1} bg {:.1} seeks {} dist {:.0} bopt% {} mq {:.2} merge {:.2} elapsed {:.1}",
                v.name,
                w.head.busy_s,
                w.head.seek_s,
                w.head.rotation_s,
                w.head.transfer_s,
                w.head.overhead_s,
                w.foreground_s,
                w.background_s,
                w.seeks,
                w.mean_seek_cylinders,
                v.served_from_bopt_pct,
                v.mean_queue,
                v.merge_ratio,
                v.elapsed_s
            );
        }
        for p in &c.variants[1].phases {
            println!(
                "    {:6} {:7} busy {:7.2} (fg {:6.2} bg {:6.2}) vanilla {:7.2} red {:6.1} bopt {:5.1}",
                p.name,
                p.requests,
                p.work.head.busy_s,
                p.work.foreground_s,
                p.work.background_s,
                p.vanilla_busy_s,
                p.reduction_pct,
                p.served_from_bopt_pct
            );
        }
        for r in &c.variants[1].reconfigurations {
            println!(
                "    {} v {} e {} planned {} {}",
                r.name,
                r.vertices,
                r.edges,
                r.planned_pages,
                r.stages
                    .iter()
                    .map(|s| format!("{} {:.1}s {}", s.name, s.seconds, s.pages))
                    .collect::<Vec<_>>()
                    .join(", ")
            );
        }
        for n in &c.notes {
            println!("   note {n}");
        }
    }
}
