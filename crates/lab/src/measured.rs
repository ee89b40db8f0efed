//! Requests with the service times of a real drive, from a validation trace: its times are those at which requests
//! would arrive if they did not wait for each other, so the time between two of them is the think time.

use seekless_core::{Op, Record};
use seekless_drive::Spec;
use seekless_drive::validate::Measured;

use crate::error::LabError;

/// The measured requests of a validation trace, called `name` in errors, for a drive.
pub fn measured(name: &str, records: &[Record], spec: &Spec) -> Result<Vec<Measured>, LabError> {
    let unfit = |number: usize, found: String, expected: String| {
        Err(LabError::Unfit { trace: format!("{name}, request {}", number + 1), found, expected })
    };
    let mut measured = Vec::with_capacity(records.len());
    for (number, record) in records.iter().enumerate() {
        let end = record.extent.end().0;
        if end > spec.sectors {
            return unfit(number, format!("an end at sector {end}"), format!("at most {}", spec.sectors));
        }
        if !matches!(record.op, Op::Read | Op::Write) {
            return unfit(number, format!("{:?}", record.op), "reads and writes".to_owned());
        }
        let Some(service) = record.latency.known() else {
            return unfit(number, "no service time".to_owned(), "one for each request".to_owned());
        };
        let next = records.get(number + 1).map_or(record.time, |next| next.time);
        measured.push(Measured { op: record.op, at: record.extent, service, think: next.since(record.time) });
    }
    Ok(measured)
}
