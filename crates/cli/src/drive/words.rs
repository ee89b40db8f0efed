//! Text of figures that all kinds of drive have.

use std::collections::BTreeMap;

use seekless_drive::spec::PowerSpec;

use crate::table::Table;
use crate::text::number;

/// Capacity in powers of ten, as manufacturers count.
pub fn capacity(bytes: u64) -> String {
    match bytes as f64 / 1e9 {
        gb if gb < 1000.0 => number(gb, 2) + " GB",
        gb => number(gb / 1000.0, 2) + " TB",
    }
}

/// Power draw, if known.
pub fn power_rows(power: Option<&PowerSpec>, source: &BTreeMap<String, String>, table: &mut Table) {
    let Some(power) = power else { return };
    let watts = |value: f64| number(value, 2) + " W";
    table.row(["idle", &watts(power.idle_w), source.get("power").map_or("", String::as_str)]);
    if power.seek_w > 0.0 {
        table.row(["seeking", &watts(power.seek_w), ""]);
    }
    table.row(["reading or writing", &watts(power.active_w), ""]);
    for state in &power.state {
        let spin_down = format!(
            "{} after {} s, back in {} s",
            watts(state.watts),
            number(state.after_s, 0),
            number(state.recover_ms / 1e3, 1)
        );
        table.row([&state.name, &spin_down, ""]);
    }
}
