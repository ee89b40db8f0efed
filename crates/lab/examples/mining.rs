//! Mines, and tells how fast.
use seekless_core::Nanos;
use seekless_drive::freeblock::{FreeOptions, FreePolicy};
use seekless_lab::mining::{Mining, mine};
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let get = |key: &str, default: &str| {
        args.iter().find_map(|a| a.strip_prefix(&format!("{key}="))).unwrap_or(default).to_owned()
    };
    let mut drive = seekless_drive::spec::find(&get("drive", "quantum-atlas-10k-disksim")).unwrap();
    drive.cache.enabled = false;
    drive.set_write_cache(false);
    if get("bare", "1") == "1" {
        drive.cache.read_on_arrival = false;
        drive.cache.zero_latency_read = false;
        drive.cache.zero_latency_write = false;
        drive.bus = Default::default();
        drive.bus.mb_s = Some(1e6);
    }
    if get("command", "1") == "0" {
        drive.command = Default::default();
    }
    let free = FreeOptions {
        policy: get("free", "paper").parse::<FreePolicy>().unwrap(),
        candidates: Some(get("candidates", "200").parse().unwrap()).filter(|&n| n > 0),
        guard: Nanos(get("guard", "0").parse().unwrap()),
        buffers: get("buffers", "1000000000000").parse().unwrap(),
        ..FreeOptions::default()
    };
    for policy in get("policy", "fcfs").split(',') {
        for mpl in get("mpl", "7").split(',') {
            let mining = Mining {
                drive: drive.clone(),
                policy: policy.parse().unwrap(),
                load: format!("oltp:mpl={mpl}"),
                free,
                block: get("block", "8").parse().unwrap(),
                scans: get("scans", "1").parse().unwrap(),
                seed: get("seed", "1").parse().unwrap(),
            };
            let start = cpu();
            let mined = mine(&mining, None).unwrap();
            let took = cpu() - start;
            let seconds = mined.elapsed.seconds();
            let f = mined.freed;
            let mb = (f.bytes + f.foreground_bytes) as f64 / 1e6 / seconds;
            println!(
                "{policy} {mpl}: {:.2} MB/s (fg {:.2}) potential {:.2} scans/day {:.1} last5 {:.1}% last20 {:.1}% seek {:.0}% transfer {:.0}% stops/gap {:.2} tests/gap {:.0} {:.0} req/s {:.0} req/cpu s, {:.1} us/gap",
                mb,
                f.foreground_bytes as f64 / 1e6 / seconds,
                f.potential_bytes as f64 / 1e6 / seconds,
                86_400.0 / mined.scan_s(),
                100.0 * (1.0 - mined.at(95) / mined.at(100)),
                100.0 * (1.0 - mined.at(80) / mined.at(100)),
                100.0 * f.seek.seconds() / f.potential.seconds(),
                100.0 * f.transfer.seconds() / f.potential.seconds(),
                f.stops as f64 / f.gaps as f64,
                f.tested as f64 / f.gaps as f64,
                mined.requests as f64 / seconds,
                mined.requests as f64 / took,
                took * 1e6 / f.gaps as f64
            );
            if get("check", "") == "1" {
                let without = mine(&mining, Some(mined.requests)).unwrap();
                println!("   same: {}", without.hash == mined.hash && without.waited == mined.waited);
            }
        }
    }
}

fn cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    let ticks: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
    (ticks[11].parse::<f64>().unwrap() + ticks[12].parse::<f64>().unwrap()) / 100.0
}
