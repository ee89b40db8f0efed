//! Snapshots and clones of a served volume.
//!
//! Fault model: the server may be killed at any time; a snapshot is there once it was answered, and gone likewise.

use std::rc::Rc;

use seekless_core::{Hints, Layer, PAGE_BYTES, SnapshotSpace};

use super::control::{OnSnapshot, SnapshotStatus};
use super::error::{At, LiveError};
use super::running::Running;

impl Running {
    /// Takes, deletes or lists snapshots and clones of a layer; the list, if that was asked for.
    ///
    /// # Errors
    /// A layer that is not there or has no snapshots, a name that is taken, unknown or invalid, too many of them.
    pub async fn on_snapshot(
        &self,
        layer: Option<&str>,
        what: &OnSnapshot,
    ) -> Result<Option<Vec<SnapshotStatus>>, LiveError> {
        let (name, layer) = self.layer_with_snapshots(layer)?;
        let place = || format!("layer.{name}");
        match what {
            OnSnapshot::Create(snapshot) => {
                let going = self.log.begin("snapshot", &name, 0, false);
                self.flush_tops(&place).await?;
                going.result(layer.create_snapshot(snapshot).await).at(place)?;
                Ok(None)
            }
            OnSnapshot::Clone { name: clone, from } => {
                let going = self.log.begin("clone", &name, 0, false);
                if from.is_none() {
                    self.flush_tops(&place).await?;
                }
                going.result(layer.create_clone(clone, from.as_deref()).await).at(place)?;
                Ok(None)
            }
            OnSnapshot::Delete(snapshot) => {
                let going = self.log.begin("delete snapshot", &name, 0, false);
                going.result(layer.delete_snapshot(snapshot).await).at(place)?;
                Ok(None)
            }
            OnSnapshot::List => Ok(Some(list(&name, &*layer))),
        }
    }

    /// What layers above the one with snapshots hold is in a snapshot too.
    async fn flush_tops(&self, place: &impl Fn() -> String) -> Result<(), LiveError> {
        for top in self.tops.values() {
            top.flush(Hints::default()).await.at(place)?;
        }
        Ok(())
    }

    /// The layer of this name, or the only one that has snapshots.
    fn layer_with_snapshots(&self, name: Option<&str>) -> Result<(String, Rc<dyn Layer>), LiveError> {
        if let Some(name) = name {
            let is = self.layer(name)?.entry().name;
            let layer = self.layers().remove(name).filter(|layer| layer.snapshots().is_some());
            let found = || {
                LiveError::new(format!("layer.{name}: found {is}, expected a layer with snapshots: proximal"))
            };
            return layer.map(|layer| (name.to_owned(), layer)).ok_or_else(found);
        }
        let mut all: Vec<_> =
            self.layers().into_iter().filter(|(_, layer)| layer.snapshots().is_some()).collect();
        match (all.pop(), all.len()) {
            (Some(only), 0) => Ok(only),
            (None, _) => {
                Err(LiveError::new("found no layer with snapshots, expected one: proximal".to_owned()))
            }
            (Some((last, _)), _) => {
                let names: Vec<String> = all.into_iter().map(|(name, _)| name).chain([last]).collect();
                Err(LiveError::new(format!(
                    "found several layers with snapshots, expected --layer with one of {}",
                    names.join(", ")
                )))
            }
        }
    }
}

fn list(name: &str, layer: &dyn Layer) -> Vec<SnapshotStatus> {
    let status = |SnapshotSpace { name: snapshot, blocks, unique, is_clone }| SnapshotStatus {
        name: snapshot,
        layer: name.to_owned(),
        clone: is_clone,
        bytes: blocks * PAGE_BYTES,
        unique_bytes: unique * PAGE_BYTES,
        shared_bytes: (blocks - unique) * PAGE_BYTES,
    };
    layer.snapshots().unwrap_or_default().into_iter().map(status).collect()
}
