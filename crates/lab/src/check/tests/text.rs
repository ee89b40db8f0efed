//! Histories as text: a written history reads back unchanged; malformed ones yield an error with its place.

use proptest::prelude::*;
use seekless_core::{Extent, Op};

use crate::check::history::{Event, Reader, Writer};
use crate::check::{SectorContent, Stamp, judge};

fn read(text: &str) -> Result<Vec<Event>, String> {
    let reader = Reader::new(text.as_bytes()).map_err(|error| error.to_string())?;
    reader.collect::<Result<_, _>>().map_err(|error| error.to_string())
}

fn written(events: &[Event]) -> String {
    let mut writer = Writer::new(Vec::new()).unwrap();
    for event in events {
        writer.event(event).unwrap();
    }
    String::from_utf8(writer.finish().unwrap()).unwrap()
}

const SAMPLE: &str = include_str!("sample.history");

#[test]
fn a_history_is_read_and_written_word_for_word() {
    let events = read(SAMPLE).unwrap();
    assert_eq!(written(&events), SAMPLE);
    assert_eq!(events[0], Event::Issue { id: 12, op: Op::Write, at: Extent::new(800, 8), fua: true });
    let stamp = |sector| SectorContent::Stamp(Stamp { sector, write: 12 });
    assert_eq!(
        events[7],
        Event::Read { id: 13, found: vec![stamp(800), stamp(801), stamp(807), SectorContent::Foreign] }
    );
    let commented = SAMPLE.replace("crash\n", "\n# the cable\r\n  crash  \r\n");
    assert_eq!(read(&commented).unwrap(), events);
}

#[test]
fn what_makes_no_sense_is_reported_with_its_line() {
    let long = format!("issue 1 write {}", "9".repeat(100));
    let cases = [
        ("issue 1 wirte 0+1", "line 2: found 'wirte', expected read, write, flush, discard or zeroes"),
        ("issue one flush", "line 2: found 'one', expected the number of a request"),
        (
            "issue 0 flush",
            "line 2: found request 0 after request 0, expected rising numbers, from 1, below 2^48",
        ),
        ("issue 7 flush\nissue 7 flush", "line 3: found request 7 after request 7"),
        ("issue 281474976710656 flush", "below 2^48"),
        ("issue 1 write", "line 2: found '', expected where it is, as in 800+8"),
        ("issue 1 write 0+65537", "line 2: found '0+65537'"),
        ("issue 1 write 0+0", "line 2: found '0+0'"),
        ("issue 1 write 281474976710655+1", "below 2^48"),
        (&long, "9999...'"),
        ("issue 1 flush 0+1", "line 2: found '0+1', expected fua or the end of the line"),
        ("issue 1 flush fua fua", "line 2: found 'fua', expected the end of the line"),
        (
            "issue 1 read 0+1\ndone 1",
            "line 3: found read 1 done, expected 'read 1' and what it found, or 'failed 1'",
        ),
        ("issue 1 write 0+1\nread 1 0", "line 3: found what a write found, expected 'done 1' or 'failed 1'"),
        ("read 1 x", "line 2: found 'x', expected 0, the number of a write, as in 17, 17*8 or 17@812, or ?"),
        ("read 1 0@5", "line 2: found '0@5'"),
        ("read 1 5*0", "line 2: found '5*0', expected 1 to 65536 sectors in all"),
        ("read 1 0 0*65536", "line 2: found '0*65536', expected 1 to 65536 sectors in all"),
        ("read 1 281474976710656", "line 2: found '281474976710656'"),
        ("begin", "line 2: found 'begin', expected issue, done, failed, read, crash or end"),
    ];
    for (lines, expected) in cases {
        let message = read(&format!("seekless history 1\n{lines}\n")).unwrap_err();
        assert!(message.contains(expected), "{lines}: {message}");
    }
    assert_eq!(read("").unwrap_err(), "line 1: found '', expected 'seekless history 1'");
    let message = read("seekless history 2\n").unwrap_err();
    assert_eq!(
        message,
        "line 1: found 'seekless history 2', expected 'seekless history 1', the version known"
    );
    let endless = format!("seekless history 1\n{}", "x".repeat(5 << 20));
    assert!(read(&endless).unwrap_err().contains("line 2: found a longer line, expected at most"));
    let reader = Reader::new(&b"seekless history 1\n\xff\n"[..]).unwrap();
    let message: Vec<String> = reader.map(|event| event.unwrap_err().to_string()).collect();
    assert_eq!(message, ["line 2: found bytes that are not UTF-8, expected text"]);
}

/// Words of histories, and some others, in any order.
fn lines() -> impl Strategy<Value = String> {
    let number = prop_oneof![(0..20_u64).boxed(), any::<u64>().boxed()];
    let word = prop_oneof![
        prop::sample::select(vec![
            "issue", "done", "failed", "read", "write", "flush", "discard", "zeroes", "crash", "end", "fua",
            "?", "?*3"
        ])
        .prop_map(str::to_owned),
        number.prop_map(|number| number.to_string()),
        (0..30_u64, 0..5_u64).prop_map(|(start, sectors)| format!("{start}+{sectors}")),
        (0..30_u64, 0..5_u64).prop_map(|(write, count)| format!("{write}*{count}")),
        "[ -~]{0,6}",
    ];
    let line = prop_oneof![
        prop::collection::vec(word, 0..5).prop_map(|words| words.join(" ")),
        (1..30_u64, prop::sample::select(vec!["read", "write", "zeroes", "discard"]), 0..9_u64)
            .prop_map(|(id, op, start)| format!("issue {id} {op} {start}+2")),
        (1..30_u64).prop_map(|id| format!("done {id}")),
        (1..30_u64, 0..30_u64).prop_map(|(id, write)| format!("read {id} {write}*2")),
    ];
    prop::collection::vec(line, 0..30).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #[test]
    fn words_made_up_never_panic_and_what_can_be_read_is_written_back(lines in lines()) {
        let text = format!("seekless history 1\n{lines}\n");
        let mut reader = Reader::new(text.as_bytes()).unwrap();
        let events: Vec<Event> = reader.by_ref().map_while(Result::ok).collect();
        prop_assert!(reader.next().is_none(), "goes on after its end");
        prop_assert_eq!(read(&written(&events)).unwrap(), events);
        let _ = judge(Reader::new(text.as_bytes()).unwrap());
    }

    #[test]
    fn bytes_made_up_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let text = [b"seekless history 1\n", &bytes[..]].concat();
        let _ = judge(Reader::new(&text[..]).unwrap());
        let _ = Reader::new(&bytes[..]).is_ok();
    }
}
