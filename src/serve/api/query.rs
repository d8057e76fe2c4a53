//! A query string's parameters (WHATWG URL, section 5.1), borrowed where nothing in them is encoded.
//!
//! `form_urlencoded` says the same and allocates for it in small steps; updates are asked for with every request.

use std::borrow::Cow;

use memchr::{memchr, memchr2};

/// Names and values in the order in which they stand, as they are written: see [`decode`].
pub fn parameters(query: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = Some(query);
    let pairs = std::iter::from_fn(move || {
        let (pair, after) = split_once(rest?, b'&');
        rest = after;
        Some(pair)
    });
    pairs.filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = split_once(pair, b'=');
        (name, value.unwrap_or_default())
    })
}

/// What stands before and behind the first `sign`, which is ASCII.
fn split_once(text: &str, sign: u8) -> (&str, Option<&str>) {
    match memchr(sign, text.as_bytes()) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}

/// `+` is a blank and `%20` too; what is then no UTF-8 is replaced.
pub fn decode(text: &str) -> Cow<'_, str> {
    let mut rest = text.as_bytes();
    let mut next = memchr2(b'%', b'+', rest);
    if next.is_none() {
        return Cow::Borrowed(text);
    }
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(at) = next {
        let (plain, encoded) = rest.split_at(at);
        decoded.extend_from_slice(plain);
        let (byte, length) = match encoded {
            [b'+', ..] => (b' ', 1),
            [b'%', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                (hex(*high) << 4 | hex(*low), 3)
            }
            _ => (b'%', 1),
        };
        decoded.push(byte);
        rest = &encoded[length..];
        next = memchr2(b'%', b'+', rest);
    }
    decoded.extend_from_slice(rest);
    let replaced = |error: std::string::FromUtf8Error| String::from_utf8_lossy(error.as_bytes()).into_owned();
    Cow::Owned(String::from_utf8(decoded).unwrap_or_else(replaced))
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => digit.to_ascii_lowercase() - b'a' + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn a_query_reads_as_the_url_standard_reads_it(query in "([a-z&=+]|%[0-9a-fA-F]{0,2}|%[cC]3%[aA]4|.){0,24}") {
            let standard: Vec<_> = url::form_urlencoded::parse(query.as_bytes()).collect();
            let read: Vec<_> = parameters(&query).map(|(name, value)| (decode(name), decode(value))).collect();
            proptest::prop_assert_eq!(read, standard);
        }
    }
}
