//! Figures that a layer reports about itself, so that any layer can be compared with any other.

use crate::error::IoError;
use crate::runtime;
use crate::units::{Nanos, SECTOR_BYTES};

/// Requests one after the other on one side of a layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Reads and writes.
    pub requests: u64,
    /// 512-byte blocks.
    pub blocks_read: u64,
    /// 512-byte blocks.
    pub blocks_written: u64,
    /// Requests that did not start where the one before ended.
    pub seeks: u64,
    /// Of the seeks, those to another component.
    pub crossings: u64,
    /// How far all others went, in 512-byte blocks.
    pub distance_blocks: u64,
}

/// Traffic above and below a layer, and what the layer did between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sides {
    /// What clients asked for.
    pub above: Traffic,
    /// What the devices below were asked for in turn, for clients; the layer's own metadata included.
    pub below: Traffic,
    /// Background work: copies, write-back and their metadata.
    pub background: Traffic,
    /// Pages asked for, reads and writes.
    pub pages: u64,
    /// Of them those that the layer's own copies served.
    pub hits: u64,
    /// Requests that became several.
    pub splits: u64,
    /// Pages that went into a write buffer of the layer.
    pub absorbed: u64,
    /// Dirty pages that were written back from it.
    pub drained: u64,
}

/// A stage of a reconfiguration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Its name in the layer's page.
    pub name: &'static str,
    /// How long it took, foreground requests in between included.
    pub took: Nanos,
    /// Pages it moved or looked at.
    pub pages: u64,
}

/// What a reconfiguration did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconfigured {
    /// When it started.
    pub start: Nanos,
    /// In order.
    pub stages: Vec<Stage>,
    /// Vertices of the access graph that was planned.
    pub vertices: u64,
    /// Edges of the access graph that was planned.
    pub edges: u64,
    /// Pages in the plan.
    pub planned_pages: u64,
    /// Pages that were copied.
    pub copied_pages: u64,
    /// Those of them that were to be copied for free, and were not in time.
    pub promoted_pages: u64,
}

/// What a layer costs besides the time of the devices below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Memory of its map, in bytes; 0 without one.
    pub map_bytes: u64,
    /// The longest that a request waited for its pages while the layer moved some of them.
    pub longest_wait: Nanos,
}

impl Traffic {
    /// Adds what was counted elsewhere.
    pub fn add(&mut self, other: &Traffic) {
        self.requests += other.requests;
        self.blocks_read += other.blocks_read;
        self.blocks_written += other.blocks_written;
        self.seeks += other.seeks;
        self.crossings += other.crossings;
        self.distance_blocks += other.distance_blocks;
    }

    /// How far a seek went on average, in bytes, of those that have a distance.
    pub fn mean_seek_bytes(&self) -> f64 {
        let seeks = (self.seeks - self.crossings).max(1);
        self.distance_blocks as f64 / seeks as f64 * SECTOR_BYTES as f64
    }
}

impl Sides {
    /// Adds what was counted elsewhere.
    pub fn add(&mut self, other: &Sides) {
        self.above.add(&other.above);
        self.below.add(&other.below);
        self.background.add(&other.background);
        self.pages += other.pages;
        self.hits += other.hits;
        self.splits += other.splits;
        self.absorbed += other.absorbed;
        self.drained += other.drained;
    }
}

impl Reconfigured {
    /// Carries out a stage, which returns its pages, and notes how long it took. Passes its error on.
    pub async fn stage(
        &mut self,
        name: &'static str,
        work: impl Future<Output = Result<u64, IoError>>,
    ) -> Result<(), IoError> {
        let begin = runtime::now();
        let pages = work.await?;
        self.stages.push(Stage { name, took: runtime::now() - begin, pages });
        Ok(())
    }
}
