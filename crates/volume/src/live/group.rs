//! The volumes that one program serves, each in a thread of its own.
//!
//! A service manager sees one service: it is ready once all volumes are, alive while all of them are, and its state is
//! a line of all. No volume is opened before all files were read, and one that cannot be served stops the others,
//! clean.
//!
//! Fault model: as for one volume ([`super::server`]); a thread that panics counts as a volume that failed.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use seekless_serve::server::Listener;
use seekless_serve::{notify, signals};

use super::environment::{Environment, Program};
use super::error::{At, LiveError};
use super::server::{Request, prepare};

/// The volumes of a program that serves several.
#[derive(Debug)]
pub struct Group {
    state: Mutex<State>,
    /// Notified when a volume file was read, or could not be.
    was_read: Condvar,
}

#[derive(Debug)]
struct State {
    volumes: Vec<Volume>,
    /// Sockets that were passed to the process and that no volume has taken.
    sockets: Vec<Option<Listener>>,
    /// Whether the others were asked to stop since one failed.
    stopped: bool,
}

/// What a volume reported last.
#[derive(Debug)]
struct Volume {
    file: String,
    /// Number of its addresses, once the file was read; an error if it could not be.
    addresses: Option<Result<usize, ()>>,
    is_ready: bool,
    /// Whether it was alive since the manager last heard so.
    is_alive: bool,
    line: String,
}

/// One of the volumes.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    group: &'static Group,
    number: usize,
}

impl Group {
    fn new(files: impl Iterator<Item = String>, sockets: Vec<Listener>) -> Group {
        let volume = |file| Volume {
            file,
            addresses: None,
            is_ready: false,
            is_alive: false,
            line: "starting".to_owned(),
        };
        let sockets = sockets.into_iter().map(Some).collect();
        let state = State { volumes: files.map(volume).collect(), sockets, stopped: false };
        Group { state: Mutex::new(state), was_read: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks all volumes to stop; once only, since a second signal ends the program at once. If a file could not be
    /// read, none is served, and there may be nothing that handles a signal.
    fn stop(&self) {
        let state = &mut *self.state();
        let all_read = state.volumes.iter().all(|volume| volume.addresses.is_some_and(|read| read.is_ok()));
        if all_read && !std::mem::replace(&mut state.stopped, true) {
            signals::raise();
        }
    }

    /// Reports that a volume file was read, and waits for the others; returns the volume's share of the sockets that
    /// were passed to the process, in the order of the files and their addresses. `None` if a file could not be read.
    fn wait_for_all(
        &self,
        number: usize,
        addresses: Result<usize, ()>,
    ) -> Option<Result<Vec<Listener>, LiveError>> {
        let mut state = self.state();
        state.volumes[number].addresses = Some(addresses);
        self.was_read.notify_all();
        let waits = |state: &mut State| state.volumes.iter().any(|volume| volume.addresses.is_none());
        let mut state = self.was_read.wait_while(state, waits).unwrap_or_else(PoisonError::into_inner);
        let counts: Option<Vec<usize>> = state.volumes.iter().map(|volume| volume.addresses?.ok()).collect();
        let counts = counts?;
        if let Err(error) = check_sockets(state.sockets.len(), counts.iter().sum()) {
            return Some(Err(error));
        }
        let before: usize = counts[..number].iter().sum();
        let mine = state.sockets.iter_mut().skip(before).take(counts[number]);
        Some(Ok(mine.filter_map(Option::take).collect()))
    }

    /// Combines a message of a volume with what the others reported.
    fn combine(&self, number: usize, message: &str) -> String {
        let volumes = &mut self.state().volumes;
        let mut combined = Vec::new();
        for line in message.lines() {
            match line.split_once('=') {
                Some(("STATUS", line)) => line.clone_into(&mut volumes[number].line),
                Some(("READY", _)) => {
                    volumes[number].is_ready = true;
                    combined.extend(volumes.iter().all(|volume| volume.is_ready).then_some(line.to_owned()));
                }
                Some(("WATCHDOG", _)) => {
                    volumes[number].is_alive = true;
                    if volumes.iter().all(|volume| volume.is_alive) {
                        for volume in volumes.iter_mut() {
                            volume.is_alive = false;
                        }
                        combined.push(line.to_owned());
                    }
                }
                _ => combined.push(line.to_owned()),
            }
        }
        let lines = volumes.iter().map(|volume| format!("{}: {}", volume.file, volume.line));
        combined.push(format!("STATUS={}", lines.collect::<Vec<_>>().join("; ")));
        combined.join("\n")
    }
}

impl Member {
    /// Sends a message of this volume to the service manager, as one of the program.
    pub fn notify(self, message: &str) {
        notify::notify(&self.group.combine(self.number, message));
    }

    /// A line of this volume's, as the program prints it.
    pub fn label(self, line: &str) -> String {
        format!("{}: {line}", self.group.state().volumes[self.number].file)
    }

    /// Serves the volume in this thread; false if it failed.
    fn serve(self, request: &Request<'_>, program: Program) -> bool {
        let Member { group, number } = self;
        let environment = Environment::Member(program, self);
        let prepared = prepare(request);
        let addresses = prepared.as_ref().map(|volume| volume.doors.addresses.len()).map_err(|_| ());
        let sockets = group.wait_for_all(number, addresses);
        let served = match (prepared, sockets) {
            (Ok(mut volume), Some(Ok(sockets))) => {
                volume.doors.sockets = sockets;
                volume.serve(environment)
            }
            (Err(error), _) | (Ok(_), Some(Err(error))) => Err(error),
            (Ok(_), None) => {
                environment.info("not served, since another one cannot be");
                return true;
            }
        };
        if let Err(error) = &served {
            environment.error(&format!("error: {error}"));
        }
        served.is_ok()
    }
}

/// Serves the exports of volume files until a signal to stop arrives: one in this thread, several in a thread each.
///
/// # Errors
/// A file that is no volume, before any is opened; a device in use, an address that cannot be bound, or a stop that was
/// not clean: then the other volumes stop.
#[allow(clippy::disallowed_methods)] // each thread has a runtime of its own
pub fn serve_volumes(requests: &[Request<'_>], program: Program) -> Result<(), LiveError> {
    let sockets = Listener::activated().at(|| "the inherited sockets (LISTEN_FDS)")?;
    if let [request] = requests {
        let mut volume = prepare(request)?;
        check_sockets(sockets.len(), volume.doors.addresses.len())?;
        volume.doors.sockets = sockets;
        return volume.serve(Environment::Live(program));
    }
    let files = requests.iter().map(|request| request.volume.display().to_string());
    // As long as the process: its volumes report to it until the end.
    let group: &'static Group = Box::leak(Box::new(Group::new(files, sockets)));
    let served = thread::scope(|scope| {
        let start = |(number, request)| {
            let work = move || {
                let mut ends = Ends { group, number, is_served: false };
                ends.is_served = Member { group, number }.serve(request, program);
                ends.is_served
            };
            let thread = thread::Builder::new().name(format!("volume {number}")).spawn_scoped(scope, work);
            if thread.is_err() {
                drop(Ends { group, number, is_served: false });
            }
            thread
        };
        let threads: Vec<_> = requests.iter().enumerate().map(start).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, bool>| thread.join().unwrap_or(false);
        threads.into_iter().map(|thread| thread.is_ok_and(join)).collect::<Vec<bool>>()
    });
    match served.iter().filter(|served| !**served).count() {
        0 => Ok(()),
        failed => Err(LiveError::new(format!("found {failed} of {} volumes that failed", requests.len()))),
    }
}

/// The end of a volume's thread: if it failed or panicked, the others do not wait for it, and stop.
struct Ends {
    group: &'static Group,
    number: usize,
    is_served: bool,
}

impl Drop for Ends {
    fn drop(&mut self) {
        if !self.is_served {
            self.group.state().volumes[self.number].addresses.get_or_insert(Err(()));
            self.group.was_read.notify_all();
            self.group.stop();
        }
    }
}

/// Checks that each address has a socket, if any were passed to the process.
fn check_sockets(given: usize, wanted: usize) -> Result<(), LiveError> {
    if given == 0 || given == wanted {
        return Ok(());
    }
    Err(LiveError::new(format!(
        "found {given} sockets given (LISTEN_FDS), expected one for each address: {wanted}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> Group {
        Group::new(["a.toml", "b.toml"].map(str::to_owned).into_iter(), Vec::new())
    }

    #[test]
    fn a_manager_hears_of_all_volumes() {
        let group = two();
        let both = |a: &str, b: &str| format!("STATUS=a.toml: {a}; b.toml: {b}");
        assert_eq!(group.combine(0, "READY=1\nSTATUS=ready"), both("ready", "starting"));
        assert_eq!(group.combine(0, "WATCHDOG=1\nSTATUS=busy"), both("busy", "starting"));
        assert_eq!(group.combine(1, "READY=1\nSTATUS=fine"), format!("READY=1\n{}", both("busy", "fine")));
        assert_eq!(group.combine(1, "WATCHDOG=1"), format!("WATCHDOG=1\n{}", both("busy", "fine")));
        // The first has to be alive again.
        assert_eq!(group.combine(1, "WATCHDOG=1"), both("busy", "fine"));
        assert_eq!(group.combine(1, "STOPPING=1"), format!("STOPPING=1\n{}", both("busy", "fine")));
    }

    #[test]
    #[allow(clippy::disallowed_methods)] // a thread for each volume
    fn no_volume_is_opened_if_another_file_cannot_be_read() {
        let group = two();
        let waits = |number, addresses| group.wait_for_all(number, addresses).is_some();
        let both = |other| {
            thread::scope(|scope| {
                let first = scope.spawn(|| waits(0, Ok(1)));
                let second = waits(1, other);
                (first.join().unwrap(), second)
            })
        };
        assert_eq!(both(Ok(2)), (true, true));
        for volume in &mut group.state().volumes {
            volume.addresses = None;
        }
        assert_eq!(both(Err(())), (false, false));
    }
}
