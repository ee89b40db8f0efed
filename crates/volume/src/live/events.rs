//! Events of a server, for those who subscribed to them at the control socket.
//!
//! Fault model: a subscriber that does not keep up loses its oldest events, and gets their number.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::task::{Poll, Waker};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::resizing::Resized;

/// Events that wait for a subscriber, at most.
const MOST: usize = 256;

/// An event.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The subscription has begun.
    Subscribed {
        /// Seconds since the server started.
        at_s: f64,
    },
    /// A command, or a change of layers, has begun.
    Began {
        /// Seconds since the server started.
        at_s: f64,
        /// The command.
        what: String,
        /// The layer.
        layer: String,
    },
    /// It has ended.
    Ended {
        /// Seconds since the server started.
        at_s: f64,
        /// The command.
        what: String,
        /// The layer.
        layer: String,
        /// Why it failed, if it did.
        error: Option<String>,
    },
    /// A component grew.
    Resized {
        /// Seconds since the server started.
        at_s: f64,
        /// The component, and its sizes.
        #[serde(flatten)]
        resized: Resized,
    },
    /// The subscriber did not keep up.
    Lost {
        /// Number of events that it did not get.
        events: u64,
    },
    /// The server stops; this is the last event.
    Stopping {
        /// Seconds since the server started.
        at_s: f64,
    },
}

/// A line for a subscriber.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct EventLine {
    /// The event, by its name.
    pub event: Event,
}

/// Everyone who subscribed.
#[derive(Default)]
pub struct Events {
    subscribers: RefCell<Vec<Weak<Subscriber>>>,
}

/// A subscriber's events.
#[derive(Default)]
pub struct Subscriber {
    waiting: RefCell<VecDeque<Event>>,
    lost: Cell<u64>,
    ended: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Events {
    /// A subscriber, which gets `first` and all later events.
    pub fn subscribe(&self, first: Event) -> Rc<Subscriber> {
        let subscriber = Rc::new(Subscriber::default());
        subscriber.put(first);
        self.subscribers.borrow_mut().push(Rc::downgrade(&subscriber));
        subscriber
    }

    /// Passes an event to all subscribers.
    pub fn put(&self, event: &Event) {
        self.subscribers.borrow_mut().retain(|subscriber| match subscriber.upgrade() {
            Some(subscriber) => {
                subscriber.put(event.clone());
                true
            }
            None => false,
        });
    }
}

impl Subscriber {
    fn put(&self, event: Event) {
        self.ended.set(self.ended.get() || matches!(event, Event::Stopping { .. }));
        let mut waiting = self.waiting.borrow_mut();
        if waiting.len() == MOST {
            waiting.pop_front();
            self.lost.set(self.lost.get() + 1);
        }
        waiting.push_back(event);
        self.waker.take().into_iter().for_each(Waker::wake);
    }

    /// The next event; `None` after the last one.
    pub async fn next(&self) -> Option<Event> {
        poll_fn(|context| {
            if let Some(events @ 1..) = Some(self.lost.take()) {
                return Poll::Ready(Some(Event::Lost { events }));
            }
            match self.waiting.borrow_mut().pop_front() {
                Some(event) => Poll::Ready(Some(event)),
                None if self.ended.get() => Poll::Ready(None),
                None => {
                    self.waker.replace(Some(context.waker().clone()));
                    Poll::Pending
                }
            }
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use seekless_core::runtime::{Runtime, spawn};

    use super::*;

    fn began(number: usize) -> Event {
        Event::Began { at_s: number as f64, what: "drain".to_owned(), layer: "borg".to_owned() }
    }

    #[test]
    fn a_slow_subscriber_loses_the_oldest_events_and_knows_how_many() {
        let run = async {
            let events = Events::default();
            let subscriber = events.subscribe(Event::Subscribed { at_s: 0.0 });
            (0..MOST + 9).for_each(|number| events.put(&began(number)));
            assert_eq!(subscriber.next().await, Some(Event::Lost { events: 10 }));
            assert_eq!(subscriber.next().await, Some(began(9)));
            while subscriber.next().await != Some(began(MOST + 8)) {}
            let waiting = subscriber.clone();
            let next = spawn(async move { waiting.next().await });
            events.put(&Event::Stopping { at_s: 1.0 });
            assert_eq!(next.await, Some(Event::Stopping { at_s: 1.0 }));
            assert_eq!(subscriber.next().await, None);
            drop(subscriber);
            events.put(&began(0));
            assert!(events.subscribers.borrow().is_empty());
        };
        Runtime::new(1).run(run).unwrap();
    }
}
