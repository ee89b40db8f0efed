//! Flash drives against published values, and the order of their operations.

use std::rc::Rc;

use seekless_core::runtime::{self, Runtime};
use seekless_core::{BlockDevice, Buffer, Extent, Hints, Nanos, Op};
use seekless_drive::flash::Flash;
use seekless_drive::{FlashDrive, FlashSpec, Model, QueueOptions, Simulated};

fn flash(name: &str) -> FlashSpec {
    match Model::find(name).unwrap() {
        Model::Flash(spec) => *spec,
        Model::Disk(_) => panic!("{name} turns"),
    }
}

/// Rate of requests of `sectors`, sequential or random, with a number outstanding.
fn per_second(spec: &FlashSpec, write: bool, sectors: u64, sequential: bool, outstanding: u64) -> f64 {
    const REQUESTS: u64 = 320_000;
    let runtime = Runtime::new(1);
    runtime
        .run(async {
            let options =
                QueueOptions { depth: Some(outstanding as u32), merge: false, ..QueueOptions::default() };
            let drive = Rc::new(FlashDrive::new(0, spec, options));
            let next = Rc::new(std::cell::Cell::new(0));
            let each = REQUESTS / sectors.clamp(1, 16) / outstanding;
            let clients: Vec<_> = (0..outstanding)
                .map(|_| {
                    let (drive, next, end) = (drive.clone(), next.clone(), spec.sectors / sectors - 1);
                    runtime::spawn(async move {
                        let mut rng = runtime::rng("client");
                        for _ in 0..each {
                            let number =
                                if sequential { next.replace(next.get() + 1) } else { rng.below(end) };
                            let (at, buffer) =
                                (Extent::new(number * sectors, sectors), Buffer::hollow_sectors(sectors));
                            if write {
                                drive.write(at, buffer, Hints::default()).await.unwrap();
                            } else {
                                drive.read(at, buffer, Hints::default()).await.unwrap();
                            }
                        }
                    })
                })
                .collect();
            for client in clients {
                client.await;
            }
            let bytes = drive.all().blocks_read + drive.all().blocks_written;
            drop(drive);
            bytes as f64 / sectors as f64 / runtime::now().seconds()
        })
        .unwrap()
}

#[test]
fn rates_are_those_that_are_published() {
    let mut wrong = 0;
    // Sequential read and write rates in MB/s; random reads and writes of 4 KiB in thousands per second, and the number
    // of outstanding reads.
    for (name, read, write, reads, writes, outstanding) in [
        ("intel-x25-v", 170.0, 35.0, 25.0, 2.5, 32),
        ("samsung-870-evo-1tb", 560.0, 530.0, 98.0, 88.0, 32),
        ("samsung-pm9a3-1920gb", 6_800.0, 2_700.0, 850.0, 130.0, 256),
    ] {
        let spec = flash(name);
        let buffer = u64::from(spec.controller.write_buffer_sectors);
        // A smaller write buffer, so that the rate is soon that of the cells.
        let mut small = spec.clone();
        small.controller.write_buffer_sectors = buffer.min(4_096) as u32;
        let mb_s = |per_second: f64| per_second * 0.131_072;
        for (what, published, ours) in [
            ("MB/s read", read, mb_s(per_second(&spec, false, 256, true, 32))),
            ("MB/s written", write, mb_s(per_second(&small, true, 256, true, 32))),
            ("thousand reads/s", reads, per_second(&spec, false, 8, false, outstanding) / 1e3),
            ("thousand writes/s", writes, per_second(&small, true, 8, false, 32) / 1e3),
        ] {
            println!("{name:<22} {what:<18} published {published:>7.1}  ours {ours:>7.1}");
            wrong += usize::from((ours / published - 1.0).abs() > 0.05);
        }
    }
    assert_eq!(wrong, 0, "figures are more than 5 % off");
    let alone = per_second(&flash("samsung-870-evo-1tb"), false, 8, false, 1);
    println!("samsung-870-evo-1tb    reads/s one at a time: published 13000, ours {alone:.0}");
    assert!((alone / 13_000.0 - 1.0).abs() < 0.05, "{alone}");
}

#[test]
fn a_flush_waits_for_the_cells_unless_the_buffer_outlives_a_loss_of_power() {
    let took = |name| {
        let mut drive = Flash::new(&flash(name));
        let write = drive.serve(Op::Write, Extent::new(800, 8), Nanos(0), false).total();
        let again = drive.clone().serve(Op::Write, Extent::new(8_000, 8), write, true).total();
        let flush = drive.serve(Op::Flush, Extent::default(), write, false).total();
        let nothing = drive.serve(Op::Flush, Extent::default(), write + flush, false).total();
        [write, again, flush, nothing].map(|time| time.0 / 1_000)
    };
    let [write, through, flush, nothing] = took("samsung-870-evo-1tb");
    assert!(
        write < 50 && through > 640 && flush > 1_000 && nothing < 50,
        "{write} {through} {flush} {nothing} us"
    );
    let [write, through, flush, nothing] = took("samsung-pm9a3-1920gb");
    assert!(
        write < 20 && through < 20 && flush < 20 && nothing < 20,
        "{write} {through} {flush} {nothing} us"
    );
}

#[test]
fn a_read_after_a_write_is_served_from_the_buffer() {
    let mut drive = Flash::new(&flash("samsung-870-evo-1tb"));
    let mut now = drive.serve(Op::Write, Extent::new(800, 32), Nanos(0), false).total();
    let hit = drive.serve(Op::Read, Extent::new(800, 8), now, false).total();
    let other = drive.serve(Op::Read, Extent::new(80_000, 8), now, false).total();
    assert!(hit.0 < 40_000 && other > hit, "{hit} {other}");
    now += Nanos(1_000_000_000);
    let later = drive.serve(Op::Read, Extent::new(800, 8), now, false).total();
    assert!(later > hit, "it is in its cells: {later}");
}

#[test]
fn a_drive_without_a_write_cache_answers_when_it_is_written() {
    let mut spec = flash("samsung-870-evo-1tb");
    spec.controller.write_cache = false;
    let mut drive = Flash::new(&spec);
    let write = drive.serve(Op::Write, Extent::new(800, 8), Nanos(0), false).total();
    assert!(write.0 > 640_000, "{write}");
    let flush = drive.serve(Op::Flush, Extent::default(), write, false).total();
    assert!(flush.0 < 50_000, "nothing is left to flush: {flush}");
}

/// Two writes of 20 sectors are more than a page of 32: no page takes more than it holds.
#[test]
fn writes_that_do_not_fill_pages_evenly_take_as_long_a_sector() {
    let mut spec = flash("samsung-870-evo-1tb");
    spec.controller.write_buffer_sectors = 4_096;
    (spec.controller.each_us, spec.controller.latency_us, spec.controller.bus_mb_s) = (0.0, 0.0, 6_000.0);
    let per_sector = |sectors: u64| {
        let (mut drive, mut now) = (Flash::new(&spec), Nanos(0));
        // Each within a page of the address space.
        for i in 0..20_000 {
            now += drive.serve(Op::Write, Extent::new(i * 7 % 50_000 * 32, sectors), now, false).total();
        }
        now.seconds() / sectors as f64
    };
    let even = per_sector(16);
    for sectors in [17, 20, 24, 31] {
        let odd = per_sector(sectors);
        assert!((odd / even - 1.0).abs() < 0.03, "{sectors} sectors: {odd} instead of {even}");
    }
}

/// Each key of the cells and the controller changes a time.
#[test]
fn each_figure_changes_a_time() {
    let times = |spec: &FlashSpec| {
        let (mut drive, mut now) = (Flash::new(spec), Nanos(0));
        let mut lcg = 1_u64;
        (0..600_u64)
            .map(|i| {
                lcg = lcg.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = Extent::new((lcg >> 33) % 60_000_000, 1 + (lcg >> 20) % 200);
                let op = [Op::Write, Op::Write, Op::Read, Op::Write, Op::Read, Op::Flush][(i % 6) as usize];
                let took = drive.serve(op, at, now, i % 7 == 0).total();
                now += Nanos(took.0 / 2);
                took.0
            })
            .collect::<Vec<_>>()
    };
    let spec = flash("intel-x25-v");
    let usual = times(&spec);
    let whole = toml::Value::try_from(&spec).unwrap();
    for table in ["flash", "controller"] {
        for (key, value) in whole[table].as_table().unwrap() {
            let mut changed = whole.clone();
            changed[table][key] = match value {
                toml::Value::Boolean(is) => (!is).into(),
                toml::Value::Integer(n) => (n * 2).into(),
                toml::Value::Float(x) => (x * 2.0 + 5.0).into(),
                other => panic!("{key} = {other}"),
            };
            assert_ne!(times(&changed.try_into().unwrap()), usual, "{table}.{key}");
        }
    }
}
