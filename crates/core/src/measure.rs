//! Measurements that a layer reports about itself, so that layers can be compared.

use crate::error::IoError;
use crate::runtime;
use crate::units::{Nanos, SECTOR_BYTES};

/// Space of a snapshot or clone, in blocks of 4 KiB on the data device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotSpace {
    /// Its name.
    pub name: String,
    /// Blocks that it sees.
    pub blocks: u64,
    /// Those of them that nothing else sees: they are free when it is deleted.
    pub unique: u64,
    /// Whether it is a clone: it can be written.
    pub is_clone: bool,
}

/// A sequence of requests on one side of a layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Reads and writes.
    pub requests: u64,
    /// 512-byte blocks read.
    pub blocks_read: u64,
    /// 512-byte blocks written.
    pub blocks_written: u64,
    /// Requests that did not start where the one before ended.
    pub seeks: u64,
    /// Seeks to another component.
    pub crossings: u64,
    /// Total distance of the other seeks, in 512-byte blocks.
    pub distance_blocks: u64,
}

/// Traffic above and below a layer, and the layer's work between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayerTraffic {
    /// Requests of clients.
    pub above: Traffic,
    /// Requests to the devices below on behalf of clients, including the layer's own metadata.
    pub below: Traffic,
    /// Background work: copies, write-back and their metadata.
    pub background: Traffic,
    /// Pages requested, reads and writes.
    pub pages: u64,
    /// Pages served from the layer's own copies.
    pub hits: u64,
    /// Requests that were split.
    pub splits: u64,
    /// Pages that went into a write buffer of the layer.
    pub absorbed: u64,
    /// Dirty pages written back from it.
    pub drained: u64,
}

/// What speaks for another reconfiguration of a layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// Requests since the last decision; 0 for a layer that learns nothing from them.
    pub requests: u64,
    /// Time of the last one.
    pub last_request: Nanos,
    /// Whether enough is new for another decision to pay.
    pub pays: bool,
}

/// A stage of a reconfiguration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Name in the layer's page.
    pub name: &'static str,
    /// Duration, including foreground requests in between.
    pub took: Nanos,
    /// Pages moved or examined.
    pub pages: u64,
}

/// Result of a reconfiguration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconfigured {
    /// Start time.
    pub start: Nanos,
    /// Stages, in order.
    pub stages: Vec<Stage>,
    /// Vertices of the planned access graph.
    pub vertices: u64,
    /// Edges of the planned access graph.
    pub edges: u64,
    /// Pages in the plan.
    pub planned_pages: u64,
    /// Pages copied.
    pub copied_pages: u64,
    /// Pages that were to be copied for free, and had to be promoted.
    pub promoted_pages: u64,
}

/// Use of a layer's own copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hits {
    /// Pages or reads that the copies could have served.
    pub lookups: u64,
    /// Those that they did serve.
    pub hit: u64,
}

/// Costs of a layer besides the time of the devices below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Memory of its map, in bytes; 0 without one.
    pub map_bytes: u64,
    /// The longest wait of a request for pages that the layer was moving.
    pub longest_wait: Nanos,
}

impl Traffic {
    /// Adds other counts.
    pub fn add(&mut self, other: &Traffic) {
        self.requests += other.requests;
        self.blocks_read += other.blocks_read;
        self.blocks_written += other.blocks_written;
        self.seeks += other.seeks;
        self.crossings += other.crossings;
        self.distance_blocks += other.distance_blocks;
    }

    /// Mean distance of the seeks that have one, in bytes.
    pub fn mean_seek_bytes(&self) -> f64 {
        let seeks = (self.seeks - self.crossings).max(1);
        self.distance_blocks as f64 / seeks as f64 * SECTOR_BYTES as f64
    }
}

impl LayerTraffic {
    /// Adds other counts.
    pub fn add(&mut self, other: &LayerTraffic) {
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
    /// Runs a stage, which returns its pages, and records its duration. Passes its error on.
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
