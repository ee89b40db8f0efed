//! What a page shows: figures of an interval, which its charts keep, and the state at its end.

use serde::Serialize;

use super::work::Work;
use crate::top;

/// Places of a sample, at most; further ones are in the table alone.
pub const PLACES: usize = 16;
/// Heat maps of a sample, at most.
pub const MAPS: usize = 8;

/// Figures of an interval.
#[derive(Default, Serialize)]
pub struct Sample {
    /// Start of the interval, by the hub's clock.
    pub since: f64,
    /// Its end.
    pub at: f64,
    /// Exports, layers and devices.
    pub places: Vec<Place>,
    /// Layers.
    pub layers: Vec<Layer>,
    /// Accesses by address.
    pub maps: Vec<Map>,
}

/// Requests at a place.
#[derive(Default, Serialize)]
pub struct Place {
    /// Its kind and name.
    pub name: String,
    /// Reads, if there were any.
    pub read: Option<Kind>,
    /// Writes, if there were any.
    pub write: Option<Kind>,
    /// Requests in flight.
    pub queue: u64,
}

/// Requests of a kind at a place: per second, bytes per second, and the 50th and 99th percentile of response times in
/// milliseconds.
#[derive(Serialize)]
pub struct Kind(pub f64, pub f64, pub f64, pub f64);

/// A layer's own copies.
#[derive(Serialize)]
pub struct Layer {
    /// Name.
    pub name: String,
    /// Part of lookups that they served; `None` without lookups.
    pub hits: Option<f64>,
    /// Bytes whose only current version the layer holds.
    pub dirty: u64,
}

/// Accesses in an interval by address.
#[derive(Serialize)]
pub struct Map {
    /// The place's kind and name.
    pub name: String,
    /// Bytes of the address space; 0 if they are not known.
    pub bytes: u64,
    /// Bytes of a part of it.
    pub part: u64,
    /// A letter for each part, of base 16: 0 for none, and then the number of doublings and one.
    pub heat: String,
}

/// What is now.
#[derive(Default, Serialize)]
pub struct Now {
    /// Whether figures come.
    pub state: State,
    /// Why not, or how far a run is.
    pub words: String,
    /// What is shown: a volume file, or a run.
    pub of: String,
    /// Facts, in words.
    pub facts: Vec<(String, String)>,
    /// Requests at all places, in the last interval.
    pub rows: Vec<top::Row>,
    /// Layers with their counters.
    pub layers: Vec<LayerNow>,
    /// What is going on.
    pub work: Vec<Work>,
}

/// Whether figures come.
#[derive(Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// They come.
    Live,
    /// There is no answer.
    #[default]
    Gone,
    /// The run has ended.
    Ended,
}

/// A layer now.
#[derive(Serialize)]
pub struct LayerNow {
    /// Name.
    pub name: String,
    /// Kind of layer.
    pub is: String,
    /// Bytes whose only current version it holds.
    pub dirty: u64,
    /// Part of lookups that its copies served in the last interval.
    pub hits: Option<f64>,
    /// Bytes per second of its background work.
    pub background: Option<f64>,
    /// Counters.
    pub counters: Vec<(String, u64)>,
}

/// To four digits, which a chart does not show more of.
pub fn short(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let scale = 10_f64.powi(3 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
}

/// The letters of a heat map; empty parts at the end are left out.
pub fn letters(counts: impl Iterator<Item = u64>) -> String {
    let letter =
        |count: u64| char::from_digit((u64::BITS - count.leading_zeros()).min(15), 16).unwrap_or('0');
    let letters: String = counts.map(letter).collect();
    letters.trim_end_matches('0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        let texts = [0.0, 1.23456, 98_765.4, f64::NAN].map(|value| short(value).to_string());
        assert_eq!(texts, ["0", "1.235", "98770", "0"]);
        assert_eq!(letters([0, 1, 2, 3, 4, u64::MAX, 0, 0].into_iter()), "01223f");
    }
}
