//! What browsers get: samples of the last minutes, and each new one.
//!
//! Invariant: memory is bounded, however long it runs and however many browsers read: [`SAMPLES`] samples, [`EVENTS`]
//! events, and [`WAITING`] messages that a slow browser did not take yet, which all share.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use tokio::sync::broadcast::{Receiver, Sender, channel};

use super::sample::{Now, Sample};

/// Samples that a new browser gets: ten minutes.
const SAMPLES: usize = 600;
/// Events that a new browser gets.
const EVENTS: usize = 100;
/// Messages that wait for browsers; one that falls behind by more misses the oldest.
const WAITING: usize = 8;

/// What times of samples are.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// Seconds since 1970.
    Wall,
    /// Seconds of virtual time since the start of a run.
    Virtual,
}

/// See the file's header.
pub struct Hub {
    clock: Clock,
    state: Mutex<State>,
    sender: Sender<Arc<str>>,
}

/// As JSON, made once for all browsers.
#[derive(Default)]
struct State {
    samples: VecDeque<Arc<str>>,
    events: VecDeque<Arc<str>>,
    /// How many of the last events no message has sent yet.
    unsent: usize,
    now: String,
}

impl Hub {
    /// One without samples.
    pub fn new(clock: Clock) -> Hub {
        Hub { clock, state: Mutex::default(), sender: channel(WAITING).0 }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event, which goes out with the next sample.
    pub fn event(&self, event: &impl Serialize) -> serde_json::Result<()> {
        let text = serde_json::to_string(event)?.into();
        let mut state = self.state();
        state.events.push_back(text);
        state.unsent += 1;
        if state.events.len() > EVENTS {
            state.events.pop_front();
        }
        Ok(())
    }

    /// Sends what is now to all browsers, with a sample if one was taken.
    pub fn put(&self, sample: Option<&Sample>, now: &Now) -> serde_json::Result<()> {
        let sample: Option<Arc<str>> = sample.map(serde_json::to_string).transpose()?.map(Into::into);
        let now = serde_json::to_string(now)?;
        let mut state = self.state();
        let first = state.events.len().saturating_sub(std::mem::take(&mut state.unsent));
        let events = joined(state.events.range(first..));
        let shown = sample.as_deref().unwrap_or("null");
        let message = format!("{{\"sample\":{shown},\"now\":{now},\"events\":[{events}]}}");
        state.now = now;
        if let Some(sample) = sample {
            state.samples.push_back(sample);
            if state.samples.len() > SAMPLES {
                state.samples.pop_front();
            }
        }
        // An error says that there is no browser.
        let _ = self.sender.send(message.into());
        Ok(())
    }

    /// What a new browser gets first, and then each message from there on.
    pub fn join(&self) -> (String, Receiver<Arc<str>>) {
        let state = self.state();
        let clock = match self.clock {
            Clock::Wall => "wall",
            Clock::Virtual => "virtual",
        };
        let (samples, now) = (joined(state.samples.iter()), state.now.as_str());
        let now = if now.is_empty() { "null" } else { now };
        // Those that no message has sent yet come with the next one.
        let events = joined(state.events.range(..state.events.len().saturating_sub(state.unsent)));
        let history =
            format!("{{\"clock\":\"{clock}\",\"samples\":[{samples}],\"now\":{now},\"events\":[{events}]}}");
        (history, self.sender.subscribe())
    }
}

fn joined<'a>(parts: impl Iterator<Item = &'a Arc<str>>) -> String {
    let parts: Vec<&str> = parts.map(AsRef::as_ref).collect();
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn sample(at: f64) -> Sample {
        Sample { at, ..Sample::default() }
    }

    #[test]
    fn a_browser_gets_the_last_minutes_and_then_each_message_once() {
        let hub = Hub::new(Clock::Wall);
        for number in 0..SAMPLES + 5 {
            hub.event(&number).unwrap();
            hub.put(Some(&sample(number as f64)), &Now::default()).unwrap();
        }
        hub.event(&"late").unwrap();
        let (history, mut messages) = hub.join();
        let history: Value = serde_json::from_str(&history).unwrap();
        let (samples, events) = (&history["samples"], &history["events"]);
        assert_eq!(samples.as_array().map(Vec::len), Some(SAMPLES));
        assert_eq!((&samples[0]["at"], &history["clock"]), (&json!(5.0), &json!("wall")));
        assert_eq!(events[EVENTS - 2], json!(SAMPLES + 4), "{events}");
        hub.put(None, &Now::default()).unwrap();
        let next: Value = serde_json::from_str(&messages.try_recv().unwrap()).unwrap();
        assert_eq!((&next["sample"], &next["events"]), (&Value::Null, &json!(["late"])));
        assert!(messages.try_recv().is_err());
    }

    #[test]
    fn many_events_at_once_are_the_last_ones() {
        let hub = Hub::new(Clock::Virtual);
        let mut messages = hub.join().1;
        (0..3 * EVENTS).for_each(|number| hub.event(&number).unwrap());
        hub.put(None, &Now::default()).unwrap();
        let next: Value = serde_json::from_str(&messages.try_recv().unwrap()).unwrap();
        let events = next["events"].as_array().unwrap();
        assert_eq!((events.len(), &events[0]), (EVENTS, &json!(2 * EVENTS)));
    }
}
