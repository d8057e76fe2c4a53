//! Changes one license in a JSONL text and keeps every other byte.
//!
//! New values go to the positions from `json`; `serde_json` would write the whole line again, in another order and
//! without its spaces. The editor checks and writes the draft.

use chrono::{DateTime, SecondsFormat, Utc};

use crate::model::license::SiteLimit;
use crate::model::site_host::SiteHost;
use crate::registry::change::LicenseChange;
use crate::registry::json;
use crate::registry::spanned::{SpannedTable, Value};

/// The text with the license of that line changed; `None` if there is no license.
pub(super) fn changed(text: &str, line: usize, changes: &[LicenseChange]) -> Option<String> {
    let start = text.split_inclusive('\n').take(line - 1).map(str::len).sum();
    let (before, rest) = text.split_at(start);
    let node = json::with_places(rest.lines().next()?).ok()?;
    let Value::Table(table) = &node.value else { return None };
    let mut splice = Splice {
        text: rest,
        pieces: vec![],
    };
    changes.iter().for_each(|change| splice.change(table, change));
    Some(format!("{before}{}", splice.finish()))
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
}
