//! The events of a run as text, one a line.

use seekless_core::Nanos;
use seekless_core::runtime::Event;

/// Called with every event of a run, and its time.
pub type EventSink = Box<dyn FnMut(Nanos, &Event)>;

/// A listener that writes each event as a line; with `page`, only those about that page of the volume.
pub fn event_lines(page: Option<u64>, mut line: impl FnMut(String) + 'static) -> EventSink {
    Box::new(move |at, event| {
        let touches = |extent: seekless_core::Extent| page.is_none_or(|page| extent.pages().contains(&page));
        let text = match event {
            Event::Did { layer, what, extent, at } if touches(*extent) => {
                format!("{layer} {what}: {extent}, at sector {at} of its device")
            }
            _ if page.is_some() => return,
            Event::Did { .. } => return,
            Event::Timer { sequence } => format!("timer {sequence}"),
            Event::Request { device, id, op, extent, class } => {
                format!("device {device} request {id}: {op} {extent}, {class:?}")
            }
            Event::Complete { device, id, ok } => {
                format!("device {device} request {id}: {}", if *ok { "done" } else { "failed" })
            }
            Event::Offloaded { cost } => format!("offloaded work is back after {cost}"),
        };
        line(format!("{:.9} {text}", at.seconds()));
    })
}
