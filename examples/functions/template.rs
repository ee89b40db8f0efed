//! A function to begin with: copy it, and put what you want to try into `seen`. This one fetches what lies behind each
//! read: as much again.

#[path = "abi.rs"]
#[macro_use]
mod abi;

use abi::{Actions, Function, Request, BACKGROUND};

/// What the function remembers: nothing but the size of the volume.
struct Template {
    sectors: u64,
}

impl Function for Template {
    fn start(sectors: u64, _pages: u64, _parameter: u64) -> Template {
        Template { sectors }
    }

    fn seen(&mut self, request: &Request, actions: &mut Actions) {
        if request.is_read() {
            let end = (request.end() + request.sectors).min(self.sectors);
            actions.fetch(request.end(), end - request.end(), BACKGROUND);
        }
    }
}

export!(Template);
