//! `seekless volume mount` and `umount`: from a volume file to a mounted file system, and back.
//!
//! Invariants: an export is mounted once; its server runs as long as a mount of the volume needs it. Fault model: each
//! step may fail; then those before it are undone, and the error names the step. The command may be killed at any step:
//! `umount`, or the next `mount`, undoes what is there. After a reboot there is no mount and no record.

mod device;
mod record;
mod relay;
mod unit;

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use seekless_core::names::perhaps;
use seekless_serve::mounted;
use seekless_volume::live::{ServedExport, Status};

use super::status::{parsed, status};
use crate::output;
use crate::started;
use record::Record;

/// Examples.
pub const HELP: &str = "\
Examples:
  seekless volume mount home.toml /mnt/home
  seekless volume mount home.toml /mnt/home --export disk --option noatime
  seekless volume umount /mnt/home
  seekless volume mount home.toml /mnt/home --unit

Needs root, nbdfuse, FUSE and a free loop device. If the volume is not served yet, a server is started in the background, with \
messages in home.log beside home.toml, and the last umount of the volume stops it: a clean stop, which writes everything back. \
A server that runs already stays; start it with --mounted. An export is mounted once. If the server ends meanwhile, programs wait until it runs again: mount once more \
starts it.";

/// Examples of `volume umount`.
pub const UMOUNT: &str = "\
Examples:
  seekless volume umount /mnt/home
  seekless volume umount /mnt/home --give-up

Needs root. What the file system holds in memory is written first. The last umount of a volume stops the server that \
mount started, if it did: a clean stop, which writes everything back. If the server ended meanwhile, it is started \
again for that; --give-up goes without.";

/// Time for a program or device to appear.
const APPEARS: Duration = Duration::from_secs(60);
/// Time for a server to stop: it drains for up to a minute, and then flushes.
const STOPS: Duration = Duration::from_secs(300);

/// Arguments of `volume mount`.
#[derive(Args)]
pub struct Arguments {
    /// Volume file; it is served if it is not yet
    #[arg(value_name = "VOLUME.toml")]
    volume: PathBuf,
    /// Folder to mount on
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Export with the file system [default: the first]
    #[arg(long, value_name = "NAME")]
    export: Option<String>,
    /// Type of the file system, as for mount [default: what mount finds]
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// Option of mount; may be repeated
    #[arg(long = "option", value_name = "OPTION")]
    options: Vec<String>,
    /// Print a systemd unit that does this at each start of the machine, and mount nothing
    #[arg(long)]
    unit: bool,
}

/// Arguments of `volume umount`.
#[derive(Args)]
pub struct Umount {
    /// Folder that seekless volume mount mounted on
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Unmount even if the server cannot be started: what it has not got yet is lost
    #[arg(long)]
    give_up: bool,
}

/// Serves the volume if needed, makes a block device of an export, and mounts it.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if arguments.unit {
        return output::print(&unit::text(arguments)?);
    }
    let folder =
        std::fs::canonicalize(&arguments.folder).with_context(|| arguments.folder.display().to_string())?;
    if !folder.is_dir() {
        bail!("{}: found a file, expected a folder to mount on", folder.display());
    }
    let volume = &arguments.volume;
    let volume = std::path::absolute(volume).with_context(|| volume.display().to_string())?;
    device::check()?;
    // The programs that are started inherit it; what is not allowed, a server says itself.
    mounted::protect();
    let _alone = (record::lock(&folder)?, record::lock(&volume)?);
    if device::is_mounted(&folder)? {
        return serve_again(&volume, &folder);
    }
    if let Some(mut left) = Record::of(&folder)? {
        // By a mount that was killed, or whose file system was unmounted by other means.
        take_down(&mut left, false)?;
    }
    let mut record = Record::new(&folder, &volume);
    match mount(arguments, &mut record) {
        Ok(()) => {
            let node = record.device.node.display();
            output::print(&format!("{node} is mounted on {}\n", folder.display()))
        }
        Err(error) => Err(match take_down(&mut record, false) {
            Ok(()) => error,
            Err(left) => error.context(format!("and what was begun is still there: {left:#}")),
        }),
    }
}

/// Serves the volume of a mounted file system again, after its server has ended: requests have waited for it.
fn serve_again(volume: &Path, folder: &Path) -> anyhow::Result<()> {
    let record = Record::of(folder)?.filter(|record| record.volume == volume && status(volume).is_err());
    let Some(mut record) = record else {
        bail!("{}: found a file system mounted on it, expected a folder without one", folder.display());
    };
    serve_for(&mut record)?;
    output::print(&format!("{} is served again, for {}\n", volume.display(), folder.display()))
}

/// Starts the server of a mount, and records that first.
fn serve_for(record: &mut Record) -> anyhow::Result<Status> {
    record.started = true;
    record.write()?;
    serve(&record.volume)
}

fn mount(arguments: &Arguments, record: &mut Record) -> anyhow::Result<()> {
    record.write()?;
    let served = match status(&record.volume).and_then(parsed) {
        Ok(served) => served,
        Err(_) => serve_for(record)?,
    };
    let export = export(&served, arguments.export.as_deref())?;
    if let Some(other) = record.others()?.into_iter().find(|other| other.export == export.name) {
        let (at, here) = (other.folder.display(), record.folder.display());
        bail!(
            "{}: found the export '{}' mounted on {at}, expected one mount of it, or its file system would be destroyed; \
             to see it in both places: mount --bind {at} {here}",
            served.file,
            export.name
        );
    }
    record.export.clone_from(&export.name);
    record.write()?;
    record.device.attach(&record.volume, export)?;
    record.write()?;
    let mut command = Command::new("mount");
    if let Some(kind) = &arguments.kind {
        command.args(["-t", kind]);
    }
    let read_only = export.read_only.then(|| "ro".to_owned());
    let options: Vec<String> = arguments.options.iter().cloned().chain(read_only).collect();
    if !options.is_empty() {
        command.args(["-o", &options.join(",")]);
    }
    succeed(command.arg(&record.device.node).arg(&record.folder)).map(drop)
}

/// The export of this name, or the first.
fn export<'a>(served: &'a Status, name: Option<&str>) -> anyhow::Result<&'a ServedExport> {
    let found = served.exports.iter().find(|export| name.is_none_or(|name| export.name == name));
    found.with_context(|| {
        let known: Vec<&str> = served.exports.iter().map(|export| export.name.as_str()).collect();
        format!(
            "{}: found the export '{}', expected {}{}",
            served.file,
            name.unwrap_or_default(),
            known.join(" or "),
            perhaps(name.unwrap_or_default(), known.iter().copied())
        )
    })
}

/// Serves a volume in the background, and waits until it answers.
fn serve(volume: &Path) -> anyhow::Result<Status> {
    let log = volume.with_extension("log");
    // What an earlier server said last may tell why it ended.
    let file = std::fs::File::options().create(true).append(true).open(&log);
    let file = file.with_context(|| log.display().to_string())?;
    let earlier = file.metadata().with_context(|| log.display().to_string())?.len();
    let mut command = started::again().context("the path of this program")?;
    command.args(SERVE).arg(volume);
    // A group of its own: Ctrl-C is not for it.
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
    let mut child = command.spawn().context("the server")?;
    let begun = now();
    loop {
        if let Ok(served) = status(volume).and_then(parsed) {
            return Ok(served);
        }
        if let Some(ended) = child.try_wait()? {
            let said = std::fs::read(&log).unwrap_or_default();
            let said = String::from_utf8_lossy(said.get(earlier as usize..).unwrap_or_default());
            let last = said.lines().last().unwrap_or_default();
            bail!("{}: the server ended with {ended}: {last}", volume.display());
        }
        if now() - begun > APPEARS {
            let _ = child.kill();
            bail!("{}: the server does not answer, see {}", volume.display(), log.display());
        }
        pause();
    }
}

/// Unmounts a file system, and undoes what `mount` did.
pub fn umount(arguments: &Umount) -> anyhow::Result<()> {
    let folder =
        std::fs::canonicalize(&arguments.folder).with_context(|| arguments.folder.display().to_string())?;
    let _folder = record::lock(&folder)?;
    let none = || format!("{}: found nothing that seekless volume mount mounted there", folder.display());
    let volume = Record::of(&folder)?.with_context(none)?.volume;
    let _volume = record::lock(&volume)?;
    // As it is after the wait.
    take_down(&mut Record::of(&folder)?.with_context(none)?, arguments.give_up)
}

/// Undoes a mount, as far as it came.
fn take_down(record: &mut Record, give_up: bool) -> anyhow::Result<()> {
    if record.device.is_there()? && status(&record.volume).is_err() {
        // It has to get what was not written yet.
        match serve_for(record) {
            Ok(_) => {}
            Err(_) if give_up => record.device.give_up()?,
            Err(error) => return Err(error.context("umount needs the server: start it, or use --give-up")),
        }
    }
    if device::is_mounted(&record.folder)? {
        succeed(Command::new("umount").arg(&record.folder))?;
    }
    record.device.detach()?;
    if record.started {
        match record.others()?.into_iter().next() {
            // It stays for that one, which ends it.
            Some(other) => Record { started: true, ..other }.write()?,
            None => stop(&record.volume)?,
        }
    }
    record.remove()
}

/// Stops the server that [`serve`] started for this volume file, if it runs, and waits until it has ended.
fn stop(volume: &Path) -> anyhow::Result<()> {
    let Some(server) = server_of(volume) else { return Ok(()) };
    succeed(Command::new("kill").arg(server.to_string()))?;
    let begun = now();
    while server_of(volume) == Some(server) {
        if now() - begun > STOPS {
            bail!("the server (process {server}) still stops: it is left to itself");
        }
        pause();
    }
    Ok(())
}

/// Words of the command that serves a volume for a mount, before its file.
const SERVE: [&str; 5] = ["volume", "serve", "--mounted", "--log", "times"];

/// The server that [`serve`] started for this volume file, if it runs.
fn server_of(volume: &Path) -> Option<u32> {
    let volume = volume.display().to_string();
    let words = [&SERVE[..], &[&volume]].concat();
    process_with(|line| line.ends_with(&words))
}

/// The first process whose command line is accepted. One that has ended has none.
fn process_with(accepts: impl Fn(&[&str]) -> bool) -> Option<u32> {
    let entries = std::fs::read_dir("/proc").ok()?;
    let mut numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    numbers.find(|number| {
        let line = std::fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        accepts(&line.trim_end_matches('\0').split('\0').collect::<Vec<_>>())
    })
}

/// Runs a program; its standard output.
fn succeed(command: &mut Command) -> anyhow::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command.stdin(Stdio::null()).output().with_context(|| name.clone())?;
    let said = String::from_utf8_lossy(&done.stderr);
    if !done.status.success() {
        bail!("{name}: {}", output::plain(said.trim().lines().next().unwrap_or_default()));
    }
    Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned())
}

// The program waits here, not a volume.
#[allow(clippy::disallowed_methods)]
fn now() -> Instant {
    Instant::now()
}

#[allow(clippy::disallowed_methods)]
fn pause() {
    std::thread::sleep(Duration::from_millis(50));
}
