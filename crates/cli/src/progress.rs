//! Progress of a long job: a bar where stderr is a terminal; where it is a file or a pipe, a line every ten seconds if
//! the job knows how far it is.

use std::io::{IsTerminal, stderr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Interval of redrawing a job of unknown length.
const TICK: Duration = Duration::from_millis(120);

/// Interval of the lines where there is no terminal, in seconds.
const LINES: u64 = 10;

/// A progress bar, which is removed when dropped, or lines.
pub struct Progress {
    bar: ProgressBar,
    /// Number of intervals that had passed at the last line.
    lines: AtomicU64,
}

impl Progress {
    /// Progress of a job of unknown length.
    pub fn spinner(what: &'static str) -> Progress {
        let bar = Progress::bar();
        if !bar.is_hidden() {
            bar.set_style(style("{spinner} {msg} ({elapsed})").tick_chars(r"|/-\ "));
            bar.set_message(what);
            bar.enable_steady_tick(TICK);
        }
        Progress { bar, lines: AtomicU64::new(0) }
    }

    /// Sets the current step of a job of unknown length.
    pub fn step(&self, what: &str) {
        self.bar.set_message(what.to_owned());
    }

    /// Progress of a job that knows how far it is, with the time left. As everything, it fits 80 columns.
    pub fn measured() -> Progress {
        let bar = Progress::bar();
        let line = "{msg:<24.24} [{bar:16}] {percent:>3} %  {elapsed}, about {eta} left";
        bar.set_style(style(line).progress_chars("=> "));
        Progress { bar, lines: AtomicU64::new(0) }
    }

    fn bar() -> ProgressBar {
        let target =
            if stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        ProgressBar::with_draw_target(Some(0), target)
    }

    /// Sets the progress: `done` of `of`, in step `what`.
    pub fn at(&self, what: &str, done: u64, of: u64) {
        if self.bar.is_hidden() {
            return self.line(what, done, of);
        }
        // The message last: it redraws, and needs the length.
        self.bar.set_length(of);
        self.bar.set_position(done);
        if self.bar.message() != what {
            self.bar.set_message(what.to_owned());
        }
    }

    /// Seconds since it began.
    pub fn elapsed_s(&self) -> u64 {
        self.bar.elapsed().as_secs()
    }

    /// Prints a line to stderr, above the bar where there is one.
    pub fn print(&self, line: &str) {
        self.above(|| eprintln!("{line}"));
    }

    /// Does something that prints, above the bar where there is one.
    pub fn above(&self, prints: impl FnOnce()) {
        self.bar.suspend(prints);
    }

    /// Prints a line, if it is time for one.
    fn line(&self, what: &str, done: u64, of: u64) {
        let elapsed = self.bar.elapsed();
        let lines = elapsed.as_secs() / LINES;
        if of == 0 || self.lines.fetch_max(lines, Ordering::Relaxed) >= lines {
            return;
        }
        let part = done.min(of) as f64 / of as f64;
        let left = if done == 0 {
            String::new()
        } else {
            format!(", about {} left", HumanDuration(elapsed.mul_f64((1.0 - part) / part)))
        };
        eprintln!("{what}: {:.0} % after {}{left}", 100.0 * part, HumanDuration(elapsed));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the templates above are templates")
}
