//! Drives of every kind, at the limits of a description, under random clients: every request is answered once, bytes
//! come back, and a run is reproducible.

use std::cell::Cell;
use std::rc::Rc;

use seekless_core::runtime::{self, Rng, Runtime};
use seekless_core::{Buffer, Class, ErrorKind, Extent, Hints, Nanos, Ticket, Zeroes};
use seekless_drive::scheduler::Policy;
use seekless_drive::spec::{RetrySpec, SeekCurve, Spec, find};
use seekless_drive::{FlashSpec, Model, QueueOptions, Simulated, simulated};

fn disk(name: &str, change: impl FnOnce(&mut Spec)) -> Model {
    let mut spec = find(name).unwrap();
    change(&mut spec);
    checked(&spec.into())
}

fn flash(name: &str, change: impl FnOnce(&mut FlashSpec)) -> Model {
    let Model::Flash(mut spec) = Model::find(name).unwrap() else { panic!("{name} turns") };
    change(&mut spec);
    checked(&(*spec).into())
}

/// As a user's file would be.
fn checked(model: &Model) -> Model {
    let text = match model {
        Model::Disk(spec) => toml::to_string(&**spec).unwrap(),
        Model::Flash(spec) => toml::to_string(&**spec).unwrap(),
    };
    let file = std::env::temp_dir().join(format!("any-drive-{}-{}.toml", std::process::id(), text.len()));
    std::fs::write(&file, text).unwrap();
    let model = Model::find(file.to_str().unwrap()).unwrap_or_else(|error| panic!("{error}"));
    std::fs::remove_file(file).unwrap();
    model
}

/// One cylinder, one head, one zone.
fn tiny(spec: &mut Spec) {
    spec.zone.truncate(1);
    (spec.heads, spec.zone[0].cylinders) = (1, 1);
    spec.zone[0].track_skew = 0.0;
    spec.sectors = u64::from(spec.zone[0].sectors_per_track) - 1;
    spec.seek = SeekCurve::Constant { us: 0.0 };
}

fn drives() -> Vec<(&'static str, Model)> {
    let small_flash = |cache: bool| {
        flash("samsung-870-evo-1tb", |spec| {
            (spec.flash.channels, spec.flash.dies_per_channel, spec.flash.page_sectors) = (1, 1, 1024);
            spec.sectors = 1_000;
            spec.controller.write_buffer_sectors = 1_024;
            spec.controller.write_cache = cache;
        })
    };
    let written = |model: Model| {
        let mut model = model;
        model.set_write_cache(true);
        model
    };
    vec![
        ("plain", disk("wd-re3-1tb", |_| {})),
        ("one track", disk("wd2500aaks", tiny)),
        ("one track, written behind", written(disk("wd2500aaks", tiny))),
        ("buffer of a sector", written(disk("wd-re3-1tb", |spec| spec.cache.write_buffer_sectors = 1))),
        ("buffer of 100 sectors", written(disk("wd-re3-1tb", |spec| spec.cache.write_buffer_sectors = 100))),
        (
            "a buffer of two ranges, in turn",
            written(disk("wd-re3-1tb", |spec| {
                (spec.cache.write_buffer_ranges, spec.cache.destage_overtakes) = (2, 1);
                (spec.queue.overtakes, spec.queue.starvation_ms) = (1, 0.001);
            })),
        ),
        (
            "every access retried, a window of one, bands of a cylinder",
            written(disk("seagate-st2000dm006-2", |spec| {
                (spec.cache.destage_window, spec.queue.window, spec.layout.band_cylinders) = (1, 1, 1);
                spec.cache.destage_starvation_ms = 1e-6;
                spec.retries = Some(RetrySpec { share: 1.0, revolutions: 3, seed: u64::from(u32::MAX) });
            })),
        ),
        (
            "no buffer",
            written(disk("wd-re3-1tb", |spec| {
                spec.cache.write_buffer_sectors = 0;
                spec.queue.queued_flush = true;
            })),
        ),
        (
            "six arms",
            written(disk("seagate-exos-2x18-18tb", |spec| {
                spec.actuators = 6;
                spec.sectors = 6 * 12_345_677;
            })),
        ),
        (
            "a band as large as can be",
            disk("seagate-archive-8tb", |spec| {
                let shingled = spec.shingled.as_mut().unwrap();
                (shingled.band_sectors, shingled.media_cache_sectors) = (1 << 24, 1 << 18);
                (shingled.header_sectors, shingled.clean_after_ms) = (1_024, 0.0);
                spec.sectors = 300_000;
            }),
        ),
        (
            "bands of a sector",
            written(disk("seagate-archive-8tb", |spec| {
                let shingled = spec.shingled.as_mut().unwrap();
                (shingled.band_sectors, shingled.media_cache_sectors) = (1, 1 << 18);
                shingled.header_sectors = 0;
            })),
        ),
        ("a page larger than the drive", small_flash(true)),
        ("the same without a cache", small_flash(false)),
        ("sixty-five thousand lanes", flash("samsung-pm9a3-1920gb", |spec| spec.queue.depth = 65_536)),
        (
            "slow to wake",
            flash("intel-x25-v", |spec| {
                let power = spec.power.get_or_insert_with(Default::default);
                power.state = vec![seekless_drive::spec::PowerState {
                    name: "asleep".to_owned(),
                    watts: 0.1,
                    after_s: 1e-6,
                    recover_ms: 50.0,
                    recover_w: 3.0,
                }];
                spec.source.insert("power".to_owned(), "assumed: so that it sleeps".to_owned());
            }),
        ),
    ]
}

/// The work of one client in its part of the drive.
struct Client {
    drive: Rc<dyn Simulated>,
    part: Extent,
    /// The content of its sectors; every other client's part is separate.
    bytes: Vec<u8>,
    aborted: Rc<Cell<u64>>,
}

impl Client {
    fn somewhere(&self, rng: &mut Rng) -> Extent {
        let most = self.part.sectors;
        let sectors = match rng.below(8) {
            0 => 1 + rng.below(most),
            1 => most,
            _ => 1 + rng.below(most.min(40)),
        };
        Extent::new(self.part.start.0 + rng.below(most - sectors + 1), sectors)
    }

    fn of(&self, at: Extent) -> std::ops::Range<usize> {
        let first = (at.start.0 - self.part.start.0) as usize * 512;
        first..first + at.bytes() as usize
    }

    async fn one(&mut self, rng: &mut Rng) {
        let at = self.somewhere(rng);
        let how =
            Hints { class: Class::ALL[rng.below(4) as usize], fua: rng.below(4) == 0, ..Hints::default() };
        match rng.below(10) {
            0..=2 => {
                let back = self.drive.read(at, Buffer::zeroed(at.bytes()), how).await.unwrap();
                assert!(back.to_vec() == self.bytes[self.of(at)], "{at}");
            }
            3..=5 => {
                let fill = vec![rng.below(256) as u8; at.bytes() as usize];
                self.drive.write(at, Buffer::from_vec(fill.clone()), how).await.unwrap();
                let range = self.of(at);
                self.bytes[range].copy_from_slice(&fill);
            }
            6 => {
                self.drive.write_zeroes(at, how, Zeroes::default()).await.unwrap();
                let range = self.of(at);
                self.bytes[range].fill(0);
            }
            7 => self.drive.flush(how).await.unwrap(),
            8 => self.drive.discard(at, how).await.unwrap(),
            _ => self.ticketed(at, how, rng).await,
        }
    }

    /// A read that is promoted, aborted or left alone after a while.
    async fn ticketed(&mut self, at: Extent, how: Hints, rng: &mut Rng) {
        let ticket = Ticket::new();
        let how = Hints { ticket: Some(ticket.clone()), class: Class::Free, ..how };
        let (drive, flush) = (self.drive.clone(), rng.below(3) == 0);
        let asked = runtime::spawn(async move {
            if flush {
                return drive.flush(how).await;
            }
            drive.read(at, Buffer::zeroed(at.bytes()), how).await.map(drop)
        });
        runtime::sleep(Nanos(rng.below(20_000_000))).await;
        match rng.below(3) {
            0 => ticket.promote(Class::Urgent),
            1 => ticket.abort(),
            _ => return drop(asked),
        }
        match asked.await {
            Ok(()) => {}
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Aborted);
                self.aborted.set(self.aborted.get() + 1);
            }
        }
    }
}

const CLIENTS: u64 = 8;

/// All observations of a run: its events, its end, the work done, and the number of aborted requests.
fn run(model: &Model, options: QueueOptions, seed: u64) -> (u64, Nanos, seekless_drive::Work, u64) {
    let runtime = Runtime::new(seed);
    let result = runtime.run(async {
        let drive = simulated(0, model, options);
        let sectors = drive.geometry().sectors;
        let aborted = Rc::new(Cell::new(0));
        // Spread out, so that parts lie across the ends of arms; none is larger than a request may be.
        let each = (sectors / CLIENTS).clamp(1, 3_000);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let middle = sectors / CLIENTS * number + sectors / CLIENTS / 2;
                let start = middle.saturating_sub(each / 2).min(sectors - each);
                let part = Extent::new(start, each);
                let bytes = vec![0; part.bytes() as usize];
                let mut client = Client { drive: drive.clone(), part, bytes, aborted: aborted.clone() };
                runtime::spawn(async move {
                    let mut rng = runtime::rng("client");
                    for _ in 0..40 {
                        client.one(&mut rng).await;
                    }
                })
            })
            .collect();
        for client in clients {
            client.await;
        }
        let before = drive.joules();
        runtime::sleep(Nanos(100_000_000_000)).await;
        drive.flush(Hints::default()).await.unwrap();
        assert!(drive.joules() >= before, "energy is not given back");
        let (end, work) = (runtime::now(), drive.all());
        let there = end.0 * drive.arms() as u64;
        assert!(work.occupied.0 <= there, "{} of {there} ns", work.occupied);
        if model.disk().is_some() {
            assert_eq!(work.busy(), work.occupied, "a head's time is told once");
        }
        assert!(work.foreground <= work.busy());
        (end, work, aborted.get())
    });
    let (end, work, aborted) = result.unwrap();
    (runtime.event_hash(), end, work, aborted)
}

#[test]
fn every_request_is_answered_and_a_run_is_the_same_again() {
    for (what, model) in drives() {
        let most = model.queue().depth;
        for depth in [None, Some(1), Some(most)] {
            for policy in [Policy::CLook, Policy::Sptf] {
                let options = QueueOptions { depth, policy, ..QueueOptions::default() };
                let first = run(&model, options, 7);
                assert!(first == run(&model, options, 7), "{what}, depth {depth:?}, {policy}");
            }
        }
    }
}
