//! Edits of license files: one person's command changes one license, and the rest of the file stays byte for byte.
//!
//! Values are spliced into the text at the places `document` knows, in TOML and JSON alike. A draft is written only once the
//! whole registry loads with it and says what was meant; the server notices the new file.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::{DateTime, NaiveDate, SecondsFormat, Utc};
use toml_edit::{Array, ArrayOfTables, DocumentMut, Item, Table as NewTable, value};

use crate::durable_file;
use crate::model::license::{License, Sites, Status};
use crate::model::license_key::LicenseId;
use crate::model::name::Name;
use crate::model::site_host::SiteHost;

use super::document::{self, Table, Value};
use super::files::RegistryFiles;
use super::{Registry, RegistryError};

/// What a command changes about a license.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Its last day.
    Expires(NaiveDate),
    /// The vendor's word.
    Status(Status),
    /// Bindings of this host, or of all with `None`, made before that time are void; and it is no longer bound ahead.
    Release(Option<SiteHost>, DateTime<Utc>),
}

/// Why a license was not edited. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// The registry does not load as it is.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// It would not load afterwards.
    #[error("the registry would not load with this change, so nothing was written")]
    WouldNotLoad(#[source] RegistryError),
    /// The splice would not say what was meant.
    #[error("{}: its layout is too unusual to be edited by a program", path.display())]
    Layout {
        /// The file.
        path: PathBuf,
    },
    /// Somebody else wrote the file in between.
    #[error("{}: changed while it was edited", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The disk failed.
    #[error("{}: cannot be edited", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The registry, held against other editing commands until it is dropped.
#[derive(Debug)]
pub struct Editor {
    folder: PathBuf,
    registry: Registry,
    _lock: File,
}

impl Editor {
    /// Waits for other commands that edit licenses, then loads the registry.
    pub fn open(folder: &Path) -> Result<Self, EditError> {
        let licenses = folder.join("licenses");
        // The folder itself is locked: no file is left behind, and the lock dies with the process.
        let lock = File::open(&licenses).and_then(|lock| lock.lock().map(|()| lock));
        let lock = lock.map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => RegistryError::NoFolder { path: licenses.clone() }.into(),
            _ => EditError::Io { path: licenses.clone(), source },
        })?;
        Ok(Self { folder: folder.to_owned(), registry: Registry::load(folder)?, _lock: lock })
    }

    /// The registry as it stands.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Appends a license to `licenses/<name>`, a TOML file that need not be there yet; returns its path.
    pub fn add(self, name: &str, license: &License) -> Result<PathBuf, EditError> {
        let path = self.folder.join("licenses").join(name);
        let old = match fs::read_to_string(&path) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(source) => return Err(EditError::Io { path, source }),
        };
        let blank = if old.is_some() { "\n" } else { "" };
        let new = format!("{}{blank}{}", old.as_deref().unwrap_or_default(), license_toml(license));
        self.write(&path, old, new, license)?;
        Ok(path)
    }

    /// Changes a license where it stands.
    pub fn change(self, license: &Arc<License>, change: &Change) -> Result<(), EditError> {
        let Some((path, line)) = self.registry.place(&license.id) else { return Ok(()) };
        let path = path.to_owned();
        let old = fs::read_to_string(&path).map_err(|source| EditError::Io { path: path.clone(), source })?;
        let json = path.extension().is_some_and(|extension| extension == "jsonl");
        let new = if json { changed_json(&old, line, change) } else { changed_toml(&old, &license.id, change) };
        let new = new.ok_or_else(|| EditError::Layout { path: path.clone() })?;
        self.write(&path, Some(old), new, &change.applied_to(license))
    }

    fn write(&self, path: &Path, old: Option<String>, new: String, meant: &License) -> Result<(), EditError> {
        let draft = RegistryFiles::folder(&self.folder).with_draft(path, new.clone());
        let registry = Registry::read(&draft).map_err(EditError::WouldNotLoad)?;
        let others = usize::from(self.registry.license(&meant.id).is_none()) + self.registry.license_count();
        if registry.license(&meant.id).is_none_or(|found| **found != *meant) || registry.license_count() != others {
            return Err(EditError::Layout { path: path.to_owned() });
        }
        // A text editor knows nothing of the lock.
        if fs::read_to_string(path).ok() != old {
            return Err(EditError::Changed { path: path.to_owned() });
        }
        durable_file::replace(path, new.as_bytes()).map_err(|source| EditError::Io { path: path.to_owned(), source })
    }
}

impl Change {
    fn applied_to(&self, license: &License) -> License {
        let mut license = license.clone();
        match self {
            Self::Expires(date) => license.expires = *date,
            Self::Status(status) => license.status = *status,
            Self::Release(None, time) => {
                license.hosts.clear();
                license.released.all = Some(*time);
            }
            Self::Release(Some(host), time) => {
                license.hosts.retain(|bound| bound != host);
                license.released.hosts.insert(host.clone(), *time);
            }
        }
        license
    }
}

fn license_toml(license: &License) -> String {
    let mut table = NewTable::new();
    table["id"] = value(license.id.to_string());
    table["expires"] = date_value(license.expires);
    match license.sites {
        Sites::DEFAULT => {}
        Sites::Limited(limit) => table["sites"] = value(i64::from(limit.get())),
        Sites::Unlimited => table["sites"] = value("unlimited"),
    }
    if let Some(hours) = license.grace_period_hours {
        table["grace_period_hours"] = value(i64::from(hours));
    }
    if !license.note.is_empty() {
        table["note"] = value(&license.note);
    }
    if !license.hosts.is_empty() {
        table["hosts"] = value(license.hosts.iter().map(SiteHost::as_str).collect::<Array>());
    }
    let features = |features: &[Name]| value(features.iter().map(Name::as_str).collect::<Array>());
    let modules = license.modules.iter().map(|(module, names)| (module.as_str(), features(names)));
    table["modules"] = Item::Table(modules.collect());
    let mut document = DocumentMut::new();
    document["license"] = Item::ArrayOfTables(ArrayOfTables::from_iter([table]));
    document.to_string()
}

fn date_value(date: NaiveDate) -> Item {
    // A day from the calendar is a TOML date.
    date.to_string().parse::<toml_edit::Datetime>().map_or(Item::None, value)
}

fn changed_json(text: &str, line: usize, change: &Change) -> Option<String> {
    let start = text.split_inclusive('\n').take(line - 1).map(str::len).sum();
    let (before, rest) = text.split_at(start);
    let node = document::from_json(rest.lines().next()?).ok()?;
    let Value::Table(table) = &node.value else { return None };
    let mut splice = Splice { text: rest, json: true, pieces: vec![] };
    splice.change(table, change);
    Some(format!("{before}{}", splice.finish()))
}

fn changed_toml(text: &str, id: &LicenseId, change: &Change) -> Option<String> {
    let document = document::from_toml(text).ok()?;
    let Value::Array(licenses) = &document.fields.get("license")?.node.value else { return None };
    let is_meant = |table: &&Table<'_>| {
        table
            .fields
            .get("id")
            .is_some_and(|field| matches!(&field.node.value, Value::String(text) if text.parse() == Ok(*id)))
    };
    let tables =
        licenses.iter().filter_map(|node| if let Value::Table(table) = &node.value { Some(table) } else { None });
    let table = tables.into_iter().find(is_meant)?;
    let mut splice = Splice { text, json: false, pieces: vec![] };
    splice.change(table, change);
    Some(splice.finish())
}

/// A text, and the pieces of it to be replaced.
struct Splice<'a> {
    text: &'a str,
    json: bool,
    pieces: Vec<(std::ops::Range<usize>, String)>,
}

impl Splice<'_> {
    fn change(&mut self, license: &Table<'_>, change: &Change) {
        match change {
            Change::Expires(date) if self.json => self.set(license, "expires", format!("\"{date}\"")),
            Change::Expires(date) => self.set(license, "expires", date.to_string()),
            Change::Status(status) => self.set(license, "status", format!("\"{}\"", status.as_str())),
            Change::Release(host, time) => {
                let host = host.as_ref().map(SiteHost::as_str);
                self.release(license, host.unwrap_or("*"), *time);
                self.unbind(license, host);
            }
        }
    }

    fn set(&mut self, table: &Table<'_>, name: &str, literal: String) {
        match table.fields.get(name) {
            Some(field) => self.pieces.push((field.node.at..field.node.end, literal)),
            None if self.json => self.insert(table, &format!("\"{name}\""), &literal),
            None => self.insert(table, name, &literal),
        }
    }

    fn release(&mut self, license: &Table<'_>, name: &str, time: DateTime<Utc>) {
        let time = time.to_rfc3339_opts(SecondsFormat::AutoSi, true);
        let time = if self.json { format!("\"{time}\"") } else { time };
        let key = format!("\"{name}\"");
        match license.fields.get("released").map(|field| &field.node.value) {
            Some(Value::Table(released)) if released.fields.contains_key(name) => self.set(released, name, time),
            Some(Value::Table(released)) if matches!(self.byte(released.at), b'[' | b'{') => {
                self.insert(released, &key, &time);
            }
            _ if self.json => self.insert(license, "\"released\"", &format!("{{{key}:{time}}}")),
            _ => self.insert(license, &format!("released.{key}"), &time),
        }
    }

    /// Takes a host, or all of them, out of those that are bound ahead.
    fn unbind(&mut self, license: &Table<'_>, host: Option<&str>) {
        let Some(field) = license.fields.get("hosts") else { return };
        let Value::Array(items) = &field.node.value else { return };
        let is_host = |host| items.iter().position(|item| matches!(&item.value, Value::String(text) if text == host));
        let place = match (host, host.map(is_host)) {
            (Some(_), Some(None)) => return,
            (Some(_), Some(Some(index))) if index + 1 < items.len() => items[index].at..items[index + 1].at,
            (Some(_), Some(Some(index))) if index > 0 => items[index - 1].end..items[index].end,
            _ => return self.pieces.push((field.node.at..field.node.end, "[]".to_owned())),
        };
        self.pieces.push((place, String::new()));
    }

    /// Adds a field: within braces as the first one, else on a line of its own behind the `id` or the table's header.
    fn insert(&mut self, table: &Table<'_>, key: &str, literal: &str) {
        if self.byte(table.at) == b'{' {
            let equals = if self.json { ":" } else { " = " };
            let blank = if self.json { "" } else { " " };
            let comma = if table.fields.is_empty() { "" } else { "," };
            let at = table.at + 1;
            return self.pieces.push((at..at, format!("{blank}{key}{equals}{literal}{comma}")));
        }
        let anchor = table.fields.get("id").map_or(table.at, |id| id.node.end);
        let line_start = self.text[..anchor].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = self.text[anchor..].find('\n').map_or(self.text.len(), |newline| anchor + newline + 1);
        let line = &self.text[line_start..line_end];
        let indent = &line[..line.len() - line.trim_start_matches([' ', '\t']).len()];
        let newline = if line.ends_with("\r\n") { "\r\n" } else { "\n" };
        self.pieces.push((line_end..line_end, format!("{indent}{key} = {literal}{newline}")));
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

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

    struct Instance(tempfile::TempDir);

    impl Instance {
        fn new(name: &str, text: &str) -> Self {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir(folder.path().join("plugins")).unwrap();
            fs::create_dir(folder.path().join("licenses")).unwrap();
            fs::write(folder.path().join("licenses").join(name), text).unwrap();
            Self(folder)
        }

        fn change(&self, change: &Change) -> Result<(), EditError> {
            let editor = Editor::open(self.0.path()).unwrap();
            let license = editor.registry().license(&ID.parse().unwrap()).unwrap().clone();
            editor.change(&license, change)
        }

        fn text(&self, name: &str) -> String {
            fs::read_to_string(self.0.path().join("licenses").join(name)).unwrap()
        }
    }

    fn changed(name: &str, text: &str, change: &Change) -> String {
        let instance = Instance::new(name, text);
        instance.change(change).unwrap();
        instance.text(name)
    }

    fn expires() -> Change {
        Change::Expires("2030-01-02".parse().unwrap())
    }

    fn suspend() -> Change {
        Change::Status(Status::Suspended)
    }

    fn release(host: Option<&str>) -> Change {
        Change::Release(host.map(|host| host.parse().unwrap()), "2026-11-20T10:17:03.123Z".parse().unwrap())
    }

    fn toml() -> String {
        format!(
            "# Sold by hand.\r\n\n[[license]] # first\n  id = '{ID}'   # Zoë's\r\n  expires   =  2027-12-31 # paid\n\
             hosts = [\"a.com\", # A\n  \"b.com\", # B\n  \"c.com\" ]\nsites=3\n# what it has\n[license.modules]\n\
             base = [ ]\n\n[[license]]\nid = '{}'\nexpires = 2027-12-31\nmodules.base = []\n\n# the end\n",
            ID.replace('0', "1")
        )
    }

    #[test]
    fn a_value_is_replaced_and_everything_else_stays_byte_for_byte() {
        assert_eq!(changed("a.toml", &toml(), &expires()), toml().replacen("2027-12-31", "2030-01-02", 1));
    }

    #[test]
    fn a_field_that_was_not_there_gets_a_line_like_its_neighbours() {
        let expected = toml().replacen("# Zoë's\r\n", "# Zoë's\r\n  status = \"suspended\"\r\n", 1);
        assert_eq!(changed("a.toml", &toml(), &suspend()), expected);
    }

    #[test]
    fn a_released_host_is_no_longer_bound_ahead_and_has_its_time() {
        let line = "# Zoë's\r\n  released.\"b.com\" = 2026-11-20T10:17:03.123Z\r\n";
        let expected = toml().replacen("# Zoë's\r\n", line, 1).replacen("\"b.com\", # B\n  ", "", 1);
        assert_eq!(changed("a.toml", &toml(), &release(Some("b.com"))), expected);
        let line = line.replace("b.com", "*");
        let expected = toml().replacen("# Zoë's\r\n", &line, 1);
        let (before, rest) = expected.split_once("[\"a.com\"").unwrap();
        let expected = format!("{before}[]{}", rest.split_once("\"c.com\" ]").unwrap().1);
        assert_eq!(changed("a.toml", &toml(), &release(None)), expected);
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
            ("released.'b.com' = 2026-01-01T00:00:00Z # again\n", format!("released.'b.com' = {time} # again\n")),
        ] {
            let text = changed("a.toml", &format!("{head}{old}"), &release(Some("b.com")));
            assert_eq!(text, format!("{head}{new}"));
        }
        let dotted = format!("{head}released.'a.com' = 2026-01-01T00:00:00Z\n");
        let added = dotted.replacen("expires", &format!("released.\"b.com\" = {time}\nexpires"), 1);
        assert_eq!(changed("a.toml", &dotted, &release(Some("b.com"))), added);
    }

    #[test]
    fn one_line_of_an_export_is_rewritten_and_no_other() {
        let line = |id: &str, more: &str| {
            format!(
                "{{{more} \"id\": \"{id}\", \"expires\":\"2027-12-31\",\"modules\":{{\"a\":[]}},\"hosts\":[\"a.com\"]}}\r\n"
            )
        };
        let other = line(&ID.replace('0', "1"), "").replace("a.com", "é.com").replace("é", "x");
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
        assert_eq!(changed("a.toml", &text, &suspend()), text.replacen("[ {", "[ { status = \"suspended\",", 1));
    }

    #[test]
    fn a_new_license_is_appended_and_reads_back_as_it_was_meant() {
        let instance = Instance::new("a.toml", &toml());
        let editor = Editor::open(instance.0.path()).unwrap();
        let mut license = editor.registry().licenses().next().unwrap().as_ref().clone();
        license.id = LicenseId::from_bytes([7; 32]);
        license.note = "two\nlines, \"quoted\" \\ 🦀".into();
        license.modules = Arc::new([("v2.pdf".parse().unwrap(), vec!["api".parse().unwrap()])].into());
        license.sites = Sites::Unlimited;
        license.grace_period_hours = Some(0);
        editor.add("a.toml", &license).unwrap();
        let added = instance.text("a.toml").strip_prefix(&toml()).unwrap().to_owned();
        assert!(
            added.starts_with(&format!("\n[[license]]\nid = \"{}\"\nexpires = 2027-12-31\n", license.id)),
            "{added}"
        );
        license.id = LicenseId::from_bytes([8; 32]);
        let editor = Editor::open(instance.0.path()).unwrap();
        editor.add("b.toml", &license).unwrap();
        assert!(instance.text("b.toml").starts_with("[[license]]\n"));
        assert_eq!(Registry::load(instance.0.path()).unwrap().license_count(), 4);
    }

    #[test]
    fn nothing_is_written_where_the_registry_would_not_load() {
        let instance = Instance::new("a.toml", &toml());
        let editor = Editor::open(instance.0.path()).unwrap();
        let mut license = editor.registry().license(&ID.parse().unwrap()).unwrap().as_ref().clone();
        license.modules = Arc::default();
        license.id = LicenseId::from_bytes([7; 32]);
        assert!(matches!(editor.add("a.toml", &license), Err(EditError::WouldNotLoad(_))));
        assert_eq!(instance.text("a.toml"), toml());
    }

    #[test]
    fn a_file_that_a_text_editor_changed_meanwhile_is_not_overwritten() {
        let instance = Instance::new("a.toml", &toml());
        let editor = Editor::open(instance.0.path()).unwrap();
        let license = editor.registry().license(&ID.parse().unwrap()).unwrap().as_ref().clone();
        let path = instance.0.path().join("licenses/a.toml");
        let (old, new) = (toml() + "# theirs, before it was read\n", toml());
        assert!(matches!(editor.write(&path, Some(old), new, &license), Err(EditError::Changed { .. })));
    }

    #[test]
    fn editors_wait_for_each_other_and_lose_nothing() {
        let instance = Instance::new("a.toml", &toml());
        let folder = instance.0.path();
        std::thread::scope(|scope| {
            for number in 1..=8 {
                scope.spawn(move || {
                    let editor = Editor::open(folder).unwrap();
                    let mut license = editor.registry().license(&ID.parse().unwrap()).unwrap().as_ref().clone();
                    license.id = LicenseId::from_bytes([number; 32]);
                    editor.add("a.toml", &license).unwrap();
                });
            }
        });
        assert_eq!(Registry::load(folder).unwrap().license_count(), 10);
    }
}
