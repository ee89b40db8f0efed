//! Replay: a trace as an async client of a block device.
//!
//! Closed pace: requests are issued in the recorded order; a process's next read waits for its previous read, and at
//! most N are outstanding in all. Open pace: at the recorded times, whatever the device does. A request that fails is
//! counted, and the replay goes on.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use rustc_hash::FxHashMap;
use seekless_core::device::LARGEST_REQUEST_SECTORS;
use seekless_core::{
    Account, BlockDevice, Buffer, Class, Extent, Flags, Hints, IoError, Nanos, Op, ProcessId, Record, Zeroes,
    runtime,
};

use crate::phases::PhaseControl;
use crate::setup::Pace;
use crate::workload::answers::Answers;

/// Load of a replay.
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
struct UnderWay {
    count: usize,
    /// Reads in flight, by process.
    reading: FxHashMap<ProcessId, u32>,
    answers: Answers,
    failure: Option<IoError>,
    waker: Option<Waker>,
}

/// Result of a replay.
#[derive(Debug, Default)]
pub struct Replayed {
    /// Its load.
    pub load: Load,
    /// Requests and their response times.
    pub answers: Answers,
    /// Error of the first request that failed, if any.
    pub failure: Option<IoError>,
}

/// Plays `records` on `device`; `control` chooses the accounts, and may delay requests.
pub async fn replay(
    records: &[Record],
    device: Rc<dyn BlockDevice>,
    pace: Pace,
    control: &mut impl PhaseControl,
    progress: &mut dyn FnMut(u64),
) -> Replayed {
    let under_way: Rc<RefCell<UnderWay>> = Rc::default();
    let (mut begin, mut load, total) = (runtime::now(), Load::default(), records.len() as u64);
    for (index, record) in (0..total).zip(records) {
        match pace {
            Pace::Open { speed } => {
                let due = if (speed - 1.0).abs() < f64::EPSILON {
                    record.time
                } else {
                    Nanos((record.time.0 as f64 / speed) as u64)
                };
                runtime::sleep_until(begin + due).await;
            }
            Pace::Closed { outstanding } => turn(&under_way, record, outstanding).await,
        }
        let held_from = runtime::now();
        let account = control.before(index).await;
        // The trace's clock stood still while it was held.
        begin += runtime::now() - held_from;
        issue(&under_way, &device, *record, account);
        if (index + 1) * 4 % total < 4 {
            let quarter = ((index + 1) * 4 / total).clamp(1, 4) as usize - 1;
            load.at_quarters[quarter] = under_way.borrow().count as u64;
        }
        if index % 4096 == 0 {
            progress(index);
        }
    }
    until(&under_way, |under_way| under_way.count == 0).await;
    load.end = runtime::now();
    let now = under_way.take();
    Replayed { load, answers: now.answers, failure: now.failure }
}

/// Waits until a closed replay may issue a request.
async fn turn(under_way: &Rc<RefCell<UnderWay>>, record: &Record, outstanding: usize) {
    let waits = record.op == Op::Read;
    until(under_way, |now| {
        now.count < outstanding && !(waits && now.reading.contains_key(&record.origin.process))
    })
    .await;
}

async fn until(under_way: &Rc<RefCell<UnderWay>>, holds: impl Fn(&UnderWay) -> bool) {
    poll_fn(|context| {
        let mut under_way = under_way.borrow_mut();
        if holds(&under_way) {
            return Poll::Ready(());
        }
        under_way.waker = Some(context.waker().clone());
        Poll::Pending
    })
    .await;
}

fn issue(under_way: &Rc<RefCell<UnderWay>>, device: &Rc<dyn BlockDevice>, record: Record, account: Account) {
    let mut now = under_way.borrow_mut();
    now.count += 1;
    if record.op == Op::Read {
        *now.reading.entry(record.origin.process).or_default() += 1;
    }
    drop(now);
    let (under_way, device) = (under_way.clone(), device.clone());
    let begin = runtime::now();
    runtime::spawn(async move {
        let result = carry_out(&*device, &record, account).await;
        let mut now = under_way.borrow_mut();
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
            Ok(()) => now.answers.add(record.op, record.extent, runtime::now() - begin),
            Err(error) => {
                now.answers.failed += 1;
                now.failure.get_or_insert(error);
            }
        }
        if let Some(waker) = now.waker.take() {
            waker.wake();
        }
    })
    .detach();
}

/// Issues a record as a request, or as several where it is larger than the device's limit.
async fn carry_out(device: &dyn BlockDevice, record: &Record, account: Account) -> Result<(), IoError> {
    let how = Hints {
        class: Class::Foreground,
        fua: record.flags.has(Flags::FUA),
        origin: record.origin,
        account,
        verify: false,
        ticket: None,
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
