//! The verdict of `seekless advise` at the head of a report: its sentence, and the runs on which it rests.

use super::table::Table;
use super::text::{escape, percent, whole};
use crate::advise::{Advice, Measured, Remedy};

/// A verdict, or why there is none.
pub enum Verdict {
    /// What is advised.
    Made(Box<Advice>),
    /// Why it was not made, in a sentence, as text.
    Not(String),
}

impl Verdict {
    /// As HTML; `name` says of which recording it is, where there are several. Notes that the page shows elsewhere,
    /// `shown`, are left out.
    pub(super) fn html(&self, name: &str, shown: &[String]) -> String {
        let of = if name.is_empty() { String::new() } else { format!(": {name}") };
        let mut out = format!(
            "<aside class=\"verdict\" aria-label=\"Verdict\"><h2>Would anything help this disk?{}</h2>",
            escape(&of)
        );
        match self {
            Verdict::Not(why) => out.extend(["<p>", &escape(why), "</p>"]),
            Verdict::Made(advice) => {
                out.extend(["<p class=\"sentence\">", &escape(&advice.verdict), "</p>"]);
                if let Some(base) = &advice.base {
                    out.extend(["<p class=\"note\">", &escape(&rests_on(advice, base)), "</p>"]);
                    out.push_str(&table(advice, base).html());
                }
                let notes = advice.notes.iter().filter(|note| !shown.contains(note));
                notes.for_each(|note| out.extend(["<p class=\"note\">", &escape(note), "</p>"]));
            }
        }
        out + "</aside>"
    }
}

/// On what a verdict rests.
fn rests_on(advice: &Advice, base: &Measured) -> String {
    let not_tried = match advice.not_tried.as_slice() {
        [] => String::new(),
        names => {
            format!(" Not tried, since the drive has no room beside the recording: {}.", names.join(", "))
        }
    };
    format!(
        "From {} runs of all {} requests on {}, a model, {}: {} of the time busy as it is.{not_tried} seekless advise prints \
         the same, and who causes the work.",
        advice.remedies.len() + 1,
        whole(advice.requests),
        advice.drive,
        advice.pace_in_words(),
        percent(base.busy_pct()),
    )
}

fn table(advice: &Advice, base: &Measured) -> Table {
    let head = ["remedy", "verdict", "disk time saved", "error", "median, ms", "99 % within, ms"];
    let mut table = Table::new("What was tried", &head);
    let ms = |value: f64| format!("{value:.2}");
    let none = String::new;
    table.row(["as it is".to_owned(), none(), none(), none(), ms(base.p50_ms), ms(base.p99_ms)]);
    for remedy in &advice.remedies {
        let Remedy { name, net_gain_pct, error_pct, run, .. } = remedy;
        table.row([
            name.clone(),
            remedy.judged(),
            percent(*net_gain_pct),
            percent(*error_pct),
            ms(run.p50_ms),
            ms(run.p99_ms),
        ]);
    }
    table
}
