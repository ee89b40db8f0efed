//! The checker's violations, kind by kind, and histories as text.

mod model;
mod properties;
mod text;

use super::history::Reader;
use super::{Judged, Kind, judge};

/// Checks the lines of a history.
fn judged(lines: &str) -> Judged {
    let text = format!("seekless history 1\n{lines}");
    judge(Reader::new(text.as_bytes()).expect("a header")).expect("a history")
}

/// Kind and text of its violation.
fn wrong(lines: &str) -> (Kind, String) {
    let wrong = judged(lines).violation.expect("something is wrong with it");
    (wrong.violation.kind, wrong.text)
}

fn right(lines: &str) {
    let judged = judged(lines);
    assert!(judged.violation.is_none(), "{judged:?}");
}

/// Two consecutive writes of sector 812.
const TWO: &str = "issue 17 write 812+1\ndone 17\nissue 31 write 812+1\ndone 31\n";

#[test]
fn a_read_of_what_was_replaced_before_is_stale() {
    let verdict = wrong(&format!("{TWO}issue 40 read 812+1\nread 40 17"));
    let text = "sector 812: read 40 found write 17, which write 31 had replaced before the read began; expected write 31";
    assert_eq!(verdict, (Kind::Stale, text.into()));
    right(&format!("{TWO}issue 40 read 812+1\nread 40 31"));
    let verdict = wrong(&format!("{TWO}issue 40 read 811+3\nread 40 0*3"));
    let text = "sector 812: read 40 found zeroes, which write 31 had replaced before the read began; expected write 31";
    assert_eq!(verdict, (Kind::Stale, text.into()));
}

#[test]
fn first_the_new_then_the_old_is_reported() {
    let seen = "issue 1 write 812+1\ndone 1\nissue 2 write 812+1\nissue 3 read 812+1\nread 3 2\nissue 4 read 812+1\n";
    let text = "sector 812: read 4 found write 1, which write 2 had replaced: an earlier read had returned that; expected write 2";
    assert_eq!(wrong(&format!("{seen}read 4 1")), (Kind::NewThenOld, text.into()));
    right(&format!("{seen}read 4 2"));
}

#[test]
fn what_a_later_read_says_of_the_order_of_two_writes_holds() {
    // Write 3 is there at 4 and again at 6, so that write 2, which ended between, came before it.
    let order = "issue 1 read 0+1\nissue 2 write 812+1\nissue 3 write 812+1\ndone 3\ndone 2\nissue 4 read 812+1\nread 4 3\n";
    let verdict = wrong(&format!("{order}issue 5 read 812+1\nread 5 2"));
    assert_eq!(verdict.0, Kind::Stale, "{}", verdict.1);
    right(&format!("{order}issue 5 read 812+1\nread 5 3\nread 1 0"));
}

/// Write 17 is durable, write 31 is not.
const HALF: &str = "issue 17 write 812+1\ndone 17\nissue 18 flush\ndone 18\nissue 31 write 812+1\ndone 31\n";

#[test]
fn what_was_durable_and_is_gone_is_lost() {
    let text = "sector 812: read 40 found zeroes, which cannot have been left; expected write 17 or write 31";
    assert_eq!(wrong(&format!("{HALF}crash\nissue 40 read 812+1\nread 40 0")), (Kind::Lost, text.into()));
    for left in [17, 31] {
        right(&format!("{HALF}crash\nissue 40 read 812+1\nread 40 {left}"));
        let settled =
            format!("{HALF}crash\ncrash\nissue 40 read 812+1\nread 40 {left}\nissue 41 read 812+1\n");
        right(&format!("{settled}crash\nissue 42 read 812+1\nread 42 {left}"));
        let (kind, text) = wrong(&format!("{settled}read 41 {}", 48 - left));
        assert_eq!((kind, text.ends_with(&format!("expected write {left}"))), (Kind::Lost, true), "{text}");
    }
    let fua = HALF.replace("done 31", "").replace("31 write 812+1", "31 write 812+1 fua");
    right(&format!("{fua}\ncrash\nissue 40 read 812+1\nread 40 17"));
    let verdict = wrong(&format!("{fua}\ndone 31\ncrash\nissue 40 read 812+1\nread 40 17"));
    assert_eq!(verdict.0, Kind::Lost, "{}", verdict.1);
    let since = format!("{HALF}crash\nissue 40 write 812+1 fua\ndone 40\nissue 41 read 812+1\nread 41 31");
    assert_eq!(wrong(&since).0, Kind::Stale, "what came after the crash");
}

#[test]
fn what_a_crash_may_leave_is_judged_without_one() {
    use super::{Registers, SectorContent, Stamp};
    let mut registers = Registers::new();
    for event in Reader::new(format!("seekless history 1\n{HALF}").as_bytes()).unwrap() {
        registers.event(&event.unwrap()).unwrap();
    }
    assert_eq!((registers.narrowed(), registers.narrowed()), (vec![812], vec![]));
    let of = |write| SectorContent::Stamp(Stamp { sector: 812, write });
    assert_eq!((registers.after_crash(812, of(31)), registers.after_crash(812, of(17))), (Ok(()), Ok(())));
    let lost = registers.after_crash(812, SectorContent::Zeroes).unwrap_err();
    let text = "sector 812: after a crash, found zeroes, though write 17 came later and was durable; expected write 17 or write 31";
    assert_eq!((lost.kind, lost.to_string()), (Kind::Lost, text.into()));
    let untouched = registers.after_crash(0, of(31)).unwrap_err();
    assert_eq!(untouched.kind, Kind::Elsewhere);
    assert_eq!(registers.after_crash(0, SectorContent::Zeroes), Ok(()));
}

#[test]
fn a_flush_covers_what_was_answered_before_it_was_issued() {
    let lost =
        |lines: &str| judged(&format!("{lines}\ncrash\nissue 90 read 812+1\nread 90 0")).violation.is_some();
    assert!(lost("issue 1 write 812+1\ndone 1\nissue 2 flush\ndone 2"));
    assert!(!lost("issue 1 write 812+1\nissue 2 flush\ndone 1\ndone 2"), "in flight when it was issued");
    assert!(!lost("issue 1 write 812+1\ndone 1\nissue 2 flush\nfailed 2"), "it failed");
    assert!(!lost("issue 1 write 812+1\ndone 1\nissue 2 flush"), "it was not answered");
    assert!(!lost("issue 1 write 812+1\nfailed 1\nissue 2 flush\ndone 2"), "the write failed");
}

#[test]
fn a_failed_write_may_show_or_not_and_an_error_says_nothing_of_a_read() {
    let failed = "issue 1 write 812+1\nfailed 1\nissue 2 read 812+1\nissue 3 read 812+1\nfailed 2\n";
    right(&format!("{failed}read 3 0\nissue 4 read 812+1\nread 4 1"));
    right(&format!("{failed}read 3 1\nissue 4 read 812+1\nread 4 1"));
    assert_eq!(wrong(&format!("{failed}read 3 1\nissue 4 read 812+1\nread 4 0")).0, Kind::NewThenOld);
}

#[test]
fn a_discarded_sector_reads_as_zeroes_or_as_before_and_stays_so() {
    let discarded = "issue 1 write 812+1\ndone 1\nissue 2 discard 812+1\ndone 2\nissue 3 read 812+1\n";
    right(&format!("{discarded}read 3 1\nissue 4 read 812+1\nread 4 1"));
    right(&format!("{discarded}read 3 0\nissue 4 read 812+1\nread 4 0"));
    assert_eq!(wrong(&format!("{discarded}read 3 0\nissue 4 read 812+1\nread 4 1")).0, Kind::Stale);
    assert_eq!(wrong(&format!("{discarded}read 3 1\nissue 4 read 812+1\nread 4 0")).0, Kind::Stale);
    let written = format!("{discarded}read 3 1\nissue 5 write 812+1\ndone 5\nissue 6 read 812+1\n");
    right(&format!("{written}read 6 5"));
    assert_eq!(wrong(&format!("{written}read 6 0")).0, Kind::Stale);
    let zeroed = "issue 1 write 812+1\ndone 1\nissue 2 zeroes 812+1\ndone 2\nissue 3 read 812+1\n";
    right(&format!("{zeroed}read 3 0"));
    assert_eq!(wrong(&format!("{zeroed}read 3 1")).0, Kind::Stale);
}

#[test]
fn what_no_write_put_there_is_reported() {
    let read = "issue 17 write 812+2\ndone 17\nissue 40 read 812+1\n";
    let text = "sector 812: read 40 found write 99, which was not issued yet; expected write 17";
    assert_eq!(wrong(&format!("{read}read 40 99")), (Kind::NeverWritten, text.into()));
    let text = "sector 812: read 40 found write 17 of sector 813, which belongs there; expected write 17";
    assert_eq!(wrong(&format!("{read}read 40 17@813")), (Kind::Elsewhere, text.into()));
    let text = "sector 812: read 40 found bytes that are not a stamp; expected write 17";
    assert_eq!(wrong(&format!("{read}read 40 ?")), (Kind::Foreign, text.into()));
    let text = "request 40 (read of sectors 812..813): found an answer of 2 sectors, expected 1";
    assert_eq!(wrong(&format!("{read}read 40 17*2")), (Kind::Length, text.into()));
}

#[test]
fn every_request_is_answered_once() {
    let text = "request 17: found an answer, though it was answered before or lost in a power cut; expected one at most";
    for twice in ["done 17\ndone 17", "crash\ndone 17", "failed 17\nread 17 0"] {
        let verdict = wrong(&format!("issue 17 write 812+1\n{twice}"));
        assert_eq!(verdict, (Kind::AnsweredTwice, text.into()));
    }
    let text = "request 18: found an answer, though it was never issued; expected none";
    assert_eq!(wrong("issue 17 write 812+1\ndone 18"), (Kind::NeverIssued, text.into()));
    let text = "request 17 (write of sectors 812..813): found no answer, expected one";
    assert_eq!(wrong("issue 17 write 812+1\nend"), (Kind::NotAnswered, text.into()));
    let text = "request 17 (flush): found no answer, expected one";
    assert_eq!(wrong("issue 17 flush\nend"), (Kind::NotAnswered, text.into()));
    right("issue 17 flush\ncrash\nend");
}
