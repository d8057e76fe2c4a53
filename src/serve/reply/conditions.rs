//! Conditions and ranges of a request for a file: whether to send all, a part, or nothing (RFC 9110 sections 13 and
//! 14).

use headers::{ETag, HeaderMapExt, IfMatch, IfModifiedSince, IfNoneMatch, IfRange, IfUnmodifiedSince, LastModified};
use warp::http::{HeaderMap, header};

/// A range of a file's bytes, `end` excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    /// The first byte.
    pub start: u64,
    /// The byte after the last.
    pub end: u64,
}

/// What to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentSelection {
    /// All of it.
    Whole,
    /// A part.
    Part(Range),
    /// Nothing: the client's copy is current.
    Nothing,
    /// Nothing: a condition fails.
    Failed,
    /// Nothing: the range is outside the file.
    NoRange,
}

/// Reads the conditions in the order of RFC 9110 section 13.2.2. One that cannot be read counts as none, and so does one about a
/// time where the file has none.
pub(crate) fn of(
    headers: &HeaderMap,
    etag: Option<&ETag>,
    modified: Option<&LastModified>,
    length: u64,
) -> ContentSelection {
    let time = modified.map(|modified| (*modified).into());
    let is_as_demanded = match (headers.typed_get::<IfMatch>(), headers.typed_get::<IfUnmodifiedSince>()) {
        (Some(demanded), _) => demanded.is_any() || etag.is_some_and(|etag| demanded.precondition_passes(etag)),
        (None, Some(since)) => time.is_none_or(|time| since.precondition_passes(time)),
        (None, None) => true,
    };
    if !is_as_demanded {
        return ContentSelection::Failed;
    }
    let is_known = match (
        headers.typed_get::<IfNoneMatch>(),
        headers.typed_get::<IfModifiedSince>(),
    ) {
        (Some(known), _) => etag.is_some_and(|etag| !known.precondition_passes(etag)),
        (None, Some(since)) => time.is_some_and(|time| !since.is_modified(time)),
        (None, None) => false,
    };
    if is_known {
        return ContentSelection::Nothing;
    }
    let is_other = headers
        .typed_get::<IfRange>()
        .is_some_and(|range| range.is_modified(etag, modified));
    let Some(range) = headers.get(header::RANGE).filter(|_| !is_other) else {
        return ContentSelection::Whole;
    };
    range
        .to_str()
        .ok()
        .and_then(|range| self::range(range, length))
        .unwrap_or(ContentSelection::Whole)
}

/// The single range of `bytes`; `None` for what may be ignored: other units, several ranges, and malformed ones.
fn range(text: &str, length: u64) -> Option<ContentSelection> {
    let (unit, range) = text.split_once('=')?;
    let (first, last) = range.trim().split_once('-')?;
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !unit.trim().eq_ignore_ascii_case("bytes") || !digits(first) || !digits(last) {
        return None;
    }
    // A number that does not fit is larger than any file.
    let number = |text: &str| text.parse().unwrap_or(u64::MAX);
    let range = match (first.is_empty(), last.is_empty()) {
        (true, true) => return None,
        (true, false) => Range {
            start: length.saturating_sub(number(last)),
            end: length,
        },
        (false, true) => Range {
            start: number(first),
            end: length,
        },
        (false, false) if number(last) < number(first) => return None,
        (false, false) => Range {
            start: number(first),
            end: number(last).saturating_add(1).min(length),
        },
    };
    Some(if range.start < range.end {
        ContentSelection::Part(range)
    } else {
        ContentSelection::NoRange
    })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use warp::http::{HeaderName, HeaderValue};

    use super::*;

    const PAST: &str = "Sat, 01 Jan 2000 00:00:00 GMT";
    const THEN: &str = "Tue, 14 Nov 2023 22:13:20 GMT";
    const LATER: &str = "Wed, 01 Jan 2025 00:00:00 GMT";

    fn wanted(conditions: &[(&'static str, &'static str)]) -> ContentSelection {
        let headers = conditions
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        let modified = LastModified::from(UNIX_EPOCH + Duration::from_secs(1_700_000_000));
        of(
            &headers.collect(),
            Some(&"\"tag\"".parse().unwrap()),
            Some(&modified),
            100,
        )
    }

    #[test]
    fn a_range_is_a_part_of_the_file_or_is_ignored_or_is_outside() {
        let part = |start, end| ContentSelection::Part(Range { start, end });
        for (range, expected) in [
            ("bytes=0-0", part(0, 1)),
            ("bytes=0-99", part(0, 100)),
            ("bytes=10-", part(10, 100)),
            ("bytes=10-1000", part(10, 100)),
            ("bytes=-10", part(90, 100)),
            ("bytes=-1000", part(0, 100)),
            ("Bytes= 5-6", part(5, 7)),
            ("bytes=99999999999999999999999-", ContentSelection::NoRange),
            ("bytes=100-", ContentSelection::NoRange),
            ("bytes=-0", ContentSelection::NoRange),
            ("bytes=6-5", ContentSelection::Whole),
            ("bytes=0-1,3-4", ContentSelection::Whole),
            ("bytes=a-b", ContentSelection::Whole),
            ("bytes=-", ContentSelection::Whole),
            ("bytes=+1-2", ContentSelection::Whole),
            ("lines=0-1", ContentSelection::Whole),
            ("bytes", ContentSelection::Whole),
        ] {
            assert_eq!(wanted(&[("range", range)]), expected, "{range}");
        }
    }

    #[test]
    fn a_file_that_tells_no_time_is_known_by_its_tag_alone() {
        let wanted = |conditions: &[(&'static str, &'static str)]| {
            let headers = conditions
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
            of(&headers.collect(), Some(&"\"tag\"".parse().unwrap()), None, 100)
        };
        let range = ("range", "bytes=0-0");
        assert_eq!(wanted(&[("if-modified-since", LATER)]), ContentSelection::Whole);
        assert_eq!(wanted(&[("if-unmodified-since", PAST)]), ContentSelection::Whole);
        assert_eq!(wanted(&[("if-range", LATER), range]), ContentSelection::Whole);
        assert_eq!(
            wanted(&[("if-range", "\"tag\""), range]),
            ContentSelection::Part(Range { start: 0, end: 1 })
        );
    }

    #[test]
    fn conditions_are_read_in_their_order() {
        let range = ("range", "bytes=0-0");
        let part = ContentSelection::Part(Range { start: 0, end: 1 });
        for (conditions, expected) in [
            (&[("if-match", "\"tag\""), range][..], part),
            (&[("if-match", "*")], ContentSelection::Whole),
            (&[("if-match", "\"other\"")], ContentSelection::Failed),
            (
                &[("if-match", "\"other\", \"tag\""), ("if-unmodified-since", PAST)],
                ContentSelection::Whole,
            ),
            (&[("if-unmodified-since", PAST)], ContentSelection::Failed),
            (&[("if-unmodified-since", THEN)], ContentSelection::Whole),
            (&[("if-none-match", "\"tag\""), range], ContentSelection::Nothing),
            (&[("if-none-match", "W/\"tag\"")], ContentSelection::Nothing),
            (&[("if-none-match", "*")], ContentSelection::Nothing),
            (
                &[("if-none-match", "\"other\""), ("if-modified-since", LATER)],
                ContentSelection::Whole,
            ),
            (&[("if-modified-since", THEN)], ContentSelection::Nothing),
            (&[("if-modified-since", PAST)], ContentSelection::Whole),
            (&[("if-modified-since", "nonsense")], ContentSelection::Whole),
            (&[("if-range", "\"tag\""), range], part),
            (&[("if-range", "\"other\""), range], ContentSelection::Whole),
            (&[("if-range", PAST), range], ContentSelection::Whole),
            (
                &[("if-match", "\"other\""), ("if-none-match", "\"tag\"")],
                ContentSelection::Failed,
            ),
        ] {
            assert_eq!(wanted(conditions), expected, "{conditions:?}");
        }
    }
}
