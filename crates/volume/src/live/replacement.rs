//! Replaces a volume file by a new text, so that a reader finds the old text or the new one, whole.
//!
//! Fault model: power may fail at any time; a replacement that was not committed leaves at most a temporary file beside
//! the volume file, which the next one overwrites.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};

use seekless_core::mutant;

/// Places of attaching, detaching and replacing at which a test kills the server, in order.
pub const STEPS: &[&str] = &[
    "attach: before anything",
    "attach: the devices are initialised",
    "attach: the new text is written",
    "attach: clients are held back",
    "attach: the file is replaced",
    "attach: the host's record says newer",
    "attach: clients go on",
    "detach: before anything",
    "detach: the new text is written",
    "detach: everything is written back",
    "detach: the host's record says clean",
    "detach: the file is replaced",
    "detach: clients go on",
    "detach: the host's record is removed",
    "replace: before anything",
    "replace: the new text is written",
    "replace: the member is out of service",
    "replace: the file is replaced",
    "replace: the new device is in use",
];

/// A new text, written durably beside the volume file; removed when dropped, unless committed.
pub struct Replacement {
    new: PathBuf,
    file: PathBuf,
}

impl Replacement {
    /// Writes the new text of `file`, with the permissions and, where that is possible, the owner of the old one.
    pub fn prepare(file: &Path, text: &str) -> io::Result<Replacement> {
        // A link stays one.
        let file = fs::canonicalize(file)?;
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let replacement = Replacement { new: file.with_file_name(format!(".{name}.new")), file };
        let mut new = File::create(&replacement.new)?;
        let old = fs::metadata(&replacement.file)?;
        // Before the permissions, of which a new owner clears some. Not each user may do this, nor does each file
        // system.
        let _ = fchown(&new, Some(old.uid()), Some(old.gid()));
        new.set_permissions(old.permissions())?;
        new.write_all(text.as_bytes())?;
        new.sync_all()?;
        Ok(replacement)
    }

    /// Puts the new text in place of the old one, durably.
    pub fn commit(&self) -> io::Result<()> {
        fs::rename(&self.new, &self.file)?;
        File::open(self.file.parent().unwrap_or(Path::new("/")))?.sync_all()
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        // Gone if it was committed.
        let _ = fs::remove_file(&self.new);
    }
}

/// A place at which a test may have the server stand still, to kill it: see [`mutant::halt_at`].
pub fn step(name: &str) {
    debug_assert!(STEPS.contains(&name), "{name}");
    mutant::halt_at(name);
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_old_text_stays_until_the_new_one_is_committed() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("a.toml"), folder.path().join("link.toml"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        // Allowed to root alone.
        let owner =
            std::os::unix::fs::chown(&file, Some(1234), Some(1235)).map_or(None, |()| Some((1234, 1235)));
        std::os::unix::fs::symlink(&file, &link).unwrap();
        drop(Replacement::prepare(&link, "never").unwrap());
        assert_eq!(fs::read_to_string(&file).unwrap(), "old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left behind");
        fs::write(folder.path().join(".a.toml.new"), "left by a crash").unwrap();
        let replacement = Replacement::prepare(&link, "new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "old");
        replacement.commit().unwrap();
        drop(replacement);
        assert!(link.is_symlink() && fs::read_to_string(&link).unwrap() == "new");
        let metadata = fs::metadata(&file).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o640);
        assert!(owner.is_none_or(|owner| owner == (metadata.uid(), metadata.gid())));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        assert!(Replacement::prepare(&folder.path().join("none"), "").is_err());
    }
}
