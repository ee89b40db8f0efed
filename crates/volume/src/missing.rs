//! Components that are not there, such as a disk that died or was pulled: a volume is one without them where layers do
//! without them. Any other one that cannot be opened is an error.
//!
//! Invariant: such a component is below members of arrays only, and has the size that these need. How many of its
//! members an array does without is the array's own decision when it is opened.

use std::collections::BTreeMap;

use crate::description::{Description, Layer, Leaf, VolumeError};

/// Sets the sizes of components that are not there, and of their slices without a size.
///
/// # Errors
/// Why the first one cannot be opened that something needs, or of which the others do not tell the size.
pub fn suppose_sizes<C: Leaf>(volume: &mut Description<C>) -> Result<(), VolumeError> {
    let missing: Vec<(String, VolumeError)> = volume
        .components
        .iter()
        .filter_map(|(name, component)| Some((name.clone(), component.missing()?.clone())))
        .collect();
    for (name, error) in missing {
        let Some(sizes) = sizes(volume, &name) else { return Err(with_way_out(volume, &name, error)) };
        let mut sectors = sizes.get(&name).copied().unwrap_or(0);
        for (slice, window) in volume.slices.iter_mut().filter(|(_, window)| window.of == name) {
            if window.extent.sectors == 0 {
                // Any size will do for one that nothing uses.
                window.extent.sectors = sizes.get(slice).copied().unwrap_or(1);
            }
            sectors = sectors.max(window.extent.start.0.saturating_add(window.extent.sectors));
        }
        volume.components[&name].suppose(sectors);
    }
    Ok(())
}

/// Sectors of the least of the other members, by the name of each device on this component; `None` if one of them is no
/// member that its layer does without.
fn sizes<C: Leaf>(volume: &Description<C>, component: &str) -> Option<BTreeMap<String, u64>> {
    let is_on = |device: &str| {
        device == component || volume.slices.get(device).is_some_and(|window| window.of == component)
    };
    if volume.exports.iter().any(|export| is_on(&export.top)) {
        return None;
    }
    let mut sizes = BTreeMap::new();
    for layer in volume.layers.values() {
        let members = || spares(layer).flatten();
        let on_it = layer.below().filter(|device| is_on(device));
        for device in on_it {
            if !members().any(|member| member == device) {
                return None;
            }
            let others = members().filter_map(|member| known(volume, member));
            sizes.insert(device.clone(), others.min()?);
        }
    }
    (!sizes.is_empty()).then_some(sizes)
}

/// The error for a component that is not there; if a layer keeps copies on it that the device below has too, perhaps
/// older, with how to serve that without the layer.
pub fn with_way_out<C: Leaf>(volume: &Description<C>, component: &str, error: VolumeError) -> VolumeError {
    let is_on = |device: &String| {
        device == component || volume.slices.get(device).is_some_and(|window| window.of == component)
    };
    let keeps = |layer: &&Layer| layer.entry.transparent && layer.devices.values().flatten().any(is_on);
    let Some((name, layer)) = volume.layers.iter().find(|(_, layer)| keeps(layer)) else { return error };
    let below = layer.over.first().map_or("the device below", String::as_str);
    let newer = if layer.entry.holds_newer { "; that is refused if newer data may be on it" } else { "" };
    let expected = format!(
        "{}; if it is lost: remove layer.{name} from this file, with {below} in its place, to serve that alone{newer}",
        error.expected
    );
    VolumeError { expected, ..error }
}

/// Lists of devices of which the layer can do without one.
fn spares(layer: &Layer) -> impl Iterator<Item = &Vec<String>> {
    let over = std::iter::once(("over", &layer.over));
    let all = over.chain(layer.devices.iter().map(|(key, devices)| (key.as_str(), devices)));
    all.filter(|(key, devices)| {
        let one_of_list = layer.entry.spares.contains(key) && devices.len() > 1;
        one_of_list
            || layer.entry.survives_with.is_some_and(|with| with != *key && layer.devices.contains_key(with))
    })
    .map(|(_, devices)| devices)
}

/// Sectors of a component that is there, or of a slice of one.
fn known<C: Leaf>(volume: &Description<C>, device: &str) -> Option<u64> {
    let there = |name: &str| volume.components.get(name).filter(|component| component.missing().is_none());
    match volume.slices.get(device) {
        Some(window) => there(&window.of).map(|_| window.extent.sectors),
        None => there(device).map(Leaf::sectors),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde::Deserialize;

    use super::*;
    use crate::file::parse_of;

    /// A component of 80 sectors, or one that is not there.
    struct Component(Cell<u64>, Option<VolumeError>);

    #[derive(Deserialize)]
    struct Keys {
        gone: bool,
    }

    impl Leaf for Component {
        type Keys = Keys;

        fn read(_: &str, name: &str, keys: Keys) -> Result<Component, VolumeError> {
            let [place, found, expected] = [name, "nothing", "a file"].map(str::to_owned);
            let error = VolumeError { place, found, expected };
            Ok(Component(Cell::new(if keys.gone { 0 } else { 80 }), keys.gone.then_some(error)))
        }

        fn sectors(&self) -> u64 {
            self.0.get()
        }

        fn line(&self) -> String {
            String::new()
        }

        fn missing(&self) -> Option<&VolumeError> {
            self.1.as_ref()
        }

        fn suppose(&self, sectors: u64) {
            self.0.set(sectors);
        }
    }

    fn parsed(gone: &[&str], more: &str) -> Result<Description<Component>, VolumeError> {
        let component = |name| format!("[component.{name}]\ngone = {}\n", gone.contains(name));
        let text: String = ["a", "b", "c", "d"].iter().map(component).collect();
        parse_of("file", &format!("{text}{more}"))
    }

    const SLICES: &str = "[slice.sa]\nof = 'a'\nsize = '24KiB'\n[slice.sb]\nof = 'b'\nat = '8KiB'\nsize = '24KiB'\n\
        [slice.sc]\nof = 'c'\nat = '16KiB'\n";

    #[test]
    fn a_member_that_is_not_there_has_the_size_of_the_others() {
        let array = "[layer.raid4]\nover = ['a', 'b']\nparity = 'c'\nlog = 'd'\nunit = '8KiB'\n[[export]]\ntop = 'raid4'";
        for gone in ["a", "b", "c"] {
            assert_eq!(parsed(&[gone], array).unwrap().components[gone].sectors(), 80);
        }
        assert_eq!(parsed(&["d"], array).err().unwrap().to_string(), "d: found nothing, expected a file");
        assert_eq!(parsed(&["a", "b", "c"], array).err().unwrap().place, "a");
        let mirror = format!("{SLICES}[layer.mirror]\nover = ['sa', 'sb', 'sc']\n[[export]]\ntop = 'mirror'");
        let volume = parsed(&["c"], &mirror).unwrap();
        assert_eq!((volume.components["c"].sectors(), volume.slices["sc"].extent.sectors), (80, 48));
        let volume = parsed(&["b", "d"], &mirror);
        assert_eq!(volume.err().unwrap().place, "d", "which nothing uses");
        assert_eq!(parsed(&["b"], &mirror).unwrap().components["b"].sectors(), 64);
    }

    #[test]
    fn what_something_needs_is_not_done_without() {
        let scrub = "[layer.scrub]\nover = 'a'\n[[export]]\ntop = 'scrub'";
        let above =
            "[layer.scrub]\nover = 'a'\n[layer.mirror]\nover = ['scrub', 'b']\n[[export]]\ntop = 'mirror'";
        let shown = "[layer.mirror]\nover = ['a', 'b']\n[[export]]\ntop = 'mirror'\n[[export]]\ntop = 'a'";
        let one = "[layer.proximal]\nover = 'b'\nflash = 'a'\n[[export]]\ntop = 'proximal'";
        // A crash in a session without it would leave the array closed for ever.
        let no_log =
            "[layer.raid4]\nover = ['a', 'b']\nparity = 'c'\nunit = '8KiB'\n[[export]]\ntop = 'raid4'";
        let borg = "[layer.borg]\nover = 'b'\nbopt = 'a'\n[[export]]\ntop = 'borg'";
        let error = parsed(&["a"], borg).err().unwrap();
        let way_out = "if it is lost: remove layer.borg from this file, with b in its place";
        assert!(error.place == "a" && error.expected.contains(way_out), "{error}");
        for text in [scrub, above, shown, one, no_log] {
            assert_eq!(parsed(&["a"], text).err().unwrap().place, "a", "{text}");
        }
    }
}
