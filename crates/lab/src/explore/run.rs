//! One run of a volume: opened on the content of its components, driven by a script, and logged.

use std::rc::Rc;

use seekless_core::runtime::Runtime;
use seekless_core::{BlockDevice, Extent, Nanos};
use seekless_layers::fault::{Faulty, error};

use super::component::Component;
use super::conditions::Conditions;
use super::image::Image;
use super::log::{Event, Log, Shared, Write};
use super::restart::{Edges, Opener};
use super::script::{self, Step};
use seekless_volume::tree::{self, Bytes};

/// Plan of a run.
#[derive(Clone)]
pub struct Plan {
    /// Durable content of the components at the start.
    pub images: Vec<Image>,
    /// Content of their caches.
    pub cached: Vec<Write>,
    /// Requests and commands.
    pub steps: Rc<[Step]>,
    /// Number of the first request.
    pub first: u64,
    /// Clients, and the behaviour of components.
    pub conditions: Conditions,
    /// Remains of torn metadata of the crash before, if any: component and sectors.
    pub torn: Rc<[(u32, Extent)]>,
    /// A component and the requests to it that fail, if any.
    pub fault: Option<(u32, error::Options)>,
}

/// Result of a run.
pub struct Run {
    /// Its log.
    pub log: Log,
    /// Why the volume did not open, if so.
    pub closed: Option<String>,
    /// Why the run did not end, if so.
    pub stalled: Option<String>,
    /// Requests to each component, while one of them has a fault.
    pub met: u64,
    /// How often each edge was reached.
    pub edges: Edges,
}

impl Plan {
    /// A plan with one client, and components with this content and without faults.
    pub fn new(images: Vec<Image>, steps: Rc<[Step]>, first: u64) -> Plan {
        let conditions = Conditions::usual(1, 0);
        Plan { images, cached: Vec::new(), steps, first, conditions, torn: Rc::new([]), fault: None }
    }

    /// Whether a request to a component may fail.
    pub fn fails(&self) -> bool {
        let unreadable = self.images.iter().any(Image::has_unreadable);
        self.fault.is_some() || !self.conditions.faults.is_none() || unreadable
    }

    /// Carries it out.
    pub fn run(&self, opener: &Opener) -> Run {
        let runtime = Runtime::new(self.conditions.seed);
        runtime.count_from(self.conditions.numbers);
        if self.conditions.pause > 0 {
            runtime.pause_for(Nanos::from_micros(self.conditions.pause));
        }
        let log = Shared::default();
        for (number, write) in self.cached.iter().enumerate() {
            let mut log = log.borrow_mut();
            log.writes.push(write.clone());
            log.events.extend([Event::WriteBegan(number), Event::WriteEnded(number)]);
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
        let closed = match tree::build(&opener.description, opener.named(&devices), Bytes::Real).await {
            Ok(tree) => {
                let stamping = opener.stamping();
                script::carry_out(
                    self.steps.clone(),
                    self.first,
                    self.conditions,
                    &tree,
                    stamping,
                    log.clone(),
                )
                .await;
                None
            }
            Err(error) => Some(error.to_string()),
        };
        (closed, faulty.map_or(0, |fault| fault.fault().matched()))
    }
}
