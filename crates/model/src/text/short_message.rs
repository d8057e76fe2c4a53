//! Messages that quote what others wrote: a name may be as long as its file.

use crate::license_key::LicenseKey;

/// The most characters of a name in a message.
const MAX_NAME: usize = 200;

/// A message without license keys, in which each quoted or unbroken text has at most 200 characters, and then `…`.
///
/// SECURITY: a part of a key is no key that anybody finds, so keys go first.
pub fn short_message(message: &str) -> String {
    let message = LicenseKey::redact(message);
    let mut short = String::new();
    let mut quote = None;
    let mut is_escaped = false;
    let mut length = 0;
    for letter in message.chars() {
        let is_quote = matches!(letter, '"' | '`') && !is_escaped;
        is_escaped = letter == '\\' && !is_escaped;
        let ends = match quote {
            Some(opened) => is_quote && letter == opened,
            None => is_quote || letter.is_whitespace(),
        };
        if ends {
            quote = if quote.is_none() && is_quote {
                Some(letter)
            } else {
                None
            };
            length = 0;
        } else {
            length += 1;
        }
        match length {
            0..=MAX_NAME => short.push(letter),
            _ if length == MAX_NAME + 1 => short.push('…'),
            _ => {}
        }
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_cut_and_what_is_said_about_it_is_not() {
        let long = "x".repeat(65_536);
        let cut = "x".repeat(MAX_NAME);
        let about = r#" (did you mean "module"?), expected one of `a b`, `c` in line 7 or below"#;
        for (message, expected) in [
            (
                format!("unknown field \"{long}\"{about}"),
                format!("unknown field \"{cut}…\"{about}"),
            ),
            (
                format!("unknown field `{long}`{about}"),
                format!("unknown field `{cut}…`{about}"),
            ),
            (
                format!("{long} is set twice{about}"),
                format!("{cut}… is set twice{about}"),
            ),
            (
                format!("field \"{}\" is{about}", "a \\\" b ".repeat(9_999)),
                format!("field \"{}…\" is{about}", &"a \\\" b ".repeat(99)[..MAX_NAME]),
            ),
            (format!("a{about}"), format!("a{about}")),
        ] {
            assert_eq!(short_message(&message), expected);
        }
        let key = LicenseKey::from_random([7; 20]);
        let hidden = short_message(&format!("\"{}{}\"", "x-".repeat(95), key.reveal()));
        assert!(!hidden.contains(&key.reveal()[..5]), "{hidden}");
    }
}
