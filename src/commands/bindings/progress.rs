//! Progress of a copy: a bar on a terminal, otherwise a line every ten seconds.

use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use countersign_model::text::stderr;

/// A copy that takes less says nothing.
const EVERY: Duration = Duration::from_secs(10);

/// The progress of a copy, as it was last printed.
pub(super) struct CopyProgress {
    /// `None` where stderr is not a terminal.
    bar: Option<ProgressBar>,
    printed: Instant,
}

impl CopyProgress {
    /// Nothing is copied yet.
    pub(super) fn start() -> Self {
        let style = ProgressStyle::with_template("{spinner} {human_pos} of {human_len} lines  {elapsed}, {eta} left");
        let bar = || ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self {
            bar: io::stderr().is_terminal().then(bar),
            printed: Instant::now(),
        }
    }

    /// So many lines of all are done.
    pub(super) fn note(&mut self, done: u64, all: u64) {
        match &self.bar {
            Some(bar) => {
                bar.set_length(all);
                bar.set_position(done);
            }
            None => self
                .line_at(Instant::now(), done, all)
                .into_iter()
                .for_each(stderr::line),
        }
    }

    /// The line to print at this time, if one is due.
    fn line_at(&mut self, now: Instant, done: u64, all: u64) -> Option<String> {
        let is_due = now.saturating_duration_since(self.printed) >= EVERY;
        is_due.then(|| {
            self.printed = now;
            format!("copied {done} of {all} lines")
        })
    }
}

impl Drop for CopyProgress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_copy_prints_its_progress_every_ten_seconds() {
        let mut progress = CopyProgress {
            bar: None,
            printed: Instant::now(),
        };
        let start = progress.printed;
        let mut line = |seconds, done| progress.line_at(start + Duration::from_secs(seconds), done, 900);
        assert_eq!(line(9, 1), None);
        assert_eq!(line(10, 500).as_deref(), Some("copied 500 of 900 lines"));
        assert_eq!(line(19, 600), None);
        assert_eq!(line(20, 700).as_deref(), Some("copied 700 of 900 lines"));
    }
}
