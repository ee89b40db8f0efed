//! Flash of two devices: either may fail, and is replaced.

use std::collections::BTreeMap;
use std::future::ready;

use super::*;
use crate::registry::{Below, Built};

fn below(disk: &Rc<dyn BlockDevice>, flash: &[Rc<dyn BlockDevice>], create: bool) -> Below {
    let devices = BTreeMap::from([(KEY.to_owned(), flash.to_vec())]);
    Below { over: vec![disk.clone()], devices, create, timing_only: false }
}

async fn built(disk: &Rc<dyn BlockDevice>, flash: &[Rc<dyn BlockDevice>]) -> Result<Built, IoError> {
    let options = toml::from_str("range = '256KiB'\ndirect = '64KiB'").unwrap();
    (ENTRY.build)(below(disk, flash, false), options).await
}

async fn create(disk: &Rc<dyn BlockDevice>, flash: &[Rc<dyn BlockDevice>]) -> Result<(), IoError> {
    let options = toml::from_str("range = '256KiB'\ndirect = '64KiB'").unwrap();
    ENTRY.create.unwrap()(below(disk, flash, false), options, false).await.map(drop)
}

fn counted(volume: &Built, name: &str) -> Option<u64> {
    volume.layer.counters().into_iter().find(|(known, _)| *known == name).map(|(_, count)| count)
}

/// Small writes are staged on both; one of them is lost, replaced and rebuilt, and then the other one is lost.
#[test]
fn what_is_staged_outlives_either_device() {
    in_a_world(async {
        let disk = device(0, DATA);
        let flash = [device(1, FLASH), device(2, FLASH)];
        create(&disk, &flash).await.unwrap();
        let volume = built(&disk, &flash).await.unwrap();
        for page in 0..40 {
            write(&*volume.device, page * 16, 8, page as u8 + 1).await.unwrap();
        }
        volume.layer.stop().await.unwrap();
        assert_eq!(
            (counted(&volume, "pages_staged"), counted(&volume, "members_missing")),
            (Some(40), Some(0))
        );
        drop(volume);
        let holds = async |volume: &Built| {
            let read = values(&*volume.device, Extent::new(0, 640)).await.unwrap();
            (0..40).all(|page| read[page * 16] == page as u8 + 1)
        };
        let gone = |device: &Rc<dyn BlockDevice>| with_error(device, "kind = 'gone'\nfor_ever = true");
        let volume = built(&disk, &[gone(&flash[0]), flash[1].clone()]).await.unwrap();
        assert!(holds(&volume).await && counted(&volume, "members_missing") == Some(1));
        let new = device(3, FLASH);
        let commit = || Box::pin(ready(Ok(())));
        let disk_too =
            volume.layer.replace_device(("over", 0), new.clone(), false, commit()).await.unwrap_err();
        assert!(disk_too.to_string().contains("expected a member of mirrored flash"), "{disk_too}");
        volume.layer.replace_device((KEY, 0), new.clone(), false, commit()).await.unwrap();
        volume.layer.command("rebuild", Hints::default()).await.unwrap();
        assert_eq!(counted(&volume, "members_missing"), Some(0));
        volume.layer.stop().await.unwrap();
        drop(volume);
        let volume = built(&disk, &[new, gone(&flash[1])]).await.unwrap();
        assert!(holds(&volume).await);
    });
}

/// A volume whose flash was several devices joined one after the other, as older versions had it.
#[test]
fn flash_that_was_joined_is_opened_as_it_was_created() {
    in_a_world(async {
        let disk = device(0, DATA);
        let flash = [device(1, FLASH / 2), device(2, FLASH / 2)];
        let joined = below(&disk, &flash, false).device(KEY).unwrap();
        let older = Proximal::open(disk.clone(), joined, &options(), true, false).await.unwrap();
        write(&*older, 0, 8, 7).await.unwrap();
        older.stop().await.unwrap();
        drop(older);
        let volume = built(&disk, &flash).await.unwrap();
        assert_eq!(values(&*volume.device, Extent::new(0, 8)).await.unwrap(), [7; 8]);
        assert_eq!(counted(&volume, "members_missing"), None);
        volume.layer.command("rebuild", Hints::default()).await.unwrap();
    });
}

/// A creation that ends between the mirror and the volume in it is completed by the next one; a volume is not.
#[test]
fn a_creation_that_left_a_mirror_is_completed() {
    in_a_world(async {
        let disk = device(0, DATA);
        let flash = [device(1, FLASH), device(2, FLASH)];
        Flash::create(&below(&disk, &flash, false), false).await.unwrap();
        create(&disk, &flash).await.unwrap();
        let refused = create(&disk, &flash).await.unwrap_err().to_string();
        assert!(refused.contains("found a member of a mirror") && refused.contains("--replace"), "{refused}");
        built(&disk, &flash).await.map(drop).unwrap();
    });
}
