//! The size of the cache at run time: the command `size=BYTES`.

use seekless_core::device::unknown_command;
use seekless_core::runtime::edge;
use seekless_core::{ErrorKind, Hints, IoError, Size};

use super::Cache;
use super::options::{SIZES, pages_of};

/// Commands with sizes that explorations try; a user gives any size.
pub const COMMANDS: [&str; 2] = ["size=64KiB", "size=1MiB"];

impl Cache {
    /// Carries out a command.
    pub(super) async fn carry_out(&self, command: &str, how: &Hints) -> Result<(), IoError> {
        let Some(("size", size)) = command.split_once('=') else {
            return Err(unknown_command("cache", command, &COMMANDS));
        };
        let pages = size.parse::<Size>().ok().and_then(|Size(bytes)| pages_of(bytes));
        let Some(pages) = pages else {
            let why = format!("found '{command}', expected a size of {SIZES}");
            return Err(IoError::new(ErrorKind::Invalid, "cache", None, why));
        };
        self.resize(pages, how).await
    }

    /// Gives the cache room for this many pages. Requests continue; a smaller cache is one once dirty pages are written
    /// back and reads in flight have ended.
    ///
    /// # Errors
    /// Those of writing back: the cache keeps what it could not write, and takes no page until it fits.
    async fn resize(&self, pages: u64, how: &Hints) -> Result<(), IoError> {
        if let Some(ghost) = self.ghost() {
            ghost.borrow_mut().resize(pages);
            return Ok(());
        }
        self.state.borrow_mut().resize(pages, self.options.dirty_pages(pages));
        self.changed();
        while !self.state.borrow_mut().make_room(0) {
            edge("a cache that becomes smaller waits for pages in use");
            self.abort_fetches();
            self.sync(how).await?;
            self.until(|state| state.make_room(0) || state.dirty() > 0).await;
        }
        self.changed();
        Ok(())
    }
}
