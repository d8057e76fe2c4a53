//! Changes one license in the text of its file; every other byte stays.
//!
//! New values go to the places `spanned` knows, in TOML and JSON alike. The editor checks the draft and writes it.

use chrono::{DateTime, SecondsFormat, Utc};

use crate::model::license::SiteLimit;
use crate::model::license_key::LicenseId;
use crate::model::site_host::SiteHost;

use crate::registry::change::LicenseChange;
use crate::registry::json;
use crate::registry::spanned::{self, Field, SpannedTable, Value};

/// The text of an export with the license in that line changed; `None` where there is no license.
pub fn json(text: &str, line: usize, changes: &[LicenseChange]) -> Option<String> {
    let start = text.split_inclusive('\n').take(line - 1).map(str::len).sum();
    let (before, rest) = text.split_at(start);
    let node = json::with_places(rest.lines().next()?).ok()?;
    let Value::Table(table) = &node.value else { return None };
    let mut splice = Splice {
        text: rest,
        json: true,
        pieces: vec![],
    };
    changes.iter().for_each(|change| splice.change(table, change));
    Some(format!("{before}{}", splice.finish()))
}

/// The text of a TOML file with that license changed; `None` where it is not in it.
pub fn toml(text: &str, id: &LicenseId, changes: &[LicenseChange]) -> Option<String> {
    let document = spanned::from_toml(text).ok()?;
    let Value::Array(licenses) = &document.fields.get("license")?.node.value else {
        return None;
    };
    let is_meant = |table: &&SpannedTable<'_>| {
        table
            .fields
            .get("id")
            .is_some_and(|field| matches!(&field.node.value, Value::String(text) if text.parse() == Ok(*id)))
    };
    let tables = licenses.iter().filter_map(|node| {
        if let Value::Table(table) = &node.value {
            Some(table)
        } else {
            None
        }
    });
    let table = tables.into_iter().find(is_meant)?;
    let mut splice = Splice {
        text,
        json: false,
        pieces: vec![],
    };
    changes.iter().for_each(|change| splice.change(table, change));
    Some(splice.finish())
}

/// A text, and the pieces of it to be replaced.
struct Splice<'a> {
    text: &'a str,
    json: bool,
    pieces: Vec<(std::ops::Range<usize>, String)>,
}

impl Splice<'_> {
    fn change(&mut self, license: &SpannedTable<'_>, change: &LicenseChange) {
        match change {
            LicenseChange::Expires(date) if self.json => self.set(license, "expires", format!("\"{date}\"")),
            LicenseChange::Expires(date) => self.set(license, "expires", date.to_string()),
            LicenseChange::Status(status) => self.set(license, "status", format!("\"{}\"", status.as_str())),
            LicenseChange::Sites(SiteLimit::Limited(limit)) => self.set(license, "sites", limit.to_string()),
            LicenseChange::Sites(SiteLimit::Unlimited) => self.set(license, "sites", "\"unlimited\"".to_owned()),
            LicenseChange::Note(note) => self.set(license, "note", self.text_literal(note)),
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

    fn set(&mut self, table: &SpannedTable<'_>, name: &str, literal: String) {
        match table.fields.get(name) {
            Some(field) => self.pieces.push((field.node.at..field.node.end, literal)),
            None if self.json => self.insert(table, &format!("\"{name}\""), &literal),
            None => self.insert(table, name, &literal),
        }
    }

    fn release(&mut self, license: &SpannedTable<'_>, name: &str, time: DateTime<Utc>) {
        let time = time.to_rfc3339_opts(SecondsFormat::AutoSi, true);
        let time = if self.json { format!("\"{time}\"") } else { time };
        let key = format!("\"{name}\"");
        match license.fields.get("released").map(|field| &field.node.value) {
            Some(Value::Table(released)) if released.fields.contains_key(name) => self.set(released, name, time),
            Some(Value::Table(released)) if matches!(self.byte(released.at), b'[' | b'{') => {
                self.insert(released, &key, &time);
            }
            Some(Value::Table(released)) => {
                self.insert_behind(end_of_table(released), &format!("released.{key} = {time}"));
            }
            _ if self.json => self.insert(license, "\"released\"", &format!("{{{key}:{time}}}")),
            _ if self.byte(license.at) == b'{' => self.insert(license, &format!("released.{key}"), &time),
            _ => {
                let (place, newline) = self.line_behind(end_of_table(license));
                let table = ["", "[license.released]", &format!("{key} = {time}"), ""].join(newline);
                self.pieces.push((place..place, table));
            }
        }
    }

    /// A text as the file spells it.
    fn text_literal(&self, text: &str) -> String {
        if self.json {
            serde_json::Value::from(text).to_string()
        } else {
            toml_edit::Value::from(text).to_string()
        }
    }

    /// Binds `to` ahead, and no longer `from`; the others keep their order.
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
        let hosts: Vec<_> = others.chain([to.as_str()]).map(|host| format!("\"{host}\"")).collect();
        let separator = if self.json { "," } else { ", " };
        self.set(license, "hosts", format!("[{}]", hosts.join(separator)));
    }

    /// Takes a host, or all of them, out of those that are bound ahead.
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

    /// Adds a field: within braces as the first one, else on a line of its own behind the `id` or the table's header.
    fn insert(&mut self, table: &SpannedTable<'_>, key: &str, literal: &str) {
        if self.byte(table.at) == b'{' {
            let equals = if self.json { ":" } else { " = " };
            let blank = if self.json { "" } else { " " };
            let comma = if table.fields.is_empty() { "" } else { "," };
            let at = table.at + 1;
            return self
                .pieces
                .push((at..at, format!("{blank}{key}{equals}{literal}{comma}")));
        }
        self.insert_behind(
            table.fields.get("id").map_or(table.at, |id| id.node.end),
            &format!("{key} = {literal}"),
        );
    }

    /// Adds a line behind the one in which the byte `at` stands, and indented like it.
    fn insert_behind(&mut self, at: usize, line: &str) {
        let neighbour = &self.text[self.text[..at].rfind('\n').map_or(0, |newline| newline + 1)..];
        let indent = &neighbour[..neighbour.len() - neighbour.trim_start_matches([' ', '\t']).len()];
        let (place, newline) = self.line_behind(at);
        self.pieces.push((place..place, format!("{indent}{line}{newline}")));
    }

    /// Where the line with the byte `at` ends, and how.
    fn line_behind(&self, at: usize) -> (usize, &'static str) {
        let end = self.text[at..]
            .find('\n')
            .map_or(self.text.len(), |newline| at + newline + 1);
        (
            end,
            if self.text[..end].ends_with("\r\n") {
                "\r\n"
            } else {
                "\n"
            },
        )
    }

    fn byte(&self, at: usize) -> u8 {
        self.text.as_bytes().get(at).copied().unwrap_or_default()
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

/// The last byte at which something of the table stands, the tables within included.
fn end_of_table(table: &SpannedTable<'_>) -> usize {
    let end = |field: &Field<'_>| match &field.node.value {
        Value::Table(inner) => field.node.end.max(end_of_table(inner)),
        _ => field.node.end,
    };
    table.fields.values().map(end).max().unwrap_or(table.at)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::model::license::LicenseStatus;

    pub(in crate::registry) const ID: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

    /// The text with the license [`ID`] changed, by the kind of file.
    fn changed(name: &str, text: &str, change: &LicenseChange) -> String {
        let line = text.lines().position(|line| line.contains(ID)).unwrap() + 1;
        if name.ends_with(".jsonl") {
            json(text, line, std::slice::from_ref(change))
        } else {
            toml(text, &ID.parse().unwrap(), std::slice::from_ref(change))
        }
        .unwrap()
    }

    fn expires() -> LicenseChange {
        LicenseChange::Expires("2030-01-02".parse().unwrap())
    }

    fn suspend() -> LicenseChange {
        LicenseChange::Status(LicenseStatus::Suspended)
    }

    fn release(host: Option<&str>) -> LicenseChange {
        LicenseChange::Release(
            host.map(|host| host.parse().unwrap()),
            "2026-11-20T10:17:03.123Z".parse().unwrap(),
        )
    }

    /// A file as people write it, with comments, odd blanks and both line ends; [`ID`] stands first.
    pub(in crate::registry) fn sample() -> String {
        format!(
            "# Sold by hand.\r\n\n[[license]] # first\n  id = '{ID}'   # Zoë's\r\n  expires   =  2027-12-31 # paid\n\
             hosts = [\"a.com\", # A\n  \"b.com\", # B\n  \"c.com\" ]\nsites=3\n# what it has\n[license.modules]\n\
             base = [ ]\n\n[[license]]\nid = '{}'\nexpires = 2027-12-31\nmodules.base = []\n\n# the end\n",
            ID.replace('0', "1")
        )
    }

    #[test]
    fn a_value_is_replaced_and_everything_else_stays_byte_for_byte() {
        assert_eq!(
            changed("a.toml", &sample(), &expires()),
            sample().replacen("2027-12-31", "2030-01-02", 1)
        );
    }

    #[test]
    fn a_field_that_was_not_there_gets_a_line_like_its_neighbours() {
        let expected = sample().replacen("# Zoë's\r\n", "# Zoë's\r\n  status = \"suspended\"\r\n", 1);
        assert_eq!(changed("a.toml", &sample(), &suspend()), expected);
    }

    #[test]
    fn a_released_host_is_no_longer_bound_ahead_and_has_its_time() {
        let table = |host| format!("base = [ ]\n\n[license.released]\n\"{host}\" = 2026-11-20T10:17:03.123Z\n");
        let expected = sample()
            .replacen("base = [ ]\n", &table("b.com"), 1)
            .replacen("\"b.com\", # B\n  ", "", 1);
        assert_eq!(changed("a.toml", &sample(), &release(Some("b.com"))), expected);
        let expected = sample().replacen("base = [ ]\n", &table("*"), 1);
        let (before, rest) = expected.split_once("[\"a.com\"").unwrap();
        let expected = format!("{before}[]{}", rest.split_once("\"c.com\" ]").unwrap().1);
        assert_eq!(changed("a.toml", &sample(), &release(None)), expected);
    }

    #[test]
    fn a_first_release_is_a_table_behind_all_of_the_license() {
        let time = "2026-11-20T10:17:03.123Z";
        for license in [
            format!("[[license]]\r\nmodules.a = []\r\nid = '{ID}'\r\nexpires = 2027-12-31 # paid\r\n"),
            format!("[[license]]\nid = '{ID}'\nexpires = 2027-12-31\n[license.modules]\na = [\n 'x', # [x]\n]\n"),
            format!("[[license]]\nid = '{ID}'\n[license.modules] # none\n"),
        ] {
            let newline = if license.ends_with("\r\n") { "\r\n" } else { "\n" };
            let released = ["", "[license.released]", &format!("\"b.com\" = {time}"), ""].join(newline);
            let rest = format!("\n# next\n[[license]]\nid = '{}'\n", ID.replace('0', "1"));
            let text = changed("a.toml", &format!("{license}{rest}"), &release(Some("b.com")));
            assert_eq!(text, format!("{license}{released}{rest}"));
        }
        let inline = format!("license = [ {{ id = '{ID}', modules = {{ a = [] }} }} ]\n");
        let expected = inline.replacen("[ {", &format!("[ {{ released.\"b.com\" = {time},"), 1);
        assert_eq!(changed("a.toml", &inline, &release(Some("b.com"))), expected);
    }

    #[test]
    fn a_release_is_written_in_the_style_of_those_before_it() {
        let head = format!("[[license]]\nid = '{ID}'\nexpires = 2027-12-31\nmodules.base = []\n");
        let time = "2026-11-20T10:17:03.123Z";
        for (old, new) in [
            ("released = {}\n", format!("released = {{ \"b.com\" = {time}}}\n")),
            (
                "released = { \"a.com\" = 2026-01-01T00:00:00Z }\n",
                format!("released = {{ \"b.com\" = {time}, \"a.com\" = 2026-01-01T00:00:00Z }}\n"),
            ),
            (
                "[license.released] # moved\n\"a.com\" = 2026-01-01T00:00:00Z\n",
                format!("[license.released] # moved\n\"b.com\" = {time}\n\"a.com\" = 2026-01-01T00:00:00Z\n"),
            ),
            (
                "released.'b.com' = 2026-01-01T00:00:00Z # again\n",
                format!("released.'b.com' = {time} # again\n"),
            ),
        ] {
            let text = changed("a.toml", &format!("{head}{old}"), &release(Some("b.com")));
            assert_eq!(text, format!("{head}{new}"));
        }
        let dotted = format!("{head}  released.'a.com' = 2026-01-01T00:00:00Z # moved\n");
        let added = format!("{dotted}  released.\"b.com\" = {time}\n");
        let rest = "\n[[license]]\n";
        assert_eq!(
            changed("a.toml", &(dotted + rest), &release(Some("b.com"))),
            added + rest
        );
    }

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
        let check = |change, new: String| assert_eq!(changed("a.jsonl", &text(&old), &change), text(&new));
        check(expires(), old.replace("2027-12-31", "2030-01-02"));
        check(suspend(), line(ID, "\"status\":\"suspended\","));
        let released = "\"released\":{\"a.com\":\"2026-11-20T10:17:03.123Z\"},";
        check(release(Some("a.com")), line(ID, released).replace("[\"a.com\"]", "[]"));
    }

    #[test]
    fn licenses_in_an_inline_array_are_edited_too() {
        let text = format!("license = [ {{ id = '{ID}', expires = 2027-12-31, modules = {{ a = [] }} }} ]\n");
        assert_eq!(
            changed("a.toml", &text, &suspend()),
            text.replacen("[ {", "[ { status = \"suspended\",", 1)
        );
    }
}
