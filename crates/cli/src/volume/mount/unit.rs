//! A systemd unit that mounts a volume when the machine starts, after its server, and unmounts it before that stops.

use std::path::Path;

use anyhow::Context;

use super::{Arguments, record};
use crate::started;

/// Folder of the volume files that `seekless@.service` serves.
const SERVED: &str = "/etc/seekless";

/// The text of a unit, with how to install it.
pub fn text(arguments: &Arguments) -> anyhow::Result<String> {
    let absolute = |path: &Path| std::path::absolute(path).with_context(|| path.display().to_string());
    let (volume, folder) = (absolute(&arguments.volume)?, absolute(&arguments.folder)?);
    let program = started::file().context("the path of this program")?;
    let mut words = vec![volume.display().to_string(), folder.display().to_string()];
    let export = arguments.export.iter().map(|name| ("--export", name));
    let kind = arguments.kind.iter().map(|name| ("--type", name));
    for (key, value) in export.chain(kind).chain(arguments.options.iter().map(|option| ("--option", option)))
    {
        words.extend([key.to_owned(), value.clone()]);
    }
    let words: Vec<String> = words.iter().map(|word| argument(word)).collect();
    let name = unit_name(&folder);
    let server = server(&volume).map_or(String::new(), |server| format!("Wants={server}\nAfter={server}\n"));
    Ok(format!(
        "# /etc/systemd/system/{name}: then systemctl daemon-reload; systemctl enable --now {name}\n\
         [Unit]\n\
         Description=File system of {} on {}\n\
         {server}\
         After=remote-fs-pre.target\n\
         Before=remote-fs.target umount.target\n\
         Conflicts=umount.target\n\
         RequiresMountsFor={} {}\n\
         \n\
         [Service]\n\
         Type=oneshot\n\
         RemainAfterExit=yes\n\
         ExecStart={program} volume mount {}\n\
         ExecStop={program} volume umount {}\n\
         # A stop writes everything back.\n\
         TimeoutStopSec=360\n\
         # What it leaves running is below the file system.\n\
         KillMode=process\n\
         \n\
         [Install]\n\
         WantedBy=remote-fs.target\n",
        escaped(&volume),
        escaped(&folder),
        quoted(&volume.display().to_string()),
        quoted(&folder.parent().unwrap_or(&folder).display().to_string()),
        words.join(" "),
        words[1],
        program = argument(&program.display().to_string()),
    ))
}

/// The service that serves this volume file, if it lies where those do.
fn server(volume: &Path) -> Option<String> {
    let name = volume.file_stem().filter(|_| volume.parent() == Some(Path::new(SERVED)))?.to_str()?;
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_.:".contains(letter);
    name.chars().all(plain).then(|| format!("seekless@{name}.service"))
}

/// Name of the unit for a mount on this folder.
fn unit_name(folder: &Path) -> String {
    format!("seekless{}.service", record::name(folder))
}

/// A path in a description: `%` begins a specifier.
fn escaped(path: &Path) -> String {
    path.display().to_string().replace('%', "%%")
}

/// A word of a list.
fn quoted(word: &str) -> String {
    let word = word.replace('%', "%%");
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-=,:@%$".contains(letter);
    if word.chars().all(plain) {
        return word;
    }
    format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A word of a command, where `$` begins a variable.
fn argument(word: &str) -> String {
    quoted(word).replace('$', "$$")
}
