//! Phases: ranges of a trace's requests, as in the BORG paper's figures: N1, R1, N2, ...
//!
//! A reconfiguration starts after equal numbers of requests, or after a time; a start during a running one waits.
//! Phases consist of stretches, and each stretch is an account that the drives charge, so that its time is exact to the
//! nanosecond, whatever overlaps. A run that others are compared with also has a stretch for each of their phases.
//! Copies of a reconfiguration are charged to the stretch in which it starts.

use std::rc::Rc;

use seekless_core::runtime::{self, Task};
use seekless_core::{Account, Class, IoError, Layer, Nanos, Reconfigured};

use seekless_layers::replay::Controller;
use seekless_layers::schedule::{PAUSE, Schedule, Trigger};

use crate::setup::{Clock, MOST};

/// A phase, and the first request in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// Name in the paper's figures.
    pub name: String,
    /// First request, counted from zero.
    pub first_request: u64,
}

/// Requests charged to one account; its number is its index in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Index of its phase.
    pub phase: usize,
    /// First request, counted from zero.
    pub first_request: u64,
}

/// A reconfiguration of one layer.
#[derive(Clone, Debug)]
pub struct Done {
    /// Its number, from 1; layers that are reconfigured together share it.
    pub number: u64,
    /// Name of the layer.
    pub layer: String,
    /// Report of the layer.
    pub report: Reconfigured,
}

type Reports = Vec<(String, Result<Option<Reconfigured>, IoError>)>;

/// Reconfigures layers, and notes the resulting phases.
pub struct Reconfigure {
    /// From the top down; if there are none, nothing is reconfigured.
    layers: Vec<(String, Rc<dyn Layer>)>,
    requests: u64,
    trigger: Trigger,
    clock: Clock,
    phases: Vec<Phase>,
    stretches: Vec<Stretch>,
    /// Further starts of stretches, ascending.
    cuts: Vec<u64>,
    running: Option<Task<Reports>>,
    done: Vec<Done>,
    failed: Vec<String>,
}

impl Reconfigure {
    /// A controller for `requests` requests. Stretches also begin at `cuts`, which ascend.
    pub fn new(
        layers: Vec<(String, Rc<dyn Layer>)>,
        requests: u64,
        schedule: Schedule,
        clock: Clock,
        cuts: Vec<u64>,
    ) -> Reconfigure {
        Reconfigure {
            layers,
            requests,
            trigger: Trigger::new(schedule, requests, MOST),
            clock,
            phases: vec![Phase { name: "N1".to_owned(), first_request: 0 }],
            stretches: vec![Stretch { phase: 0, first_request: 0 }],
            cuts: cuts.into_iter().rev().collect(),
            running: None,
            done: Vec::new(),
            failed: Vec::new(),
        }
    }

    /// Number of starts that were skipped, because the one before ran to the end.
    pub fn missed(&self) -> u64 {
        if self.layers.is_empty() { 0 } else { self.trigger.missed() }
    }

    /// Waits for the running reconfiguration. Without a foreground there are no more rotational waits: its free copies
    /// go on in the background. Ends with one more phase of this name after all requests, and returns its account.
    pub async fn finish(&mut self, last: &str) -> Account {
        if let Some(running) = self.running.take() {
            self.layers.iter().for_each(|(_, layer)| layer.boost(Class::Background));
            let reports = running.await;
            self.note(reports);
        }
        self.enter(last.to_owned(), self.requests)
    }

    /// The phases and their stretches, the reconfigurations, and the errors of those that failed.
    pub fn into_parts(self) -> (Vec<Phase>, Vec<Stretch>, Vec<Done>, Vec<String>) {
        (self.phases, self.stretches, self.done, self.failed)
    }

    fn note(&mut self, reports: Reports) {
        let number = self.trigger.started();
        for (layer, report) in reports {
            match report {
                Ok(Some(report)) => self.done.push(Done { number, layer, report }),
                Ok(None) => {}
                Err(error) => self.failed.push(format!("R{number} of {layer}: {error}")),
            }
        }
    }

    fn enter(&mut self, name: String, index: u64) -> Account {
        self.phases.push(Phase { name, first_request: index });
        self.begin(index)
    }

    fn begin(&mut self, index: u64) -> Account {
        self.stretches.push(Stretch { phase: self.phases.len() - 1, first_request: index });
        self.account()
    }

    fn account(&self) -> Account {
        Account((self.stretches.len() - 1) as u16)
    }

    /// Starts the next reconfiguration if it is due, and returns its number.
    fn start(&mut self, index: u64) -> Option<u64> {
        if self.running.is_some() || self.layers.is_empty() {
            return None;
        }
        let layers: Vec<Rc<dyn Layer>> = self.layers.iter().map(|(_, layer)| layer.clone()).collect();
        self.trigger.start(index, &layers)
    }

    /// Ends the phase of a reconfiguration that is done.
    async fn end(&mut self, index: u64) {
        if let Some(running) = self.running.take_if(|running| running.is_finished()) {
            let reports = running.await;
            self.note(reports);
            self.enter(format!("N{}", self.trigger.started() + 1), index);
        }
    }

    /// Begins reconfiguration `number` before request `index`, and waits for it if the trace does.
    async fn reconfigure(&mut self, number: u64, index: u64) {
        let account = self.enter(format!("R{number}"), index);
        let layers = self.layers.clone();
        let task = runtime::spawn(async move {
            let mut reports = Vec::new();
            for (name, layer) in layers {
                let report = layer.reconfigure(account).await;
                reports.push((name, report));
            }
            reports
        });
        if self.clock == Clock::Stop {
            let reports = task.await;
            self.note(reports);
            self.enter(format!("N{}", number + 1), index);
        } else {
            self.running = Some(task);
        }
    }

    /// Begins a stretch where another run's phase begins.
    fn cut(&mut self, index: u64) {
        let mut cut = false;
        while self.cuts.last().is_some_and(|next| *next <= index) {
            cut |= self.cuts.pop().is_some();
        }
        if cut && self.stretches.last().is_some_and(|last| last.first_request < index) {
            self.begin(index);
        }
    }
}

impl Controller for Reconfigure {
    async fn before(&mut self, index: u64) -> Account {
        self.end(index).await;
        if let Some(number) = self.start(index) {
            self.reconfigure(number, index).await;
        }
        self.cut(index);
        self.account()
    }

    fn is_reconfiguring(&self) -> bool {
        self.running.as_ref().is_some_and(|running| !running.is_finished())
    }

    async fn pause(&mut self, index: u64, end: Nanos) {
        let enough = runtime::now() + PAUSE;
        if !self.trigger.uses_pauses() || self.layers.is_empty() || enough >= end {
            return;
        }
        runtime::sleep_until(enough).await;
        self.end(index).await;
        if let Some(number) = self.start(index) {
            self.reconfigure(number, index).await;
        }
    }
}
