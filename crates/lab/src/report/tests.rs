//! Properties of every report, tried on figures as of a day of a mail server, with names chosen to break the page.

use seekless_trace::Stats;
use seekless_trace::stats::{HeatMap, ProcessUse, RankPoint, SizeBucket, WorkingSet};

use super::html;
use crate::outcome::{
    Comparison, DriveWork, HeadTime, Phase, Reconfiguration, Settings, Side, Sides, Stage, Variant,
};

pub(super) const HOSTILE: &str = "</script><script>alert(\"1\")</script><img src=x onerror='a'>&\u{1}";

fn curve(pages: u32, hottest: f64) -> Vec<RankPoint> {
    let ranks = (0..120).map(|step| f64::from(pages).powf(f64::from(step) / 119.0).round() as u64);
    let accesses = |rank: u64| (hottest / (rank as f64).powf(0.8)).ceil().max(1.0) as u64;
    let mut points: Vec<RankPoint> = ranks.map(|rank| RankPoint { rank, accesses: accesses(rank) }).collect();
    points.dedup();
    points
}

fn heat_map() -> HeatMap {
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

fn stats() -> Stats {
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

fn work(busy_s: f64) -> DriveWork {
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
        seeks: (busy_s * 97.0) as u64,
        mean_seek_cylinders: 21_734.6,
        nonsequential_pct: 1.27,
        blocks_read: 4_844_421,
        blocks_written: 8_116_036,
    }
}

fn phases() -> Vec<Phase> {
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
            sides: None,
        })
        .collect()
}

fn side(seeks: u64, mean_seek_bytes: f64) -> Side {
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

fn sides() -> Sides {
    Sides {
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

fn reconfiguration(number: u64) -> Reconfiguration {
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

fn comparison() -> Comparison {
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
        event_hash: "9f3c00d1e2b4a587".to_owned(),
        ..Variant::default()
    };
    let borg = Variant {
        name: "borg".to_owned(),
        work: work(1_096.9),
        served_from_bopt_pct: 58.3,
        sides: Some(sides()),
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
        event_hash: "01ab5500ffee9c21".to_owned(),
        ..Variant::default()
    };
    Comparison {
        settings: Settings {
            trace: vec!["data/mail.blkparse.gz".to_owned(), format!("{HOSTILE}.csv")],
            drive: "wd-re3-1tb".to_owned(),
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
            write_buffer: 0.4,
            reconfigure: 4,
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

fn example() -> String {
    html(&stats(), &comparison(), "seekless lab compare --drive wd-re3-1tb data/mail.blkparse.gz '<x>'")
}

/// The page without uPlot, whose licence line has a URL.
pub(super) fn ours(page: &str) -> String {
    page.replace(super::page::UPLOT_SCRIPT, "").replace(super::page::UPLOT_STYLE, "")
}

/// Parses a page as tags. The error says what is not balanced; the content of script and style is skipped.
pub(super) fn balanced(page: &str) -> Result<Vec<String>, String> {
    const VOID: [&str; 2] = ["meta", "!doctype"];
    // In SVG an element may be self-closing.
    let (mut open, mut seen, mut rest): (Vec<String>, Vec<String>, &str) = (Vec::new(), Vec::new(), page);
    while let Some(at) = rest.find('<') {
        let stray = &rest[..at];
        if stray.contains('>') {
            return Err(format!("a stray > in `{stray}`"));
        }
        let tag = &rest[at + 1..];
        let mut quoted = false;
        let end = tag
            .char_indices()
            .find(|(_, each)| {
                quoted ^= *each == '"';
                *each == '>' && !quoted
            })
            .ok_or("a tag that does not end")?
            .0;
        let (inside, after) = (&tag[..end], &tag[end + 1..]);
        if inside.contains('<') {
            return Err(format!("a < inside `{inside}`"));
        }
        rest = after;
        if let Some(name) = inside.strip_prefix('/') {
            let last = open.pop();
            if last.as_deref() != Some(name) {
                return Err(format!("</{name}> closes {last:?}"));
            }
            continue;
        }
        let name: String = inside.chars().take_while(|each| !each.is_whitespace() && *each != '/').collect();
        seen.push(inside.to_owned());
        if VOID.contains(&name.as_str()) || inside.ends_with('/') {
            continue;
        }
        if name == "script" || name == "style" {
            let close = format!("</{name}>");
            let length = rest.find(&close).ok_or_else(|| format!("<{name}> stays open"))?;
            rest = &rest[length + close.len()..];
            continue;
        }
        open.push(name);
    }
    if open.is_empty() { Ok(seen) } else { Err(format!("open at the end: {open:?}")) }
}

#[test]
fn the_page_is_well_formed() {
    let tags = balanced(&example()).expect("balanced");
    let known = [
        "html",
        "head",
        "body",
        "main",
        "header",
        "section",
        "aside",
        "figure",
        "figcaption",
        "details",
        "summary",
        "svg",
        "g",
        "path",
        "rect",
        "circle",
        "text",
        "title",
        "polyline",
        "pattern",
        "defs",
        "table",
        "caption",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "div",
        "p",
        "h1",
        "h2",
        "h3",
        "ul",
        "li",
        "dl",
        "dt",
        "dd",
        "pre",
        "code",
        "script",
        "style",
        "meta",
        "!doctype",
    ];
    for tag in &tags {
        let name = tag.split([' ', '/']).next().unwrap_or_default();
        assert!(known.contains(&name), "an unknown element: <{tag}>");
    }
}

#[test]
fn the_balancer_finds_what_is_broken() {
    for broken in ["<p>", "<p></b>", "<p>></p>", "<a b=\"<\">", "<script>", "</p>", "<p"] {
        assert!(balanced(broken).is_err(), "{broken}");
    }
    assert!(balanced("<meta a><svg b=\">\"><path/></svg>").is_ok());
}

#[test]
fn names_from_outside_stay_text() {
    let page = example();
    assert!(!page.contains("<img") && !page.contains("<script>alert"));
    assert_eq!(page.matches("<script").count(), 3);
    assert!(page.contains("&lt;img src=x onerror=&#39;a&#39;&gt;&amp;\u{fffd}"));
    let mut stats = stats();
    let mut comparison = comparison();
    stats.top_processes[0].name = HOSTILE.to_owned();
    for variant in &mut comparison.variants {
        variant.name.push_str(HOSTILE);
        variant.event_hash = HOSTILE.to_owned();
        variant.phases.iter_mut().for_each(|phase| phase.name.push_str(HOSTILE));
        for each in &mut variant.reconfigurations {
            each.name.push_str(HOSTILE);
            each.stages.iter_mut().for_each(|stage| stage.name.push_str(HOSTILE));
        }
    }
    let settings = &mut comparison.settings;
    for text in
        [&mut settings.drive, &mut settings.pace, &mut settings.scheduler, &mut settings.reconfigure_clock]
    {
        text.push_str(HOSTILE);
    }
    let page = html(&stats, &comparison, HOSTILE);
    balanced(&page).expect("balanced");
    assert!(!page.contains("<img") && !page.contains("<script>alert"));
    assert_eq!(page.matches("<script").count(), 3);
}

#[test]
fn nothing_is_loaded() {
    let page = ours(&example());
    for load in [
        "http:", "https:", "//www", "@import", "<link", "<iframe", "src=\"", "href=", "url(\"", "url(h",
        "fetch(",
    ] {
        assert!(!page.contains(load), "{load}");
    }
    assert_eq!(page.matches("url(").count(), page.matches("url(#").count());
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn every_chart_has_a_table_and_a_name() {
    let page = ours(&example());
    let figures: Vec<&str> =
        page.split("<figure ").skip(1).filter_map(|rest| rest.split("</figure>").next()).collect();
    let expected = [
        "rank-frequency",
        "working-sets",
        "request-sizes",
        "heat-map",
        "busy-by-phase",
        "seek-distances",
        "head-time",
        "head-time-by-phase",
        "stages",
    ];
    assert_eq!(figures.len(), expected.len());
    for (figure, id) in figures.iter().zip(expected) {
        assert!(figure.starts_with(&format!("id=\"{id}\"")), "{id}");
        assert!(figure.contains("<details>") && figure.contains("<table") && figure.contains("<td>"), "{id}");
        assert!(figure.contains("role=\"img\"") && figure.contains("aria-label=\""), "{id}");
        assert!(figure.contains("class=\"legend\""), "{id}");
    }
}

#[test]
fn the_charts_numbers_are_in_their_tables() {
    let page = example();
    let part = page.split("id=\"busy-by-phase\"").nth(1).and_then(|rest| rest.split("</figure>").next());
    let row = "<tr><th scope=row>R1</th><td>24</td><td>61.2</td></tr>";
    assert!(part.is_some_and(|part| part.contains(row)));
}

#[test]
fn both_sides_stand_beside_each_other() {
    let page = example();
    let rows = [
        "<tr><th scope=row>seeks</th><td>14,450</td><td>9,321</td><td>12,666</td></tr>",
        "<tr><th scope=row>mean seek of the others</th><td>3.52\u{a0}GiB</td><td>337\u{a0}MiB</td><td>15.4\u{a0}MiB</td></tr>",
        "<tr><th scope=row>of them hits: from or into the BOPT</th><td>55,313</td></tr>",
    ];
    for row in rows {
        assert!(page.contains(row), "{row}");
    }
    let mut vanilla = comparison();
    vanilla.variants.truncate(1);
    assert!(!html(&stats(), &vanilla, "").contains("Both sides"));
}

#[test]
fn the_script_gets_data_it_can_read() {
    let page = example();
    let data =
        page.split("id=\"plots\">").nth(1).and_then(|rest| rest.split("</script>").next()).expect("data");
    let plots: serde_json::Value = serde_json::from_str(data).expect("JSON");
    let plots = plots.as_array().expect("a list");
    assert_eq!(plots.len(), 5);
    for plot in plots {
        let places = plot["xs"].as_array().expect("xs").len();
        for values in plot["values"].as_array().expect("values") {
            assert_eq!(values.as_array().expect("numbers").len(), places, "{}", plot["id"]);
        }
    }
}

#[test]
fn the_same_figures_give_the_same_bytes() {
    assert_eq!(example(), example());
}

#[test]
fn the_page_is_small() {
    // No region untouched, and the maximum of different points in both curves.
    let mut stats = stats();
    for (region, accesses) in stats.heat_map.accesses.iter_mut().enumerate() {
        *accesses = 10_000 + region as u64;
    }
    stats.heat_map.levels.fill(5);
    stats.read_rank_frequency =
        (0..200).map(|at| RankPoint { rank: 100_001 + at * 2, accesses: 90_000 - at }).collect();
    stats.write_rank_frequency =
        (0..200).map(|at| RankPoint { rank: 100_002 + at * 2, accesses: 90_000 - at }).collect();
    let bytes = html(&stats, &comparison(), "").len();
    assert!(bytes < 310_000, "{bytes} bytes");
}

#[test]
fn no_figures_give_a_page_all_the_same() {
    let page = html(&Stats::default(), &Comparison::default(), "");
    balanced(&page).expect("balanced");
    let mut odd = comparison();
    odd.variants[1].work.head.seek_s = f64::NAN;
    odd.variants[1].phases.truncate(1);
    odd.variants[1].reduction_pct = -12.0;
    let page = html(&stats(), &odd, "");
    balanced(&page).expect("balanced");
    assert!(page.contains("BORG costs 12.0\u{a0}% more disk time"));
    assert!(!ours(&page).contains("NaN"));
}

#[test]
fn a_loss_is_called_a_loss() {
    let mut losing = comparison();
    losing.variants[1].net_reduction_pct = -3.21;
    let page = html(&stats(), &losing, "");
    assert!(page.contains("\u{2212}3.2\u{a0}%"));
    assert!(page.contains(
        "BORG saves 46.1\u{a0}% of the disk\u{2019}s time, but costs 3.2\u{a0}% more with its own work"
    ));
}
