//! The analyzer against Figure 4, and against a model that looks at pages one by one.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn access(process: u32, first: u32, pages: u32) -> Access {
    Access { process: ProcessId(process), first, pages, ..Access::default() }
}

/// As much as any test needs.
const LIMIT: usize = 1 << 17;

fn new() -> Analyzer {
    Analyzer::bounded(LIMIT as u64 * ENTRY_BYTES)
}

fn analyze(window: &[Access]) -> Graph {
    let mut analyzer = new();
    analyzer.add(window.iter().copied());
    analyzer.graph(Edges::Process)
}

fn edges(graph: &Graph) -> Vec<(u32, u32, u32)> {
    let vertices = 0..graph.vertices().len() as u32;
    let out = |v: u32| graph.edges_at(v).iter().filter(|e| e.out).map(move |e| (v, e.other, e.weight));
    vertices.flat_map(out).collect()
}

/// Figure 4: r1 = (start 0, size 3) and s1 = (1, 2) give (0, 1) and (1, 2).
#[test]
fn figure_4_overlapping_vertices_are_split() {
    let window = [access(1, 0, 3), access(1, 10, 1), access(2, 1, 2), access(2, 20, 2)];
    let graph = analyze(&window);
    let ranges: Vec<_> = graph.vertices().iter().map(|v| (v.start, v.pages)).collect();
    assert_eq!(ranges, [(0, 1), (1, 2), (10, 1), (20, 2)]);
    // r1 passes along its two parts, then to (10, 1); s1 leads to (20, 2).
    assert_eq!(edges(&graph), [(0, 1, 1), (1, 2, 1), (1, 3, 1)]);
}

#[test]
fn edges_belong_to_processes_and_add_up() {
    let window = [
        access(1, 0, 1),
        access(2, 5, 1),
        access(1, 9, 1),
        access(2, 0, 1),
        access(1, 0, 1),
        access(1, 9, 1),
    ];
    let graph = analyze(&window);
    // Vertices 0, 5, 9. Process 1: 0 9 0 9. Process 2: 5 0.
    assert_eq!(edges(&graph), [(0, 2, 2), (1, 0, 1), (2, 0, 1)]);
}

#[test]
fn what_repeats_within_a_range_is_an_edge_only_once_it_is_split() {
    let mut analyzer = new();
    analyzer.add([access(1, 0, 4), access(1, 0, 4)]);
    assert_eq!(edges(&analyzer.graph(Edges::Process)), []);
    analyzer.add([access(2, 2, 2)]);
    assert_eq!(edges(&analyzer.graph(Edges::Process)), [(0, 1, 2), (1, 0, 1)], "twice along, and once back");
}

#[test]
fn aging_lets_go_of_what_was_seen_once() {
    let mut analyzer = new();
    analyzer.add([access(1, 0, 2), access(1, 8, 1), access(1, 0, 1), access(1, 8, 1), access(1, 20, 1)]);
    analyzer.age();
    let graph = analyzer.graph(Edges::Process);
    let starts: Vec<_> = graph.vertices().iter().map(|v| (v.start, v.pages)).collect();
    assert_eq!(starts, [(0, 1), (8, 1)]);
    assert_eq!(edges(&graph), [], "of 0 to 8 one jump came from page 1, the other from page 0");
}

#[test]
fn a_process_whose_last_request_was_let_go_starts_anew() {
    let mut analyzer = new();
    analyzer.add([access(1, 0, 2), access(2, 0, 4)]);
    analyzer.age();
    assert_eq!(analyzer.graph(Edges::Process).vertices().len(), 1, "pages 0 and 1, which both touched");
    analyzer.age();
    analyzer.add([access(1, 9, 1), access(3, 0, 4), access(2, 12, 1)]);
    let graph = analyzer.graph(Edges::Process);
    assert_eq!(edges(&graph), [(0, 2, 1)], "page 1 is now inside of a range; page 3 ends one again");
}

#[test]
fn a_graph_that_grows_too_large_lets_go_of_what_is_light() {
    let mut analyzer = new();
    for number in 0..LIMIT as u32 {
        analyzer.add([access(1, 10 * (number % 50), 1), access(1, 1_000 + 2 * number, 1)]);
    }
    let graph = analyzer.graph(Edges::Process);
    assert!(analyzer.size() <= LIMIT, "{}", analyzer.size());
    let often = (0..50).map(|number| 10 * number);
    let starts: Vec<_> = graph.vertices().iter().map(|vertex| vertex.start).take(50).collect();
    assert_eq!(starts, often.collect::<Vec<_>>(), "what was asked for thousands of times is known");
}

#[test]
fn a_graph_has_the_memory_that_it_may_have() {
    for bytes in [200_000_u64, 1_000_000] {
        let mut analyzer = Analyzer::bounded(bytes);
        let mut place = 1_u32;
        for number in 0..100_000 {
            place = place.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
            analyzer.add([access(number % 5, place >> 4, 1 + place % 7)]);
            assert!(analyzer.bytes() <= bytes, "{} after {number} requests", analyzer.bytes());
        }
        assert!(analyzer.bytes() > 0);
    }
}

#[test]
fn only_the_latest_processes_are_known() {
    let mut analyzer = new();
    analyzer.add((0..PROCESSES as u32 + 50).map(|process| access(process, process, 1)));
    assert!((PROCESSES..PROCESSES + PER_GRAPH).contains(&analyzer.last.len()));
    assert!(!analyzer.last.contains_key(&ProcessId(0)));
    assert!(analyzer.last.contains_key(&ProcessId(PROCESSES as u32)));
}

/// Section 4.2 by pages: which boundaries there are, then who goes from where to where.
fn naive(window: &[Access]) -> (Vec<Vertex>, Vec<(u32, u32, u32)>) {
    let is_bound = |page: u32| window.iter().any(|a| a.first == page || a.first + a.pages == page);
    let touches = |a: &Access, page: u32| (a.first..a.first + a.pages).contains(&page);
    let (mut vertices, mut vertex_of): (Vec<Vertex>, _) = (Vec::new(), BTreeMap::new());
    for page in (0..100).filter(|&page| window.iter().any(|a| touches(a, page))) {
        if is_bound(page) {
            let count = |write| window.iter().filter(|a| touches(a, page) && a.write == write).count() as u32;
            let touched = window.iter().position(|a| touches(a, page)).unwrap() as u32;
            vertices.push(Vertex {
                start: page,
                pages: 0,
                reads: count(false),
                writes: count(true),
                touched,
            });
        }
        vertices.last_mut().unwrap().pages += 1;
        vertex_of.insert(page, vertices.len() as u32 - 1);
    }
    let (mut weights, mut last): (BTreeMap<_, u32>, BTreeMap<_, u32>) = (BTreeMap::new(), BTreeMap::new());
    for a in window {
        let mut passed: Vec<u32> = (a.first..a.first + a.pages).map(|page| vertex_of[&page]).collect();
        passed.dedup();
        for vertex in passed {
            if let Some(from) = last.insert(a.process, vertex).filter(|&from| from != vertex) {
                *weights.entry((from, vertex)).or_default() += 1;
            }
        }
    }
    (vertices, weights.into_iter().map(|((from, to), weight)| (from, to, weight)).collect())
}

fn windows(most: usize) -> impl Strategy<Value = Vec<Access>> {
    let request = (0..4_u32, 0..60_u32, 1..9_u32, any::<bool>());
    let request =
        request.prop_map(|(process, first, pages, write)| Access { write, ..access(process, first, pages) });
    prop::collection::vec(request, 0..most)
}

proptest! {
    /// Every page that was accessed is in exactly one vertex, no request starts or ends inside of
    /// one, and each edge has the weight that counting gives.
    #[test]
    fn the_graph_is_what_counting_pages_gives(window in windows(60)) {
        let graph = analyze(&window);
        prop_assert_eq!((graph.vertices().to_vec(), edges(&graph)), naive(&window));
    }

    #[test]
    fn a_graph_that_grew_equals_one_built_at_once(windows in prop::collection::vec(windows(30), 1..6)) {
        let mut grown = new();
        for window in &windows {
            grown.add(window.iter().copied());
            grown.graph(Edges::Process);
        }
        let all = windows.concat();
        let graph = grown.graph(Edges::Process);
        prop_assert_eq!((graph.vertices().to_vec(), edges(&graph)), naive(&all));
    }

    /// Edges between all requests are those of one process that issues them all.
    #[test]
    fn global_edges_are_those_of_one_process(window in windows(60)) {
        let mut analyzer = new().with_global(true);
        window.chunks(7).for_each(|part| analyzer.add(part.iter().copied()));
        let graph = analyzer.graph(Edges::Global);
        let one: Vec<Access> = window.iter().map(|access| Access { process: ProcessId(0), ..*access }).collect();
        prop_assert_eq!((graph.vertices().to_vec(), edges(&graph)), naive(&one));
        let graph = analyzer.graph(Edges::Process);
        prop_assert_eq!((graph.vertices().to_vec(), edges(&graph)), naive(&window));
    }

    /// As the paper builds it: a graph for each process, then all merged.
    #[test]
    fn merged_process_graphs_are_the_master_graph(window in windows(60)) {
        let of_process = |process| {
            let mut analyzer = new();
            analyzer.add(window.iter().copied().filter(|a| a.process == ProcessId(process)));
            analyzer.merge_last(|_, _| true);
            analyzer.graphs.pop().unwrap_or_default()
        };
        let merged = (0..4).map(of_process).fold(AccessGraph::default(), |one, other| one.merge(&other));
        let graph = merged.numbered(Edges::Process);
        // Each of the analyzers numbered its own requests.
        let undated = |vertices: &[Vertex]| vertices.iter().map(|v| Vertex { touched: 0, ..*v }).collect::<Vec<_>>();
        let (vertices, counted) = naive(&window);
        prop_assert_eq!((undated(graph.vertices()), edges(&graph)), (undated(&vertices), counted));
    }

    /// However often it is aged, edges lead from vertices to vertices, and it ends with nothing.
    #[test]
    fn an_aged_graph_is_a_graph(window in windows(60)) {
        let mut analyzer = new();
        analyzer.add(window.iter().copied());
        let mut weight = u64::MAX;
        for _ in 0..8 {
            analyzer.age();
            let graph = analyzer.graph(Edges::Process);
            let count = graph.vertices().len() as u32;
            prop_assert!(edges(&graph).iter().all(|&(from, to, weight)| from < count && to < count && weight > 0));
            let now = edges(&graph).iter().map(|edge| u64::from(edge.2)).sum::<u64>();
            prop_assert!(now <= weight / 2 || now == 0);
            weight = now;
        }
        prop_assert_eq!(analyzer.graph(Edges::Process).vertices().len(), 0);
    }
}
