//! Scripts of crashes: what is written is read back, and what is no script is told.

use proptest::prelude::*;
use proptest::sample::select;
use seekless_core::{Extent, Op};
use seekless_lab::explore::case::{Case, Segment};
use seekless_lab::explore::power::{Crash, Survivor};
use seekless_lab::explore::script::{Request, Step};

/// Requests of every kind, to what a volume may have, and commands.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let ops = select(vec![Op::Read, Op::Write, Op::Discard, Op::WriteZeroes, Op::Flush]);
    let one = (ops, 0..1_u64 << 40, 1..=1_u64 << 16, any::<bool>()).prop_map(|(op, start, sectors, fua)| {
        let at = if op == Op::Flush { Extent::default() } else { Extent::new(start, sectors) };
        Step::Ask(Request { op, at, fua: fua && matches!(op, Op::Write | Op::WriteZeroes) })
    });
    let command = select(vec!["reconfigure", "drain", "stop", "remove", "insert"]).prop_map(Step::Do);
    proptest::collection::vec(prop_oneof![4 => one, 1 => command], 0..9)
}

fn crash() -> impl Strategy<Value = Crash> {
    let survivor = (0..1_000_usize, 0..1_u64 << 16, 1..=1_u64 << 16);
    let survivor =
        survivor.prop_map(|(write, first, sectors)| Survivor { write, first, end: first + sectors });
    (0..100_000_usize, proptest::collection::vec(survivor, 0..6), any::<bool>())
        .prop_map(|(events, survivors, kill)| Crash { events, survivors, kill })
}

/// Any case: of its runs all but the last end in a crash, or the next begins without one.
fn case() -> impl Strategy<Value = Case> {
    let fault = proptest::option::of((0..9_u32, 1..u64::MAX, any::<bool>()));
    let segment = (steps(), 1..=1_000_u64, any::<u64>(), any::<bool>(), fault, proptest::option::of(crash()));
    let segment = segment.prop_map(|(steps, clients, seed, fill, fault, crash)| Segment {
        steps,
        clients,
        seed,
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

    /// A text of lines that are nearly right is a case, or an error with its line; and what is read stays the same
    /// when it is written and read again.
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
