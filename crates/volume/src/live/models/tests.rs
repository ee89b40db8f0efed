//! Choosing models by what was found, twins of components on one disk, and a replay that chooses the same.

use seekless_core::runtime::Runtime;
use seekless_core::{Account, Buffer, Hints, Nanos, Twins};
use seekless_serve::component::MemoryComponent;

use super::*;
use crate::component::Keys;
use crate::description::Leaf;
use crate::live::Live;

const SECTORS: u64 = 1_000;

fn disk(name: &str, identity: &str, sectors: u64) -> DiskProbe {
    DiskProbe {
        number: format!("8:{}", name.len()),
        name: name.to_owned(),
        sectors,
        rotational: true,
        identity: identity.to_owned(),
    }
}

fn at(disk: &DiskProbe, pieces: &[(u64, u64)]) -> Located {
    let pieces = pieces.iter().map(|&(start, sectors)| Piece { start, sectors }).collect();
    Located { disk: Some(disk.clone()), place: Place::At(pieces) }
}

fn unknown(disk: Option<DiskProbe>, why: &str) -> Located {
    Located { disk, place: Place::Unknown(why.to_owned()) }
}

/// What is chosen with these keys for a component of `SECTORS` sectors.
fn chosen(keys: &str, base: &Base<'_>) -> Result<Chosen, String> {
    let keys: Keys = toml::from_str(keys).unwrap();
    let (named, emulated) =
        (keys.modelled("v.toml", "disk").unwrap(), keys.emulated("v.toml", "disk").unwrap());
    let queue = keys.queue_of_model("v.toml", "disk").unwrap();
    Wanted { named: &named, emulated: emulated.as_ref(), queue, sectors: SECTORS }.choose(base)
}

fn line(keys: &str, base: &Base<'_>) -> String {
    ModelStatus::of(&chosen(keys, base)).to_string()
}

fn sda() -> DiskProbe {
    disk("sda", "ST2000DM006-2DM1", 3_907_029_168)
}

#[test]
fn a_disk_is_taken_for_the_drive_that_it_says_it_is_where_it_lies() {
    let partition = at(&sda(), &[(2_048, SECTORS)]);
    let expected =
        "modelled as seagate-st2000dm006-2, by its model number ST2000DM006-2DM1; from sector 2048 on, sda";
    assert_eq!(line("", &Base::On(&partition)), expected);
    let pieces = at(&sda(), &[(4_096, 400), (9_000, 600)]);
    let expected = "modelled as wd2500aaks, which model names; in 2 pieces, the first at sector 4096, sda";
    assert_eq!(line("model = 'wd2500aaks'", &Base::On(&pieces)), expected);
    let status = ModelStatus::of(&chosen("", &Base::On(&pieces)));
    assert_eq!(
        (status.by, status.first_sector, status.pieces),
        (Some(FoundBy::Identity), Some(4_096), Some(2))
    );
}

#[test]
fn another_disk_is_taken_for_one_of_its_size_and_that_is_said_to_be_a_guess() {
    let other = disk("sdb", "WDC WD10EZEX-08W", 1_953_525_168);
    let expected = "modelled as wd-re3-1tb, a guess by the size of a WDC WD10EZEX-08W, which no drive that ships is; \
                    from sector 0 on, sdb";
    assert_eq!(line("", &Base::On(&at(&other, &[(0, SECTORS)]))), expected);
    let huge = disk("sdb", "", 70_000_000_000);
    let none = line("", &Base::On(&at(&huge, &[(0, SECTORS)])));
    assert!(
        none.starts_with("no model: no drive that ships is like sdb (disk without a model number, "),
        "{none}"
    );
}

#[test]
fn without_a_place_there_is_no_model_and_the_reason_is_said() {
    let flash = DiskProbe { rotational: false, ..disk("nvme0n1", "KINGSTON SKC3000D2048G", 4_000_797_360) };
    let lvm = unknown(Some(sda()), "over LVM (device mapper)");
    for (keys, base, words) in [
        ("", Base::On(&lvm), "no model: over LVM (device mapper); layers do without"),
        ("model = 'wd-re3-1tb'", Base::On(&lvm), "model_at, the sector of wd-re3-1tb"),
        ("", Base::On(&unknown(None, "over RAID (md0)")), "over RAID (md0)"),
        ("", Base::On(&at(&flash, &[(0, SECTORS)])), "on flash (nvme0n1)"),
        ("", Base::Memory, "no model: memory"),
        ("", Base::Remote, "another server"),
        ("model = 'wd-re3-1tb'", Base::Remote, "another server; expected model_at"),
        ("model = 'wd-re3-1tb'", Base::Missing, "not there"),
        ("model = 'none'", Base::On(&at(&sda(), &[(0, SECTORS)])), "model = \"none\""),
        ("model = 'none'\nemulate = 'wd-re3-1tb'", Base::Memory, "model = \"none\""),
        (
            "model = 'wd2500aaks'",
            Base::On(&at(&sda(), &[(488_397_168, SECTORS)])),
            "it ends at sector 488398168 of its disk, and wd2500aaks has 488397168",
        ),
    ] {
        let found = line(keys, &base);
        assert!(found.starts_with("no model: ") && found.contains(words), "{keys}: {found}");
    }
}

#[test]
fn a_place_that_is_given_goes_before_one_that_is_found_and_helps_where_none_is() {
    let (found, lvm) = (at(&sda(), &[(2_048, SECTORS)]), unknown(Some(sda()), "over LVM (device mapper)"));
    for (keys, sector) in [("model_at = 4096", 4_096), ("model_at = '1MiB'", 2_048), ("model_at = 0", 0)] {
        for (base, on) in [(Base::On(&found), ", sda"), (Base::On(&lvm), ", sda"), (Base::Remote, "")] {
            let line = line(&format!("model = 'wd-re3-1tb'\n{keys}"), &base);
            let expected = format!("modelled as wd-re3-1tb, which model names; from sector {sector} on{on}");
            assert_eq!(line, expected, "{keys}");
        }
    }
    let emulated = line("emulate = 'wd-re3-1tb'", &Base::On(&lvm));
    assert_eq!(emulated, "modelled as wd-re3-1tb, which it emulates; from sector 0 on");
    let memory = line("model = 'wd-re3-1tb'", &Base::Memory);
    assert_eq!(memory, "modelled as wd-re3-1tb, which model names; from sector 0 on");
}

#[test]
fn a_place_on_a_drive_that_cannot_be_is_an_error() {
    let read = |keys: &str| {
        let keys: Keys =
            toml::from_str(&format!("ram = '1MiB'\n{keys}")).map_err(|error| error.to_string())?;
        Live::read("v.toml", "disk", keys).map_err(|error| error.to_string()).map(drop)
    };
    for (keys, words) in [
        ("model_at = 8", ["found a place without a model", "expected model = \"DRIVE\" with it"]),
        (
            "model_at = 8\nmodel = 'none'",
            ["found a place without a model", "expected model = \"DRIVE\" with it"],
        ),
        ("model_at = '100B'\nmodel = 'wd2500aaks'", ["found '100B'", "whole sectors"]),
        ("model_at = 'here'\nmodel = 'wd2500aaks'", ["found 'here'", "a sector such as 2048"]),
        (
            "model_at = 488395121\nmodel = 'wd2500aaks'",
            ["found sector 488395121 for a component of 2048 sectors", "expected at most sector 488395120"],
        ),
        ("model_at = 9223372036854775807\nmodel = 'wd2500aaks'", ["sector 9223372036854775807", "at most"]),
    ] {
        let error = read(keys).unwrap_err();
        assert!(error.starts_with("v.toml: component.disk.model_at: "), "{error}");
        assert!(words.iter().all(|word| error.contains(word)), "{keys}: {error}");
    }
    assert!(read("model_at = -1\nmodel = 'wd2500aaks'").unwrap_err().contains("a sector such as 2048"));
    assert_eq!(read("model_at = 488395120\nmodel = 'wd2500aaks'"), Ok(()));
}

/// Memory for a component that lies there.
fn over(models: &Models, keys: &str, located: &Located) -> Rc<dyn BlockDevice> {
    let chosen = chosen(keys, &Base::On(located)).unwrap();
    models.over(Rc::new(MemoryComponent::new(SECTORS).unwrap()), &chosen)
}

/// How long a read of the first sector of the second takes after one of the first, on their twins.
fn second_read(devices: [&Rc<dyn BlockDevice>; 2]) -> (Nanos, Nanos) {
    let models = devices.map(|device| device.model().unwrap());
    let read = async move {
        let twins = Twins::new(&models);
        let mut busy = Vec::new();
        for pieces in &twins.devices {
            let device = &pieces.as_ref().unwrap()[0];
            let at = Extent::new(0, 8);
            device.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await.unwrap();
            busy.push(twins.busy(Account::default()));
        }
        (busy[0], Nanos(busy[1].0 - busy[0].0))
    };
    Runtime::new(1).run(read).unwrap()
}

/// An origin and a BOPT in partitions of one disk move one head: where the one left it the other finds it. On another
/// disk it has to come from the outer edge, where a twin's head begins.
#[test]
fn components_on_one_disk_share_its_head() {
    let inner = |disk: &DiskProbe, from| at(disk, &[(3_800_000_000 + from, SECTORS)]);
    let models = Models::default();
    let origin = over(&models, "", &inner(&sda(), 0));
    let (first, shared) = second_read([&origin, &over(&models, "", &inner(&sda(), SECTORS))]);
    let other = disk("sdaa", "ST2000DM006-2DM1", 3_907_029_168);
    let (_, apart) = second_read([&origin, &over(&models, "", &inner(&other, SECTORS))]);
    assert_eq!(models.0.borrow().len(), 2);
    assert!(
        shared.0 * 2 < apart.0 && shared.0 * 2 < first.0,
        "{shared} on one disk, {apart} on another, {first} first"
    );
    // Taken for another drive, it is not on that disk's twin; named as what it is, it is.
    over(&models, "model = 'seagate-exos-x20-20tb'", &inner(&sda(), 0));
    assert_eq!(models.0.borrow().len(), 3);
    over(&models, "model = 'seagate-st2000dm006-2'\nmodel_at = 8", &unknown(Some(sda()), "over LVM"));
    assert_eq!(models.0.borrow().len(), 3);
}

/// The pieces of a file are apart on its twin as they are on the disk.
#[test]
fn a_component_in_pieces_has_them_where_they_are() {
    let located = at(&sda(), &[(3_000_000_000, 400), (2_048, 600)]);
    let device = over(&Models::default(), "", &located);
    let model = device.model().unwrap();
    let pieces = [Extent::new(3_000_000_000, 400), Extent::new(2_048, 600)];
    assert_eq!(format!("{model:?}"), format!("Modelled({pieces:?})"));
    assert_eq!(model.sectors(), SECTORS);
}
