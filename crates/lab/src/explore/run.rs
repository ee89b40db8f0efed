//! One run of a volume: opened on what its components hold, asked for what a script says, and logged.

use std::rc::Rc;

use seekless_core::runtime::Runtime;
use seekless_core::{BlockDevice, Extent};
use seekless_layers::fault::{Faulty, error};

use super::component::Component;
use super::conditions::Conditions;
use super::image::Image;
use super::log::{Event, Log, Shared, Write};
use super::restart::{Edges, Opener};
use super::script::{self, Step};
use seekless_volume::tree::{self, Bytes};

/// What is run.
#[derive(Clone)]
pub struct Plan {
    /// What is durable on the components before.
    pub images: Vec<Image>,
    /// What is in their caches besides.
    pub cached: Vec<Write>,
    /// What is asked, and told.
    pub steps: Rc<[Step]>,
    /// The number of the first request.
    pub first: u64,
    /// Who asks, and what the components are like.
    pub conditions: Conditions,
    /// What was left of torn metadata by the crash before, if there was one: the component, and its sectors.
    pub torn: Rc<[(u32, Extent)]>,
    /// A component and the requests to it that fail, if any do.
    pub fault: Option<(u32, error::Options)>,
}

/// What came of it.
pub struct Run {
    /// What happened.
    pub log: Log,
    /// Why it did not open, if it did not.
    pub closed: Option<String>,
    /// Why it did not end, if it did not.
    pub stalled: Option<String>,
    /// Requests that each component got, while one of them has a fault.
    pub met: u64,
    /// How often each edge was reached.
    pub edges: Edges,
}

impl Plan {
    /// These are asked by one client, of components that hold this and fail nothing.
    pub fn new(images: Vec<Image>, steps: Rc<[Step]>, first: u64) -> Plan {
        let conditions = Conditions::usual(1, 0);
        Plan { images, cached: Vec::new(), steps, first, conditions, torn: Rc::new([]), fault: None }
    }

    /// Whether a request to a component may fail.
    pub fn fails(&self) -> bool {
        self.fault.is_some() || !self.conditions.faults.is_none()
    }

    /// Carries it out.
    pub fn run(&self, opener: &Opener) -> Run {
        let runtime = Runtime::new(self.conditions.seed);
        runtime.count_from(self.conditions.numbers);
        let log = Shared::default();
        for (number, write) in self.cached.iter().enumerate() {
            let mut log = log.borrow_mut();
            log.writes.push(write.clone());
            log.events.extend([Event::Began(number), Event::Ended(number)]);
        }
        let ended = runtime.run(self.open_and_ask(opener, &log));
        let (stalled, (closed, met)) = match ended {
            Ok(ended) => (None, ended),
            Err(stalled) => (Some(stalled.to_string()), (None, 0)),
        };
        let edges = runtime.edges();
        drop(runtime);
        Run { log: log.take(), closed, stalled, met, edges }
    }

    async fn open_and_ask(&self, opener: &Opener<'_>, log: &Shared) -> (Option<String>, u64) {
        let mut images = self.images.clone();
        for write in &self.cached {
            images[write.component as usize].put(write.at.start.0, &write.contents, |_| true);
        }
        let numbered = (0..).zip(images.iter().zip(&opener.sectors));
        let mut faulty = None;
        let devices: Vec<Rc<dyn BlockDevice>> = numbered
            .map(|(number, (image, sectors))| {
                let component =
                    Component::recorded(number, *sectors, image.clone(), self.conditions, log.clone());
                match &self.fault {
                    Some((which, options)) if *which == number => {
                        let fault = Rc::new(Faulty::new(component, error::Error::new(options)));
                        faulty = Some(fault.clone());
                        fault
                    }
                    _ => component as Rc<dyn BlockDevice>,
                }
            })
            .collect();
        let closed = match tree::over(&opener.description, opener.named(&devices), Bytes::Real).await {
            Ok(tree) => {
                script::carry_out(
                    self.steps.clone(),
                    self.first,
                    self.conditions.clients,
                    &tree,
                    log.clone(),
                )
                .await;
                None
            }
            Err(error) => Some(error.to_string()),
        };
        (closed, faulty.map_or(0, |fault| fault.fault().met()))
    }
}
