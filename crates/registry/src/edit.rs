//! Edits license files: changes one license and keeps the rest of the file byte for byte.
//!
//! `toml_text` and `json_text` make the draft. It is written only if the whole registry loads with it and has exactly
//! the intended change. The server notices the new file.

mod json_text;
mod toml_text;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::NaiveDate;
use toml_edit::{Array, ArrayOfTables, DocumentMut, Item, Table, value};

use countersign_files::durable_file;
use countersign_files::folder_lock;
use countersign_files::regular_file;
use countersign_model::license::{License, LicenseDetails, LicenseStatus, SiteLimit};
use countersign_model::name::Name;
use countersign_model::site_host::SiteHost;

use crate::Registry;
use crate::error::RegistryError;
use crate::files::{RegistryFiles, limit_of};
use countersign_model::license_change::LicenseChange;

/// How long to wait for other commands that edit licenses; one takes seconds for a million of them.
const OTHERS: Duration = Duration::from_secs(10);

/// Why a license was not changed. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// The registry does not load.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// It would not load after the change.
    #[error("the registry would not load with this change, so nothing was written")]
    WouldNotLoad(#[source] RegistryError),
    /// The draft does not have the intended change.
    #[error("{}: its layout is too unusual to edit automatically", path.display())]
    Layout {
        /// The file.
        path: PathBuf,
    },
    /// Another program wrote the file meanwhile.
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

/// The registry, locked against other editing commands until it is dropped.
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
        let lock = folder_lock::hold(&licenses, OTHERS).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => RegistryError::NoFolder { path: licenses.clone() }.into(),
            _ => EditError::Io {
                path: licenses.clone(),
                source,
            },
        })?;
        Ok(Self {
            folder: folder.to_owned(),
            registry: Registry::load_licenses(folder)?,
            _lock: lock,
        })
    }

    /// The registry, if nothing needs to change.
    pub fn into_registry(self) -> Registry {
        self.registry
    }

    /// The current registry.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The path of `licenses/<name>` in the registry `folder`.
    pub fn file(folder: &Path, name: &str) -> PathBuf {
        folder.join("licenses").join(name)
    }

    /// Adds a license to `licenses/<name>`, a TOML or JSONL file that need not exist.
    pub fn add(self, name: &str, license: &License) -> Result<(), EditError> {
        let path = Self::file(&self.folder, name);
        let old = match regular_file::read_to_string(&path, limit_of(&path)) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(source) => return Err(EditError::Io { path, source }),
        };
        let new = appended(&path, old.as_deref().unwrap_or_default(), license);
        self.write(&path, old, new, &[license])?;
        Ok(())
    }

    /// Changes a license in its file, in one write; returns the new registry.
    pub fn change(self, license: &License, changes: &[LicenseChange]) -> Result<Registry, EditError> {
        let (path, old, new) = self.draft(license, changes)?;
        let changed = LicenseChange::all_applied_to(changes, license);
        self.write(&path, Some(old), new, &[&changed])
    }

    /// Changes a license and adds `new` to the same file, in one write; returns the new registry.
    pub fn replace(self, old: &License, changes: &[LicenseChange], new: &License) -> Result<Registry, EditError> {
        let (path, text, draft) = self.draft(old, changes)?;
        let draft = appended(&path, &draft, new);
        let changed = LicenseChange::all_applied_to(changes, old);
        self.write(&path, Some(text), draft, &[&changed, new])
    }

    /// The file of a license, its text, and the text after the change.
    fn draft(&self, license: &License, changes: &[LicenseChange]) -> Result<(PathBuf, String, String), EditError> {
        let (path, line) = self.registry.place(&license.id).ok_or_else(|| EditError::Layout {
            path: self.folder.clone(),
        })?;
        let path = path.to_owned();
        let old = regular_file::read_to_string(&path, limit_of(&path)).map_err(|source| EditError::Io {
            path: path.clone(),
            source,
        })?;
        let new = match is_json(&path) {
            true => json_text::changed(&old, line, changes),
            false => toml_text::changed(&old, &license.id, changes),
        };
        let new = new.ok_or_else(|| EditError::Layout { path: path.clone() })?;
        Ok((path, old, new))
    }

    fn write(&self, path: &Path, old: Option<String>, new: String, meant: &[&License]) -> Result<Registry, EditError> {
        let draft = RegistryFiles::folder(&self.folder).with_draft(path, new.clone());
        let registry = Registry::read_licenses(&draft).map_err(EditError::WouldNotLoad)?;
        let added = meant
            .iter()
            .filter(|license| self.registry.license(&license.id).is_none())
            .count();
        let is_meant = |license: &&License| registry.license(&license.id).is_some_and(|found| found == *license);
        if !meant.iter().all(is_meant) || registry.license_count() != self.registry.license_count() + added {
            return Err(EditError::Layout { path: path.to_owned() });
        }
        // A text editor does not know the lock.
        if regular_file::read_to_string(path, limit_of(path)).ok() != old {
            return Err(EditError::Changed { path: path.to_owned() });
        }
        durable_file::replace(path, new.as_bytes()).map_err(|source| EditError::Io {
            path: path.to_owned(),
            source,
        })?;
        Ok(registry)
    }
}

fn is_json(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "jsonl")
}

/// The text of a file with another license.
fn appended(path: &Path, text: &str, license: &License) -> String {
    match is_json(path) {
        true => format!("{text}{}", license_json(license)),
        false if text.is_empty() => license_toml(license),
        false => format!("{text}\n{}", license_toml(license)),
    }
}

/// A line of JSONL.
fn license_json(license: &License) -> String {
    let mut line = serde_json::Map::new();
    line.insert("id".into(), license.id.to_string().into());
    if license.status != LicenseStatus::Active {
        line.insert("status".into(), license.status.as_str().into());
    }
    line.insert("expires".into(), license.expires.to_string().into());
    match license.sites {
        SiteLimit::DEFAULT => {}
        SiteLimit::Limited(limit) => drop(line.insert("sites".into(), limit.get().into())),
        SiteLimit::Unlimited => drop(line.insert("sites".into(), "unlimited".into())),
    }
    if let Some(hours) = license.grace_period_hours {
        line.insert("grace_period_hours".into(), hours.into());
    }
    let LicenseDetails {
        staging_sites,
        site_moves,
        ..
    } = *license.details;
    for (name, limit) in [("staging_sites", staging_sites), ("site_moves", site_moves)] {
        if let Some(limit) = limit {
            line.insert(name.into(), limit.into());
        }
    }
    if !license.details.hosts.is_empty() {
        let hosts = license.details.hosts.iter().map(SiteHost::as_str).collect::<Vec<_>>();
        line.insert("hosts".into(), hosts.into());
    }
    if !license.details.note.is_empty() {
        line.insert("note".into(), license.details.note.as_str().into());
    }
    if let Some(id) = &license.details.replaces {
        line.insert("replaces".into(), id.to_string().into());
    }
    let modules: serde_json::Map<_, _> = license
        .modules
        .iter()
        .map(|(module, names)| {
            let features: Vec<&str> = names.iter().map(Name::as_str).collect();
            (module.as_str().to_owned(), features.into())
        })
        .collect();
    line.insert("modules".into(), modules.into());
    format!("{}\n", serde_json::Value::Object(line))
}

fn license_toml(license: &License) -> String {
    let mut table = Table::new();
    table["id"] = value(license.id.to_string());
    if license.status != LicenseStatus::Active {
        table["status"] = value(license.status.as_str());
    }
    table["expires"] = date_value(license.expires);
    match license.sites {
        SiteLimit::DEFAULT => {}
        SiteLimit::Limited(limit) => table["sites"] = value(i64::from(limit.get())),
        SiteLimit::Unlimited => table["sites"] = value("unlimited"),
    }
    if let Some(hours) = license.grace_period_hours {
        table["grace_period_hours"] = value(i64::from(hours));
    }
    let LicenseDetails {
        staging_sites,
        site_moves,
        ..
    } = *license.details;
    for (name, limit) in [("staging_sites", staging_sites), ("site_moves", site_moves)] {
        if let Some(limit) = limit {
            table[name] = value(i64::from(limit));
        }
    }
    if !license.details.hosts.is_empty() {
        table["hosts"] = value(license.details.hosts.iter().map(SiteHost::as_str).collect::<Array>());
    }
    if !license.details.note.is_empty() {
        table["note"] = value(&license.details.note);
    }
    if let Some(id) = &license.details.replaces {
        table["replaces"] = value(id.to_string());
    }
    let features = |features: &[Name]| value(features.iter().map(Name::as_str).collect::<Array>());
    let modules = license
        .modules
        .iter()
        .map(|(module, names)| (module.as_str(), features(names)));
    table["modules"] = Item::Table(modules.collect());
    let mut document = DocumentMut::new();
    document["license"] = Item::ArrayOfTables(ArrayOfTables::from_iter([table]));
    document.to_string()
}

fn date_value(date: NaiveDate) -> Item {
    // A day from the calendar is a valid TOML date.
    date.to_string()
        .parse::<toml_edit::Datetime>()
        .map_or(Item::None, value)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use std::sync::Arc;

    use super::*;
    use crate::edit::toml_text::tests::{ID, sample};
    use countersign_model::license_key::LicenseId;

    struct Instance(tempfile::TempDir);

    impl Instance {
        fn new(name: &str, text: &str) -> Self {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir(folder.path().join("plugins")).unwrap();
            fs::create_dir(folder.path().join("licenses")).unwrap();
            fs::write(folder.path().join("licenses").join(name), text).unwrap();
            Self(folder)
        }

        fn change(&self, change: &LicenseChange) -> Result<Registry, EditError> {
            let editor = Editor::open(self.0.path()).unwrap();
            let license = editor.registry().license(&ID.parse().unwrap()).unwrap().clone();
            editor.change(&license, std::slice::from_ref(change))
        }

        fn text(&self, name: &str) -> String {
            fs::read_to_string(self.0.path().join("licenses").join(name)).unwrap()
        }
    }

    #[test]
    fn every_change_is_read_back_as_it_was_meant() {
        for change in [
            LicenseChange::Expires("2030-01-02".parse().unwrap()),
            LicenseChange::Status(LicenseStatus::Revoked),
            LicenseChange::Sites(SiteLimit::Unlimited),
            LicenseChange::Sites(SiteLimit::Limited(std::num::NonZeroU32::new(9).unwrap())),
            LicenseChange::StagingSites(Some(0)),
            LicenseChange::SiteMoves(Some(u16::MAX)),
            LicenseChange::Note("two\nlines, \"quoted\" \\ 🦀".into()),
        ] {
            let json = Instance::new("a.jsonl", &sample_line());
            let before = Registry::load_licenses(json.0.path())
                .unwrap()
                .license(&ID.parse().unwrap())
                .unwrap()
                .clone();
            json.change(&change).unwrap();
            let after = Registry::load_licenses(json.0.path()).unwrap();
            assert_eq!(
                *after.license(&ID.parse().unwrap()).unwrap(),
                change.applied_to(&before),
                "{change:?}"
            );
            let instance = Instance::new("a.toml", &sample());
            let before = Registry::load(instance.0.path()).unwrap();
            instance.change(&change).unwrap();
            let after = Registry::load(instance.0.path()).unwrap();
            let id = ID.parse().unwrap();
            let before = before.license(&id).unwrap();
            let after = after.license(&id).unwrap();
            assert_ne!(before, after);
            assert_eq!(*after, change.applied_to(before));
        }
    }

    #[test]
    fn a_new_license_is_appended_and_reads_back_as_it_was_meant() {
        let instance = Instance::new("a.toml", &sample());
        let editor = Editor::open(instance.0.path()).unwrap();
        let mut license = editor.registry().licenses().next().unwrap().clone();
        license.id = LicenseId::from_bytes([7; 32]);
        license.details.note = "two\nlines, \"quoted\" \\ 🦀".into();
        license.modules = Arc::new([("v2.pdf".parse().unwrap(), vec!["api".parse().unwrap()])].into());
        license.sites = SiteLimit::Unlimited;
        license.grace_period_hours = Some(0);
        editor.add("a.toml", &license).unwrap();
        let added = instance.text("a.toml").strip_prefix(&sample()).unwrap().to_owned();
        assert!(
            added.starts_with(&format!(
                "\n[[license]]\nid = \"{}\"\nexpires = 2027-12-31\n",
                license.id
            )),
            "{added}"
        );
        license.id = LicenseId::from_bytes([8; 32]);
        let editor = Editor::open(instance.0.path()).unwrap();
        editor.add("b.toml", &license).unwrap();
        assert!(instance.text("b.toml").starts_with("[[license]]\n"));
        assert_eq!(Registry::load(instance.0.path()).unwrap().license_count(), 4);
    }

    fn sample_line() -> String {
        format!(
            "{{\"id\":\"{ID}\",\"expires\":\"2027-12-31\",\"sites\":3,\"hosts\":[\"a.com\",\"b.com\"],\"modules\":{{\"a\":[]}}}}\n"
        )
    }

    #[test]
    fn a_license_is_replaced_by_another_in_the_same_file_at_once() {
        for (name, text) in [("a.toml", sample()), ("a.jsonl", sample_line())] {
            let instance = Instance::new(name, &text);
            let editor = Editor::open(instance.0.path()).unwrap();
            let old = editor.registry().license(&ID.parse().unwrap()).unwrap().clone();
            let mut new = old.clone();
            new.id = LicenseId::from_bytes([7; 32]);
            new.details.replaces = Some(old.id);
            new.status = LicenseStatus::Suspended;
            let registry = editor
                .replace(
                    &old,
                    &[
                        LicenseChange::Status(LicenseStatus::Revoked),
                        LicenseChange::Note("gone".into()),
                    ],
                    &new,
                )
                .unwrap();
            let loaded = Registry::load(instance.0.path()).unwrap();
            for registry in [registry, loaded] {
                assert_eq!(registry.license(&new.id), Some(&new), "{name}");
                let old = registry.license(&old.id).unwrap();
                assert_eq!(
                    (old.status, old.details.note.as_str()),
                    (LicenseStatus::Revoked, "gone"),
                    "{name}"
                );
            }
        }
    }

    #[test]
    fn a_mistake_in_a_plugin_entry_keeps_no_license_from_being_changed() {
        let instance = Instance::new("a.toml", &sample());
        fs::write(instance.0.path().join("plugins/acme.toml"), "modul = 'x'\n").unwrap();
        instance.change(&LicenseChange::Status(LicenseStatus::Revoked)).unwrap();
        fs::write(instance.0.path().join("licenses/b.toml"), "x = 1\n").unwrap();
        assert!(matches!(
            Editor::open(instance.0.path()),
            Err(EditError::Registry(RegistryError::Diagnostics(_)))
        ));
    }

    #[test]
    fn nothing_is_written_where_the_registry_would_not_load() {
        let instance = Instance::new("a.toml", &sample());
        let editor = Editor::open(instance.0.path()).unwrap();
        let mut license = editor.registry().license(&ID.parse().unwrap()).unwrap().clone();
        license.modules = Arc::default();
        license.id = LicenseId::from_bytes([7; 32]);
        assert!(matches!(
            editor.add("a.toml", &license),
            Err(EditError::WouldNotLoad(_))
        ));
        assert_eq!(instance.text("a.toml"), sample());
    }

    #[test]
    fn a_file_that_a_text_editor_changed_meanwhile_is_not_overwritten() {
        let instance = Instance::new("a.toml", &sample());
        let editor = Editor::open(instance.0.path()).unwrap();
        let license = editor.registry().license(&ID.parse().unwrap()).unwrap().clone();
        let path = instance.0.path().join("licenses/a.toml");
        let old = sample() + "# theirs, before it was read\n";
        let new = sample();
        assert!(matches!(
            editor.write(&path, Some(old), new, &[&license]),
            Err(EditError::Changed { .. })
        ));
    }

    #[test]
    fn editors_wait_for_each_other_and_lose_nothing() {
        let instance = Instance::new("a.toml", &sample());
        let folder = instance.0.path();
        std::thread::scope(|scope| {
            for number in 1..=8 {
                scope.spawn(move || {
                    let editor = Editor::open(folder).unwrap();
                    let mut license = editor.registry().license(&ID.parse().unwrap()).unwrap().clone();
                    license.id = LicenseId::from_bytes([number; 32]);
                    editor.add("a.toml", &license).unwrap();
                });
            }
        });
        assert_eq!(Registry::load(folder).unwrap().license_count(), 10);
    }
}
