//! Replay: recorded requests as an async client of a block device. The laboratory plays whole traces, a rehearsal the
//! requests that a layer has seen lately.
//!
//! Closed pace: requests are issued in the recorded order; a process's next read waits for its previous read, and a
//! bounded number are outstanding in all. Queued pace: the same, where no process is known. Open pace: at the recorded
//! times, whatever the device does; accelerated pace: the same, faster except in reconfigurations. Answered pace: as
//! clients that wait for their answers would, so that a faster device is asked sooner. At each pace a request that
//! overlaps an earlier write waits for its answer, and a write for all earlier requests that it overlaps, as a client's
//! buffer cache has it. A request that fails is counted, and the replay goes on.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::task::{Poll, Waker};

use rustc_hash::FxHashMap;
use seekless_core::device::LARGEST_REQUEST_SECTORS;
use seekless_core::{
    Account, BlockDevice, Buffer, Class, Extent, Flags, Hints, IoError, Mode, Nanos, Op, ProcessId,
    RangeLocks, Record, Zeroes, runtime,
};

/// When requests are issued.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// In the recorded order; a process's next read waits for its previous one.
    Closed {
        /// Requests outstanding at most, in all.
        outstanding: usize,
    },
    /// In the recorded order, for recordings that name no processes: only the limit holds a request back.
    Queued {
        /// Requests outstanding at most.
        outstanding: usize,
    },
    /// At the recorded times.
    Open {
        /// How much faster than recorded.
        speed: f64,
    },
    /// At the recorded times, faster except during a reconfiguration (section 6.1 of the BORG paper).
    Accelerated {
        /// How much faster than recorded while nothing is reconfigured.
        speed: f64,
    },
    /// As clients that wait for their answers. A *pause* is the time from the last request or answer to the next
    /// request, and the time of a record is the sum of all pauses up to it. A request is issued after its pause, which
    /// begins as soon as no more requests are outstanding than were when it was recorded.
    Answered,
}

impl Pace {
    /// Whether requests come at times that do not depend on the device.
    pub fn is_open(self) -> bool {
        matches!(self, Pace::Open { .. } | Pace::Accelerated { .. })
    }
}

/// Decides which account pays for a request.
pub trait Controller {
    /// Called before request `index` is issued; may hold it.
    fn before(&mut self, index: u64) -> impl Future<Output = Account>;

    /// Called where an open replay waits for request `index`, which is due at `end`; may hold it beyond that.
    fn pause(&mut self, _index: u64, _end: Nanos) -> impl Future<Output = ()> {
        async {}
    }

    /// Whether a reconfiguration is going on.
    fn is_reconfiguring(&self) -> bool {
        false
    }
}

/// One account pays for all requests.
pub struct OneAccount(pub Account);

impl Controller for OneAccount {
    async fn before(&mut self, _index: u64) -> Account {
        self.0
    }
}

/// Counts answers.
pub trait Tally: Default + 'static {
    /// A request that `account` pays for was answered after `took`, counted from its issue.
    fn answered(&mut self, account: Account, op: Op, at: Extent, took: Nanos);

    /// A request failed.
    fn failed(&mut self);
}

/// How the queue of a replay developed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Time of the last answer.
    pub end: Nanos,
    /// Outstanding requests when each quarter of the requests had been issued.
    pub at_quarters: [u64; 4],
}

impl Load {
    /// Whether an open replay fell ever further behind: then response times measure a backlog.
    pub fn only_grows(&self) -> bool {
        let [first, second, third, last] = self.at_quarters;
        first < second && second < third && third < last && last >= 64
    }
}

/// Requests in flight.
#[derive(Default)]
struct InFlight<T> {
    count: usize,
    /// Their sectors.
    held: RangeLocks,
    /// Reads in flight, by process.
    reading: FxHashMap<ProcessId, u32>,
    answers: T,
    failure: Option<IoError>,
    waker: Option<Waker>,
}

/// Result of a replay.
#[derive(Debug, Default)]
pub struct Replayed<T> {
    /// How its queue developed.
    pub load: Load,
    /// What its answers were counted by.
    pub answers: T,
    /// Why the first request failed, if one did.
    pub failure: Option<IoError>,
}

/// Plays `total` records, whose times begin at zero, on `device`; with each the number of requests that were
/// outstanding when it came, which only the answered pace looks at. `progress` is called regularly with the index of a
/// request.
pub async fn replay<T: Tally>(
    records: impl Iterator<Item = (Record, u32)>,
    total: u64,
    device: Rc<dyn BlockDevice>,
    pace: Pace,
    controller: &mut impl Controller,
    progress: &mut dyn FnMut(u64),
) -> Replayed<T> {
    let in_flight: Rc<RefCell<InFlight<T>>> = Rc::default();
    let (mut begin, mut load, mut last) = (runtime::now(), Load::default(), Nanos::ZERO);
    let mut clock = TraceClock { at: 0.0, looked: begin, rate: 1.0 };
    for (index, (record, depth)) in (0..total).zip(records) {
        match pace {
            Pace::Open { speed } => {
                let due = if (speed - 1.0).abs() < f64::EPSILON {
                    record.time
                } else {
                    Nanos((record.time.0 as f64 / speed) as u64)
                };
                let (due, asked) = (begin + due, runtime::now());
                if due > asked {
                    controller.pause(index, due).await;
                    // As far as the controller held the trace, its clock stood still.
                    begin += runtime::now().since(due);
                    runtime::sleep_until(due).await;
                }
            }
            Pace::Accelerated { speed } => clock.wait(record.time, speed, index, controller).await,
            Pace::Closed { outstanding } => turn(&in_flight, &record, outstanding).await,
            Pace::Queued { outstanding } => until(&in_flight, |now| now.count < outstanding).await,
            Pace::Answered => {
                until(&in_flight, |in_flight| in_flight.count <= depth as usize).await;
                runtime::sleep(record.time.since(last)).await;
                last = record.time;
            }
        }
        let asked = runtime::now();
        let account = controller.before(index).await;
        // While the controller held the trace, its clock stood still.
        let held = runtime::now() - asked;
        begin += held;
        clock.looked += held;
        issue(&in_flight, &device, record, account);
        if (index + 1) * 4 % total < 4 {
            let quarter = ((index + 1) * 4 / total).clamp(1, 4) as usize - 1;
            load.at_quarters[quarter] = in_flight.borrow().count as u64;
        }
        if index % 4096 == 0 {
            progress(index);
        }
    }
    until(&in_flight, |in_flight| in_flight.count == 0).await;
    load.end = runtime::now();
    let now = in_flight.take();
    Replayed { load, answers: now.answers, failure: now.failure }
}

/// How often the rate of the trace's clock is chosen anew during a reconfiguration.
const LOOKS: Nanos = Nanos::from_millis(10);

/// The clock of an accelerated replay.
struct TraceClock {
    /// Its time in nanoseconds, when it was last looked at.
    at: f64,
    /// The device's time then.
    looked: Nanos,
    /// Its speed since then.
    rate: f64,
}

impl TraceClock {
    /// Waits until it shows `time`. It runs at `speed`, and at the recorded speed during a reconfiguration.
    async fn wait(&mut self, time: Nanos, speed: f64, index: u64, controller: &mut impl Controller) {
        let mut paused = false;
        loop {
            let now = runtime::now();
            self.at += now.since(self.looked).0 as f64 * self.rate;
            self.looked = now;
            let slow = controller.is_reconfiguring();
            self.rate = if slow { 1.0 } else { speed };
            if self.at >= time.0 as f64 {
                return;
            }
            // Rounded up: the clock has to arrive.
            let due = now + Nanos(((time.0 as f64 - self.at) / self.rate).ceil() as u64);
            if !std::mem::replace(&mut paused, true) {
                controller.pause(index, due).await;
                // As far as the controller held the trace, its clock stood still.
                self.looked += runtime::now().since(due);
            }
            if runtime::now() < due {
                runtime::sleep_until(if slow { due.min(now + LOOKS) } else { due }).await;
            }
        }
    }
}

/// Waits until a closed replay may issue a request.
async fn turn<T>(in_flight: &Rc<RefCell<InFlight<T>>>, record: &Record, outstanding: usize) {
    let waits = record.op == Op::Read;
    until(in_flight, |now| {
        now.count < outstanding && !(waits && now.reading.contains_key(&record.origin.process))
    })
    .await;
}

async fn until<T>(in_flight: &Rc<RefCell<InFlight<T>>>, holds: impl Fn(&InFlight<T>) -> bool) {
    poll_fn(|context| {
        let mut in_flight = in_flight.borrow_mut();
        if holds(&in_flight) {
            return Poll::Ready(());
        }
        in_flight.waker = Some(context.waker().clone());
        Poll::Pending
    })
    .await;
}

fn issue<T: Tally>(
    in_flight: &Rc<RefCell<InFlight<T>>>,
    device: &Rc<dyn BlockDevice>,
    record: Record,
    account: Account,
) {
    let mut now = in_flight.borrow_mut();
    now.count += 1;
    if record.op == Op::Read {
        *now.reading.entry(record.origin.process).or_default() += 1;
    }
    let mode = if record.op == Op::Read { Mode::Shared } else { Mode::Exclusive };
    let held = now.held.lock(record.extent, mode, Class::Foreground, None);
    drop(now);
    let (in_flight, device) = (in_flight.clone(), device.clone());
    let begin = runtime::now();
    runtime::spawn(async move {
        let held = held.await;
        let result = carry_out(&*device, &record, account).await;
        drop(held);
        let mut now = in_flight.borrow_mut();
        now.count -= 1;
        if record.op == Op::Read {
            if let Some(reads) = now.reading.get_mut(&record.origin.process) {
                *reads -= 1;
                if *reads == 0 {
                    now.reading.remove(&record.origin.process);
                }
            }
        }
        match result {
            Ok(()) => now.answers.answered(account, record.op, record.extent, runtime::now() - begin),
            Err(error) => {
                now.answers.failed();
                now.failure.get_or_insert(error);
            }
        }
        if let Some(waker) = now.waker.take() {
            waker.wake();
        }
    })
    .detach();
}

/// Issues a record as a request, or as several where it is larger than the largest request of a volume.
async fn carry_out(device: &dyn BlockDevice, record: &Record, account: Account) -> Result<(), IoError> {
    let how = Hints {
        class: Class::Foreground,
        fua: record.flags.has(Flags::FUA),
        origin: record.origin,
        account,
        ..Hints::default()
    };
    if record.op == Op::Flush || record.flags.has(Flags::PREFLUSH) {
        device.flush(how.clone()).await?;
    }
    let mut at = record.extent;
    while at.sectors > LARGEST_REQUEST_SECTORS {
        let first = Extent { sectors: LARGEST_REQUEST_SECTORS, ..at };
        one_request(device, record.op, first, how.clone()).await?;
        at = Extent { start: first.end(), sectors: at.sectors - first.sectors };
    }
    one_request(device, record.op, at, how).await
}

async fn one_request(device: &dyn BlockDevice, op: Op, at: Extent, how: Hints) -> Result<(), IoError> {
    match op {
        Op::Read => device.read(at, Buffer::hollow_sectors(at.sectors), how).await.map(drop),
        Op::Write => device.write(at, Buffer::hollow_sectors(at.sectors), how).await,
        Op::Flush => Ok(()),
        Op::Discard => device.discard(at, how).await,
        Op::WriteZeroes => device.write_zeroes(at, how, Zeroes::default()).await,
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use seekless_core::device::io;
    use seekless_core::runtime::Runtime;
    use seekless_core::{Geometry, IoFuture, Latency, Origin};

    use super::*;

    /// A device that answers immediately, and records when it was asked.
    #[derive(Default)]
    struct Asked(RefCell<Vec<u64>>);

    impl BlockDevice for Asked {
        fn geometry(&self) -> Geometry {
            Geometry::of_memory(1 << 20)
        }

        fn read(&self, _at: Extent, into: Buffer, _how: Hints) -> IoFuture<'_, Buffer> {
            self.0.borrow_mut().push(runtime::now().0 / 1_000_000);
            io(ready(Ok(into)))
        }
    }

    #[derive(Default)]
    struct Count;

    impl Tally for Count {
        fn answered(&mut self, _account: Account, _op: Op, _at: Extent, _took: Nanos) {}
        fn failed(&mut self) {}
    }

    /// Reconfigures for a while from request `from` on; the trace waits for it, or does not.
    struct Reconfiguring {
        from: u64,
        takes: Nanos,
        holds: bool,
        until: Nanos,
    }

    impl Controller for Reconfiguring {
        async fn before(&mut self, index: u64) -> Account {
            if index == self.from {
                self.until = runtime::now() + self.takes;
                if self.holds {
                    runtime::sleep_until(self.until).await;
                }
            }
            Account::default()
        }

        fn is_reconfiguring(&self) -> bool {
            runtime::now() < self.until
        }
    }

    /// When each request of an accelerated replay comes, in milliseconds; they are recorded a second apart.
    fn asked(holds: bool) -> Vec<u64> {
        let record = |number: u64| Record {
            time: Nanos::from_millis(1_000 * number),
            device: 0,
            op: Op::Read,
            extent: Extent::new(8 * number, 8),
            flags: Flags::default(),
            origin: Origin::default(),
            latency: Latency::UNKNOWN,
        };
        let device = Rc::new(Asked::default());
        let mut controller =
            Reconfiguring { from: 2, takes: Nanos::from_millis(1_500), holds, until: Nanos::ZERO };
        let seen = device.clone();
        Runtime::new(1)
            .run(async {
                let (records, pace) = ((0..6).map(|n| (record(n), 0)), Pace::Accelerated { speed: 10.0 });
                replay::<Count>(records, 6, device, pace, &mut controller, &mut |_| ()).await;
            })
            .unwrap();
        seen.0.take()
    }

    #[test]
    fn an_accelerated_replay_slows_down_during_a_reconfiguration() {
        // Request 2 begins it. Request 3 comes a second later, and request 4 is halfway when it ends.
        assert_eq!(asked(false), [0, 100, 200, 1_200, 1_750, 1_850]);
    }

    #[test]
    fn its_clock_stands_still_while_it_is_held() {
        assert_eq!(asked(true), [0, 100, 1_700, 1_800, 1_900, 2_000]);
    }
}
