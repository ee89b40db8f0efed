//! Reads any bytes as a history and judges it. Whatever they are, reading ends, nothing panics, and the
//! history reads back unchanged after it is written.

use seekless_lab::check::Registers;
use seekless_lab::check::history::{Event, Reader, Writer};

/// Sectors up to which a history is judged: each written sector takes memory.
const JUDGED: u64 = 1 << 12;

fn read(bytes: &[u8]) -> Vec<Event> {
    let Ok(mut reader) = Reader::new(bytes) else { return Vec::new() };
    let events = reader.by_ref().map_while(Result::ok).collect();
    assert!(reader.next().is_none(), "goes on after its end");
    events
}

pub fn run(bytes: &[u8]) {
    let events = read(bytes);
    let mut writer = Writer::new(Vec::new()).expect("memory");
    let (mut registers, mut sectors, mut right) = (Registers::new(), 0, true);
    for event in &events {
        writer.event(event).expect("memory");
        if let Event::Issue { at, .. } = event {
            sectors += at.sectors;
        }
        if right && sectors <= JUDGED {
            right = registers.event(event).is_ok();
        }
    }
    assert_eq!(read(&writer.finish().expect("memory")), events);
}
