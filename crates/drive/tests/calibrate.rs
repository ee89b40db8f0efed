//! Calibration.
use seekless_core::runtime::Runtime;
use seekless_drive::calibrate::{Options, calibrate};
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
        eprintln!("== {name} true turn {}", 60e9 / spec.rpm);
        let found = runtime.run(calibrate(&disk, Options::default(), &mut |_, _| {})).unwrap();
        eprintln!("{name}: {found:?} {} {:?}", runtime.now(), began.elapsed());
    }
}
