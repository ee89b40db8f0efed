//! How long it takes: the arm, the turning disk, the passage under the head.
//!
//! One pure function from (head, time, sectors) to (seek, rotation, transfer, new head). The
//! simulated component obeys it, and whoever ranks or plans asks the same one. Integer nanoseconds;
//! curves are tabulated when a drive is loaded.

use seekless_core::{Extent, Nanos};

use super::layout::{Layout, Track};
use crate::spec::{SeekCurve, Spec};

/// Where the arm is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The cylinder.
    pub cylinder: u64,
    /// The surface in use.
    pub head: u64,
}

/// What an access took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Moving the arm or switching heads, and settling.
    pub seek: Nanos,
    /// Waiting for the sector.
    pub rotation: Nanos,
    /// Sectors under the head, or on the bus.
    pub transfer: Nanos,
    /// Handling the command.
    pub overhead: Nanos,
    /// How far the arm moved to the first sector, in cylinders.
    pub distance: u64,
}

impl Access {
    /// All of it.
    pub fn total(&self) -> Nanos {
        self.seek + self.rotation + self.transfer + self.overhead
    }
}

/// A drive's moving parts.
#[derive(Clone, Debug)]
pub struct Mechanics {
    /// Nanoseconds by distance in cylinders.
    seek: Vec<u32>,
    revolution: u64,
    head_switch: u64,
    write_settle: u64,
}

impl Mechanics {
    /// The moving parts that a description gives.
    pub fn new(spec: &Spec) -> Mechanics {
        let cylinders = spec.cylinders() as usize;
        let seek = match &spec.seek {
            SeekCurve::Table { points } => tabulate(points, cylinders),
            SeekCurve::ThreePoint { track_us, average_us, full_us } => {
                three_point(f64::from(*track_us), f64::from(*average_us), f64::from(*full_us), cylinders)
            }
        };
        Mechanics {
            seek,
            revolution: 60_000_000_000 / u64::from(spec.rpm),
            head_switch: u64::from(spec.head_switch_us) * 1_000,
            write_settle: u64::from(spec.write_settle_us) * 1_000,
        }
    }

    /// Time of a revolution.
    pub fn revolution(&self) -> Nanos {
        Nanos(self.revolution)
    }

    /// Time to move the arm over `distance` cylinders.
    pub fn seek(&self, distance: u64) -> Nanos {
        Nanos(u64::from(self.seek[distance as usize]))
    }

    /// Time from one track to another: the arm and the head switch go on at once.
    fn reach(&self, from: Head, to: &Track, write: bool) -> u64 {
        let distance = from.cylinder.abs_diff(to.cylinder);
        let switch = if from.head == to.head { 0 } else { self.head_switch };
        let reach = u64::from(self.seek[distance as usize]).max(switch);
        if write && reach > 0 { reach + self.write_settle } else { reach }
    }

    /// Time from `at` until sector `sector` of `track` comes under the head.
    fn wait(&self, track: &Track, sector: u64, at: u64) -> u64 {
        // Both are below a track's sectors: a subtraction where a division would do.
        let place = sector + track.offset;
        let place = if place >= track.sectors { place - track.sectors } else { place };
        let angle = place * self.revolution / track.sectors;
        let now = at % self.revolution;
        if angle >= now { angle - now } else { angle + self.revolution - now }
    }

    /// The access to `at` that begins at time `start` with the head at `head`; overhead is the
    /// caller's. A transfer over several tracks seeks and waits at each.
    pub fn access(
        &self,
        layout: &Layout,
        head: Head,
        start: Nanos,
        at: Extent,
        write: bool,
    ) -> (Access, Head) {
        let (mut took, mut head, mut now) = (Access::default(), head, start.0);
        let (mut next, end) = (at.start, at.end());
        while next < end {
            let track = layout.track(next);
            if next == at.start {
                took.distance = head.cylinder.abs_diff(track.cylinder);
            }
            let first = next.0 - track.first.0;
            let sectors = (end.0 - next.0).min(track.sectors - first);
            let seek = self.reach(head, &track, write);
            let rotation = self.wait(&track, first, now + seek);
            let transfer = sectors * self.revolution / track.sectors;
            took.seek += Nanos(seek);
            took.rotation += Nanos(rotation);
            took.transfer += Nanos(transfer);
            now += seek + rotation + transfer;
            head = Head { cylinder: track.cylinder, head: track.head };
            next = next + sectors;
        }
        (took, head)
    }
}

fn tabulate(points: &[(u32, u32)], cylinders: usize) -> Vec<u32> {
    let mut table = vec![0];
    for pair in points.windows(2) {
        let ((from, low), (to, high)) = (pair[0], pair[1]);
        for distance in from..to {
            let part = i64::from(distance - from) * (i64::from(high) - i64::from(low)) * 1_000;
            table.push((i64::from(low) * 1_000 + part / i64::from(to - from)) as u32);
        }
    }
    let last = points.last().map_or(0, |point| point.1 * 1_000);
    table.resize(cylinders.max(table.len()), last);
    table
}

/// Through (1, track), (third of the cylinders, average), (all, full). Square root and division are
/// exact by IEEE 754, so the table is the same on every machine.
fn three_point(track: f64, average: f64, full: f64, cylinders: usize) -> Vec<u32> {
    let whole = (cylinders.max(3) - 1) as f64;
    let third = whole / 3.0;
    // Two equations for b and c, with x = d - 1 so that x = 0 is the neighbouring cylinder.
    let (x1, x2) = (third - 1.0, whole - 1.0);
    let (y1, y2) = (average - track, full - track);
    let (r1, r2) = (x1.max(0.0).sqrt(), x2.max(0.0).sqrt());
    let determinant = r1 * x2 - r2 * x1;
    let (b, c) = if determinant.abs() < f64::EPSILON {
        (0.0, 0.0)
    } else {
        ((y1 * x2 - y2 * x1) / determinant, (r1 * y2 - r2 * y1) / determinant)
    };
    let time = |distance: usize| {
        let x = distance as f64 - 1.0;
        ((track + b * x.sqrt() + c * x) * 1_000.0).clamp(0.0, f64::from(u32::MAX)) as u32
    };
    std::iter::once(0).chain((1..cylinders.max(2)).map(time)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec;

    fn drive(name: &str) -> (Layout, Mechanics, Spec) {
        let spec = spec::find(name).unwrap();
        (Layout::new(&spec), Mechanics::new(&spec), spec)
    }

    #[test]
    fn seeks_take_what_the_sources_say() {
        let (_, atlas, _) = drive("quantum-atlas-10k");
        assert_eq!(
            (atlas.seek(0), atlas.seek(1), atlas.seek(5)),
            (Nanos(0), Nanos(1_245_000), Nanos(1_355_000))
        );
        assert_eq!(atlas.seek(11), Nanos(1_523_000), "half way between 10 and 12 cylinders");
        let (_, wd, spec) = drive("wd2500aaks");
        let full = spec.cylinders() - 1;
        assert_eq!(wd.seek(1), Nanos(2_000_000));
        assert!(
            wd.seek(full / 3).0.abs_diff(8_900_000) < 2_000 && wd.seek(full).0.abs_diff(21_000_000) < 2_000
        );
        assert!((1..full).all(|d| wd.seek(d) <= wd.seek(d + 1)));
    }

    /// By hand, on the Atlas: 5,985,037 ns a revolution, 17,919 ns a sector of the outer zone.
    #[test]
    fn an_access_is_seek_then_rotation_then_transfer() {
        let (layout, mechanics, _) = drive("quantum-atlas-10k");
        let (took, head) = mechanics.access(&layout, Head::default(), Nanos(0), Extent::new(100, 8), false);
        assert_eq!((took.seek, took.distance), (Nanos(0), 0));
        assert_eq!(took.rotation, Nanos(100 * 5_985_037 / 334));
        assert_eq!(took.transfer, Nanos(8 * 5_985_037 / 334));
        // Straight on: no rotation but the rounding of sector times.
        let then = took.total();
        let (next, _) = mechanics.access(&layout, head, then, Extent::new(108, 8), false);
        assert!(next.rotation.0 < 3, "{next:?}");
        // A nanosecond late is a whole turn late.
        let (late, _) = mechanics.access(&layout, head, then + Nanos(10), Extent::new(108, 8), false);
        assert!(late.rotation.0 > 5_984_000, "{late:?}");
    }

    #[test]
    fn skew_hides_the_switch_to_the_next_track() {
        for name in spec::shipped() {
            let (layout, mechanics, _) = drive(name);
            let track = layout.track(seekless_core::Lba(0)).sectors;
            let all = Extent::new(0, track * 40);
            let (took, _) = mechanics.access(&layout, Head::default(), Nanos(0), all, false);
            let media = took.transfer.0 as f64 / took.total().0 as f64;
            assert!(media > 0.7, "{name}: {media} of a long read is transfer");
        }
    }

    #[test]
    fn writes_settle_after_a_seek_only() {
        let (layout, mechanics, spec) = drive("wd2500aaks");
        let near = Extent::new(0, 8);
        let far = Extent::new(spec.sectors / 2, 8);
        let seek = |at, write| mechanics.access(&layout, Head::default(), Nanos(0), at, write).0.seek;
        assert_eq!((seek(near, false), seek(near, true)), (Nanos(0), Nanos(0)));
        assert_eq!(seek(far, true) - seek(far, false), Nanos(500_000));
    }
}
