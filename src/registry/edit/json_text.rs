//! Changes one license in a JSONL text and keeps every other byte.
//!
//! New values go to the positions from `json`; `serde_json` would write the whole line again, in another order and
//! without its spaces. The editor checks and writes the draft.

use chrono::{DateTime, SecondsFormat, Utc};

use crate::model::license::SiteLimit;
use crate::model::license_change::LicenseChange;
use crate::model::site_host::SiteHost;
use crate::registry::json;
use crate::registry::spanned::{SpannedTable, Value};

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
            LicenseChange::Move { from, to, time } => {
                self.release(license, from.as_str(), *time);
                self.move_bound_ahead(license, from, to);
            }
            LicenseChange::Release(host, time) => {
                let host = host.as_ref().map(SiteHost::as_str);
                self.release(license, host.unwrap_or("*"), *time);
                self.unbind(license, host);
            }
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

    fn release(&mut self, license: &SpannedTable<'_>, name: &str, time: DateTime<Utc>) {
        let time = literal(&time.to_rfc3339_opts(SecondsFormat::AutoSi, true));
        match license.fields.get("released").map(|field| &field.node.value) {
            Some(Value::Table(released)) => self.set(released, name, time),
            _ => self.set(license, "released", format!("{{{}:{time}}}", literal(name))),
        }
    }

    /// Puts `to` in the place of `from` in `hosts`; the order stays.
    fn move_bound_ahead(&mut self, license: &SpannedTable<'_>, from: &SiteHost, to: &SiteHost) {
        let items = match license.fields.get("hosts").map(|field| &field.node.value) {
            Some(Value::Array(items)) => &items[..],
            _ => &[],
        };
        let bound = items.iter().filter_map(|item| match &item.value {
            Value::String(host) => Some(host.as_ref()),
            _ => None,
        });
        let others = bound.filter(|host| ![from.as_str(), to.as_str()].contains(host));
        let hosts: Vec<_> = others.chain([to.as_str()]).map(literal).collect();
        self.set(license, "hosts", format!("[{}]", hosts.join(",")));
    }

    /// Removes a host, or all of them, from `hosts`.
    fn unbind(&mut self, license: &SpannedTable<'_>, host: Option<&str>) {
        let Some(field) = license.fields.get("hosts") else {
            return;
        };
        let Value::Array(items) = &field.node.value else { return };
        let is_host = |host| {
            items
                .iter()
                .position(|item| matches!(&item.value, Value::String(text) if text == host))
        };
        let place = match (host, host.map(is_host)) {
            (Some(_), Some(None)) => return,
            (Some(_), Some(Some(index))) if index + 1 < items.len() => items[index].at..items[index + 1].at,
            (Some(_), Some(Some(index))) if index > 0 => items[index - 1].end..items[index].end,
            _ => return self.pieces.push((field.node.at..field.node.end, "[]".to_owned())),
        };
        self.pieces.push((place, String::new()));
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
    use crate::model::license::LicenseStatus;
    use crate::registry::edit::toml_text::tests::ID;

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
        let released = "\"released\":{\"a.com\":\"2026-11-20T10:17:03.123Z\"},";
        let release = LicenseChange::Release(
            Some("a.com".parse().unwrap()),
            "2026-11-20T10:17:03.123Z".parse().unwrap(),
        );
        check(release, line(ID, released).replace("[\"a.com\"]", "[]"));
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
