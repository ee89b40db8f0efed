//! Scripts of crashes: a written script reads back unchanged, and anything else is an error.

use proptest::prelude::*;
use proptest::sample::select;
use seekless_core::{Extent, Op};
use seekless_lab::explore::case::{Case, Segment};
use seekless_lab::explore::conditions::{Conditions, Faults, Pace};
use seekless_lab::explore::power::{Crash, Survivor};
use seekless_lab::explore::replay::{Line, replay};
use seekless_lab::explore::script::{Request, Step, with_commands};
use seekless_volume::settings::Setting;
use seekless_volume::{Description, file};

/// Requests of every kind, within a volume's limits, and commands.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let ops = select(vec![Op::Read, Op::Write, Op::Discard, Op::WriteZeroes, Op::Flush]);
    let one = (ops, 0..1_u64 << 40, 1..=1_u64 << 16, any::<bool>(), any::<bool>());
    let one = one.prop_map(|(op, start, sectors, fua, meets)| {
        let at = if op == Op::Flush { Extent::default() } else { Extent::new(start, sectors) };
        let request = Request { op, at, fua: fua && matches!(op, Op::Write | Op::WriteZeroes) };
        if meets && op != Op::Flush { Step::Meet(request) } else { Step::Ask(request) }
    });
    let command = select(vec!["reconfigure", "drain", "stop", "remove", "insert"]).prop_map(Step::Do);
    proptest::collection::vec(prop_oneof![4 => one, 1 => command], 0..9)
}

fn crash() -> impl Strategy<Value = Crash> {
    let survivor = (0..1_000_usize, 0..1_u64 << 16, 1..=1_u64 << 16);
    let survivor =
        survivor.prop_map(|(write, first, sectors)| Survivor { write, first, end: first + sectors });
    let keeps = select(vec![0, 1, 2, 5, u64::MAX]);
    let rot = (0..9_u32, 0..1_u64 << 48, 0..4_096_u64)
        .prop_map(|(component, sector, bit)| format!("{component}:{sector}.{bit}").parse().unwrap());
    (
        0..100_000_usize,
        proptest::collection::vec(survivor, 0..6),
        keeps,
        (proptest::option::of(rot), proptest::option::of(any::<u64>()), proptest::option::of(0..9_u32)),
    )
        .prop_map(|(events, survivors, keeps, (rot, edited, gone))| Crash {
            events,
            survivors,
            keeps,
            rot,
            edited,
            gone,
        })
}

fn conditions() -> impl Strategy<Value = Conditions> {
    let pace = prop_oneof![
        Just(Pace::Uniform),
        (1..1_000_u64, 1..1_000_u64).prop_map(|(one_in, times)| Pace::Tail(one_in, times)),
        (0..9_u32, 1..1_000_u64).prop_map(|(component, times)| Pace::Slow(component, times)),
    ];
    let faults = (0..90_u64, 0..90_u64, 0..90_u64);
    let faults = faults.prop_map(|(reads, writes, flushes)| Faults {
        reads,
        writes,
        flushes,
        together: reads % 2 == 1,
    });
    let numbers = select(vec![0, 250, 1 << 55]);
    let few = (pace, faults, numbers, select(vec![0, 1, 64]), any::<bool>());
    let uncached = select(vec![0, 1, 6, 1 << 63]);
    let any = (1..=1_000_u64, any::<u64>(), uncached, few);
    any.prop_map(|(clients, seed, uncached, (pace, faults, numbers, weak, marks))| Conditions {
        clients,
        seed,
        pace,
        faults,
        numbers,
        weak,
        uncached,
        marks,
        pause: clients % 3 * 50,
    })
}

fn settings() -> impl Strategy<Value = Vec<Setting>> {
    let value = select(vec!["0.5", "\"64KiB\"", "true", "[1, 2]"]);
    let setting = ("[a-z_]{1,9}", "[a-z_]{1,9}", value);
    let setting = setting.prop_map(|(of, key, value)| Setting { of, key, value: value.to_owned() });
    proptest::collection::vec(setting, 0..3)
}

/// Any case: all runs but the last end in a crash, or the next begins without one.
fn case() -> impl Strategy<Value = Case> {
    let fault = proptest::option::of((0..9_u32, 1..u64::MAX, any::<bool>()));
    let segment = (steps(), conditions(), settings(), any::<bool>(), fault, proptest::option::of(crash()));
    let segment = segment.prop_map(|(steps, conditions, settings, fill, fault, crash)| Segment {
        steps,
        conditions,
        settings,
        fill,
        fault,
        crash,
    });
    proptest::collection::vec(segment, 0..4).prop_map(Case)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_case_is_read_as_it_was_written(case in case()) {
        prop_assert_eq!(case.to_string().parse::<Case>(), Ok(case));
    }

    /// A text of nearly correct lines is a case, or an error with its line; and a case is unchanged when it is written
    /// and read again.
    #[test]
    fn a_damaged_script_is_a_case_or_an_error(
        case in case(),
        at in any::<prop::sample::Index>(),
        left_out in 0..12_usize,
        other in "[ -~\n]{0,12}|[0-9]{18,24}",
    ) {
        let mut text = case.to_string();
        let from = at.index(text.len());
        text.replace_range(from..(from + left_out).min(text.len()), &other);
        match text.parse::<Case>() {
            Ok(case) => prop_assert_eq!(case.to_string().parse::<Case>(), Ok(case)),
            Err(error) => {
                prop_assert!((1..=text.lines().count().max(1)).contains(&error.line), "{}: {}", error, text);
                let words = error.to_string();
                prop_assert!(words.contains("found '") && words.contains(", expected "), "{}", words);
            }
        }
    }

    #[test]
    fn any_text_is_a_case_or_an_error(text in "\\PC{0,200}", head: bool) {
        let text = if head { format!("seekless crash 1\n{text}") } else { text };
        if let Err(error) = text.parse::<Case>() {
            prop_assert!(error.to_string().contains(", expected "), "{}", error);
        }
    }
}

#[test]
fn commands_come_between_requests_and_change_none_of_them() {
    let at = |page| Extent::of_pages(page, 1);
    let requests: Vec<Request> =
        (0..2_000).map(|page| Request { op: Op::Write, at: at(page), fua: false }).collect();
    let commands = ["drain", "stop", "remove", "insert"];
    let mut stops = 0;
    for seed in 0..40 {
        let steps = with_commands(requests.clone(), &commands, 20, seed);
        let asked = steps.iter().filter_map(|step| match step {
            Step::Ask(request) => Some(*request),
            _ => None,
        });
        assert!(asked.eq(requests.iter().copied()));
        let message = steps.iter().filter_map(|step| match step {
            Step::Do(command) => Some(*command),
            _ => None,
        });
        let message: Vec<&str> = message.collect();
        assert!((60..160).contains(&message.len()), "{} commands", message.len());
        assert!(commands.iter().all(|command| message.contains(command)));
        let next: Vec<_> =
            message.windows(2).filter(|pair| pair[0] == "remove").map(|pair| pair[1]).collect();
        let last = next.iter().rposition(|next| *next != "insert");
        assert!(last.is_none_or(|last| last + 1 == next.len()), "what is out comes in next: {next:?}");
        stops += u64::from(steps.last() == Some(&Step::Do("stop")));
    }
    assert!((10..30).contains(&stops), "of 40 runs {stops} end by a stop");
    let without: Vec<Step> = requests.iter().copied().map(Step::Ask).collect();
    assert_eq!(with_commands(requests.clone(), &commands, 0, 1), without);
    assert_eq!(with_commands(requests, &[], 20, 1), without);
}

/// A cache over a disk; flushes of the device below it all fail, or none.
fn cache(failing: bool) -> Description {
    let ops = if failing { "['flush']" } else { "['discard']" };
    let text = format!(
        "[component.disk]\ndrive = 'wd2500aaks'\n\
         [slice.small]\nof = 'disk'\nsize = '1MiB'\n\
         [layer.failing]\nis = 'error'\nover = 'small'\nops = {ops}\nnth = 1\nfor_ever = true\n\
         [layer.powercut]\nover = 'failing'\nnth = 1000000\n\
         [[export]]\ntop = 'powercut'\n"
    );
    file::parse("cache.toml", &text).unwrap()
}

fn replayed(failing: bool, fault: &str) -> (Option<String>, Vec<String>) {
    let case = format!(
        "seekless crash 1\nrun clients 1 seed 1\n{fault}write 0+8\ndo stop\ndo remove\nread 0+8\ndo insert\n"
    );
    let replayed = replay(&cache(failing), &case.parse().unwrap());
    let remarks = replayed.history.into_iter().filter_map(|line| match line {
        Line::Remark(text) => Some(text),
        Line::Event(_) => None,
    });
    (replayed.finding.map(|finding| finding.wrong), remarks.collect())
}

#[test]
fn a_command_that_fails_is_a_finding_unless_a_component_fails() {
    let (found, remarks) = replayed(false, "");
    assert_eq!(found, None);
    assert_eq!(remarks.len(), 6);
    assert!(remarks[0] == "do stop" && remarks[1].starts_with("done: stop, after "), "{remarks:?}");
    let (found, remarks) = replayed(true, "");
    assert!(found.unwrap().starts_with("the command 'stop' failed: error: "));
    assert!(remarks[1].starts_with("failed: stop, after ") && remarks[3].starts_with("failed: remove"));
    let (found, remarks) = replayed(false, "fail component 0 request 2 for ever\n");
    assert_eq!(found, None);
    assert!(remarks[1].starts_with("failed: stop, after "), "{remarks:?}");
}

#[test]
fn a_request_that_fails_is_a_finding_unless_a_component_fails() {
    let found = |kind: &str, fault: &str| {
        let text = format!(
            "[component.disk]\ndrive = 'wd2500aaks'\n\
             [slice.small]\nof = 'disk'\nsize = '1MiB'\n\
             [layer.error]\nover = 'small'\nkind = '{kind}'\nops = ['write']\nnth = 2\n\
             [[export]]\ntop = 'error'\n"
        );
        let case = format!("seekless crash 1\nrun clients 1 seed 1\n{fault}write 0+8\nwrite 8+8\nread 0+8\n");
        let volume = file::parse("error.toml", &text).unwrap();
        replay(&volume, &case.parse().unwrap()).finding.map(|finding| finding.wrong)
    };
    for kind in ["medium", "no space"] {
        let wrong = found(kind, "").unwrap();
        assert!(wrong.starts_with("request 2 failed without a fault: error: "), "{wrong}");
    }
    assert_eq!(found("medium", "fail component 0 request 2\n"), None);
}

#[test]
fn what_no_layer_can_be_told_is_refused() {
    let text = "seekless crash 1\nrun clients 1 seed 1\ndo dance\n";
    let error = text.parse::<Case>().unwrap_err().to_string();
    assert!(error.starts_with("line 3: found 'do dance', expected "), "{error}");
}
