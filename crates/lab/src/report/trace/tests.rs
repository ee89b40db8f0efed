//! Properties of traces' reports: small, reproducible, and text stays text.

use seekless_core::{Extent, Flags, Latency, Names, Nanos, Op, Origin, ProcessId, Record};
use seekless_trace::{StatsOptions, Survey, Volumes, characterise};

use super::super::tests::{HOSTILE, balanced, contents_lead_somewhere, ours};
use super::*;

/// Requests all over a disk: `record` gives the time, place and process of each number.
fn trace(requests: u64, record: impl Fn(u64) -> (u64, u64, u64)) -> (Vec<Record>, Names) {
    let mut names = Names::default();
    let all = (0..12).map(|at| names.intern(&if at == 3 { HOSTILE.to_owned() } else { format!("p{at}") }));
    let all: Vec<_> = all.collect();
    let records = (0..requests).map(|at| {
        let (micros, page, process) = record(at);
        let name = all[process as usize % all.len()];
        Record {
            time: Nanos::from_micros(micros),
            device: 0,
            op: if at % 3 == 0 { Op::Write } else { Op::Read },
            extent: Extent::new(page * 8, 8),
            flags: Flags::default(),
            origin: Origin { process: ProcessId(process as u32), name, ..Origin::default() },
            latency: Latency::UNKNOWN,
        }
    });
    (records.collect(), names)
}

fn picture(records: &[Record], names: &Names, text_bytes: usize) -> Picture {
    let mut accesses = Accesses::new(&Survey::of(records));
    for record in records {
        accesses.follow(record, names);
    }
    accesses.finish(&Volumes::default(), text_bytes)
}

fn drawn(records: &[Record], names: &Names, traces: usize) -> Report {
    let stats = characterise(records, names, &Volumes::default(), &StatsOptions::default());
    let accesses = picture(records, names, TEXT_BYTES / traces);
    let warnings = [format!("a warning about {HOSTILE}")];
    let subject = |at: usize| Subject {
        verdict: None,
        name: format!("{HOSTILE}{at}"),
        sources: vec![HOSTILE.to_owned()],
        format: "blktrace",
        warnings: &warnings,
        stats: &stats,
        accesses: &accesses,
    };
    report(&(0..traces).map(subject).collect::<Vec<_>>(), HOSTILE)
}

fn small() -> (Vec<Record>, Names) {
    trace(2_000, |at| (at * 700, at * 7_919 % 900, at % 11))
}

#[test]
fn names_stay_text_in_page_and_pictures() {
    let (records, names) = small();
    for traces in [1, 2] {
        let report = drawn(&records, &names, traces);
        balanced(&report.html).expect("balanced");
        let page = ours(&report.html);
        assert!(!page.contains("<img") && !page.contains("<script>alert"));
        assert_eq!(page.matches("<script").count(), 6);
        assert_eq!(report.pictures.len(), FIGURES.len() - 3, "no trace has latencies");
        for (figure, svg) in &report.pictures {
            balanced(svg).unwrap_or_else(|wrong| panic!("{figure}: {wrong}"));
            assert!(!svg.contains("<img") && !svg.contains("<script"), "{figure}");
            assert!(!svg.contains("var("), "{figure}");
            assert_eq!(svg.matches("http").count(), 1, "{figure}: only the name of SVG itself");
        }
    }
}

#[test]
fn nothing_is_loaded() {
    let (records, names) = small();
    let page = ours(&drawn(&records, &names, 2).html);
    for load in ["http:", "https:", "//www", "@import", "<link", "src=\"", "fetch(", "url(\""] {
        assert!(!page.contains(load), "{load}");
    }
    assert_eq!(page.matches("href=").count(), page.matches("href=\"#").count());
}

#[test]
fn the_contents_list_sections_and_charts() {
    let (records, names) = small();
    for traces in [1, 2] {
        contents_lead_somewhere(&drawn(&records, &names, traces).html);
    }
}

#[test]
fn the_same_trace_gives_the_same_bytes() {
    let (records, names) = small();
    let (one, other) = (drawn(&records, &names, 2), drawn(&records, &names, 2));
    assert!(one.html == other.html && one.pictures == other.pictures);
}

#[test]
fn the_figures_are_those_that_are_announced() {
    let (records, names) = small();
    let report = drawn(&records, &names, 2);
    let known: Vec<&str> = report.pictures.iter().map(|(figure, _)| *figure).collect();
    assert!(known.iter().all(|figure| FIGURES.contains(figure)), "{known:?}");
    for figure in known {
        let opens = format!("<figure id=\"{figure}\"");
        let figure = report.html.split(&opens).nth(1).and_then(|rest| rest.split("</figure>").next());
        let figure = figure.expect("in the page");
        assert!(figure.contains("<table") && figure.contains("<td>") && figure.contains("class=\"legend\""));
    }
}

/// No pattern, so that nothing compresses well, and more requests than the limit of marks.
fn scattered() -> (Vec<Record>, Names) {
    let mixed =
        |at: u64| at.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    trace(1_200_000, move |at| (at * 400_000, (mixed(at) >> 20) % (1 << 28), mixed(at + 7) >> 40))
}

#[test]
fn a_page_is_bounded_however_long_the_trace_is() {
    let (records, names) = scattered();
    let bytes = drawn(&records, &names, 2).html.len();
    assert!(bytes < PAGE_BYTES, "{bytes} bytes");
    let cells = picture(&records, &names, 100_000);
    assert!(!cells.points && cells.text().len() <= 100_000);
    assert_eq!(cells.marks.iter().map(|mark| mark.count).sum::<u64>(), records.len() as u64);
}

#[test]
fn few_requests_are_drawn_one_by_one() {
    let (records, names) = small();
    let picture = picture(&records, &names, TEXT_BYTES);
    assert!(picture.points);
    assert_eq!((picture.marks.len(), picture.families.len()), (2_000, 9));
    assert_eq!(picture.marks[3].time, 2_100);
    assert_eq!(picture.marks[3].place, 3 * 7_919 % 900 * 8);
}

#[test]
fn few_requests_whose_text_is_long_are_counted() {
    let (records, names) = small();
    let picture = picture(&records, &names, 4_000);
    assert!(!picture.points && picture.text().len() <= 4_000);
    assert_eq!(picture.marks.iter().map(|mark| mark.count).sum::<u64>(), 2_000);
}

#[test]
fn an_empty_trace_has_a_page_too() {
    let report = drawn(&[], &Names::default(), 1);
    balanced(&report.html).expect("balanced");
    assert!(!ours(&report.html).contains("NaN"));
}
