//! How far a long job is: a bar where stderr is a terminal, nothing where it is a file or a pipe.

use std::io::{IsTerminal, stderr};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Between two pictures of a job of unknown length.
const TICK: Duration = Duration::from_millis(120);

/// A bar, or nothing; gone when it is dropped.
pub struct Progress(ProgressBar);

impl Progress {
    /// For a job whose length is not known.
    pub fn spinner(what: &'static str) -> Progress {
        let bar = Progress::bar();
        if !bar.is_hidden() {
            bar.set_style(style("{spinner} {msg} ({elapsed})").tick_chars(r"|/-\ "));
            bar.set_message(what);
            bar.enable_steady_tick(TICK);
        }
        Progress(bar)
    }

    /// What goes on now, of a job whose length is not known.
    pub fn tell(&self, what: &str) {
        self.0.set_message(what.to_owned());
    }

    /// For one that tells how far it is.
    pub fn measured() -> Progress {
        let bar = Progress::bar();
        bar.set_style(style("{msg:<24} [{bar:40}] {percent:>3} %  {elapsed}").progress_chars("=> "));
        Progress(bar)
    }

    fn bar() -> ProgressBar {
        let target =
            if stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        ProgressBar::with_draw_target(Some(0), target)
    }

    /// `done` of `of` are done of `what`.
    pub fn at(&self, what: &str, done: u64, of: u64) {
        // The message last: it draws, and without a length all of nothing would be done.
        self.0.set_length(of);
        self.0.set_position(done);
        if self.0.message() != what {
            self.0.set_message(what.to_owned());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the templates above are templates")
}
