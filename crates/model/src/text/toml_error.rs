//! What a syntax error of a TOML file says. A key that is there twice is named, with the line of the first one: the parser
//! says `duplicate key` and no more.

use std::ops::Range;

use toml::de::{DeTable, DeValue, Error};

/// Length in bytes of the longest text whose first key is looked for: the search reads the text again.
const MAX_SEARCHED: usize = 1 << 20;

/// The message of an error that `text` was refused with. It names no position: callers have it from [`Error::span`].
pub fn message(text: &str, error: &Error) -> String {
    let said = error.message();
    let again = error.span().filter(|_| text.len() <= MAX_SEARCHED);
    match again {
        Some(again) if said == "duplicate key" || said.starts_with("cannot extend value of type") => {
            second(text, again).unwrap_or_else(|| said.to_owned())
        }
        _ => said.to_owned(),
    }
}

/// What the key at `again` says a second time, and where it goes instead.
fn second(text: &str, again: Range<usize>) -> Option<String> {
    let key = text.get(again.clone())?;
    let line_start = text[..again.start].rfind('\n').map_or(0, |newline| newline + 1);
    let path = path(text, line_start, again.end);
    let before = &text[..line_start];
    let Some((path, first)) = path.and_then(|path| Some((path.join("."), first(before, &path)?))) else {
        let place = first_of_inline(text, again).map_or(String::new(), |first| {
            let before = &text[..first];
            let line = before.matches('\n').count() + 1;
            let column = first - before.rfind('\n').map_or(0, |newline| newline + 1) + 1;
            format!(": here and in line {line}, column {column}")
        });
        return Some(format!("{key} is set twice{place}"));
    };
    let line = before[..first.start].matches('\n').count() + 1;
    let first_start = before[..first.start].rfind('\n').map_or(0, |newline| newline + 1);
    let is_header = |line: &str| line.trim_start().starts_with('[');
    // Whether the key ends here, so that it has no key of its own behind a dot.
    let is_whole = |end: usize| !text[end..].trim_start_matches([' ', '\t', '"', '\'']).starts_with('.');
    let is_first_header = is_header(&before[first_start..]);
    Some(match (is_first_header, is_header(&text[line_start..])) {
        (true, true) => {
            format!("the table [{path}] is there twice: move these lines below the first one, in line {line}")
        }
        (true, false) if !is_whole(again.end) => format!("the table [{path}] is in line {line}: write this key there"),
        (false, true) if !is_whole(first.end) => {
            let written = before[first_start..first.end].trim_start();
            format!("[{path}] cannot follow line {line}: write each line below beside that one, as {written}.NAME = …")
        }
        (false, true) => format!("{path} is set in line {line}, and nothing can be added to it: write it there"),
        (false, false) if !is_whole(again.end) => {
            format!("{path} is set in line {line}, and nothing can be added to it: write it there")
        }
        _ => format!("{path} is set twice: here and in line {line}"),
    })
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

/// Where the key at `path` is in the text before the second one.
fn first(before: &str, path: &[String]) -> Option<Range<usize>> {
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
    Some(key.span())
}

/// Where the key is that the one at `again` repeats, in a table that is written within braces. The second one gets another
/// name, so that the parser goes on and shows what is beside it.
fn first_of_inline(text: &str, again: Range<usize>) -> Option<usize> {
    const OTHER: &str = "the-name-of-no-other-key";
    let name = names(text.get(again.clone())?)?.pop()?;
    let renamed = [&text[..again.start], OTHER, &text[again.end..]].concat();
    let (document, _) = DeTable::parse_recoverable(&renamed);
    let mut tables = vec![document.get_ref()];
    let mut values: Vec<&DeValue<'_>> = Vec::new();
    loop {
        while let Some(table) = tables.pop() {
            if table.contains_key(OTHER) {
                return table.get_key_value(name.as_str()).map(|(first, _)| first.span().start);
            }
            values.extend(table.values().map(|value| value.get_ref()));
        }
        match values.pop()? {
            DeValue::Table(inner) => tables.push(inner),
            DeValue::Array(items) => values.extend(items.iter().map(|item| item.get_ref())),
            _ => {}
        }
    }
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
                "[serve] cannot follow line 1: write each line below beside that one, as serve.NAME = …",
            ),
            (
                "[shops]\nstripe.mode = 1\n[shops.stripe]\nx = 1\n",
                "[shops.stripe] cannot follow line 2: write each line below beside that one, as stripe.NAME = …",
            ),
            (
                "serve = { a = 1 }\n[serve]\nb = 1\n",
                "serve is set in line 1, and nothing can be added to it: write it there",
            ),
            (
                "[serve]\na = 1\n[[serve]]\nb = 1\n",
                "the table [serve] is there twice: move these lines below the first one, in line 1",
            ),
            (
                "shops.stripe = {}\nshops.stripe.mode = 1\n",
                "shops.stripe is set in line 1, and nothing can be added to it: write it there",
            ),
            (
                "[shops]\nstripe = 1\n\n[shops.stripe.events]\nx = 1\n",
                "shops.stripe is set in line 2, and nothing can be added to it: write it there",
            ),
            (
                "shops = []\nshops.stripe.mode = 1\n",
                "shops is set in line 1, and nothing can be added to it: write it there",
            ),
            (
                "[shops.stripe]\nmode = 1\n[shops]\nstripe.x = 1\n",
                "the table [shops.stripe] is in line 1: write this key there",
            ),
            (
                "[shops.a]\n[shops.b]\n[shops.\"a\"]\n",
                "the table [shops.a] is there twice: move these lines below the first one, in line 1",
            ),
            (
                "[[license]]\nid = 1\n[[license]]\nid = 2\nid = 3\n",
                "license.id is set twice: here and in line 4",
            ),
            (
                "# x\na = { b = 1, b = 2 }\n",
                "b is set twice: here and in line 2, column 7",
            ),
            (
                "[x]\nb = 1\na = [7, { b = 1, c = { b = 2 }, d = [{ b = 3 }], \"b\" = 4 }]\n",
                "\"b\" is set twice: here and in line 3, column 11",
            ),
            (
                "a = { b.c = 1, b.c = 2 }\n",
                "c is set twice: here and in line 1, column 9",
            ),
        ] {
            assert_eq!(refused(text), expected, "{text}");
        }
        assert_eq!(refused("a = \n"), DeTable::parse("a = \n").unwrap_err().message());
    }
}
