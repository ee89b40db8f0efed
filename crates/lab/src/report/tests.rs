//! Properties of every report, tried on sample figures with names chosen to break the page.

mod sample;

use seekless_trace::Stats;
use seekless_trace::stats::RankPoint;

use super::html;
use crate::outcome::Comparison;
pub(super) use sample::HOSTILE;
use sample::{comparison, stats};

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
        "h4",
        "nav",
        "a",
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
    assert_eq!(page.matches("<script").count(), 6);
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
    assert_eq!(page.matches("<script").count(), 6);
}

#[test]
fn nothing_is_loaded() {
    let page = ours(&example());
    for load in
        ["http:", "https:", "//www", "@import", "<link", "<iframe", "src=\"", "url(\"", "url(h", "fetch("]
    {
        assert!(!page.contains(load), "{load}");
    }
    assert_eq!(page.matches("url(").count(), page.matches("url(#").count());
    assert_eq!(page.matches("href=").count(), page.matches("href=\"#").count());
    assert!(page.contains("default-src 'none'"));
}

/// Each link of the contents leads to an element of the page, and each section and chart has one.
pub(super) fn contents_lead_somewhere(page: &str) {
    let page = ours(page);
    let nav = page.split("<nav ").nth(1).and_then(|rest| rest.split("</nav>").next()).expect("contents");
    let links: Vec<&str> =
        nav.split("href=\"#").skip(1).map(|rest| rest.split('"').next().unwrap_or_default()).collect();
    for id in &links {
        assert_eq!(page.matches(&format!("id=\"{id}\"")).count(), 1, "{id}");
    }
    assert_eq!(links.len(), page.matches("<h2 id=").count() + page.matches("<figure id=").count());
    assert_eq!(page.matches("<section>").count(), page.matches("<section><h2 id=").count());
}

#[test]
fn the_contents_list_sections_and_charts() {
    contents_lead_somewhere(&example());
    contents_lead_somewhere(&html(&Stats::default(), &Comparison::default(), ""));
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
        "accesses",
        "throughput",
        "jumps",
        "head-path",
        "response-times",
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
    assert_eq!(plots.len(), 12);
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
    assert!(bytes < 480_000, "{bytes} bytes");
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
