//! The planner against the paper: Figure 5, and the oracle on random graphs.

use proptest::prelude::*;

use super::*;
use crate::borg::analyzer::{Edges, Graph};
use crate::borg::store::{BorgMap, Layout};
use crate::borg::{Access, Analyzer, Profiler};

fn vertex(start: u32, pages: u32, read: bool) -> Vertex {
    Vertex { start, pages, reads: u32::from(read), writes: 1, touched: start }
}

/// One-page vertices 0..count, far apart.
fn graph(count: u32, edges: &[(u32, u32, u32)]) -> Graph {
    Graph::new((0..count).map(|v| vertex(v * 10, 1, true)).collect(), edges.to_vec())
}

fn order(graph: &Graph, threshold: u32, capacity: u64) -> Vec<u32> {
    Greedy { threshold }
        .order(graph, capacity)
        .ranges
        .iter()
        .map(|planned| planned.range.start / 10)
        .collect()
}

/// The weights of Figure 5 are not in the paper's text; these are ours, made so that every step of
/// its caption holds: C is the most connected; B follows it; G goes before the group; the final
/// order is F H J A G C B E D.
#[test]
fn figure_5_grows_from_the_most_connected_vertex() {
    const NAMES: &str = "ABCDEFGHJ";
    let edges = ["CB9", "GC8", "BE4", "AG7", "CE2", "JA5", "ED4", "HJ3", "FH2", "CD1"].map(|edge| {
        let vertex = |at: usize| NAMES.find(&edge[at..=at]).unwrap() as u32;
        (vertex(0), vertex(1), edge[2..].parse().unwrap())
    });
    let graph = graph(9, &edges);
    let named = |capacity| {
        let name = |v: u32| &NAMES[v as usize..=v as usize];
        order(&graph, 1, capacity).into_iter().map(name).collect::<String>()
    };
    assert_eq!(named(1), "C");
    assert_eq!(named(2), "CB", "it has the heaviest edge of C, which leads to it");
    assert_eq!(named(3), "GCB", "its edge leads to the group");
    assert_eq!(named(9), "FHJAGCBED");
}

#[test]
fn ties_go_to_the_lower_address_and_then_behind() {
    assert_eq!(order(&graph(4, &[(2, 3, 1), (0, 1, 1)]), 1, 9), [0, 1, 2, 3], "seeds");
    assert_eq!(order(&graph(3, &[(0, 1, 2), (0, 2, 2)]), 1, 9), [0, 1, 2], "neighbours");
    assert_eq!(order(&graph(2, &[(0, 1, 2), (1, 0, 2)]), 1, 9), [0, 1], "directions");
}

#[test]
fn components_are_groups_and_weak_edges_grow_nothing() {
    let weak = graph(6, &[(0, 1, 5), (2, 1, 1), (3, 4, 9)]);
    assert_eq!(order(&weak, 1, 100), [3, 4, 2, 0, 1, 5]);
    assert_eq!(order(&weak, 2, 100), [3, 4, 0, 1, 2, 5], "2 now stands alone");
    assert_eq!(order(&weak, 1, 3), [3, 4, 1], "the rest starts with 1, the most connected, and is full");
}

/// The threshold ends a group; it does not choose who is next.
#[test]
fn light_edges_count_as_long_as_a_strong_one_leads_on() {
    let graph = graph(7, &[(0, 1, 9), (0, 2, 2), (1, 2, 2), (1, 3, 3), (3, 4, 2), (5, 6, 9)]);
    assert_eq!(order(&graph, 3, 100), [0, 1, 2, 3, 5, 6, 4], "2 by 4 before 3 by 3, but 4 no more");
}

/// Graphs of up to 24 ranges of 1 to 3 pages, some of them only written, with few weights, so that
/// there are many ties.
fn random_graph() -> impl Strategy<Value = Graph> {
    (1..24_u32, 1..9_u32).prop_flat_map(|(count, heaviest)| {
        let range = (1..4_u32, prop::bool::weighted(0.9));
        let edges = prop::collection::btree_map((0..count, 0..count), 1..=heaviest, 0..(count * 3) as usize);
        (prop::collection::vec(range, count as usize), edges).prop_map(|(ranges, edges)| {
            let vertices = ranges.into_iter().enumerate();
            let vertices = vertices.map(|(at, (pages, read))| vertex(at as u32 * 10, pages, read)).collect();
            let edges = edges.into_iter().filter(|((from, to), _)| from != to);
            Graph::new(vertices, edges.map(|((from, to), weight)| (from, to, weight)).collect())
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(10_000), ..ProptestConfig::default() })]
    #[test]
    fn the_fast_planner_agrees_with_the_paper(graph in random_graph(), threshold in 0..5_u32, capacity in 1..60_u64) {
        let plan = Greedy { threshold }.order(&graph, capacity);
        let ranges: Vec<Vertex> = plan.ranges.iter().map(|planned| planned.range).collect();
        prop_assert_eq!(ranges, oracle::plan(&graph, threshold, capacity));
    }
}

fn graph_of(requests: &[(u32, u32, bool)]) -> Graph {
    let access = |&(first, pages, write): &_| Access { first, pages, write, ..Access::default() };
    let mut analyzer = Analyzer::bounded(1 << 20);
    analyzer.add(requests.iter().map(access));
    analyzer.graph(Edges::Process)
}

fn pages_of(plan: &Plan) -> Vec<u32> {
    let mut pages: Vec<u32> = plan
        .ranges
        .iter()
        .flat_map(|planned| planned.range.start..planned.range.start + planned.range.pages)
        .collect();
    pages.sort_unstable();
    pages
}

proptest! {
    /// What was planned stays first; with room for all, an extended plan has the pages of a whole
    /// one, each once; without, it ends where the room does.
    #[test]
    fn an_extended_plan_has_the_pages_of_a_whole_one(
        before in prop::collection::vec((0..80_u32, 1..9_u32, prop::bool::weighted(0.2)), 0..30),
        after in prop::collection::vec((0..80_u32, 1..9_u32, prop::bool::weighted(0.2)), 0..30),
        capacity in 0..90_u64,
    ) {
        let greedy = Greedy { threshold: 1 };
        let last = greedy.order(&graph_of(&before), u64::MAX);
        let extended = last.extended(&greedy.order(&graph_of(&after), u64::MAX), u64::MAX);
        let whole = greedy.order(&graph_of(&[before, after.clone()].concat()), u64::MAX);
        prop_assert_eq!(pages_of(&extended), pages_of(&whole));
        prop_assert_eq!(&extended.ranges[..last.ranges.len()], &last.ranges[..]);
        let short = last.extended(&greedy.order(&graph_of(&after), u64::MAX), capacity);
        prop_assert!(short.pages() <= capacity.max(last.pages()));
        prop_assert_eq!(&extended.ranges[..short.ranges.len()], &short.ranges[..]);
    }
}

#[test]
fn slots_follow_each_other_in_the_order_of_the_plan() {
    let range = |start, pages| Planned::anywhere(vertex(start, pages, true));
    let plan = Plan { ranges: vec![range(40, 3), range(7, 1), range(90, 2)] };
    let slots = |granularity| {
        plan.clone().with_slots(granularity).ranges.iter().map(|planned| planned.slot).collect::<Vec<_>>()
    };
    assert_eq!(slots(0), [Some(0), Some(3), Some(4)]);
    assert_eq!(slots(1), [Some(0), Some(6), Some(8)], "two pages a unit");
}

fn by(planner: &dyn Order, graph: &Graph, capacity: u64) -> Vec<u32> {
    planner.order(graph, capacity).ranges.iter().map(|planned| planned.range.start / 10).collect()
}

/// The paper's planner puts 3 at the end of the group that it is tied to the middle of.
#[test]
fn a_path_is_not_lengthened_by_what_is_tied_to_its_middle() {
    let graph = graph(5, &[(0, 1, 9), (1, 2, 8), (1, 3, 7), (3, 4, 6)]);
    assert_eq!(order(&graph, 1, 9), [0, 1, 2, 3, 4]);
    assert_eq!(by(&PathCover { threshold: 1 }, &graph, 9), [0, 1, 2, 3, 4]);
    let graph = self::graph(5, &[(4, 0, 9), (0, 1, 8), (3, 0, 7), (2, 3, 6)]);
    assert_eq!(order(&graph, 1, 9), [2, 3, 4, 0, 1], "3 leads to 0, but goes before 4");
    assert_eq!(by(&PathCover { threshold: 1 }, &graph, 9), [4, 0, 1, 2, 3], "first touched first");
    assert_eq!(by(&PathCover { threshold: 9 }, &graph, 9), [4, 0, 1, 2, 3]);
}

#[test]
fn what_is_read_most_per_page_stays_in_its_order() {
    let vertices = [(0, 4, 3), (10, 1, 9), (20, 2, 1), (30, 1, 2)];
    let vertices = vertices.map(|(start, pages, reads)| Vertex { reads, ..vertex(start, pages, true) });
    let graph = Graph::new(vertices.to_vec(), Vec::new());
    assert_eq!(by(&Address, &graph, 8), [0, 1, 2, 3]);
    let mut backwards: Vec<Vertex> = graph.vertices().to_vec();
    let last = backwards.len() as u32;
    backwards.iter_mut().zip(0..).for_each(|(vertex, at)| vertex.touched = last - at);
    assert_eq!(by(&FirstTouch, &Graph::new(backwards, Vec::new()), 8), [3, 2, 1, 0], "as they were used");
    assert_eq!(by(&Address, &graph, 7), [0, 1, 3]);
    assert_eq!(by(&Address, &graph, 4), [1, 2, 3], "four pages do not fit beside the hottest");
}

proptest! {
    /// Each range that was read is planned once; and each edge that joins no two neighbours has an end that a heavier
    /// or equal one joins.
    #[test]
    fn paths_cover_what_was_read_along_the_heaviest_edges(
        read in prop::collection::vec(any::<bool>(), 1..30),
        edges in prop::collection::btree_map((0..30_u32, 0..30_u32), 1..9_u32, 0..60),
    ) {
        let count = read.len() as u32;
        let edges: Vec<(u32, u32, u32)> = edges
            .into_iter()
            .filter(|((from, to), _)| from != to && *from < count && *to < count)
            .map(|((from, to), weight)| (from, to, weight))
            .collect();
        let vertices = (0..count).zip(&read).map(|(v, read)| vertex(v * 10, 1, *read)).collect();
        let graph = Graph::new(vertices, edges.clone());
        let order = by(&PathCover { threshold: 1 }, &graph, u64::MAX);
        let mut planned = order.clone();
        planned.sort_unstable();
        prop_assert_eq!(planned, (0..count).filter(|v| read[*v as usize]).collect::<Vec<_>>());
        if read.iter().all(|read| *read) {
            let follows = |from: u32, to: u32| order.windows(2).any(|pair| pair == [from, to]);
            for &(from, to, weight) in &edges {
                let heavier = |other: &&(u32, u32, u32)| other.2 >= weight && follows(other.0, other.1);
                let joined = edges.iter().filter(heavier).any(|other| other.0 == from || other.1 == to);
                // Or it would close a circle.
                let (first, last) = (order.iter().position(|v| *v == to), order.iter().position(|v| *v == from));
                prop_assert!(follows(from, to) || joined || first < last, "{from} to {to} of {weight} in {order:?}");
            }
        }
    }
}

/// The ranges of a plan, by the tens of their first page, and their pages.
fn ranges(plan: &Plan) -> Vec<(u32, u32)> {
    plan.ranges.iter().map(|planned| (planned.range.start / 10, planned.range.pages)).collect()
}

#[test]
fn an_organ_pipe_has_the_hottest_in_the_middle_and_cooler_ones_on_both_sides() {
    let vertices = [(0, 1, 2), (10, 2, 9), (20, 1, 4), (30, 1, 7), (40, 3, 1), (50, 1, 0)];
    let vertices = vertices.map(|(start, pages, reads)| Vertex { reads, ..vertex(start, pages, true) });
    let graph = Graph::new(vertices.to_vec(), vec![(0, 4, 9)]);
    let order = |step, capacity| ranges(&OrganPipe { step }.order(&graph, capacity));
    assert_eq!(order(1, 99), [(0, 1), (3, 1), (1, 2), (2, 1), (4, 3)], "edges do not count");
    assert_eq!(order(1, 6), [(0, 1), (3, 1), (1, 2), (2, 1), (4, 1)], "the last one that fits is cut");
    assert_eq!(order(1, 3), [(3, 1), (1, 2)]);
    assert!(order(1, 0).is_empty());
    assert_eq!(order(2, 99), [(2, 1), (3, 1), (1, 2), (0, 1), (4, 3)], "a step in order of address");
    assert_eq!(order(3, 99), [(0, 1), (2, 1), (4, 3), (1, 2), (3, 1)]);
}

#[test]
fn a_run_grows_at_both_ends_along_what_came_again() {
    let edges = [(0, 1, 5), (1, 2, 3), (4, 0, 4), (2, 3, 1), (5, 3, 2), (5, 1, 4)];
    let graph = graph(7, &edges);
    let order = |threshold| by(&Runs { threshold }, &graph, 99);
    assert_eq!(order(2), [4, 0, 1, 2, 5, 3, 6], "5 leads to the middle of a run");
    assert_eq!(order(4), [4, 0, 1, 2, 3, 5, 6], "light edges join nothing");
    assert_eq!(order(1), [4, 0, 1, 2, 3, 5, 6], "5 finds its other neighbour in a run");
    let unread: Vec<Vertex> = (0..7).map(|v| vertex(v * 10, 1, v != 0)).collect();
    let graph = Graph::new(unread, edges.to_vec());
    assert_eq!(by(&Runs { threshold: 2 }, &graph, 99), [5, 1, 2, 3, 4, 6], "0 was never read");
}

#[test]
fn the_hottest_runs_and_then_the_hottest_pages_come_first() {
    let vertices = [2, 2, 3, 3, 9, 1, 7].into_iter().zip(0..);
    let vertices = vertices.map(|(reads, v)| Vertex { reads, ..vertex(v * 10, 1, true) });
    let graph = Graph::new(vertices.collect(), vec![(0, 1, 9), (2, 3, 2)]);
    assert_eq!(by(&Runs { threshold: 2 }, &graph, 99), [2, 3, 0, 1, 4, 6, 5]);
    assert_eq!(by(&Runs { threshold: 2 }, &graph, 4), [2, 3, 4, 6], "by heat, whether in a run or not");
}

proptest! {
    /// Of the hottest pages as many as fit; they get hotter up to the middle, and cooler from there on.
    #[test]
    fn heat_rises_to_the_middle_of_an_organ_pipe(
        heats in prop::collection::vec((1..5_u32, 1..6_u32), 1..30),
        capacity in 1..90_u64,
    ) {
        let vertices = (0..).zip(&heats);
        let vertices = vertices.map(|(v, (pages, reads))| Vertex { reads: *reads, ..vertex(v * 10, *pages, true) });
        let graph = Graph::new(vertices.collect(), Vec::new());
        let plan = OrganPipe { step: 1 }.order(&graph, capacity);
        let all: u64 = heats.iter().map(|(pages, _)| u64::from(*pages)).sum();
        prop_assert_eq!(plan.pages(), all.min(capacity));
        let reads: Vec<u32> = plan.ranges.iter().map(|planned| planned.range.reads).collect();
        let (rising, falling) = reads.split_at(reads.len() / 2);
        prop_assert!(rising.is_sorted() && falling.iter().rev().is_sorted(), "{:?}", reads);
        let coolest = reads.iter().min().unwrap();
        let hotter = heats.iter().filter(|(_, reads)| reads > coolest).count();
        prop_assert!(reads.iter().filter(|heat| *heat > coolest).count() == hotter, "{:?}", reads);
    }

    /// Each range that was read is planned once.
    #[test]
    fn runs_and_single_pages_are_all_that_was_read(graph in random_graph(), threshold in 0..5_u32) {
        let mut planned: Vec<Vertex> =
            Runs { threshold }.order(&graph, u64::MAX).ranges.iter().map(|planned| planned.range).collect();
        planned.sort_unstable_by_key(|range| range.start);
        let read: Vec<Vertex> = graph.vertices().iter().copied().filter(Vertex::is_read).collect();
        prop_assert_eq!(planned, read);
    }
}

/// Requests: first page, and how many.
type Requests = Vec<(u32, u32)>;

/// The pages that a planner plans from some requests, after its last plan, with room for some pages.
fn planned(planner: &dyn Planner, requests: &Requests, last: Option<&Plan>, capacity: u32) -> Plan {
    let mut profiler = Profiler::default();
    for &(first, pages) in requests {
        profiler.note(&Access { first, pages, ..Access::default() });
    }
    let window = profiler.take();
    let mut analyzer = Analyzer::bounded(1 << 20);
    analyzer.add(window.iter());
    let graph = analyzer.graph(Edges::Process);
    let layout = Layout { segment: 1, read_cache: capacity, write_buffer: 0 };
    let held = BorgMap::new(1 << 10, capacity);
    planner.plan(&Scene {
        graph: &graph,
        window: &window,
        last,
        held: &held,
        layout,
        granularity: 0,
        models: None,
    })
}

/// The pages of a plan, in its order.
fn in_order(plan: &Plan) -> Vec<u32> {
    plan.ranges
        .iter()
        .flat_map(|planned| planned.range.start..planned.range.start + planned.range.pages)
        .collect()
}

proptest! {
    #[test]
    fn lru_is_a_queue_of_pages(
        windows in prop::collection::vec(prop::collection::vec((0..60_u32, 1..9_u32), 1..20), 1..5),
        capacity in 1..40_u32,
    ) {
        let (mut last, mut model) = (None, Vec::new());
        for requests in &windows {
            let plan = planned(&Lru, requests, last.as_ref(), capacity);
            for page in requests.iter().flat_map(|(first, pages)| *first..first + pages) {
                model.retain(|other| *other != page);
                model.push(page);
            }
            model.drain(..model.len().saturating_sub(capacity as usize));
            prop_assert_eq!(in_order(&plan), &model[..]);
            last = Some(plan);
        }
    }

    /// Without a lack of room each page that was ever requested is in the queue once, with less the last ones of that.
    #[test]
    fn smq_loses_and_doubles_no_page(
        windows in prop::collection::vec(prop::collection::vec((0..60_u32, 1..9_u32), 1..20), 1..5),
        capacity in 1..40_u32,
    ) {
        let (mut last, mut requested) = (None, std::collections::BTreeSet::new());
        for requests in &windows {
            let plan = planned(&Smq, requests, last.as_ref(), 100);
            requested.extend(requests.iter().flat_map(|(first, pages)| *first..first + pages));
            prop_assert_eq!(pages_of(&plan), requested.iter().copied().collect::<Vec<_>>());
            let (all, short) = (in_order(&plan), in_order(&planned(&Smq, requests, last.as_ref(), capacity)));
            prop_assert_eq!(&short[..], &all[all.len() - short.len()..]);
            prop_assert_eq!(short.len(), all.len().min(capacity as usize));
            last = Some(plan);
        }
    }
}

#[test]
fn smq_moves_a_page_up_by_a_level_with_each_request() {
    let first = planned(&Smq, &vec![(0, 64)], None, 100);
    let after = |requests: Requests| in_order(&planned(&Smq, &requests, Some(&first), 100));
    let place = |order: &[u32], page| order.iter().position(|other| *other == page).unwrap();
    assert_eq!(in_order(&first), (0..64).collect::<Vec<_>>());
    let order = after(vec![(10, 1), (30, 1), (30, 1), (90, 1)]);
    assert_eq!([10, 30].map(|page| place(&order, page)), [12, 33], "behind 11, behind 32");
    assert_eq!(place(&order, 90), 1, "behind the lowest level, which is 0");
}
