//! The drives that ship, by what a disk reports of itself.

use super::{Model, Spec, shipped};

/// Revolutions per minute of disks that are taken for one of their size: those of desktops and servers with SATA.
const USUAL_RPM: std::ops::RangeInclusive<f64> = 5_400.0..=7_200.0;

/// All disks that ship, in the order of their names.
fn disks() -> impl Iterator<Item = Spec> {
    shipped().filter_map(|name| match Model::find(name) {
        Ok(Model::Disk(spec)) => Some(*spec),
        _ => None,
    })
}

/// The disk that ships whose model number begins a word of `identity`, the longest of them. An SATA disk reports its
/// number to the kernel's SCSI layer cut off after 16 letters.
pub fn with_identity(identity: &str) -> Option<Spec> {
    let identity = identity.to_ascii_uppercase();
    let length = |spec: &Spec| {
        let begins =
            |known: &&String| identity.split_whitespace().any(|word| word.starts_with(known.as_str()));
        spec.identities.iter().filter(begins).map(String::len).max()
    };
    let known = disks().filter_map(|spec| Some((length(&spec)?, spec)));
    known.max_by_key(|(length, _)| *length).map(|(_, spec)| spec)
}

/// Whether it is a disk of usual speed, with one arm and without shingles.
pub fn is_usual(spec: &Spec) -> bool {
    USUAL_RPM.contains(&spec.rpm) && spec.actuators == 1 && spec.shingled.is_none()
}

/// The disk that ships whose size is nearest to `sectors`: of usual speed, with one arm and without shingles, as large
/// or up to twice as large. Of equal ones the last by name, which is the one fitted to measurements.
pub fn nearest_in_size(sectors: u64) -> Option<Spec> {
    let fits = |spec: &Spec| (sectors..=sectors.saturating_mul(2)).contains(&spec.sectors);
    // `max_by_key` takes the last of equal ones.
    disks()
        .filter(|spec| sectors > 0 && is_usual(spec) && fits(spec))
        .max_by_key(|spec| std::cmp::Reverse(spec.sectors))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(found: Option<Spec>) -> String {
        found.map_or_else(|| "none".to_owned(), |spec| spec.name)
    }

    #[test]
    fn a_disk_is_known_by_its_model_number_also_if_that_is_cut_off() {
        for (identity, expected) in [
            ("ST2000DM006-2DM164", "seagate-st2000dm006-2"),
            ("ST2000DM006-2DM1", "seagate-st2000dm006-2"),
            ("WDC WD2500AAKS-00VSA0", "wd2500aaks"),
            ("WDC WD2500AAKS-0", "wd2500aaks"),
            ("wdc wd6400aaks-0", "wd6400aaks"),
            ("HUS728T8TALE6L4", "hgst-ultrastar-7k8-8tb"),
            ("HGST HUS728T8TAL", "hgst-ultrastar-7k8-8tb"),
            ("ST8000AS0002-1NA", "seagate-archive-8tb"),
            ("SEAGATE ST39102LW", "seagate-cheetah-9lp-fitted"),
            ("FUJITSU MHZ2120BH G2", "fujitsu-mhz2120bh"),
            // Of others of the same makers, nothing is known.
            ("ST4000DM000-1F21", "none"),
            ("WDC WD40EFRX-68W", "none"),
            ("XWD2500AAKS", "none"),
            ("KINGSTON SKC3000D2048G", "none"),
            ("", "none"),
        ] {
            assert_eq!(name(with_identity(identity)), expected, "{identity}");
        }
    }

    #[test]
    fn a_model_number_belongs_to_one_drive_and_fits_into_what_is_reported() {
        let all: Vec<(String, String)> = disks()
            .flat_map(|spec| spec.identities.clone().into_iter().map(move |known| (known, spec.name.clone())))
            .collect();
        assert!(all.len() >= 15, "{all:?}");
        for (known, drive) in &all {
            for (other, of) in &all {
                assert!(drive == of || !known.starts_with(other), "{known} of {drive}, {other} of {of}");
            }
            assert_eq!(name(with_identity(known)), *drive);
        }
    }

    #[test]
    fn another_disk_is_taken_for_the_nearest_that_is_as_large_up_to_twice() {
        let bytes = |bytes: u64| name(nearest_in_size(bytes / 512));
        assert_eq!(bytes(2_000_398_934_016), "seagate-st2000dm006-2");
        assert_eq!(bytes(1_500_301_910_016), "seagate-st2000dm006-2");
        assert_eq!(bytes(8_001_563_222_016), "hgst-ultrastar-7k8-8tb", "not the shingled one");
        assert_eq!(bytes(4_000_787_030_016), "hgst-ultrastar-7k8-8tb");
        assert_eq!(bytes(3_000_592_982_016), "none", "2 TB is less, 8 TB more than twice as large");
        assert_eq!(bytes(1_000_204_886_016), "wd-re3-1tb");
        assert_eq!(bytes(36_000_000_000), "none", "no disk of 10,000 or 15,000 rpm");
        assert_eq!(bytes(30_000_000_000_000), "none");
        assert_eq!(bytes(0), "none");
    }
}
