//! A BOPT of version 1 becomes one of version 2. No data moves.
//!
//! First it stops clean, so that its map tells all and its log is empty. Then its map pages are written in version 2, in
//! the homes that do not count, and are durable; then a super page that says so takes the place of the older one. From
//! then on it is of version 2, and homes of version 1 do not count; they are written over, and a last super page says
//! that all are.
//!
//! Faults: whenever power goes, it opens as one or the other. What was begun before the new super page is done again by
//! the next upgrade; what was left behind it, by whoever opens it next.

use std::rc::Rc;

use seekless_core::{BlockDevice, Buffer, ErrorKind, Extent, Hints, IoError};

use super::page::{OLD, SEALED, UPGRADING};
use super::table::Session;
use super::{Borg, Options};

/// Segments whose map pages are written together.
const AT_ONCE: usize = if cfg!(test) { 3 } else { 256 };

impl Borg {
    /// Makes a BOPT of version 1 one of version 2, which programs of before do not open any more. One of version 2 stays
    /// as it is. Fails as opening does, or as its devices do: then it is of one version or the other, and can be opened
    /// and upgraded again.
    pub async fn upgrade(
        home: Rc<dyn BlockDevice>,
        bopt: Rc<dyn BlockDevice>,
        options: Options,
    ) -> Result<(), IoError> {
        let borg = Borg::open(home, bopt, options, false).await?;
        if borg.state.borrow().disk.version != OLD {
            return Ok(());
        }
        let how = Hints::default();
        borg.begin(Session::Mapped, &how).await?;
        seekless_core::Layer::stop(&*borg).await?;
        let _turn = borg.turn(&how).await;
        borg.say_all_sealed(&how).await?;
        borg.end_upgrade(&how).await
    }

    /// All map pages in version 2, and a super page that makes them count.
    async fn say_all_sealed(&self, how: &Hints) -> Result<(), IoError> {
        self.clear_older_super(how).await?;
        self.state.borrow_mut().disk.version = SEALED;
        let segments: Vec<u32> = (0..self.layout.segments()).collect();
        for some in segments.chunks(AT_ONCE) {
            let saying: Vec<_> = {
                let state = &mut *self.state.borrow_mut();
                some.iter().map(|&segment| state.saying(self, segment)).collect()
            };
            self.write_pages(&saying, how).await?;
            let state = &mut *self.state.borrow_mut();
            for said in &saying {
                state.said(said);
            }
        }
        let generations = self.state.borrow().segments.generations();
        self.write_super(|disk| (disk.features, disk.generations) = (UPGRADING, generations), how).await
    }

    /// What is left of version 1 is written over; for who holds the turn, or opens it.
    pub(super) async fn end_upgrade(&self, how: &Hints) -> Result<(), IoError> {
        while self.state.borrow().segments.once() > 0 {
            if !self.copy_some(false, how).await? {
                let why = "found a map page that has rotted meanwhile, expected it as it was written";
                return Err(IoError::new(ErrorKind::Corrupt, "borg", None, why));
            }
        }
        self.clear_older_super(how).await?;
        self.write_super(|disk| disk.features = 0, how).await?;
        self.copy_all(how).await
    }

    /// What is in the home of a super page that does not count must not be mistaken for a part of what comes there.
    async fn clear_older_super(&self, how: &Hints) -> Result<(), IoError> {
        let older = Extent::of_pages(1 - self.state.borrow().supers.home, 1);
        self.bopt.write(older, Buffer::zeroed(older.bytes()), how.clone()).await?;
        self.flush_bopt(how).await
    }
}
