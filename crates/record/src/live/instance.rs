//! A private tracefs instance: a buffer without other writers, with events switched on in it alone.
//!
//! Invariant: all its pipes are read without blocking, and a page is translated as soon as it is read. Faults: events
//! lost by the kernel are counted.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::device::Device;
use super::tracefs::{self, text};
use super::undo::Undo;
use crate::error::RecordError;
use crate::format::Layout;
use crate::order::Order;
use crate::page::Pages;
use crate::translate::{BLOCK, TASKS, TracedEvent, Translator};

/// The clock of every source: the machine's monotonic one.
pub const CLOCK: &str = "mono";

/// An instance, and a pipe per CPU.
pub struct Instance {
    folder: PathBuf,
    cpus: Vec<u32>,
    pipes: Vec<(u32, File)>,
    pages: Pages,
    page: Vec<u8>,
    translator: Translator,
    /// Folders of its events, to be switched off.
    events: Vec<PathBuf>,
}

impl Instance {
    /// Creates an instance with nothing switched on.
    pub fn new(
        tracefs: &Path,
        device: &Device,
        buffer_bytes: u64,
        undo: &mut Undo,
    ) -> Result<Instance, RecordError> {
        let folder = undo.instance(tracefs)?;
        tracefs::write(&folder.join("trace_clock"), CLOCK)?;
        tracefs::write(&folder.join("buffer_size_kb"), &buffer_bytes.div_ceil(1024).to_string())?;
        let pages = Pages::new(&Layout::parse(&text(&tracefs.join("events/header_page"))?))?;
        let cpus = tracefs::cpus(&folder)?;
        let mut pipes = Vec::new();
        for cpu in &cpus {
            pipes.push((*cpu, tracefs::open_pipe(&folder.join(format!("per_cpu/cpu{cpu}/trace_pipe_raw")))?));
        }
        let any = Layout::parse(&text(&folder.join("events/task").join(TASKS[0]).join("format"))?);
        let translator = Translator::new(device.number, &any)?;
        let page = vec![0; pages.bytes()];
        Ok(Instance { folder, cpus, pipes, pages, page, translator, events: Vec::new() })
    }

    /// Switches on the events of thread names.
    pub fn follow_names(&mut self) -> Result<(), RecordError> {
        for event in TASKS {
            let event = self.folder.join("events/task").join(event);
            self.translator.add_task(&Layout::parse(&text(&event.join("format"))?))?;
            self.switch_on(event)?;
        }
        Ok(())
    }

    /// Switches on the block events of a device.
    pub fn follow_device(&mut self, device: &Device) -> Result<(), RecordError> {
        for traced in BLOCK {
            let event = self.folder.join("events").join(traced.system).join(traced.event);
            if !event.exists() && !traced.needed {
                continue;
            }
            let layout = Layout::parse(&text(&event.join("format"))?);
            self.translator.add_block(&traced, &layout)?;
            tracefs::write(
                &event.join("filter"),
                &filter(device, &traced, layout.find("nr_sector").is_some()),
            )?;
            self.switch_on(event)?;
        }
        Ok(())
    }

    fn switch_on(&mut self, event: PathBuf) -> Result<(), RecordError> {
        tracefs::write(&event.join("enable"), "1")?;
        self.events.push(event);
        Ok(())
    }

    /// Switches off; what has arrived is still to be drained.
    pub fn switch_off(&mut self) -> Result<(), RecordError> {
        self.events.drain(..).try_for_each(|event| tracefs::write(&event.join("enable"), "0"))
    }

    /// Takes everything available.
    pub fn drain(&mut self, order: &mut Order) -> Result<(), RecordError> {
        for (cpu, pipe) in &mut self.pipes {
            // At most as many pages as the buffer may hold, then the other CPUs: a CPU that is busier than this reader
            // must not starve the others.
            for _ in 0..PAGES_AT_ONCE {
                let read = match pipe.read(&mut self.page) {
                    Ok(0) => break,
                    Ok(read) => read,
                    Err(error) if matches!(error.kind(), ErrorKind::WouldBlock) => break,
                    Err(error) if matches!(error.kind(), ErrorKind::Interrupted) => continue,
                    Err(error) => return Err(RecordError::io(&self.folder, "reading its pipe", error)),
                };
                let translator = &self.translator;
                self.pages.events(&self.page[..read], |time, event| {
                    translator.translate(time, *cpu, event, |item| order.push(item));
                });
            }
        }
        Ok(())
    }

    /// Number of events lost by the kernel.
    pub fn lost(&self) -> u64 {
        tracefs::lost(&self.folder, &self.cpus)
    }
}

/// Pages of one CPU read before the next one's turn.
const PAGES_AT_ONCE: usize = 4096;

/// The filter of an event for `device`. Request structures, and on newer kernels bios, have only their disk's number;
/// sectors always count from its start.
fn filter(device: &Device, traced: &TracedEvent, counted: bool) -> String {
    let is = |number: &u32| format!("dev == {number}");
    let Some(part) = device.part else {
        let parts = if traced.of_disk { &[] } else { device.partitions.as_slice() };
        return [device.number].iter().chain(parts).map(is).collect::<Vec<_>>().join(" || ");
    };
    let inside = format!("(sector >= {} && sector < {})", part.start, part.end);
    // A flush has no place: that of any partition may be this one's, and the blk tracer includes it.
    let place = if counted { format!("({inside} || nr_sector == 0)") } else { inside };
    let on_disk = format!("dev == {} && {place}", part.disk);
    if traced.of_disk { on_disk } else { format!("dev == {} || ({on_disk})", device.number) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::device::Part;

    #[test]
    fn filters_name_the_device_as_each_event_does() {
        let [bio, request] = [0, 9].map(|at| BLOCK[at]);
        let disk = Device {
            name: "sda".into(),
            number: 8 << 20,
            folder: PathBuf::new(),
            part: None,
            partitions: vec![8 << 20 | 1],
        };
        assert_eq!(filter(&disk, &bio, true), "dev == 8388608 || dev == 8388609");
        assert_eq!(filter(&disk, &request, true), "dev == 8388608");
        let part = Part { disk: 8 << 20, start: 2048, end: 4096 };
        let part = Device { number: 8 << 20 | 1, part: Some(part), partitions: vec![], ..disk };
        let on_disk = "dev == 8388608 && ((sector >= 2048 && sector < 4096) || nr_sector == 0)";
        assert_eq!(filter(&part, &bio, true), format!("dev == 8388609 || ({on_disk})"));
        assert_eq!(filter(&part, &request, true), on_disk);
        assert_eq!(filter(&part, &request, false), "dev == 8388608 && (sector >= 2048 && sector < 4096)");
    }
}
