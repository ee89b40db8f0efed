//! `seekless lab judge` on the command line: valid, invalid and unreadable histories.

#[allow(dead_code, reason = "each test file uses a part of it")]
mod common;

use common::{file, json, quietly, seekless};

const RIGHT: &str = "\
seekless history 1
issue 17 write 812+1
done 17
issue 18 flush
done 18
issue 31 write 812+1 fua
crash
issue 40 read 812+1
read 40 17
end
";

#[test]
fn a_history_that_may_be_is_counted() {
    let right = file("right.history", RIGHT.as_bytes());
    let text = quietly(&["lab", "judge", &right]);
    assert!(text.contains("writes") && text.ends_with("4 requests, and all of it may be\n"), "{text}");
    let message = json(&["lab", "judge", &right]);
    for (key, number) in [
        ("requests", 4),
        ("writes", 2),
        ("reads", 1),
        ("unanswered", 1),
        ("sectors_judged", 1),
        ("crashes", 1),
    ] {
        assert_eq!(message[key], number, "{key}: {message}");
    }
    assert!(message["violation"].is_null());
}

#[test]
fn what_may_not_be_fails_and_is_reported() {
    let wrong = file("wrong.history", RIGHT.replace("read 40 17", "read 40 0").as_bytes());
    let text = "line 9: sector 812: read 40 found zeroes, which cannot have been left; expected write 17 or write 31";
    let ran = seekless(&["lab", "judge", &wrong]);
    assert_eq!(ran.code, 3);
    assert!(ran.stderr.starts_with("error: ") && ran.stderr.trim_end().ends_with(text), "{}", ran.stderr);
    assert!(ran.stdout.ends_with("wrong from line 9 on\n"), "{}", ran.stdout);
    let ran = seekless(&["lab", "judge", &wrong, "--json"]);
    let message: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let violation = &message["violation"];
    assert_eq!((ran.code, &violation["kind"], &violation["line"]), (3, &"lost".into(), &9.into()));
    assert_eq!((&violation["sector"], &violation["found"]), (&812.into(), &"0".into()));
    assert_eq!(violation["allowed"], serde_json::json!([17, 31]));
}

#[test]
fn what_cannot_be_read_is_reported_with_its_line() {
    let cases = [
        ("", "line 1: found \'\', expected \'seekless history 1\'"),
        ("seekless history 1\nissue 1 wirte 0+1\n", "line 2: found \'wirte\', expected read, write, flush"),
    ];
    for (text, expected) in cases {
        let bad = file("bad.history", text.as_bytes());
        let ran = seekless(&["lab", "judge", &bad]);
        assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
        assert!(ran.stderr.contains("bad.history: ") && ran.stderr.contains(expected), "{}", ran.stderr);
    }
    let ran = seekless(&["lab", "judge", "/nonexistent.history"]);
    assert!(ran.code == 1 && ran.stderr.contains("No such file"), "{}", ran.stderr);
    let help = quietly(&["lab", "judge", "--help"]);
    assert!(help.contains("Examples:") && help.contains("--json"), "{help}");
}
