//! Lines in gitignore syntax, made into one matcher: `exclude` of an entry, a `.distignore`, and `export-ignore` of a
//! `.gitattributes`.
//!
//! Repositories name both the patterns and the files, so the work of all matches together has a [limit](MatchBudget).

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder, Glob};

/// The most opening braces in a line. The library compiles `{a,{b,c}}` by recursion, one call a brace.
const MAX_BRACES: usize = 64;

/// The patterns are too many or too long.
#[derive(Debug, thiserror::Error)]
#[error("there are more patterns than can be matched")]
pub struct TooManyPatterns;

/// The most bytes of wildcard patterns times bytes of names that one [`MatchBudget`] has. At worst, where each `*` stays
/// open over the whole name, the library takes about 0.4 ns for each: four seconds in all. 50 patterns of 20 bytes over
/// 30,000 names of 70 bytes are a fifth of it.
const MAX_WORK: u64 = 10_000_000_000;

/// The work of a pattern that is looked up, if it matches: about 11 ns.
const LOOKED_UP: u64 = 30;

/// What is left of the work that matching may cost.
#[derive(Debug)]
pub struct MatchBudget(u64);

impl Default for MatchBudget {
    fn default() -> Self {
        Self(MAX_WORK)
    }
}

impl MatchBudget {
    fn spend(&mut self, work: u64) -> Result<(), TooManyPatterns> {
        self.0 = self.0.checked_sub(work).ok_or(TooManyPatterns)?;
        Ok(())
    }
}

/// A matcher of the lines of a file.
#[derive(Debug)]
pub struct Patterns {
    matcher: Gitignore,
    /// Bytes of the patterns that the library tries at each byte of a name.
    wildcards: u64,
    /// The work of those that it looks up: once for each name, and all that match.
    looked_up: u64,
}

impl Patterns {
    /// A matcher of these lines. A line that is no pattern fits nothing, as in git.
    ///
    /// # Errors
    /// The patterns are too many or too long.
    pub fn new<'a>(lines: impl IntoIterator<Item = &'a str>) -> Result<Self, TooManyPatterns> {
        let mut builder = GitignoreBuilder::new("");
        let mut wildcards = 0;
        let mut looked_up = 0;
        for line in lines {
            // SECURITY: deeper braces exhaust the stack and end the process.
            if line.bytes().filter(|byte| *byte == b'{').count() <= MAX_BRACES {
                let _ = builder.add_line(None, line);
                match is_looked_up(line) {
                    true => looked_up += LOOKED_UP,
                    false => wildcards += line.len() as u64,
                }
            }
        }
        let matcher = builder.build().map_err(|_| TooManyPatterns)?;
        Ok(Self {
            matcher,
            wildcards,
            looked_up,
        })
    }

    /// Whether there is no pattern.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.matcher.is_empty()
    }

    fn work(&self, name: &str) -> u64 {
        self.wildcards * name.len() as u64 + self.looked_up
    }

    /// The last pattern that matches the path `name`.
    ///
    /// # Errors
    /// The budget is spent.
    pub fn matched(
        &self,
        name: &str,
        is_folder: bool,
        left: &mut MatchBudget,
    ) -> Result<Match<&Glob>, TooManyPatterns> {
        left.spend(self.work(name))?;
        Ok(self.matcher.matched(name, is_folder))
    }

    /// The last pattern that matches the path `name`, or else a folder above it, the nearest first.
    ///
    /// # Errors
    /// The budget is spent.
    pub fn matched_or_above(
        &self,
        name: &str,
        is_folder: bool,
        left: &mut MatchBudget,
    ) -> Result<Match<&Glob>, TooManyPatterns> {
        let components = 1 + name.bytes().filter(|byte| *byte == b'/').count() as u64;
        left.spend(self.work(name) * components)?;
        Ok(self.matcher.matched_path_or_any_parents(name, is_folder))
    }
}

/// Whether the library finds a pattern by its text or by a file's extension, whatever the length of a name is.
fn is_looked_up(line: &str) -> bool {
    let is_text = |text: &str| !text.contains(['*', '?', '[', '{', '\\']);
    let extension = line.strip_prefix("*.");
    line.starts_with('#') || is_text(line) || extension.is_some_and(|text| is_text(text) && !text.contains(['.', '/']))
}

/// Whether a line fits anything: no comment, not empty, and right.
pub fn is_pattern(line: &str) -> bool {
    Patterns::new([line]).is_ok_and(|patterns| !patterns.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_very_many_braces_is_no_pattern() {
        let nested = |depth: usize| format!("{}a{}", "{a,".repeat(depth), "}".repeat(depth));
        assert!(is_pattern("*.{map,ts}") && is_pattern(&nested(MAX_BRACES)));
        for deep in [
            nested(60_000),
            "{".repeat(60_000),
            format!("{}{}", "{".repeat(60_000), "}".repeat(60_000)),
        ] {
            assert!(!is_pattern(&deep), "{deep:.20}");
            let patterns = Patterns::new(["*.md", &deep]).unwrap();
            let found = patterns.matched("a.md", false, &mut MatchBudget::default());
            assert!(found.unwrap().is_ignore());
        }
    }

    #[test]
    fn patterns_that_no_matcher_takes_are_an_error_and_not_no_patterns() {
        let lines: Vec<String> = (0..60_000).map(|number| format!("a{number}*b")).collect();
        assert!(Patterns::new(lines.iter().map(String::as_str)).is_err());
    }

    #[test]
    fn matches_cost_what_wildcards_cost_and_end_with_the_budget() {
        let cost = |line: &str| Patterns::new([line]).unwrap().work("name");
        for line in ["# a*b", "", "/docs/", "a/b.txt", "!keep.md", "*.map"] {
            assert_eq!(cost(line), LOOKED_UP, "{line}");
        }
        for line in [
            "*.min.js", "a*b", "a?", "[ab]", "*/x", "*.{a,b}", "*~", "**/x", "!*.map",
        ] {
            assert_eq!(cost(line), 4 * line.len() as u64, "{line}");
        }
        let patterns = Patterns::new(["a*b", "/c"]).unwrap();
        let mut left = MatchBudget(3 * 4 + LOOKED_UP + 2 * (3 * 3 + LOOKED_UP));
        assert!(patterns.matched("axxb", false, &mut left).unwrap().is_ignore());
        assert!(patterns.matched_or_above("c/x", false, &mut left).unwrap().is_ignore());
        assert_eq!(left.0, 0);
        assert!(patterns.matched("a", false, &mut left).is_err());
    }
}
