//! Changes one license in a TOML text with `toml_edit`, which keeps comments, spaces and order.
//!
//! Only the license is parsed and written; every other byte of the file stays. `toml_edit` ends each line with `\n`,
//! so the old line ends are restored. It moves the dotted keys of one table together, so a license with other keys
//! between them is not edited. The editor checks and writes the draft.

use similar::{Algorithm, DiffTag, capture_diff_slices};
use toml_edit::{Datetime, Decor, DocumentMut, Item, Key, RawString, TableLike, Value};

use crate::spanned;
use countersign_model::license::SiteLimit;
use countersign_model::license_change::LicenseChange;
use countersign_model::license_key::LicenseId;

/// The text after the change; `None` if it does not have the license, or cannot be changed without a new order.
pub(super) fn changed(text: &str, id: &LicenseId, changes: &[LicenseChange]) -> Option<String> {
    let document = spanned::from_toml(text).ok()?;
    let licenses = spanned::array(&document.fields.get("license")?.node.value)?;
    let is_meant = |node: &&spanned::Node<'_>| {
        let id_of =
            |table: &spanned::SpannedTable<'_>| spanned::string(&table.fields.get("id")?.node.value)?.parse().ok();
        spanned::table(&node.value).and_then(id_of) == Some(*id)
    };
    let license = licenses.iter().find(is_meant)?;
    let start = license.at;
    let is_inline = text[start..].starts_with('{');
    let next = licenses.iter().map(|node| node.at).filter(|at| *at > start).min();
    let end = if is_inline {
        license.end
    } else {
        next.unwrap_or(text.len())
    };
    let old = &text[start..end];
    let new = match is_inline {
        true => inline_table(old, changes)?,
        false => table(old, changes)?,
    };
    Some(format!("{}{new}{}", &text[..start], &text[end..]))
}

/// `[[license]]` and its fields.
fn table(old: &str, changes: &[LicenseChange]) -> Option<String> {
    let removed = changes.iter().filter_map(LicenseChange::removed_field);
    let old = removed.fold(old.to_owned(), |text, name| without_line(&text, name));
    let mut document: DocumentMut = old.parse().ok()?;
    if !document.to_string().lines().eq(old.lines()) {
        return None;
    }
    let license = document.get_mut("license")?.as_array_of_tables_mut()?.get_mut(0)?;
    changes.iter().try_for_each(|change| apply(change, license, false))?;
    Some(with_line_ends(&old, &document.to_string()))
}

/// The text of a license without the line of a field. `toml_edit` would remove the comments above it, too.
fn without_line(text: &str, name: &str) -> String {
    let line = || {
        let document = spanned::from_toml(text).ok()?;
        let license = spanned::array(&document.fields.get("license")?.node.value)?.first()?;
        let field = spanned::table(&license.value)?.fields.get(name)?;
        let start = text[..field.at].rfind('\n').map_or(0, |end| end + 1);
        let end = text[field.node.end..]
            .find('\n')
            .map_or(text.len(), |end| field.node.end + end + 1);
        Some(start..end)
    };
    let mut rest = text.to_owned();
    if let Some(line) = line() {
        rest.replace_range(line, "");
    }
    rest
}

/// `{ id = …, … }` in an array.
fn inline_table(old: &str, changes: &[LicenseChange]) -> Option<String> {
    let mut license: Value = old.parse().ok()?;
    if !license.to_string().lines().eq(old.lines()) {
        return None;
    }
    let table = license.as_inline_table_mut()?;
    changes.iter().try_for_each(|change| apply(change, table, true))?;
    Some(with_line_ends(old, &license.to_string()))
}

fn apply(change: &LicenseChange, license: &mut dyn TableLike, is_inline: bool) -> Option<()> {
    match change {
        LicenseChange::Expires(date) => set(license, is_inline, "expires", datetime(&date.to_string())?),
        LicenseChange::Status(status) => set(license, is_inline, "status", status.as_str().into()),
        LicenseChange::Sites(SiteLimit::Limited(limit)) => {
            set(license, is_inline, "sites", i64::from(limit.get()).into());
        }
        LicenseChange::Sites(SiteLimit::Unlimited) => set(license, is_inline, "sites", "unlimited".into()),
        LicenseChange::StagingSites(limit) => set_or_remove(license, is_inline, "staging_sites", *limit),
        LicenseChange::SiteMoves(limit) => set_or_remove(license, is_inline, "site_moves", *limit),
        LicenseChange::Note(note) => set(license, is_inline, "note", one_line(note)?),
    }
    Some(())
}

fn set_or_remove(license: &mut dyn TableLike, is_inline: bool, name: &str, limit: Option<u16>) {
    match limit {
        Some(limit) => set(license, is_inline, name, i64::from(limit).into()),
        None => drop(license.remove(name)),
    }
}

/// Sets a field. A new one goes after `id`, or to the front within braces.
fn set(table: &mut dyn TableLike, is_inline: bool, name: &str, value: Value) {
    match table.get_mut(name).and_then(Item::as_value_mut) {
        Some(old) => {
            let decor = old.decor().clone();
            *old = value;
            *old.decor_mut() = decor;
        }
        None if is_inline => insert(table, 0, Key::new(name), value),
        None => {
            let behind_id = table.iter().position(|(name, _)| name == "id").map_or(0, |id| id + 1);
            let key = indented(name, table, behind_id);
            insert(table, behind_id, key, value);
        }
    }
}

/// Inserts a field at a position; those from there on follow it.
fn insert(table: &mut dyn TableLike, place: usize, key: Key, value: Value) {
    let behind: Vec<String> = table.iter().skip(place).map(|(name, _)| name.to_owned()).collect();
    let take = |name: String| Some((table.get_key_value(&name)?.0.clone(), table.remove(&name)?));
    let behind: Vec<_> = behind.into_iter().filter_map(take).collect();
    for (key, item) in [(key, Item::Value(value))].into_iter().chain(behind) {
        table.entry_format(&key).or_insert(item);
    }
}

/// A key of a table with one field a line, indented like its neighbour.
fn indented(name: &str, table: &dyn TableLike, place: usize) -> Key {
    let neighbour = table
        .iter()
        .nth(place.saturating_sub(1))
        .map(|(name, _)| name.to_owned());
    let decor = neighbour.and_then(|name| Some(table.get_key_value(&name)?.0.leaf_decor().clone()));
    let before = decor
        .as_ref()
        .and_then(Decor::prefix)
        .and_then(RawString::as_str)
        .unwrap_or_default();
    let indent = before.rsplit('\n').next().unwrap_or_default();
    Key::new(name).with_leaf_decor(Decor::new(indent, " "))
}

/// A date or time; `None` if it does not exist.
fn datetime(text: &str) -> Option<Value> {
    Some(text.parse::<Datetime>().ok()?.into())
}

/// A string without line ends, which the file's line ends might replace.
fn one_line(text: &str) -> Option<Value> {
    let value = Value::from(text);
    if !value.to_string().contains('\n') {
        return Some(value);
    }
    // What JSON escapes, TOML can read; TOML requires one more escape.
    let json = serde_json::Value::from(text).to_string();
    json.replace('\u{7f}', "\\u007f").parse().ok()
}

/// The lines of `new` with their line ends of `old`; a new line gets that of the line before it.
fn with_line_ends(old: &str, new: &str) -> String {
    let old_lines: Vec<&str> = old.split_inclusive('\n').collect();
    // From the end, because a new table has an empty line before it, not after it.
    let bare_old: Vec<&str> = old.lines().rev().collect();
    let bare_new: Vec<&str> = new.lines().rev().collect();
    let mut text = String::with_capacity(new.len() + old.len());
    for piece in capture_diff_slices(Algorithm::Myers, &bare_old, &bare_new)
        .into_iter()
        .rev()
    {
        let replaced = bare_old.len() - piece.old_range().end..bare_old.len() - piece.old_range().start;
        if piece.tag() == DiffTag::Equal {
            text.extend(old_lines[replaced].iter().copied());
            continue;
        }
        let model = old_lines[..replaced.end.min(replaced.start + 1)].last();
        let end = if model.is_some_and(|line| line.ends_with("\r\n")) {
            "\r\n"
        } else {
            "\n"
        };
        for line in bare_new[piece.new_range()].iter().rev() {
            if !text.is_empty() && !text.ends_with('\n') {
                text += end;
            }
            text += line;
            text += end;
        }
    }
    if !old.ends_with('\n') && text.ends_with('\n') {
        text.truncate(text.trim_end_matches(['\r', '\n']).len());
    }
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use countersign_model::license::LicenseStatus;

    pub(crate) const ID: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

    /// The text after a change of the license [`ID`].
    fn after(text: &str, change: &LicenseChange) -> String {
        changed(text, &ID.parse().unwrap(), std::slice::from_ref(change)).unwrap()
    }

    fn expires() -> LicenseChange {
        LicenseChange::Expires("2030-01-02".parse().unwrap())
    }

    fn suspend() -> LicenseChange {
        LicenseChange::Status(LicenseStatus::Suspended)
    }

    /// A file as people write it, with comments, odd spaces and both line ends; [`ID`] comes first.
    pub(crate) fn sample() -> String {
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
            after(&sample(), &expires()),
            sample().replacen("2027-12-31", "2030-01-02", 1)
        );
    }

    #[test]
    fn a_field_that_was_not_there_gets_a_line_like_its_neighbours() {
        let expected = sample().replacen("# Zoë's\r\n", "# Zoë's\r\n  status = \"suspended\"\r\n", 1);
        assert_eq!(after(&sample(), &suspend()), expected);
    }

    #[test]
    fn a_limit_that_is_the_servers_again_leaves_only_its_line() {
        for line in ["staging_sites = 3 # by phone\r\n", "  staging_sites=3\n"] {
            let with_line = sample().replacen("sites=3\n", &format!("# above\n{line}sites=3\n"), 1);
            assert_eq!(
                after(&with_line, &LicenseChange::StagingSites(None)),
                with_line.replacen(line, "", 1)
            );
        }
        let last = format!("[[license]]\nid = '{ID}'\nsite_moves = 3");
        let bare = format!("[[license]]\nid = '{ID}'\n");
        assert_eq!(after(&last, &LicenseChange::SiteMoves(None)), bare);
        let inline = format!("license = [ {{ id = '{ID}', site_moves = 3, modules = {{ a = [] }} }} ]\n");
        assert_eq!(
            after(&inline, &LicenseChange::SiteMoves(None)),
            inline.replacen(" site_moves = 3,", "", 1)
        );
        assert_eq!(after(&sample(), &LicenseChange::StagingSites(None)), sample());
        let mixed = format!("[[license]]\nid = '{ID}'\nsite_moves = 3\nstaging_sites = 3\n");
        let changes = [LicenseChange::StagingSites(None), LicenseChange::SiteMoves(Some(4))];
        let expected = format!("[[license]]\nid = '{ID}'\nsite_moves = 4\n");
        assert_eq!(changed(&mixed, &ID.parse().unwrap(), &changes), Some(expected));
    }

    #[test]
    fn licenses_in_an_inline_array_are_edited_too() {
        let text = format!("license = [ {{ id = '{ID}', expires = 2027-12-31, modules = {{ a = [] }} }} ]\n");
        assert_eq!(
            after(&text, &suspend()),
            text.replacen("[ {", "[ { status = \"suspended\",", 1)
        );
    }

    #[test]
    fn every_line_keeps_its_end_and_a_new_one_ends_like_the_line_before_it() {
        let note = LicenseChange::Note("two\r\nlines\u{7f}".into());
        for (old, new) in [
            ("\r\nsites = 3\n", "\r\nnote = \"two\\r\\nlines\\u007f\"\r\nsites = 3\n"),
            ("\nsites = 3\r\n", "\nnote = \"two\\r\\nlines\\u007f\"\nsites = 3\r\n"),
            ("", "\nnote = \"two\\r\\nlines\\u007f\""),
            (
                "\nnote = \"\"\"\r\na\nb\"\"\" # old\r\n",
                "\nnote = \"two\\r\\nlines\\u007f\" # old\r\n",
            ),
        ] {
            let head = format!("[[license]]\r\nid = '{ID}'");
            assert_eq!(after(&format!("{head}{old}"), &note), format!("{head}{new}"));
        }
    }

    #[test]
    fn a_license_whose_order_would_change_is_not_edited_and_keeps_no_other_from_it() {
        let mixed = format!("[[license]]\nmodules.a = []\nid = '{ID}'\nmodules.b = []\n");
        assert_eq!(changed(&mixed, &ID.parse().unwrap(), &[suspend()]), None);
        let other = mixed.replace(ID, &ID.replace('0', "1"));
        let license = format!("[[license]]\nid = '{ID}'\n");
        assert_eq!(
            after(&format!("{other}{license}{other}"), &suspend()),
            format!("{other}{license}status = \"suspended\"\n{other}")
        );
    }

    proptest! {
        #[test]
        fn a_file_is_given_back_byte_for_byte_where_nothing_changes(
            lines in prop::collection::vec(
                ("[ \t]{0,2}", "(sites = 3|hosts = \\[ 'a' , \\]|# c|)", "[ \t]{0,2}(# d)?", any::<bool>()),
                0..6,
            ),
            ends in any::<bool>(),
        ) {
            let mut text = format!("# head\r\n[[license]]\nid = '{ID}' # x\r\n");
            let mut seen = std::collections::BTreeSet::new();
            for (blank, field, behind, crlf) in &lines {
                let field = if field.contains('=') && !seen.insert(field) { "" } else { field };
                text += &format!("{blank}{field}{behind}{}", if *crlf { "\r\n" } else { "\n" });
            }
            if ends {
                text.truncate(text.trim_end().len());
            }
            prop_assert_eq!(changed(&text, &ID.parse().unwrap(), &[]), Some(text));
        }
    }
}
