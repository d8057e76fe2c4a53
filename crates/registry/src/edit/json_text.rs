//! Changes one license in a JSONL text and keeps every other byte.
//!
//! New values go to the positions from `json`; `serde_json` would write the whole line again, in another order and
//! without its spaces. The editor checks and writes the draft.

use crate::json;
use crate::spanned::{SpannedTable, Value};
use countersign_model::license::SiteLimit;
use countersign_model::license_change::LicenseChange;

/// The text with the license of that line changed; `None` if there is no license.
pub(super) fn changed(text: &str, line: usize, changes: &[LicenseChange]) -> Option<String> {
    let start = text.split_inclusive('\n').take(line - 1).map(str::len).sum();
    let (before, rest) = text.split_at(start);
    let (old, after) = rest.split_at(rest.lines().next()?.len());
    // The places of a change are those after the changes before it.
    let new = changes
        .iter()
        .try_fold(old.to_owned(), |line, change| changed_line(&line, change))?;
    Some(format!("{before}{new}{after}"))
}

fn changed_line(line: &str, change: &LicenseChange) -> Option<String> {
    let node = json::with_places(line).ok()?;
    let Value::Table(table) = &node.value else { return None };
    let mut splice = Splice {
        text: line,
        pieces: vec![],
    };
    splice.change(table, change);
    Some(splice.finish())
}

/// A text, and the replacements to make in it.
struct Splice<'a> {
    text: &'a str,
    pieces: Vec<(std::ops::Range<usize>, String)>,
}

impl Splice<'_> {
    fn change(&mut self, license: &SpannedTable<'_>, change: &LicenseChange) {
        match change {
            LicenseChange::Expires(date) => self.set(license, "expires", literal(&date.to_string())),
            LicenseChange::Status(status) => self.set(license, "status", literal(status.as_str())),
            LicenseChange::Sites(SiteLimit::Limited(limit)) => self.set(license, "sites", limit.to_string()),
            LicenseChange::Sites(SiteLimit::Unlimited) => self.set(license, "sites", literal("unlimited")),
            LicenseChange::StagingSites(limit) => self.set_or_remove(license, "staging_sites", *limit),
            LicenseChange::SiteMoves(limit) => self.set_or_remove(license, "site_moves", *limit),
            LicenseChange::Note(note) => self.set(license, "note", literal(note)),
        }
    }

    fn set_or_remove(&mut self, license: &SpannedTable<'_>, name: &str, limit: Option<u16>) {
        match limit {
            Some(limit) => self.set(license, name, limit.to_string()),
            None => self.remove(license, name),
        }
    }

    /// Removes a field, and the comma that separates it from another one.
    fn remove(&mut self, table: &SpannedTable<'_>, name: &str) {
        let Some(field) = table.fields.get(name) else { return };
        let others = || table.fields.values();
        let next = others().map(|other| other.at).filter(|at| *at > field.at).min();
        let before = others()
            .map(|other| other.node.end)
            .filter(|end| *end <= field.at)
            .max();
        let place = match (next, before) {
            (Some(next), _) => field.at..next,
            (None, Some(before)) => before..field.node.end,
            (None, None) => field.at..field.node.end,
        };
        self.pieces.push((place, String::new()));
    }

    /// Sets a field. A new one becomes the first.
    fn set(&mut self, table: &SpannedTable<'_>, name: &str, value: String) {
        let Some(field) = table.fields.get(name) else {
            let comma = if table.fields.is_empty() { "" } else { "," };
            let at = table.at + 1;
            return self.pieces.push((at..at, format!("{}:{value}{comma}", literal(name))));
        };
        self.pieces.push((field.node.at..field.node.end, value));
    }

    fn finish(mut self) -> String {
        self.pieces.sort_by_key(|(place, _)| place.start);
        let mut text = self.text.to_owned();
        for (place, piece) in self.pieces.into_iter().rev() {
            text.replace_range(place, &piece);
        }
        text
    }
}

/// A string as JSON.
fn literal(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edit::toml_text::tests::ID;
    use countersign_model::license::LicenseStatus;

    #[test]
    fn one_line_of_an_export_is_rewritten_and_no_other() {
        let line = |id: &str, more: &str| {
            format!(
                "{{{more} \"id\": \"{id}\", \"expires\":\"2027-12-31\",\"modules\":{{\"a\":[]}},\"hosts\":[\"a.com\"]}}\r\n"
            )
        };
        let other = line(&ID.replace('0', "1"), "")
            .replace("a.com", "é.com")
            .replace("é", "x");
        let text = |changed: &str| format!("{other}\n{changed}{}", other.replace("11112233", "21112233"));
        let old = line(ID, "");
        let check = |change, new: String| assert_eq!(changed(&text(&old), 3, &[change]), Some(text(&new)));
        let expires = LicenseChange::Expires("2030-01-02".parse().unwrap());
        check(expires, old.replace("2027-12-31", "2030-01-02"));
        check(
            LicenseChange::Status(LicenseStatus::Suspended),
            line(ID, "\"status\":\"suspended\","),
        );
    }

    #[test]
    fn a_field_that_goes_takes_one_comma_with_it() {
        let both = [LicenseChange::StagingSites(None), LicenseChange::SiteMoves(None)];
        for (old, new) in [
            (r#"{"a":1, "staging_sites": 3, "b":2}"#, r#"{"a":1, "b":2}"#),
            (r#"{ "staging_sites":3,"b":2}"#, r#"{ "b":2}"#),
            (r#"{"a":1 , "site_moves":3 }"#, r#"{"a":1 }"#),
            (r#"{"a":1,"staging_sites":3,"site_moves":3}"#, r#"{"a":1}"#),
            (r#"{"site_moves":3,"staging_sites":3}"#, "{}"),
            (r#"{"a":"é \"x\"", "site_moves":3}"#, r#"{"a":"é \"x\""}"#),
            (r#"{"a":1}"#, r#"{"a":1}"#),
        ] {
            let text = |line: &str| format!("{{}}\n{line}\r\n{{}}\n");
            assert_eq!(changed(&text(old), 2, &both), Some(text(new)));
        }
    }
}
