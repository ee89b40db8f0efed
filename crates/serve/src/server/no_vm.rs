//! A server in a build without virtual machines: volume files that name a socket for one are refused before.

use std::rc::Rc;

use super::{Export, Listener, Server};

impl Server {
    /// Serves nothing.
    ///
    /// # Panics
    /// Always: no caller gets here in such a build.
    pub fn listen_for_machine(self: &Rc<Self>, _listener: Listener, _export: Export) {
        unreachable!("a build without the feature vhost");
    }
}
