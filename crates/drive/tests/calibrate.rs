//! Calibration.
use seekless_core::runtime::Runtime;
use seekless_drive::calibrate::{Comparison, Options, calibrate};
use seekless_drive::spec::{find, shipped};
use seekless_drive::{Disk, QueueOptions};

#[test]
fn all() {
    let only = std::env::var("ONLY").ok();
    for name in shipped().filter(|name| only.as_deref().is_none_or(|only| name.contains(only))) {
        let spec = find(name).unwrap();
        let began = std::time::Instant::now();
        let runtime = Runtime::new(1);
        let disk = Disk::new(0, &spec, QueueOptions::default());
        let found = match runtime.run(calibrate(&disk, Options::default(), &mut |_, _| {})).unwrap() {
            Ok(found) => found,
            Err(error) => { eprintln!("{name}: {error}"); continue; }
        };
        let t = toml::to_string(&found.spec("x", "y")).unwrap(); if let Err(e) = seekless_drive::spec::parse("x", &t) { eprintln!("{name} {e}\n{t}"); continue; }
        let c = Comparison::new(&found, &spec);
        eprintln!("{name:28} {:.4} ppm zones {}/{} tracks {} skews {} begins {:.2} heads {:?}/{} seek {:.4} {:.4} segs {}/{} ahead {}/{} mean {:.3}/{:.3} half {:.1}% med {:.4} | {:.0} s {:?}", c.turn_ppm, c.zones_found, c.zones, c.tracks_right, c.skews_right, c.begins_off_tracks, c.heads_found, c.heads, c.seek_off_ms, c.seek_off_most_ms, c.segments_found, c.segments, c.ahead_found, c.ahead, c.replay.mean_simulated_ms, c.replay.mean_measured_ms, c.replay.within_half_ms_pct, c.replay.median_error_ms, found.seconds, began.elapsed());
        if only.is_some() { eprintln!("{:?} {:?} {:?} {:?}", found.ahead, found.overhead, found.head_switch_us, found.zones[0]);
          seekless_drive::spec::parse("x", &toml::to_string(&found.spec("x", "y")).unwrap()).unwrap();
        }
    }
}
