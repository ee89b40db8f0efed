//! Translates the kernel's block events into blktrace records, and its task events into names.
//!
//! The result is what the `blk` tracer would have recorded: the reverse of that tracer's own text output. Where both
//! exist they agree, except for plugging, whose events have no device and are left out.
//!
//! Invariant: an event is read only through the layout that this kernel gave. Faults: an event of an unknown number is
//! ignored.

use crate::encode::{Header, category, name, record, what};
use crate::error::RecordError;
use crate::format::{Field, Layout};
use crate::order::{Item, Kind};

/// A traced event, its action in the trace, and the kind of device number for its filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedEvent {
    /// The folder under `events/`.
    pub system: &'static str,
    /// The event.
    pub event: &'static str,
    /// Action in a blktrace record.
    pub action: u32,
    /// Whether it is about a request structure, which belongs to the whole disk, and not to a bio.
    pub of_disk: bool,
    /// Whether recording is useless without it.
    pub needed: bool,
}

const fn traced(event: &'static str, action: u32, of_disk: bool, needed: bool) -> TracedEvent {
    TracedEvent { system: "block", event, action, of_disk, needed }
}

/// The block events and their actions.
pub const BLOCK: [TracedEvent; 12] = [
    traced("block_bio_queue", what::QUEUED | category::QUEUE, false, true),
    traced("block_bio_remap", what::REMAPPED | category::QUEUE, false, false),
    traced("block_bio_backmerge", what::BACK_MERGED | category::QUEUE, false, false),
    traced("block_bio_frontmerge", what::FRONT_MERGED | category::QUEUE, false, false),
    traced("block_bio_complete", what::COMPLETED | category::COMPLETE, false, false),
    traced("block_split", what::SPLIT, false, false),
    traced("block_getrq", what::GOT_REQUEST | category::QUEUE, false, false),
    traced("block_rq_insert", what::INSERTED | category::QUEUE, true, false),
    traced("block_rq_merge", what::BACK_MERGED | category::QUEUE, true, false),
    traced("block_rq_issue", what::ISSUED | category::ISSUE, true, true),
    traced("block_rq_requeue", what::REQUEUED | category::REQUEUE, true, false),
    traced("block_rq_complete", what::COMPLETED | category::COMPLETE, true, true),
];

/// The task events, which name threads.
pub const TASKS: [&str; 2] = ["task_newtask", "task_rename"];

/// A block event's fields.
#[derive(Debug)]
struct Block {
    action: u32,
    of_disk: bool,
    device: Field,
    sector: Field,
    sectors: Option<Field>,
    flags: Field,
    comm: Option<Field>,
    error: Option<Field>,
    /// The size of a command passed through.
    bytes: Option<Field>,
    old_device: Option<Field>,
    old_sector: Option<Field>,
    new_sector: Option<Field>,
}

/// A known event.
#[derive(Debug)]
enum Known {
    Block(Box<Block>),
    /// The thread, and its name from now on.
    Named(Field, Field),
}

/// Translates the events of one kernel for one device.
#[derive(Debug)]
pub struct Translator {
    device: u32,
    kind: Field,
    pid: Field,
    known: Vec<(u16, Known)>,
}

impl Translator {
    /// A translator for records about `device`; `any` is the layout of any event, for the common fields.
    pub fn new(device: u32, any: &Layout) -> Result<Translator, RecordError> {
        let (kind, pid) = (any.field("common_type")?, any.field("common_pid")?);
        Ok(Translator { device, kind, pid, known: Vec::new() })
    }

    /// Adds a block event.
    pub fn add_block(&mut self, traced: &TracedEvent, layout: &Layout) -> Result<(), RecordError> {
        let block = Block {
            action: traced.action,
            of_disk: traced.of_disk,
            device: layout.field("dev")?,
            sector: layout.field("sector")?,
            sectors: layout.find("nr_sector"),
            flags: layout.field("rwbs")?,
            comm: layout.find("comm"),
            error: layout.find("error"),
            bytes: layout.find("bytes"),
            old_device: layout.find("old_dev"),
            old_sector: layout.find("old_sector"),
            new_sector: layout.find("new_sector"),
        };
        self.known.push((layout.id, Known::Block(Box::new(block))));
        Ok(())
    }

    /// Adds a task event.
    pub fn add_task(&mut self, layout: &Layout) -> Result<(), RecordError> {
        let name = layout.find("newcomm").map_or_else(|| layout.field("comm"), Ok)?;
        self.known.push((layout.id, Known::Named(layout.field("pid")?, name)));
        Ok(())
    }

    /// Translates `event` of `cpu`, if it is known, and passes the result to `push`, a name before the event that it
    /// applies to.
    pub fn translate(&self, time_ns: u64, cpu: u32, event: &[u8], mut push: impl FnMut(Item)) {
        let id = self.kind.number(event);
        let Some((_, known)) = self.known.iter().find(|(known, _)| u64::from(*known) == id) else { return };
        match known {
            Known::Named(pid, comm) => {
                let kind = Kind::Named(pid.number(event) as u32, name(comm.text(event)));
                push(Item { time_ns, kind });
            }
            Known::Block(block) => {
                let pid = self.pid.number(event) as u32;
                if let Some(comm) = block.comm {
                    push(Item { time_ns, kind: Kind::Named(pid, name(comm.text(event))) });
                }
                push(self.block(block, time_ns, cpu, pid, event));
            }
        }
    }

    fn block(&self, block: &Block, time_ns: u64, cpu: u32, pid: u32, event: &[u8]) -> Item {
        let number = |field: Option<Field>| field.map_or(0, |field| field.number(event));
        let sectors = number(block.sectors);
        let bytes =
            if sectors > 0 { (sectors as u32).saturating_mul(512) } else { number(block.bytes) as u32 };
        let mut action = block.action | flags(block.flags.text(event), bytes > 0);
        if block.of_disk && action & category::PASSTHROUGH == 0 {
            action |= category::FS;
        }
        let header = Header {
            time_ns,
            // A flush has no place; the events give zero or the largest sector.
            sector: Some(block.sector.number(event)).filter(|sector| *sector != u64::MAX).unwrap_or(0),
            bytes,
            action,
            pid,
            device: self.device,
            cpu,
            error: number(block.error) as u16,
        };
        // Payloads are big-endian on every machine.
        let payload = match (block.old_device, block.new_sector) {
            (Some(device), _) => {
                let (from, to) = (device.number(event) as u32, block.device.number(event) as u32);
                [&from.to_be_bytes()[..], &to.to_be_bytes(), &number(block.old_sector).to_be_bytes()].concat()
            }
            (None, Some(sector)) => sector.number(event).to_be_bytes().to_vec(),
            (None, None) => Vec::new(),
        };
        Item { time_ns, kind: Kind::Block { action, pid, cpu, record: record(&header, &payload) } }
    }
}

/// The category of a request, from the kernel's letters for it: `[F](R|W|D|DE|F|N|Z.)[F][A][S][M]`. A first F is a
/// preceding flush, unless only flags follow: then it is the flush itself.
fn flags(letters: &[u8], any_bytes: bool) -> u32 {
    let (before, rest) = match letters {
        [b'F', rest @ ..] if rest.iter().any(|letter| b"RWDFNZ".contains(letter)) => (category::FLUSH, rest),
        _ => (0, letters),
    };
    let (kind, rest) = match rest {
        [b'R', rest @ ..] => (category::READ, rest),
        // The last: of zones, where all but reading writes.
        [b'W', rest @ ..] | [b'Z', _, rest @ ..] => (category::WRITE, rest),
        [b'D', b'E', rest @ ..] | [b'D', rest @ ..] => (category::WRITE | category::DISCARD, rest),
        // The kernel counts an operation of an even number, such as this, as a read.
        [b'F', rest @ ..] => (category::READ | category::FLUSH, rest),
        // None of the letters: zeroes to be written, or, without sectors, a command passed through.
        [b'N', rest @ ..] if any_bytes => (category::WRITE, rest),
        [b'N', rest @ ..] => (category::PASSTHROUGH, rest),
        _ => (0, rest),
    };
    let also = rest.iter().map(|letter| match letter {
        b'F' => category::FUA,
        b'A' => category::AHEAD,
        b'S' => category::SYNC,
        b'M' => category::META,
        _ => 0,
    });
    also.fold(before | kind, |all, each| all | each)
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUE: &str = "name: block_bio_queue
ID: 2097
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;
\tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;
\tfield:unsigned int nr_sector;\toffset:24;\tsize:4;\tsigned:0;
\tfield:char rwbs[10];\toffset:28;\tsize:10;\tsigned:0;
\tfield:char comm[16];\toffset:38;\tsize:16;\tsigned:0;
";

    #[test]
    #[cfg(target_endian = "little")]
    fn a_captured_write_becomes_a_queue_record() {
        // dd's direct write to sector 800 of loop0, from a page of Linux 6.18.
        let mut event = Vec::new();
        event.extend([0x31, 0x08, 0, 0, 0x0d, 0x2c, 0, 0, 0, 0, 0x70, 0, 0, 0xea, 0xff, 0xff]);
        event.extend([
            0x20, 3, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0x57, 0x53, 0, 0xff, 0xc0, 0x61, 0x23, 4, 0, 0xea,
        ]);
        event.extend(*b"dd\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        let layout = Layout::parse(QUEUE);
        let mut translator = Translator::new(7 << 20, &layout).unwrap();
        translator.add_block(&BLOCK[0], &layout).unwrap();
        let mut items = Vec::new();
        translator.translate(5, 1, &event, |item| items.push(item));
        let action = what::QUEUED | category::QUEUE | category::WRITE | category::SYNC;
        let header = Header {
            time_ns: 5,
            sector: 800,
            bytes: 4096,
            action,
            pid: 0x2c0d,
            device: 7 << 20,
            cpu: 1,
            error: 0,
        };
        let expected = [
            Item { time_ns: 5, kind: Kind::Named(0x2c0d, name(b"dd")) },
            Item {
                time_ns: 5,
                kind: Kind::Block { action, pid: 0x2c0d, cpu: 1, record: record(&header, b"") },
            },
        ];
        assert_eq!(items, expected);
        let mut none = Vec::new();
        translator.translate(5, 1, &[0; 8], |item| none.push(item));
        translator.translate(5, 1, &[], |item| none.push(item));
        assert_eq!(none, []);
    }

    #[test]
    fn letters_match_the_blk_tracer() {
        use category::*;
        for (letters, bytes, expected) in [
            ("R", true, READ),
            ("RA", true, READ | AHEAD),
            ("RSM", true, READ | SYNC | META),
            ("WS", true, WRITE | SYNC),
            ("WFS", true, WRITE | FUA | SYNC),
            ("FWFSM", true, FLUSH | WRITE | FUA | SYNC | META),
            ("FWS", false, FLUSH | WRITE | SYNC),
            ("F", false, READ | FLUSH),
            ("FF", false, READ | FLUSH),
            ("D", true, WRITE | DISCARD),
            ("DES", true, WRITE | DISCARD | SYNC),
            ("N", true, WRITE),
            ("N", false, PASSTHROUGH),
            ("", false, 0),
        ] {
            assert_eq!(flags(letters.as_bytes(), bytes), expected, "{letters}");
        }
    }
}
