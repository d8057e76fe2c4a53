//! Ids that a person names by 8 or more of their first digits: of mails, deliveries and messages.

use crate::commands::Failure;

/// The least number of digits that name one.
const FEWEST_DIGITS: usize = 8;

/// What the ids belong to, in messages.
pub(super) struct IdWords {
    /// As in "a mail".
    pub thing: &'static str,
    /// Where there is none with such an id, as in "no such mail waits".
    pub none: &'static str,
    /// Which command shows them.
    pub hint: &'static str,
}

/// The ids of `all` that begin so, each once. All must be there before anything is done.
///
/// # Errors
/// A beginning is too short, or fits no id or several.
pub(super) fn named<I: Clone + PartialEq + ToString>(
    beginnings: &[String],
    all: &[I],
    words: &IdWords,
) -> Result<Vec<I>, Failure> {
    let texts: Vec<String> = all.iter().map(ToString::to_string).collect();
    let mut found: Vec<I> = Vec::new();
    for beginning in beginnings {
        if beginning.len() < FEWEST_DIGITS {
            let thing = words.thing;
            return Err(Failure::usage(format!(
                "{beginning}: expected 8 or more of the first digits of the id of {thing}"
            )));
        }
        let lower = beginning.to_lowercase();
        let mut fitting = all.iter().zip(&texts).filter(|(_, text)| text.starts_with(&lower));
        let id = match (fitting.next(), fitting.next()) {
            (None, _) => return Err(Failure::input(format!("{beginning}: {}", words.none)).hint(words.hint)),
            (Some(_), Some(_)) => {
                return Err(Failure::input(format!("{beginning}: more than one id begins so")).hint("give more digits"));
            }
            (Some((id, _)), None) => id,
        };
        if !found.contains(id) {
            found.push(id.clone());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::Exit;

    const WORDS: IdWords = IdWords {
        thing: "a mail",
        none: "no such mail waits",
        hint: "see the list",
    };

    #[test]
    fn an_id_is_named_by_eight_or_more_of_its_digits() {
        let all = ["0123456789ab", "0123456799ab", "fedcba987654"].map(str::to_owned);
        let ask = |beginnings: &[&str]| {
            let beginnings: Vec<String> = beginnings.iter().map(ToString::to_string).collect();
            named(&beginnings, &all, &WORDS).map_err(|failure| (failure.exit, failure.error.to_string()))
        };
        assert_eq!(ask(&["FEDCBA98", "fedcba987"]).unwrap(), ["fedcba987654"]);
        assert_eq!(
            ask(&["012345678", "fedcba98"]).unwrap(),
            ["0123456789ab", "fedcba987654"]
        );
        let refused = |beginnings: &[&str]| ask(beginnings).unwrap_err();
        assert_eq!(refused(&["fedcba9"]).0, Exit::Usage);
        let none = "fedcba99: no such mail waits".to_owned();
        assert_eq!(refused(&["fedcba98", "fedcba99"]), (Exit::Input, none));
        let several = "01234567: more than one id begins so".to_owned();
        assert_eq!(refused(&["01234567"]), (Exit::Input, several));
    }
}
