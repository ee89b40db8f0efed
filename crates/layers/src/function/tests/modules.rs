//! Modules that do as they should, and modules that do not: each has its error, and the volume goes on.

use proptest::prelude::*;

use super::super::module::{Running, of_bytes};
use super::*;

/// The exports of a module, around what it does with a request, in the text form of WebAssembly: a request is at byte
/// 64 of its memory, actions are from byte 1,024 on.
fn around(parts: &str, start: &str, body: &str) -> String {
    format!(
        r#"(module {parts}
          (memory (export "memory") 1)
          (func (export "seekless_abi") (result i32) i32.const 1)
          (func (export "seekless_start") (param $sectors i64) (param $pages i64) (param $parameter i64) (result i32)
            (i32.store (i32.const 16) (i32.const 64)) (i32.store (i32.const 20) (i32.const 1))
            (i32.store (i32.const 24) (i32.const 1024)) (i32.store (i32.const 28) (i32.const 8))
            {start}
            (i32.const 16))
          (func $requests (export "seekless_requests") (param $count i32) (result i32) {body}))"#
    )
}

/// A module that answers each request with one action.
fn answering(kind: u32, class: u32, start: &str, sectors: &str, rest: u64) -> String {
    around(
        "",
        "",
        &format!(
            "(i32.store (i32.const 1024) (i32.const {kind})) (i32.store (i32.const 1028) (i32.const {class}))
             (i64.store (i32.const 1032) {start}) (i64.store (i32.const 1040) {sectors})
             (i64.store (i32.const 1048) (i64.const {rest})) (i32.const 1)"
        ),
    )
}

/// Fetches the 128 KiB behind each request.
fn ahead() -> String {
    answering(1, 2, "(i64.add (i64.load (i32.const 72)) (i64.load (i32.const 80)))", "(i64.const 256)", 0)
}

fn bytes(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap()
}

/// The module as a function for a volume of this many sectors, or what is wrong with it.
fn started(text: &str, options: &Options, sectors: u64) -> Result<Box<dyn Function>, String> {
    let module =
        of_bytes(&bytes(text)).map_err(|(found, expected)| format!("found {found}, expected {expected}"))?;
    let running = Running::start(&module, options, sectors).map_err(|failure| failure.to_string())?;
    Ok(Box::new(running))
}

#[test]
fn a_module_has_pages_fetched() {
    world(async || {
        let function = started(&ahead(), &options(""), 1 << 24).unwrap();
        let layer = Functional::with(disk(1 << 24), options(""), function);
        stream(&layer, 0, 100).await;
        assert_eq!(layer.failure(), None);
        // The first piece is read before anything was fetched.
        assert_eq!(counted(&layer, "pages_fetched_used"), 99 * 4);
        layer.stop().await.unwrap();
        assert!(layer.ahead.is_idle());
    });
}

/// What is done to a request, and the error.
const WRONG: [(&str, &str, &str); 8] = [
    ("", "(loop (br 0)) (i32.const 0)", "found no end of a call after 100000000 instructions"),
    ("", "(drop (memory.grow (i32.const 4096))) (i32.const 0)", "found 268500992 bytes of memory asked for"),
    ("", "unreachable", "found a trap (wasm `unreachable` instruction executed), expected an answer"),
    ("", "(i32.div_u (i32.const 1) (i32.const 0))", "found a trap (integer divide by zero)"),
    ("", "(i32.load (i32.const 65536))", "found a trap (out of bounds memory access)"),
    ("", "(call $requests (i32.const 1))", "found a trap (call stack exhausted)"),
    ("", "(i32.const 9)", "found 9 actions, expected 8 at most, as it said"),
    (
        "(table 1 funcref)",
        "(call_indirect (result i32) (i32.const 0))",
        "found a trap (uninitialized element)",
    ),
];

#[test]
fn a_module_that_fails_is_turned_off_and_the_volume_goes_on() {
    let mut all: Vec<(String, String)> =
        WRONG.iter().map(|(parts, body, error)| (around(parts, "", body), (*error).to_owned())).collect();
    let answers: [(u32, u32, u64, u64, u64, &str); 7] = [
        (
            1,
            2,
            65_528,
            16,
            0,
            "action 0: found 16 sectors from sector 65528 on, expected 1 or more that end by sector 65536",
        ),
        (1, 2, u64::MAX, 2, 0, "action 0: found 2 sectors from sector 18446744073709551615 on"),
        (1, 2, 0, 0, 0, "action 0: found 0 sectors"),
        (1, 4, 0, 8, 0, "action 0: found class 4, expected 0 to 3"),
        (2, 1, 0, 8, 0, "action 0: found class 1 of a drop, expected 0"),
        (3, 0, 0, 8, 0, "action 0: found kind 3, expected 1 (fetch) or 2 (drop)"),
        (1, 2, 0, 8, 7, "action 0: found 7 in its last 8 bytes, expected 0"),
    ];
    for (kind, class, start, sectors, rest, error) in answers {
        let number = |number: u64| format!("(i64.const {number})");
        all.push((answering(kind, class, &number(start), &number(sectors), rest), error.to_owned()));
    }
    for (text, error) in all {
        let ((), edges) = world(async || {
            let below = disk(1 << 16);
            let layer =
                Functional::with(below.clone(), options(""), started(&text, &options(""), 1 << 16).unwrap());
            let at = Extent::new(8, 8);
            layer.write(at, filled(7, 8), Hints::default()).await.unwrap();
            let found = layer.failure().expect(&error).to_string();
            assert!(found.contains(&error), "{found}, expected {error}");
            assert_eq!(values(&layer, at).await.unwrap(), [7; 8]);
            assert_eq!((counted(&layer, "turned_off"), counted(&layer, "requests_shown")), (1, 1), "{error}");
            assert_eq!(counted(&layer, "pages_fetched"), 0);
            layer.stop().await.unwrap();
            assert_eq!(values(&*below, at).await.unwrap(), [7; 8]);
        });
        assert!(reached(&edges, "a function is turned off"));
    }
}

#[test]
fn a_module_that_cannot_start_is_an_error_that_says_why() {
    let good = ahead();
    let without = |part: &str, other: &str| {
        assert!(good.contains(part));
        good.replace(part, other)
    };
    let table = |at: u32, value: u32| {
        around("", &format!("(i32.store (i32.const {at}) (i32.const {value}))"), "(i32.const 0)")
    };
    let all = [
        (
            around(r#"(import "env" "now" (func (result i64)))"#, "", "(i32.const 0)"),
            "found an import, env.now, expected a module without imports",
        ),
        (without(r#"(export "memory")"#, ""), "found no exported memory `memory`"),
        (
            without("seekless_requests", "requests"),
            "found no exported function `seekless_requests`, expected `seekless_requests(i32) -> i32`",
        ),
        (without("(param $pages i64)", ""), "found an export `seekless_start` of another type"),
        (
            without("(result i32) i32.const 1)", "(result i32) i32.const 2)"),
            "found version 2 of the interface, expected 1",
        ),
        (
            without("(memory (export \"memory\") 1)", "(memory (export \"memory\") 257)"),
            "found 16842752 bytes of memory asked for, expected 16777216 at most",
        ),
        (
            without("(memory (export \"memory\") 1)", "(memory (export \"memory\") 1 2 shared)"),
            "expected a valid WebAssembly module without threads",
        ),
        (
            without("(memory (export \"memory\") 1)", "(memory (export \"memory\") i64 1)"),
            "expected a valid WebAssembly module",
        ),
        (around("", "unreachable", "(i32.const 0)"), "found a trap (wasm `unreachable`"),
        (
            around("", "(loop (br 0))", "(i32.const 0)"),
            "found no end of a call after 1000000000 instructions",
        ),
        (
            around("", "(return (i32.const 65528))", "(i32.const 0)"),
            "found the table of seekless_start at bytes 65528 to 65544 of its memory, expected them within 1 to 65536",
        ),
        (
            around("", "(return (i32.const 0))", "(i32.const 0)"),
            "found the table of seekless_start at bytes 0 to 16",
        ),
        (table(16, 65_500), "found the requests at bytes 65500 to 65548 of its memory"),
        (table(20, 0), "found room for 0 requests, expected 1 or more"),
        (table(20, 2_000), "found the requests at bytes 64 to 96064"),
        (table(28, 65_537), "found room for 65537 actions, expected 1 to 65536"),
        (table(28, 65_536), "found the actions at bytes 1024 to 2098176"),
        (
            table(24, 80),
            "found requests at 64 to 112, actions at 80 to 336 of its memory, expected them apart",
        ),
    ];
    for (text, error) in all {
        // The volume is not there: nothing of it was used.
        let found = started(&text, &options(""), 1 << 16).err().unwrap_or_default();
        assert!(found.contains(error), "{found}, expected {error}");
    }
    for (bytes, error) in [
        (&b"\0asm\x01\0\0\0\x07"[..], "expected a valid"),
        (b"", "other bytes"),
        (b"(module)", "other bytes"),
    ] {
        let (found, expected) = of_bytes(bytes).err().unwrap();
        assert!(
            format!("found {found}, expected {expected}").contains(error),
            "{found}, expected {expected}"
        );
    }
}

#[test]
fn a_module_keeps_its_state_and_gets_what_it_is_started_with() {
    // Its answer is to drop a page whose number counts calls, from the parameter on.
    let text = around(
        "(global $next (mut i64) (i64.const 0))",
        "(global.set $next (i64.add (local.get $parameter) (i64.add (local.get $sectors) (local.get $pages))))",
        "(i32.store (i32.const 1024) (i32.const 2)) (i64.store (i32.const 1032) (global.get $next))
         (i64.store (i32.const 1040) (i64.const 1)) (global.set $next (i64.add (global.get $next) (i64.const 8))) (i32.const 1)",
    );
    let mut function = started(&text, &options("parameter = 5"), 1 << 16).err();
    assert_eq!(function.take(), None);
    let mut function = started(&text, &options("parameter = 5"), 100).unwrap();
    let request = Request::arriving(Nanos(1), Op::Read, Extent::new(0, 8), &Hints::default());
    let mut actions = Vec::new();
    // 100 + 16,384 + 5 is beyond 100 sectors.
    assert!(function.seen(&request, &mut actions).unwrap_err().to_string().contains("from sector 16489 on"));
}

proptest! {
    /// Any answer is carried out or refused.
    #[test]
    fn any_bytes_are_actions_of_the_volume_or_an_error(bytes in prop::collection::vec(prop_oneof![Just(0_u8), Just(1), Just(2), any::<u8>()], 0..200)) {
        if let Ok(actions) = abi::decode_all(&bytes, 1_000) {
            prop_assert_eq!(actions.len(), bytes.len() / abi::ACTION_BYTES);
            for action in actions {
                let (Action::Fetch { extent, .. } | Action::Drop { extent }) = action;
                prop_assert!(extent.sectors > 0 && extent.end().0 <= 1_000);
            }
        }
    }
}
