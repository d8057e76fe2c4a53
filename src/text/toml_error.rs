//! What a syntax error of a TOML file says. A key that is there twice is named, with the line of the first one: the parser
//! says `duplicate key` and no more.

use std::ops::Range;

use toml::de::{DeTable, DeValue, Error};

/// Length in bytes of the longest text whose first key is looked for: the search reads the text again.
const MAX_SEARCHED: usize = 1 << 20;

/// The message of an error that `text` was refused with. It names no position: callers have it from [`Error::span`].
pub fn message(text: &str, error: &Error) -> String {
    let again = error.span().filter(|_| error.message() == "duplicate key");
    match again {
        Some(span) if text.len() <= MAX_SEARCHED => duplicate(text, span),
        _ => error.message().to_owned(),
    }
}

fn duplicate(text: &str, again: Range<usize>) -> String {
    let key = text.get(again.clone()).unwrap_or_default();
    let line_start = text[..again.start].rfind('\n').map_or(0, |newline| newline + 1);
    let is_header = text[line_start..].trim_start().starts_with('[');
    let first = path(text, line_start, again.end).and_then(|path| first_line(&text[..line_start], &path));
    match first {
        Some((name, line)) if is_header => {
            format!("the table [{name}] is there twice: move these lines below the first one, in line {line}")
        }
        Some((name, line)) => format!("{name} is set twice: here and in line {line}"),
        None => format!("{key} is set twice"),
    }
}

/// The names from the root of the document to the key that ends at `end`, in the line that begins at `line_start`.
fn path(text: &str, line_start: usize, end: usize) -> Option<Vec<String>> {
    let written = text.get(line_start..end)?.trim_start();
    if let Some(header) = written.strip_prefix('[') {
        return names(header.trim_start_matches('['));
    }
    let mut path = Vec::new();
    if let Some(header) = text[..line_start]
        .lines()
        .rev()
        .map(str::trim)
        .find(|line| line.starts_with('['))
    {
        let end = header.find(']')?;
        path = names(header[..end].trim_start_matches('['))?;
    }
    path.extend(names(written)?);
    Some(path)
}

/// The names of a dotted key.
fn names(key: &str) -> Option<Vec<String>> {
    let document = format!("{key} = 0");
    let mut table = DeTable::parse(&document).ok()?.into_inner();
    let mut names = Vec::new();
    loop {
        let (name, value) = table.into_iter().next()?;
        names.push(name.into_inner().into_owned());
        match value.into_inner() {
            DeValue::Table(inner) => table = inner,
            _ => return Some(names),
        }
    }
}

/// The dotted name of the key at `path`, and its line in the text before the second one.
fn first_line(before: &str, path: &[String]) -> Option<(String, usize)> {
    let (document, _) = DeTable::parse_recoverable(before);
    let mut table = document.get_ref();
    let (last, outer) = path.split_last()?;
    for name in outer {
        table = match table.get(name.as_str())?.get_ref() {
            DeValue::Table(inner) => inner,
            // An array of tables: the last one is being filled.
            DeValue::Array(items) => items.last()?.get_ref().as_table()?,
            _ => return None,
        };
    }
    let (key, _) = table.get_key_value(last.as_str())?;
    let line = before[..key.span().start].matches('\n').count() + 1;
    Some((path.join("."), line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        message(text, &DeTable::parse(text).unwrap_err())
    }

    #[test]
    fn a_key_that_is_there_twice_is_named_with_the_line_of_the_first_one() {
        for (text, expected) in [
            ("a = 1\nb = 2\na = 3\n", "a is set twice: here and in line 1"),
            (
                "[mail]\nport = 1\n[serve]\nport = 1\n# x\n port = 2\n",
                "serve.port is set twice: here and in line 4",
            ),
            (
                "serve.port = 1\nmail.port = 2\nserve.port = 3\n",
                "serve.port is set twice: here and in line 1",
            ),
            (
                "[serve]\na = 1\n[mail]\n[serve]\nb = 1\n",
                "the table [serve] is there twice: move these lines below the first one, in line 1",
            ),
            (
                "serve.a = 1\n\n[ serve ]\nb = 1\n",
                "the table [serve] is there twice: move these lines below the first one, in line 1",
            ),
            (
                "[shops.a]\n[shops.b]\n[shops.\"a\"]\n",
                "the table [shops.a] is there twice: move these lines below the first one, in line 1",
            ),
            (
                "[[license]]\nid = 1\n[[license]]\nid = 2\nid = 3\n",
                "license.id is set twice: here and in line 4",
            ),
            ("a = { b = 1, b = 2 }\n", "b is set twice"),
        ] {
            assert_eq!(refused(text), expected, "{text}");
        }
        assert_eq!(refused("a = \n"), DeTable::parse("a = \n").unwrap_err().message());
    }
}
