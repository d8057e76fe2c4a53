//! An error and its causes as one text, for a log, a report or a table.

use std::error::Error;
use std::fmt;

/// Shows the error, then each cause after a colon.
#[derive(Clone, Copy, Debug)]
pub struct ErrorChain<'a>(pub &'a (dyn Error + 'static));

impl ErrorChain<'_> {
    /// The first line, and how many more there are.
    pub fn first_line(self) -> String {
        let chain = self.to_string();
        let mut lines = chain.lines();
        let first = lines.next().unwrap_or_default();
        match lines.count() {
            0 => first.to_owned(),
            more => format!("{first} (and {more} more)"),
        }
    }
}

impl fmt::Display for ErrorChain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn causes_follow_and_of_several_lines_the_first_can_be_had() {
        let outer = Outer(std::io::Error::other("first\nsecond\nthird"));
        assert_eq!(ErrorChain(&outer).to_string(), "outer: first\nsecond\nthird");
        assert_eq!(ErrorChain(&outer).first_line(), "outer: first (and 2 more)");
        assert_eq!(ErrorChain(&std::io::Error::other("alone")).first_line(), "alone");
    }
}
