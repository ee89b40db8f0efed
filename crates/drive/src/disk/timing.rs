//! Command and interface costs in nanoseconds, from a description.

use seekless_core::Nanos;

use super::mechanics::nanos;
use crate::spec::{BusSpec, CommandSpec, ExtraDisconnect, Spec};

/// Costs after a read, and after a write.
type After = [u64; 2];

/// The costs of a drive.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    each: u64,
    read_hit: After,
    read_miss: After,
    write_hit: After,
    write_miss: After,
    read_disconnect: After,
    pub read_completion: u64,
    pub write_completion: u64,
    pub preparation: u64,
    pub minimum_write_seek: u64,
    pub turn_round: u64,
    pub read_sector: u64,
    pub write_sector: u64,
    pub write_disconnect: u64,
    pub first_reselect: u64,
    pub other_reselect: u64,
    pub holds_read: bool,
    pub extra: Option<Extra>,
}

/// Costs of a write that releases the bus before its data arrive.
#[derive(Clone, Copy, Debug)]
pub struct Extra {
    pub command: u64,
    pub disconnect: u64,
    pub between: u64,
    pub second_disconnect: u64,
    pub seek_delay: u64,
}

impl Timing {
    /// The costs of a description.
    pub fn new(spec: &Spec) -> Timing {
        let (command, bus): (&CommandSpec, &BusSpec) = (&spec.command, &spec.bus);
        let after = |read, write| [nanos(read), nanos(write)];
        let (read_sector, write_sector) = spec.bus_sector_us();
        let extra = |extra: ExtraDisconnect| Extra {
            command: nanos(extra.command_us),
            disconnect: nanos(extra.disconnect_us),
            between: nanos(extra.between_us),
            second_disconnect: nanos(extra.second_disconnect_us),
            seek_delay: nanos(extra.seek_delay_us),
        };
        let letting_go = |us| if bus.never_disconnect { 0.0 } else { us };
        Timing {
            each: nanos(command.each_us),
            read_hit: after(command.read_hit_after_read_us, command.read_hit_after_write_us),
            read_miss: after(command.read_miss_after_read_us, command.read_miss_after_write_us),
            write_hit: after(command.write_hit_after_read_us, command.write_hit_after_write_us),
            write_miss: after(command.write_miss_after_read_us, command.write_miss_after_write_us),
            read_disconnect: after(
                letting_go(bus.read_disconnect_after_read_us),
                letting_go(bus.read_disconnect_after_write_us),
            ),
            read_completion: nanos(command.read_completion_us),
            write_completion: nanos(command.write_completion_us),
            preparation: nanos(command.data_preparation_us),
            minimum_write_seek: nanos(command.minimum_write_seek_us),
            turn_round: nanos(command.turn_round_us),
            read_sector: nanos(read_sector),
            write_sector: nanos(write_sector),
            write_disconnect: nanos(letting_go(bus.write_disconnect_us)),
            first_reselect: nanos(letting_go(bus.first_reselect_us)),
            other_reselect: nanos(letting_go(bus.other_reselect_us)),
            holds_read: bus.holds_read(),
            extra: bus.extra_write_disconnect.filter(|_| !bus.never_disconnect).map(extra),
        }
    }

    /// When a command that arrives at `now` may begin.
    pub fn begin(&self, now: Nanos) -> Nanos {
        now + Nanos(self.each)
    }

    /// Handling a read hit.
    pub fn read_hit(&self, after_write: bool) -> u64 {
        self.read_hit[usize::from(after_write)]
    }

    /// Handling a read miss.
    pub fn read_miss(&self, after_write: bool) -> u64 {
        self.read_miss[usize::from(after_write)]
    }

    /// Releasing the bus in a read.
    pub fn read_disconnect(&self, after_write: bool) -> u64 {
        self.read_disconnect[usize::from(after_write)]
    }

    /// Handling a write.
    pub fn write(&self, early: bool, after_write: bool) -> u64 {
        let costs = if early { self.write_hit } else { self.write_miss };
        costs[usize::from(after_write)]
    }
}
