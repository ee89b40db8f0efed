//! Courses: what the layer does with reads, writes and the log until the next decision.

use super::analyzer::Edges;
use super::options::{Options, Placement};
use super::planner::PlannerName;

/// A course.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Course {
    /// Fate of the read cache.
    pub reads: Reads,
    /// Whether writes to pages without a copy are absorbed. Those to pages with a copy go to the BOPT in any case.
    pub absorbs: bool,
    /// Fate of what the log holds.
    pub log: LogFate,
    /// Whether the log is drained all along, where no request notices.
    pub drains: bool,
}

/// What is done with writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Writes {
    /// Whether those to pages without a copy are absorbed; the others go to the BOPT in any case.
    pub absorbs: bool,
    /// Whether the log is drained all along, where no request notices.
    pub drains: bool,
}

/// Fate of the read cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reads {
    /// It stays as it is.
    Kept,
    /// It is emptied.
    Emptied,
    /// It is filled as planned.
    Planned(Recipe),
}

/// How a plan is made and carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Recipe {
    pub planner: PlannerName,
    pub edges: Edges,
    /// Pages read less often are left out.
    pub least_reads: u32,
    pub placement: Placement,
}

/// Fate of what the log holds, at a reconfiguration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogFate {
    /// It stays.
    Kept,
    /// Segments are drained until half of it is free, those that are best to drain first.
    Half,
    /// All of it is drained.
    Drained,
}

impl Course {
    /// The course of a layer that does not rehearse.
    pub fn unrehearsed(options: &Options) -> Course {
        let reads = Reads::Planned(Recipe::of(options));
        Course { reads, absorbs: options.absorb, log: LogFate::Half, drains: false }
    }

    /// Nothing moves.
    pub fn as_it_is(Writes { absorbs, drains }: Writes) -> Course {
        Course { reads: Reads::Kept, absorbs, log: LogFate::Kept, drains }
    }

    /// What it does with writes.
    pub fn writes(&self) -> Writes {
        Writes { absorbs: self.absorbs, drains: self.drains }
    }

    /// The layer stands aside: everything goes to the origin.
    pub const OFF: Course =
        Course { reads: Reads::Emptied, absorbs: false, log: LogFate::Drained, drains: false };

    /// What it changes, in words; `pages` are planned.
    pub fn described(&self, pages: u64) -> String {
        let reads = match self.reads {
            Reads::Kept => "copies stay".to_owned(),
            Reads::Emptied => "the read cache is emptied".to_owned(),
            Reads::Planned(Recipe { planner, edges, .. }) => {
                format!("{pages} pages are planned ({planner:?}, {edges:?} edges)").to_lowercase()
            }
        };
        let writes = if self.absorbs { "writes are absorbed" } else { "writes go to the disk" };
        let log = match (self.drains, self.log) {
            (true, _) => ", and drained where no request notices",
            (false, LogFate::Drained) => ", the log is drained",
            (false, LogFate::Half) => ", half of the log is drained",
            (false, LogFate::Kept) => "",
        };
        format!("{reads}, {writes}{log}")
    }

    /// Writes are absorbed, and drained where no request notices.
    pub const FREE: Course = Course { reads: Reads::Kept, absorbs: true, log: LogFate::Kept, drains: true };
}

impl Recipe {
    /// As the options say.
    pub fn of(options: &Options) -> Recipe {
        Recipe {
            planner: options.planner,
            edges: options.edges,
            least_reads: 1,
            placement: options.placement,
        }
    }

    /// Those that a rehearsal tries, in the order in which it prefers them if they are equal.
    pub fn tried(options: &Options) -> Vec<Recipe> {
        let own = Recipe::of(options);
        let recipe = |(planner, edges)| Recipe { planner, edges, ..own };
        let others = [
            (PlannerName::PathCover, Edges::Global),
            (PlannerName::PathCover, Edges::Process),
            (PlannerName::Greedy, Edges::Process),
            (PlannerName::Address, Edges::Process),
        ];
        let others = others.into_iter().map(recipe).filter(|other| *other != own);
        std::iter::once(own).chain(others).collect()
    }
}

/// How much less than the present course another one must cost, in thousandths: predictions are not exact.
pub(super) const ERROR: i128 = 30;

/// The same for a course that absorbs writes where the present one does not. What a drain costs that is cut into parts
/// by later decisions is known worst; with 30, `mail`, busy, lost 1.3 %.
pub(super) const ERROR_OF_ABSORBING: i128 = 60;

/// Whether a cost is less than another by more than `by` thousandths of it. A cost is negative where a backlog need not
/// be drained.
pub(super) fn wins(cost: i128, other: i128, by: i128) -> bool {
    (other - cost) * 1_000 > other.abs() * by
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_winner_costs_three_hundredths_less_also_below_nothing() {
        let wins = |cost, other| super::wins(cost, other, ERROR);
        assert!(wins(969, 1_000) && !wins(970, 1_000) && !wins(1_000, 1_000));
        assert!(wins(-1_031, -1_000) && !wins(-1_030, -1_000) && !wins(-1_000, -1_000) && !wins(0, -1_000));
        assert!(wins(-1, 0) && !wins(0, 0));
    }
}
