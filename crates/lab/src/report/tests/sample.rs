//! Figures as of a day of a mail server, with names chosen to break a page.

use seekless_core::runtime::Event;
use seekless_core::{Class, Extent, Nanos, Op};
use seekless_trace::Stats;
use seekless_trace::stats::{HeatMap, ProcessUse, RankPoint, SizeBucket, WorkingSet};

use crate::accesses::{Accesses, Follower};
use crate::outcome::{
    Comparison, DriveWork, HeadTime, Phase, Reconfiguration, Settings, Side, Stage, TrafficFigures, Variant,
};
use crate::workload::answers::{Response, Responses};

pub const HOSTILE: &str = "</script><script>alert(\"1\")</script><img src=x onerror='a'>&\u{1}";

pub fn curve(pages: u32, hottest: f64) -> Vec<RankPoint> {
    let ranks = (0..120).map(|step| f64::from(pages).powf(f64::from(step) / 119.0).round() as u64);
    let accesses = |rank: u64| (hottest / (rank as f64).powf(0.8)).ceil().max(1.0) as u64;
    let mut points: Vec<RankPoint> = ranks.map(|rank| RankPoint { rank, accesses: accesses(rank) }).collect();
    points.dedup();
    points
}

pub fn heat_map() -> HeatMap {
    let (columns, rows) = (64, 32);
    let hot = |region: u64| match (region * 7919 + region * region * 31) % 97 {
        far if region > 1500 && far > 9 => 0,
        far if far > 60 => 0,
        far => 120_000 / (1 + far * far * far + region / 40),
    };
    let accesses: Vec<u64> = (0..columns * rows).map(hot).collect();
    let highest = accesses.iter().copied().max().unwrap_or(1) as f64;
    let level = |&count: &u64| match count {
        0 => 0,
        count => (1.0 + 5.0 * (count as f64).ln() / highest.ln()).min(5.0) as u8,
    };
    let levels = accesses.iter().map(level).collect();
    HeatMap { columns: columns as u32, rows: rows as u32, device_pages: 244_190_646, accesses, levels }
}

pub fn stats() -> Stats {
    let set = |at: u64| WorkingSet {
        from_s: at as f64,
        first_request: at * 28_571,
        requests: 28_571,
        pages: 41_000 - at * 700,
        overlap_first_pct: [100.0, 61.2, 58.9, 55.1, 54.8, 50.2, 49.9][at as usize],
        overlap_previous_pct: [100.0, 61.2, 64.0, 66.3, 63.1, 65.8, 67.4][at as usize],
        top20_pages: 8_200 - at * 140,
        top20_overlap_first_pct: [100.0, 78.3, 75.0, 71.4, 70.2, 68.8, 66.1][at as usize],
        top20_overlap_previous_pct: [100.0, 78.3, 80.2, 81.9, 79.7, 82.5, 83.0][at as usize],
    };
    let process = |name: &str, requests: u64| ProcessUse {
        name: name.to_owned(),
        requests,
        reads: requests / 3,
        writes: requests - requests / 3,
        read_gib: 0.21,
        write_gib: 1.4,
        share_pct: requests as f64 / 2000.0,
    };
    Stats {
        requests: 200_000,
        reads: 61_233,
        writes: 138_767,
        flushes: 4_211,
        read_gib_total: 2.31,
        read_gib_unique: 1.12,
        write_gib_total: 3.87,
        write_gib_unique: 0.41,
        total_gib_unique: 1.37,
        device_gib: 40.0,
        device_accessed_pct: 3.425,
        top20_share_pct: 72.4,
        top20_read_share_pct: 51.0,
        top20_write_share_pct: 80.9,
        nonsequential_pct: 82.31,
        partial_determinism_pct: 44.7,
        partial_determinism_per_process_pct: 51.2,
        seconds: 86_311.4,
        accessed_pages: 359_137,
        processes: 112,
        read_rank_frequency: curve(240_000, 3_100.0),
        write_rank_frequency: curve(110_000, 21_000.0),
        heat_map: heat_map(),
        working_sets: (0..7).map(set).collect(),
        top_processes: vec![process("kjournald", 71_000), process("imapd", 52_400), process(HOSTILE, 31_000)],
        request_sizes: (2..11)
            .map(|power| SizeBucket {
                up_to_kib: 1 << power,
                reads: 90_000 >> power,
                writes: 300_000 >> power,
            })
            .collect(),
        ..Stats::default()
    }
}

pub fn work(busy_s: f64) -> DriveWork {
    let part = |share: f64| busy_s * share;
    DriveWork {
        head: HeadTime {
            busy_s,
            seek_s: part(0.46),
            rotation_s: part(0.38),
            transfer_s: part(0.11),
            overhead_s: part(0.05),
        },
        foreground_s: part(0.8),
        background_s: part(0.2),
        background_in_idle_time_s: part(0.1),
        seeks: (busy_s * 97.0) as u64,
        mean_seek_cylinders: 21_734.6,
        nonsequential_pct: 1.27,
        blocks_read: 4_844_421,
        blocks_written: 8_116_036,
    }
}

pub fn phases() -> Vec<Phase> {
    let names = ["N1", "R1", "N2", "R2", "N3", "R3", "N4", "R4", "N5", "final"];
    let requests = [40_000, 3_100, 36_900, 2_800, 37_200, 2_900, 37_100, 2_700, 37_300, 0];
    let busy = [301.0, 61.2, 166.0, 44.0, 151.3, 39.7, 148.0, 36.1, 140.2, 9.4];
    let vanilla = [301.0, 24.0, 281.0, 21.1, 279.5, 22.8, 283.1, 20.0, 277.4, 0.0];
    (0..names.len())
        .map(|at| Phase {
            name: names[at].to_owned(),
            first_request: requests[..at].iter().sum(),
            requests: requests[at],
            work: work(busy[at]),
            vanilla_busy_s: vanilla[at],
            reduction_pct: if vanilla[at] > 0.0 { 100.0 - 100.0 * busy[at] / vanilla[at] } else { 0.0 },
            served_from_bopt_pct: 61.0,
            mean_response_ms: 8.1,
            p99_response_ms: 39.0,
            ..Phase::default()
        })
        .collect()
}

pub fn side(seeks: u64, mean_seek_bytes: f64) -> Side {
    Side {
        requests: 44_812,
        seeks,
        crossings: 0,
        mean_seek_bytes,
        nonsequential_pct: 6.01,
        blocks_read: 240_599,
        blocks_written: 295_834,
    }
}

pub fn traffic() -> TrafficFigures {
    TrafficFigures {
        above: side(14_450, 3_780_000_000.0),
        below: side(9_321, 353_700_000.0),
        background: side(12_666, 16_100_000.0),
        pages: 67_056,
        hits: 55_313,
        splits: 569,
        absorbed_pages: 35_983,
        drained_pages: 36_013,
        layer: "borg".to_owned(),
    }
}

pub fn reconfiguration(number: u64) -> Reconfiguration {
    let stages = [
        ("analyse", 2.0, 40_000),
        ("plan", 0.7, 31_022),
        ("outgoing", 14.1, 2_107),
        ("relocate", 21.8, 9_411),
    ]
    .into_iter()
    .chain([("incoming", 38.3, 21_611)])
    .map(|(name, seconds, pages)| Stage { name: name.to_owned(), seconds: seconds / number as f64, pages })
    .collect();
    Reconfiguration {
        name: format!("R{number}"),
        start_s: 17_000.0 * number as f64,
        stages,
        vertices: 40_112,
        edges: 96_870,
        planned_pages: 31_022,
        ..Reconfiguration::default()
    }
}

/// What a drive did: clients, with background work in between.
fn accesses(step: u64) -> Accesses {
    let follower = Follower::default();
    let mut sink = follower.sink();
    for id in 0..400 {
        let class = if id % 5 == 0 { Class::Background } else { Class::Foreground };
        let op = if id % 3 == 0 { Op::Write } else { Op::Read };
        let extent = Extent::new(id * step % 1_900_000_000, 8);
        sink(Nanos(id * 200_000_000), &Event::Request { device: 0, id, op, extent, class });
        sink(Nanos(id * 200_000_000 + step), &Event::Complete { device: 0, id, ok: true });
    }
    follower.finish([HOSTILE.to_owned()])
}

fn responses(scale: u64) -> Responses {
    let histogram = (0..12).map(|power| (0.1 * f64::from(1 << power), scale * (12 - power))).collect();
    Responses {
        all: Response { requests: scale * 78, histogram, ..Response::default() },
        ..Responses::default()
    }
}

pub fn comparison() -> Comparison {
    let histogram =
        |scale: u64| (0..18).map(|power| (1 << power, scale * (20 - power) * (power % 5 + 1))).collect();
    let vanilla = Variant {
        name: "vanilla".to_owned(),
        work: work(1_509.9),
        mean_queue: 3.1,
        merge_ratio: 1.21,
        elapsed_s: 86_411.0,
        idle_s: 84_901.1,
        seek_histogram: histogram(61),
        response_ms: responses(100),
        accesses: accesses(123_456_789),
        event_hash: "9f3c00d1e2b4a587".to_owned(),
        ..Variant::default()
    };
    let borg = Variant {
        name: "borg".to_owned(),
        work: work(1_096.9),
        served_from_bopt_pct: 58.3,
        traffic: Some(traffic()),
        reduction_pct: 46.1,
        net_reduction_pct: 31.4,
        foreground_reduction_pct: 43.9,
        reconfiguring_requests_pct: 5.75,
        mean_queue: 2.2,
        merge_ratio: 1.4,
        elapsed_s: 86_399.0,
        idle_s: 85_302.1,
        map_bytes: 10_485_760,
        longest_mover_wait_ms: 12.5,
        phases: phases(),
        reconfigurations: (1..=4).map(reconfiguration).collect(),
        seek_histogram: histogram(37),
        response_ms: responses(90),
        accesses: accesses(4_096),
        event_hash: "01ab5500ffee9c21".to_owned(),
        ..Variant::default()
    };
    Comparison {
        settings: Settings {
            trace: vec!["data/mail.blkparse.gz".to_owned(), format!("{HOSTILE}.csv")],
            drive: "wd-re3-1tb".to_owned(),
            drive_chosen_because: None,
            pace: "closed".to_owned(),
            scheduler: "c-look".to_owned(),
            starvation_limit_ms: 1000.0,
            depth: None,
            write_cache: false,
            outstanding: 8,
            speed: 1.0,
            merge: true,
            over_bytes: 1_000_204_886_016,
            bopt_bytes: 4 << 30,
            bopt_at_sector: 1_945_136_560,
            bopt_drive: None,
            write_buffer: 0.4,
            reconfigure: 4,
            schedule: "4 times".to_owned(),
            background_share_pct: 10.0,
            reconfigure_clock: "run".to_owned(),
            reconfigure_class: "background".to_owned(),
            freeblock: None,
            volumes: Vec::new(),
        },
        reduction_pct: borg.reduction_pct,
        net_reduction_pct: borg.net_reduction_pct,
        foreground_reduction_pct: borg.foreground_reduction_pct,
        reconfiguring_requests_pct: borg.reconfiguring_requests_pct,
        variants: vec![vanilla, borg],
        notes: vec![
            "The trace is played closed: its think times are lost, and the drive is never idle.".to_owned(),
            format!("A note about {HOSTILE}."),
        ],
    }
}
