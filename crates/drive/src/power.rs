//! Energy accounting: a drive's power while it works, waits and rests, integrated over time.
//!
//! An idle drive passes through power states as time passes; the command that wakes it waits for its recovery.
//! Integers: microwatts times nanoseconds are femtojoules.

use seekless_core::Nanos;

use crate::device_model::ActiveTime;
use crate::spec::PowerSpec;

/// Energy used by a drive so far.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    table: Option<Table>,
    /// When it becomes idle.
    busy_until: Nanos,
    femtojoules: u128,
    /// Commands that woke it from a power state.
    wakes: u64,
}

/// The figures of a description, in microwatts and nanoseconds.
#[derive(Clone, Debug)]
struct Table {
    idle: u64,
    seek: u64,
    active: u64,
    states: Vec<State>,
}

#[derive(Clone, Copy, Debug)]
struct State {
    watts: u64,
    after: Nanos,
    recover: Nanos,
    recover_watts: u64,
}

fn microwatts(watts: f64) -> u64 {
    (watts * 1e6).round() as u64
}

impl Table {
    fn new(spec: &PowerSpec) -> Table {
        let states = spec.state.iter().map(|state| State {
            watts: microwatts(state.watts),
            after: Nanos((state.after_s * 1e9).round() as u64),
            recover: Nanos((state.recover_ms * 1e6).round() as u64),
            recover_watts: microwatts(state.recover_w),
        });
        Table {
            idle: microwatts(spec.idle_w),
            seek: microwatts(spec.seek_w),
            active: microwatts(spec.active_w),
            states: states.collect(),
        }
    }

    /// Energy of an idle period, and the power state at its end.
    fn idle_energy(&self, time: Nanos) -> (u128, Option<State>) {
        let (mut energy, mut watts, mut since, mut reached) = (0, self.idle, Nanos::ZERO, None);
        for state in self.states.iter().filter(|state| state.after <= time) {
            energy += energy_of(watts, state.after.since(since));
            (watts, since, reached) = (state.watts, state.after, Some(*state));
        }
        (energy + energy_of(watts, time.since(since)), reached)
    }
}

fn energy_of(microwatts: u64, time: Nanos) -> u128 {
    u128::from(microwatts) * u128::from(time.0)
}

impl Meter {
    /// A meter of a drive with these figures, or of one without.
    pub fn new(spec: Option<&PowerSpec>) -> Meter {
        Meter { table: spec.map(Table::new), ..Meter::default() }
    }

    /// Wakes the drive for a command at `now`; returns how long the command waits for its recovery.
    pub fn wake(&mut self, now: Nanos) -> Nanos {
        let Some(table) = &self.table else { return Nanos::ZERO };
        let (energy, state) = table.idle_energy(now.since(self.busy_until));
        if now <= self.busy_until {
            return Nanos::ZERO;
        }
        self.femtojoules += energy;
        let Some(state) = state else {
            self.busy_until = now;
            return Nanos::ZERO;
        };
        self.wakes += 1;
        self.femtojoules += energy_of(state.recover_watts, state.recover);
        self.busy_until = now + state.recover;
        state.recover
    }

    /// Adds a command that is done at `until`, with its active time.
    pub fn add_work(&mut self, active_time: ActiveTime, until: Nanos) {
        let Some(table) = &self.table else { return };
        self.femtojoules += energy_of(table.seek.saturating_sub(table.idle), active_time.seek);
        self.femtojoules += energy_of(table.active.saturating_sub(table.idle), active_time.active);
        self.femtojoules += energy_of(table.idle, until.since(self.busy_until));
        self.busy_until = self.busy_until.max(until);
    }

    /// Commands so far that woke the drive from a power state, such as standby.
    pub fn wakes(&self) -> u64 {
        self.wakes
    }

    /// Energy used until `now`, in joules; `None` if power is not known.
    pub fn joules(&self, now: Nanos) -> Option<f64> {
        let idle_energy = self.table.as_ref()?.idle_energy(now.since(self.busy_until)).0;
        Some((self.femtojoules + idle_energy) as f64 / 1e15)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::PowerState;

    #[test]
    fn power_follows_activity_and_idle_states_deepen_with_time() {
        let state = |name: &str, watts, after_s, recover_ms, recover_w| PowerState {
            name: name.to_owned(),
            watts,
            after_s,
            recover_ms,
            recover_w,
        };
        let spec = PowerSpec {
            idle_w: 5.0,
            seek_w: 9.0,
            active_w: 7.0,
            state: vec![state("unloaded", 3.0, 10.0, 1000.0, 6.0), state("standby", 0.5, 60.0, 8000.0, 20.0)],
        };
        let seconds = |s: u64| Nanos(s * 1_000_000_000);
        let mut meter = Meter::new(Some(&spec));
        let active_time = ActiveTime { seek: seconds(1), active: seconds(2) };
        assert_eq!(meter.wake(Nanos::ZERO), Nanos::ZERO);
        meter.add_work(active_time, seconds(6));
        assert_eq!(meter.joules(seconds(6)), Some(9.0 + 2.0 * 7.0 + 3.0 * 5.0));
        // Ten seconds idle, five unloaded, one to recover.
        assert_eq!(meter.joules(seconds(21)), Some(38.0 + 50.0 + 15.0));
        assert_eq!(meter.wake(seconds(21)), seconds(1));
        assert_eq!(meter.joules(seconds(22)), Some(38.0 + 50.0 + 15.0 + 6.0));
        // To standby.
        assert_eq!(meter.wake(seconds(122)), seconds(8));
        assert_eq!(meter.joules(seconds(130)), Some(109.0 + 50.0 + 150.0 + 20.0 + 160.0));
        assert_eq!(meter.wakes(), 2);
        assert_eq!(Meter::new(None).joules(seconds(9)), None);
    }
}
