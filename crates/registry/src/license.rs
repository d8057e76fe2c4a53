//! One license: a `[[license]]` table, or a line of a JSONL file with the same fields.
//!
//! `licenses` holds all of them.

use std::num::NonZeroU32;
use std::sync::{Arc, LazyLock};

use countersign_model::license::{
    License, LicenseDetails, LicenseStatus, MAX_GRACE_PERIOD_HOURS, Modules, ReleaseTimes, SiteLimit,
};
use countersign_model::license_key::{LicenseId, LicenseKey};
use countersign_model::name::Name;
use countersign_model::rights::{Rights, RightsEdit};
use countersign_model::site_host::SiteHost;

use crate::reader::DocumentReader;
use crate::spanned::{SpannedTable, Value};

/// The fields beside those of [`Rights`].
const FIELDS: &[&str] = &[
    "id",
    "status",
    "expires",
    "modules",
    "sites",
    "staging_sites",
    "site_moves",
    "grace_period_hours",
    "note",
    "hosts",
    "released",
    "replaces",
];

static ALL_FIELDS: LazyLock<Vec<&str>> = LazyLock::new(|| FIELDS.iter().copied().chain(Rights::FIELDS).collect());

/// Whether to keep the licenses' notes; they are checked in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notes {
    Kept,
    Skipped,
}

/// The license of a table, unless it has errors; the reader has the diagnostics.
pub(super) fn license(reader: &mut DocumentReader<'_>, table: &SpannedTable<'_>, notes: Notes) -> Option<License> {
    let complaints_before = reader.complained();
    let note = reader.string(table, "note").map(|(_, note)| note);
    reader.only(table, &ALL_FIELDS);
    reader.without_keys(table);
    for required in ["id", "expires", "modules"] {
        reader.require(table, required);
    }
    let sites = sites(reader, table).unwrap_or(SiteLimit::DEFAULT);
    let license = License {
        id: id(reader, table).unwrap_or(LicenseId::from_bytes([0; 32])),
        status: status(reader, table).unwrap_or(LicenseStatus::Active),
        expires: reader.last_day(table, "expires").unwrap_or_default(),
        modules: Arc::new(modules(reader, table)),
        sites,
        grace_period_hours: reader
            .integer(table, "grace_period_hours", 0..=u32::from(MAX_GRACE_PERIOD_HOURS))
            .and_then(|hours| u16::try_from(hours).ok()),
        details: LicenseDetails {
            hosts: hosts(reader, table, sites).into(),
            released: released(reader, table),
            note: note
                .filter(|_| notes == Notes::Kept)
                .map(str::to_owned)
                .unwrap_or_default(),
            replaces: replaces(reader, table).filter(|_| notes == Notes::Kept),
            staging_sites: limit(reader, table, "staging_sites"),
            site_moves: limit(reader, table, "site_moves"),
            renewal_days: None,
            rights: rights(reader, table),
            remarks: None,
        }
        .into(),
        is_declared: true,
    };
    (reader.complained() == complaints_before).then_some(license)
}

fn id(reader: &mut DocumentReader<'_>, table: &SpannedTable<'_>) -> Option<LicenseId> {
    let (at, text) = reader.string(table, "id")?;
    // No key has as many characters as an id.
    if let Ok(id) = text.parse() {
        return Some(id);
    }
    if let Ok(key) = text.parse::<LicenseKey>() {
        // SECURITY: the diagnostic names the id only.
        reader.complain(
            at,
            format!(
                "\"id\" must not be the license key itself; the key's id is {}",
                key.id()
            ),
        );
        return None;
    }
    reader.parse(at, "id", text)
}

/// No decision depends on it. It tells a person where a license comes from.
fn replaces(reader: &mut DocumentReader<'_>, table: &SpannedTable<'_>) -> Option<LicenseId> {
    let (at, text) = reader.string(table, "replaces")?;
    reader.parse(at, "replaces", text)
}

fn rights(reader: &mut DocumentReader<'_>, table: &SpannedTable<'_>) -> Rights {
    let mut rights = Rights::NONE;
    for name in Rights::FIELDS {
        let Some(field) = table.fields.get(name) else { continue };
        match RightsEdit::of_field(name, field.node.value.to_json()) {
            Ok(edit) => rights = rights.after(&edit),
            Err(expected) => reader.complain(field.node.at, format!("{name:?} must be {expected}")),
        }
    }
    rights
}

fn status(reader: &mut DocumentReader<'_>, table: &SpannedTable<'_>) -> Option<LicenseStatus> {
    let (at, text) = reader.string(table, "status")?;
    let status = [LicenseStatus::Active, LicenseStatus::Suspended, LicenseStatus::Revoked]
        .into_iter()
        .find(|status| status.as_str() == text);
    if status.is_none() {
        reader.complain(at, "\"status\" must be \"active\", \"suspended\" or \"revoked\"");
    }
    status
}

pub(super) fn sites(reader: &mut DocumentReader<'_>, table: &SpannedTable<'_>) -> Option<SiteLimit> {
    let sites = |value: &Value<'_>| match value {
        Value::String(text) if text == "unlimited" => Some(SiteLimit::Unlimited),
        Value::Integer(number) => u32::try_from(*number)
            .ok()
            .and_then(NonZeroU32::new)
            .map(SiteLimit::Limited),
        _ => None,
    };
    let field = table.fields.get("sites")?;
    let found = sites(&field.node.value);
    if found.is_none() {
        reader.complain(
            field.node.at,
            "\"sites\" must be an integer of at least 1, or \"unlimited\"",
        );
    }
    found
}

/// A limit that a license has of its own.
pub(super) fn limit(reader: &mut DocumentReader<'_>, table: &SpannedTable<'_>, field: &str) -> Option<u16> {
    let limit = reader.integer(table, field, 0..=u32::from(u16::MAX));
    limit.and_then(|limit| u16::try_from(limit).ok())
}

pub(super) fn modules(reader: &mut DocumentReader<'_>, table: &SpannedTable<'_>) -> Modules {
    let Some(inner) = reader.table(table, "modules") else {
        return Modules::new();
    };
    if inner.fields.is_empty() {
        reader.complain(inner.at, "\"modules\" must not be empty: such a license grants nothing");
    }
    let mut modules = Modules::new();
    for (module, field) in &inner.fields {
        let name = reader.parse::<Name>(field.at, module, module);
        let features = reader.strings_of(&field.node, module).unwrap_or_default();
        let features = features
            .into_iter()
            .filter_map(|(at, text)| reader.parse(at, module, text))
            .collect();
        modules.extend(name.map(|name| (name, features)));
    }
    modules
}

fn hosts(reader: &mut DocumentReader<'_>, table: &SpannedTable<'_>, sites: SiteLimit) -> Vec<SiteHost> {
    let texts = reader.strings(table, "hosts").unwrap_or_default();
    if let (SiteLimit::Limited(limit), Some((at, _))) = (sites, texts.first())
        && texts.len() > limit.get() as usize
    {
        reader.complain(
            *at,
            format!("\"hosts\" has {} hosts, but \"sites\" is {limit}", texts.len()),
        );
    }
    texts
        .into_iter()
        .filter_map(|(at, text)| host(reader, at, "hosts", text))
        .collect()
}

/// A host in normal form, so that the host in a review is the host that is bound.
fn host(reader: &mut DocumentReader<'_>, at: usize, field: &str, text: &str) -> Option<SiteHost> {
    match text.parse::<SiteHost>() {
        Ok(host) if host.as_str() == text => return Some(host),
        Ok(host) => reader.complain(at, format!("{field:?} has {text:?}, which must be written {host:?}")),
        Err(error) => reader.complain(at, format!("{field:?} has {text:?}, which is not a site host: {error}")),
    }
    None
}

fn released(reader: &mut DocumentReader<'_>, table: &SpannedTable<'_>) -> ReleaseTimes {
    let mut released = ReleaseTimes::default();
    let Some(inner) = reader.table(table, "released") else {
        return released;
    };
    for (name, field) in &inner.fields {
        let time = reader.time(inner, name);
        if name == "*" {
            released.all = time;
        } else if let (Some(host), Some(time)) = (host(reader, field.at, "released", name), time) {
            released.hosts.insert(host, time);
        }
    }
    released
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::licenses::testing::{ID, load};
    use countersign_model::license::Details;

    fn only(files: &[(&str, &str)]) -> License {
        let (licenses, diagnostics) = load(files);
        assert_eq!(diagnostics, [""; 0]);
        assert_eq!(licenses.len(), 1);
        licenses.iter().next().unwrap().clone()
    }

    #[test]
    fn toml_and_json_spell_the_same_license() {
        let toml = format!(
            "[[license]]\nid = \"{ID}\"\nstatus = \"suspended\"\nexpires = 2027-12-31\nsites = 3\nstaging_sites = 2\nsite_moves = 0\ngrace_period_hours = 0\n\
             note = \"a\\nb\"\nhosts = [\"example.com\", \"xn--mnchen-3ya.de\"]\n[license.modules]\nforms = [\"pdf\", \"api\"]\n\
             base = []\n[license.released]\n\"old.example.com\" = 2026-11-20T11:00:00+01:00\n\"*\" = 2026-01-01 00:00:00Z\n"
        );
        let json = format!(
            r#"{{"id":"{ID}","status":"suspended","expires":"2027-12-31","sites":3,"staging_sites":2,"site_moves":0,"grace_period_hours":0,"note":"a\nb",
            "hosts":["example.com","xn--mnchen-3ya.de"],"modules":{{"forms":["pdf","api"],"base":[]}},
            "released":{{"old.example.com":"2026-11-20T10:00:00Z","*":"2026-01-01T00:00:00.000Z"}}}}"#
        )
        .replace('\n', "");
        let license = only(&[("a.toml", &toml)]);
        assert_eq!(license, only(&[("a.jsonl", &format!("\n{json}\r\n"))]));
        assert_eq!(
            (
                license.id.to_string().as_str(),
                license.status,
                license.details.note.as_str()
            ),
            (ID, LicenseStatus::Suspended, "a\nb")
        );
        assert_eq!(
            (license.expires.to_string().as_str(), license.grace_period_hours),
            ("2027-12-31", Some(0))
        );
        assert_eq!(
            license.modules["forms"].iter().map(Name::as_str).collect::<Vec<_>>(),
            ["pdf", "api"]
        );
        assert_eq!(
            (license.details.staging_sites, license.details.site_moves),
            (Some(2), Some(0))
        );
        assert_eq!(license.details.hosts.len(), 2);
        assert_eq!(
            license.details.released.hosts["old.example.com"].to_rfc3339(),
            "2026-11-20T10:00:00+00:00"
        );
        assert_eq!(
            license.details.released.all.unwrap().to_rfc3339(),
            "2026-01-01T00:00:00+00:00"
        );
    }

    #[test]
    fn a_license_without_more_is_active_for_one_site() {
        let license = only(&[(
            "a.toml",
            &format!("[[license]]\nid = '{ID}'\nexpires = 2027-12-31\nmodules.base = []\n"),
        )]);
        assert_eq!(
            (license.status, license.sites, license.grace_period_hours),
            (LicenseStatus::Active, SiteLimit::DEFAULT, None)
        );
        assert_eq!(license.details, Details::default());
    }

    #[test]
    fn every_mistake_of_every_license_is_found_with_its_place() {
        let key = LicenseKey::from_random([7; 20]);
        let text = format!(
            "title = 1\n[[license]]\nid = \"{}\"\nexpires = \"2027-12-31\"\nstatus = \"on\"\nsites = 0\n\
             hosts = [\"https://www.Example.com/\", \"a b\", \"a.com\", \"a.com\"]\ngrace_period_hours = 8761\n[license.modules]\n\
             [[license]]\nid = \"{}\"\nexpire = 2027-12-31\n[license.modules]\n\"my forms\" = [\"pdf\", \"\"]\nbase = true\n\
             [license.released]\n\"Old.com\" = 2026-11-20\n",
            key.reveal(),
            ID.to_uppercase(),
        );
        let (licenses, diagnostics) = load(&[("a.toml", &text)]);
        assert_eq!(licenses.len(), 0);
        let name = "expected 1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-', starting with a letter or a digit";
        assert_eq!(
            diagnostics,
            [
                r#"a.toml:1:1: unknown field "title""#.to_owned(),
                format!(r#"a.toml:3:6: "id" must not be the license key itself; the key's id is {}"#, key.id()),
                r#"a.toml:4:11: "expires" must be a date such as 2027-12-31, not a string"#.into(),
                r#"a.toml:5:10: "status" must be "active", "suspended" or "revoked""#.into(),
                r#"a.toml:6:9: "sites" must be an integer of at least 1, or "unlimited""#.into(),
                r#"a.toml:7:10: "hosts" has 4 hosts, but "sites" is 1"#.into(),
                r#"a.toml:7:10: "hosts" has "https://www.Example.com/", which must be written "example.com""#.into(),
                r#"a.toml:7:38: "hosts" has "a b", which is not a site host: it contains a space, a control character or a backslash"#.into(),
                r#"a.toml:7:54: "hosts" has "a.com" twice"#.into(),
                r#"a.toml:8:22: "grace_period_hours" must be an integer from 0 to 8760"#.into(),
                r#"a.toml:9:1: "modules" must not be empty: such a license grants nothing"#.into(),
                r#"a.toml:10:1: missing field "expires""#.into(),
                r#"a.toml:11:6: "id" is not a SHA-256 digest: expected 64 lower-case hex digits"#.into(),
                r#"a.toml:12:1: unknown field "expire" (did you mean "expires"?)"#.into(),
                format!(r#"a.toml:14:1: "my forms" is not a name: {name}"#),
                format!(r#"a.toml:14:22: "my forms" is not a name: {name}"#),
                r#"a.toml:15:8: "base" must be an array of strings, not a boolean"#.into(),
                r#"a.toml:17:1: "released" has "Old.com", which must be written "old.com""#.into(),
                r#"a.toml:17:13: "Old.com" must be a time such as 2026-11-20T10:17:03Z, not a date"#.into(),
            ]
        );
    }

    #[test]
    fn a_license_key_belongs_in_no_field() {
        let key = LicenseKey::from_random([7; 20]);
        let bare = key.reveal().replace('-', "").to_lowercase();
        let key = key.reveal();
        let toml = format!(
            "[[license]]\nid = '{ID}'\nexpires = 2027-12-31\nnote = 'for {key}.'\nhosts = ['{bare}.com']\n\
             modules = {{ {key} = ['pdf'], base = ['api', '{bare}'] }}\nreleased = {{ '{bare}.com' = 2026-01-01T00:00:00Z }}\n"
        );
        let json = format!(
            r#"{{"id":"{ID}","expires":"2027-12-31","note":"{bare}","hosts":["{bare}.com"],"modules":{{"{key}":["{key}"]}}}}"#
        );
        let (licenses, diagnostics) = load(&[("a.toml", &toml), ("b.jsonl", &(json + "\n"))]);
        let place = |diagnostic: &String| {
            let (place, field) = diagnostic.split_once(": ").unwrap();
            format!(
                "{place} {}",
                field
                    .strip_suffix(" contains a license key: only customers should have keys")
                    .unwrap()
            )
        };
        assert_eq!(
            diagnostics.iter().map(place).collect::<Vec<_>>(),
            [
                "a.toml:4:8 \"note\"",
                "a.toml:5:10 \"hosts\"",
                "a.toml:6:13 \"modules\"",
                "a.toml:6:69 \"modules\"",
                "a.toml:7:14 \"released\"",
                "b.jsonl:1:104 \"note\"",
                "b.jsonl:1:141 \"hosts\"",
                "b.jsonl:1:185 \"modules\"",
                "b.jsonl:1:218 \"modules\"",
            ]
        );
        assert_eq!(licenses.len(), 0);
    }
}
