//! An error and its causes on one line, for a log, a report or a table.

use std::error::Error;
use std::fmt;

/// Shows the error, then each cause behind a colon. Of several lines the first is shown, and how many follow.
#[derive(Clone, Copy, Debug)]
pub struct ErrorChain<'a>(pub &'a (dyn Error + 'static));

impl fmt::Display for ErrorChain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut chain = self.0.to_string();
        let mut cause = self.0.source();
        while let Some(error) = cause {
            chain += &format!(": {error}");
            cause = error.source();
        }
        let mut lines = chain.lines();
        f.write_str(lines.next().unwrap_or_default())?;
        match lines.count() {
            0 => Ok(()),
            more => write!(f, " (and {more} more)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn causes_follow_on_the_same_line_and_further_lines_are_counted() {
        let outer = Outer(std::io::Error::other("first\nsecond\nthird"));
        assert_eq!(ErrorChain(&outer).to_string(), "outer: first (and 2 more)");
        assert_eq!(ErrorChain(&std::io::Error::other("alone")).to_string(), "alone");
    }
}
