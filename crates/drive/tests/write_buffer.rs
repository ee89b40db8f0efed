//! A drive that acknowledges writes before they are on the media: what waits for what.

use std::rc::Rc;

use proptest::prelude::*;
use seekless_core::runtime::{self, Runtime};
use seekless_core::{BlockDevice, Buffer, Extent, Hints, Nanos, Op};
use seekless_drive::disk::Drive;
use seekless_drive::scheduler::Policy;
use seekless_drive::spec::find;
use seekless_drive::{Disk, QueueOptions, Simulated, Spec};

mod common;

use common::Lcg;

const MILLISECOND: u64 = 1_000_000;

fn buffered(sectors: u32, order: Policy) -> Spec {
    let mut spec = find("wd-re3-1tb").unwrap();
    spec.set_write_cache(true);
    spec.cache.write_buffer_sectors = sectors;
    spec.cache.destage_order = order;
    spec
}

/// Eight sectors somewhere.
fn somewhere(rng: &mut Lcg, drive: &Drive) -> Extent {
    Extent::new(rng.below(drive.layout().sectors() / 8 - 1) * 8, 8)
}

#[test]
fn a_write_is_acknowledged_at_once_while_there_is_room_and_a_flush_waits_for_all_of_them() {
    let mut drive = Drive::new(&buffered(8 * 100, Policy::Sptf));
    let (mut rng, mut now) = (Lcg(1), Nanos(0));
    let mut took = Vec::new();
    for _ in 0..200 {
        let at = somewhere(&mut rng, &drive);
        took.push(drive.serve(Op::Write, at, now, false).total());
        now += took[took.len() - 1];
    }
    assert!(took[..100].iter().all(|took| took.0 < MILLISECOND), "{:?}", &took[..100]);
    let later: u64 = took[110..].iter().map(|took| took.0).sum();
    assert!(later / 90 > MILLISECOND, "a full buffer takes as fast as the head writes: {later}");
    let flush = drive.serve(Op::Flush, Extent::default(), now, false).total();
    assert!(flush.0 > 100 * MILLISECOND, "{flush}");
    now += flush;
    let flush = drive.serve(Op::Flush, Extent::default(), now, false).total();
    assert!(flush.0 < MILLISECOND, "nothing is left: {flush}");
}

#[test]
fn fua_waits_for_the_media_and_nothing_else() {
    let mut drive = Drive::new(&buffered(8 * 100, Policy::Sptf));
    let (mut rng, mut now) = (Lcg(2), Nanos(0));
    for _ in 0..50 {
        let at = somewhere(&mut rng, &drive);
        now += drive.serve(Op::Write, at, now, false).total();
    }
    let at = somewhere(&mut rng, &drive);
    let through = drive.write_through(at, now, false).total();
    assert!((MILLISECOND..40 * MILLISECOND).contains(&through.0), "{through}");
}

#[test]
fn a_read_hits_the_buffer_and_a_partial_hit_is_destaged_first() {
    let mut drive = Drive::new(&buffered(8 * 100, Policy::Sptf));
    let mut now = drive.serve(Op::Write, Extent::new(1_000_000, 8), Nanos(0), false).total();
    let hit = drive.serve(Op::Read, Extent::new(1_000_002, 4), now, false).total();
    assert!(hit.0 < MILLISECOND, "{hit}");
    now += hit;
    let both = drive.serve(Op::Read, Extent::new(1_000_004, 8), now, false).total();
    let turn = drive.mechanics().revolution();
    assert!(both > turn, "written, then read a turn later: {both}");
    now += both;
    let flush = drive.serve(Op::Flush, Extent::default(), now, false).total();
    assert!(flush.0 < MILLISECOND, "{flush}");
}

#[test]
fn a_write_that_the_buffer_cannot_hold_is_answered_when_it_is_on_the_media() {
    let mut drive = Drive::new(&buffered(8 * 100, Policy::Sptf));
    let took = drive.serve(Op::Write, Extent::new(1_000_000, 801), Nanos(0), false);
    let media = Nanos(801 * drive.mechanics().revolution().0 / 2_192);
    assert!(took.total() > media && took.seek > Nanos(0), "{took:?}");
}

#[test]
fn a_drive_with_nothing_to_do_empties_its_buffer() {
    let mut drive = Drive::new(&buffered(8 * 100, Policy::CLook));
    let (mut rng, mut now) = (Lcg(3), Nanos(0));
    for _ in 0..40 {
        let at = somewhere(&mut rng, &drive);
        now += drive.serve(Op::Write, at, now, false).total();
    }
    let soon = drive.clone().serve(Op::Flush, Extent::default(), now + Nanos(20 * MILLISECOND), false);
    let late = drive.serve(Op::Flush, Extent::default(), now + Nanos(2_000 * MILLISECOND), false);
    assert!(soon.total().0 > 50 * MILLISECOND && late.total().0 < MILLISECOND, "{soon:?} {late:?}");
}

#[test]
fn the_order_in_which_it_is_written_out_matters() {
    let took = |order| {
        let mut drive = Drive::new(&buffered(8 * 500, order));
        let (mut rng, mut now) = (Lcg(4), Nanos(0));
        for _ in 0..5_000 {
            let at = somewhere(&mut rng, &drive);
            now += drive.serve(Op::Write, at, now, false).total();
        }
        (now + drive.serve(Op::Flush, Extent::default(), now, false).total()).seconds()
    };
    let [fcfs, c_look, sptf] = [Policy::Fcfs, Policy::CLook, Policy::Sptf].map(took);
    assert!(sptf < c_look && c_look < 0.6 * fcfs, "FCFS {fcfs} s, C-LOOK {c_look} s, SPTF {sptf} s");
}

proptest! {
    /// Time goes forward, a flush leaves nothing, and writing and flushing takes at least a revolution per write that
    /// does not continue another.
    #[test]
    fn nothing_is_forgotten(
        requests in proptest::collection::vec((0..4_u8, 0..64_u64, 1..40_u64, 0..30_u64), 1..80),
        room in 40..400_u32,
        combine: bool,
    ) {
        let mut spec = buffered(room, Policy::Sptf);
        spec.cache.combine_writes = combine;
        let (mut drive, mut now) = (Drive::new(&spec), Nanos(0));
        for (kind, page, sectors, pause) in requests {
            let at = Extent::new(page * 7, sectors);
            let took = match kind {
                0 => drive.serve(Op::Read, at, now, false),
                1 => drive.write_through(at, now, false),
                2 => drive.serve(Op::Write, at, now, true),
                _ => drive.serve(Op::Write, at, now, false),
            };
            prop_assert!(took.total().0 < 2_000 * MILLISECOND);
            now += took.total() + Nanos(pause * MILLISECOND);
        }
        now += drive.serve(Op::Flush, Extent::default(), now, false).total();
        let again = drive.serve(Op::Flush, Extent::default(), now, false).total();
        prop_assert!(again.0 < MILLISECOND, "{again}");
    }
}

/// Clients that never pause keep it busy exactly all the time, however early it acknowledges.
#[test]
fn the_time_of_a_drive_is_counted_once() {
    let imported = find("quantum-atlas-10k-disksim").unwrap();
    for spec in
        [buffered(0, Policy::Sptf), buffered(64, Policy::Sptf), buffered(20_000, Policy::CLook), imported]
    {
        let runtime = Runtime::new(1);
        let (end, work) = runtime
            .run(async {
                let drive = Rc::new(Disk::new(0, &spec, QueueOptions::default()));
                let clients: Vec<_> = (0..4_u64)
                    .map(|client| {
                        let drive = drive.clone();
                        runtime::spawn(async move {
                            let mut rng = Lcg(client);
                            for i in 0..500_u64 {
                                let at = Extent::new(rng.below(1_000_000) * 8, 8);
                                let buffer = Buffer::hollow_sectors(8);
                                match i % 9 {
                                    0 => drive.flush(Hints::default()).await.unwrap(),
                                    1 | 2 => drop(drive.read(at, buffer, Hints::default()).await.unwrap()),
                                    _ => drive.write(at, buffer, Hints::default()).await.unwrap(),
                                }
                            }
                        })
                    })
                    .collect();
                for client in clients {
                    client.await;
                }
                (runtime::now(), drive.all())
            })
            .unwrap();
        // Destaging after the last answer counts, too.
        let over = work.busy().seconds() - end.seconds();
        assert!((-1e-6..0.05).contains(&over), "{}: busy {} of {end}", spec.name, work.busy());
        assert!(work.foreground.seconds() / end.seconds() > 0.99, "all of it is waited for");
    }
}

#[test]
fn scattered_writes_fill_a_buffer_of_few_ranges_and_sequential_ones_do_not() {
    let mut spec = buffered(8 * 1_000, Policy::Sptf);
    spec.cache.write_buffer_ranges = 20;
    let (mut scattered, mut sequential) = (Drive::new(&spec), Drive::new(&spec));
    let mut rng = Lcg(4);
    let mut times = |drive: &mut Drive, scatter: bool| {
        let mut now = Nanos(0);
        let mut time = |number: u64| {
            let at = if scatter { somewhere(&mut rng, drive) } else { Extent::new(number * 8, 8) };
            let took = drive.serve(Op::Write, at, now, false).total();
            now += took;
            took.0
        };
        (0..200).map(&mut time).collect::<Vec<_>>()
    };
    let took = times(&mut scattered, true);
    assert!(took[..20].iter().all(|&took| took < MILLISECOND), "{:?}", &took[..20]);
    assert!(
        took[100..].iter().sum::<u64>() > 100 * MILLISECOND,
        "the head writes one for each that is accepted"
    );
    let took = times(&mut sequential, false);
    assert!(took.iter().all(|&took| took < MILLISECOND), "one range: {took:?}");
}

/// Time of a flush of 64 writes somewhere.
fn flush_of_64(spec: &Spec) -> u64 {
    let mut drive = Drive::new(spec);
    let (mut rng, mut now) = (Lcg(3), Nanos(0));
    for _ in 0..64 {
        let at = somewhere(&mut rng, &drive);
        now += drive.serve(Op::Write, at, now, false).total();
    }
    drive.serve(Op::Flush, Extent::default(), now, false).total().0
}

#[test]
fn the_less_a_drive_may_reorder_its_buffer_the_longer_a_flush_takes() {
    let whole = buffered(8 * 100, Policy::Sptf);
    let with = |limit: fn(&mut Spec)| {
        let mut spec = whole.clone();
        limit(&mut spec);
        flush_of_64(&spec)
    };
    let all = flush_of_64(&whole);
    let four = with(|spec| spec.cache.destage_window = 4);
    let none = with(|spec| spec.cache.destage_window = 1);
    assert!(all * 3 < four * 2 && four * 5 < none * 4, "{all}, {four}, {none}");
    let aged = with(|spec| spec.cache.destage_starvation_ms = 100.0);
    let in_turn = with(|spec| spec.cache.destage_overtakes = 1);
    assert!(all < aged && aged < none && all < in_turn && in_turn < none, "{aged}, {in_turn}");
    let fcfs = flush_of_64(&buffered(8 * 100, Policy::Fcfs));
    assert_eq!(fcfs, none, "in order of arrival");
}
