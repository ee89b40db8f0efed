//! Phases: ranges of a trace's requests, as in the BORG paper's figures: N1, R1, N2, ...
//!
//! A reconfiguration starts after equal numbers of requests; a start that falls into a running one
//! waits. Each phase is an account that the drive charges, so that its time is known to the
//! nanosecond, whatever overlaps.

use std::cell::RefCell;
use std::rc::Rc;

use seekless_core::runtime::{self, Task};
use seekless_core::{Account, Class, IoError};
use seekless_layers::Borg;
use seekless_layers::borg::Reconfigured;

use crate::experiment::Clock;

/// A phase, and the first request in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// Its name in the paper's figures.
    pub name: String,
    /// Counted from zero.
    pub first_request: u64,
}

/// Decides which phase a request belongs to.
pub trait Director {
    /// Called before request `index` is issued; may hold it.
    fn before(&mut self, index: u64) -> impl Future<Output = Result<Account, IoError>>;
}

/// The phases as another run went through them.
pub struct Repeat {
    phases: Vec<Phase>,
    now: usize,
}

impl Repeat {
    /// Exactly these phases.
    pub fn new(phases: &[Phase]) -> Repeat {
        Repeat { phases: phases.to_vec(), now: 0 }
    }
}

impl Director for Repeat {
    async fn before(&mut self, index: u64) -> Result<Account, IoError> {
        while self.phases.get(self.now + 1).is_some_and(|next| next.first_request <= index) {
            self.now += 1;
        }
        Ok(Account(self.now as u16))
    }
}

/// Reconfigures a layer, and notes the phases that come of it.
pub struct Reconfigure {
    borg: Rc<Borg>,
    requests: u64,
    times: u64,
    started: u64,
    clock: Clock,
    phases: Vec<Phase>,
    running: Option<Task<Result<Reconfigured, IoError>>>,
    done: Rc<RefCell<Vec<Reconfigured>>>,
}

impl Reconfigure {
    /// `times` reconfigurations over `requests` requests.
    pub fn new(borg: Rc<Borg>, requests: u64, times: u32, clock: Clock) -> Reconfigure {
        Reconfigure {
            borg,
            requests,
            times: u64::from(times),
            started: 0,
            clock,
            phases: vec![Phase { name: "N1".to_owned(), first_request: 0 }],
            running: None,
            done: Rc::default(),
        }
    }

    /// The phases so far.
    pub fn phases(&self) -> &[Phase] {
        &self.phases
    }

    /// How many starts never came, because the one before ran to the end.
    pub fn missed(&self) -> u64 {
        self.times - self.started
    }

    /// Waits for the one that runs, and returns what each did. There are no waits of a foreground any more: what it
    /// would copy for free goes on in the background.
    pub async fn finish(&mut self) -> Result<Vec<Reconfigured>, IoError> {
        if let Some(running) = self.running.take() {
            self.borg.hurry(Class::Background);
            let report = running.await?;
            self.done.borrow_mut().push(report);
        }
        Ok(self.done.take())
    }

    fn enter(&mut self, kind: char, number: u64, index: u64) -> Account {
        self.phases.push(Phase { name: format!("{kind}{number}"), first_request: index });
        self.account()
    }

    fn account(&self) -> Account {
        Account((self.phases.len() - 1) as u16)
    }

    fn start_at(&self, which: u64) -> u64 {
        self.requests * which / (self.times + 1)
    }
}

impl Director for Reconfigure {
    async fn before(&mut self, index: u64) -> Result<Account, IoError> {
        if let Some(running) = self.running.take_if(|running| running.is_finished()) {
            let report = running.await?;
            self.done.borrow_mut().push(report);
            self.enter('N', self.started + 1, index);
        }
        if self.running.is_none() && self.started < self.times && index >= self.start_at(self.started + 1) {
            self.started += 1;
            let account = self.enter('R', self.started, index);
            let borg = self.borg.clone();
            let task = runtime::spawn(async move { borg.reconfigure(account).await });
            if self.clock == Clock::Stop {
                let report = task.await?;
                self.done.borrow_mut().push(report);
                return Ok(self.enter('N', self.started + 1, index));
            }
            self.running = Some(task);
        }
        Ok(self.account())
    }
}
