//! Lines in gitignore syntax, made into one matcher: `exclude` of an entry, a `.distignore`, and `export-ignore` of a
//! `.gitattributes`.

use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// The most opening braces in a line. The library compiles `{a,{b,c}}` by recursion, one call a brace.
const MAX_BRACES: usize = 64;

/// The patterns are too many or too long.
#[derive(Debug, thiserror::Error)]
#[error("there are more patterns than can be matched")]
pub struct TooManyPatterns;

/// Whether a line fits anything: no comment, not empty, and right.
pub fn is_pattern(line: &str) -> bool {
    matcher([line]).is_ok_and(|patterns| !patterns.is_empty())
}

/// A matcher of these lines. A line that is no pattern fits nothing, as in git.
///
/// # Errors
/// The patterns are too many or too long.
pub fn matcher<'a>(lines: impl IntoIterator<Item = &'a str>) -> Result<Gitignore, TooManyPatterns> {
    let mut builder = GitignoreBuilder::new("");
    for line in lines {
        // SECURITY: deeper braces exhaust the stack and end the process.
        if line.bytes().filter(|byte| *byte == b'{').count() <= MAX_BRACES {
            let _ = builder.add_line(None, line);
        }
    }
    builder.build().map_err(|_| TooManyPatterns)
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
            let patterns = matcher(["*.md", &deep]).unwrap();
            assert!(patterns.matched("a.md", false).is_ignore());
        }
    }

    #[test]
    fn patterns_that_no_matcher_takes_are_an_error_and_not_no_patterns() {
        let lines: Vec<String> = (0..60_000).map(|number| format!("a{number}*b")).collect();
        assert!(matcher(lines.iter().map(String::as_str)).is_err());
    }
}
