//! The registry: the vendor's plugins, licenses and offers, from `plugins/`, `licenses/` and `offers/`; and
//! `desk.toml`, who may use the desk.
//!
//! `files` finds the files and `lines` reads them. `spanned` parses values with positions, `reader` takes typed fields
//! from them and collects diagnostics, `plugins`, `licenses`, `offers`, `desk_people` and `release_chain` make values of them. `edit` writes
//! licenses. The server loads a whole [`Registry`] or none; the build loads [plugin entries](plugins::load) one by one.

#![forbid(unsafe_code)]

pub mod declaration;
mod desk_people;
mod error;
mod fields;
mod files;
mod git;
mod json;
pub mod left_behind;
mod license;
mod license_files;
mod licenses;
mod lines;
pub mod offers;
pub mod plugins;
mod reader;
pub mod release_chain;
mod rollout_table;
mod signature_files;
mod signing_table;
mod sold_modules;
mod spanned;
mod urls;

use std::collections::HashMap;
use std::path::Path;

use foldhash::fast::RandomState;

use countersign_model::desk_person::DeskPerson;
use countersign_model::license::License;
use countersign_model::license_key::LicenseId;
use countersign_model::plugin::Plugin;
use countersign_model::slug::Slug;

pub use error::{Diagnostic, RegistryError};
pub use files::RegistryFiles;
pub use git::RevisionError;
use license::Notes;
use licenses::Licenses;
use offers::Offers;
pub use sold_modules::SoldModules;

/// All plugins and licenses.
#[derive(Debug, Default)]
pub struct Registry {
    plugins: HashMap<Slug, Plugin, RandomState>,
    licenses: Licenses,
    offers: Offers,
    people: Vec<DeskPerson>,
}

/// Reports every error in the license files, which a build does not read and need not have.
pub fn check_licenses(files: &RegistryFiles) -> Result<(), RegistryError> {
    match Licenses::load(files, Notes::Skipped) {
        Ok((_, diagnostics)) if !diagnostics.is_empty() => Err(RegistryError::Diagnostics(diagnostics)),
        Ok(_) | Err(RegistryError::NoFolder { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

impl Registry {
    /// Loads the whole folder, or reports every error in it.
    pub fn load(folder: &Path) -> Result<Self, RegistryError> {
        Self::read(&RegistryFiles::folder(folder))
    }

    /// Loads only the licenses, or reports every error in them: an error in a plugin entry must not prevent a license
    /// from being revoked.
    pub fn load_licenses(folder: &Path) -> Result<Self, RegistryError> {
        Self::read_licenses(&RegistryFiles::folder(folder))
    }

    /// The same for `files`.
    fn read_licenses(files: &RegistryFiles) -> Result<Self, RegistryError> {
        let (licenses, diagnostics) = Licenses::load(files, Notes::Kept)?;
        if diagnostics.is_empty() {
            Ok(Self {
                licenses,
                ..Self::default()
            })
        } else {
            Err(RegistryError::Diagnostics(diagnostics))
        }
    }

    /// Loads the whole folder for a server, without notes: it does not need them, and a million of them take 64 MB.
    pub fn load_without_notes(folder: &Path) -> Result<Self, RegistryError> {
        Self::read_with(&RegistryFiles::folder(folder), Notes::Skipped)
    }

    /// Loads `files`, or reports every error in them.
    pub fn read(files: &RegistryFiles) -> Result<Self, RegistryError> {
        Self::read_with(files, Notes::Kept)
    }

    fn read_with(files: &RegistryFiles, notes: Notes) -> Result<Self, RegistryError> {
        let mut diagnostics = Vec::new();
        let mut plugins = HashMap::default();
        for entry in plugins::load(files)? {
            match entry.plugin {
                Ok(plugin) => drop(plugins.insert(plugin.slug.clone(), plugin)),
                Err(reasons) => diagnostics.extend(reasons),
            }
        }
        let (licenses, reasons) = Licenses::load(files, notes)?;
        diagnostics.extend(reasons);
        let (offers, reasons) = Offers::load(files)?;
        diagnostics.extend(reasons);
        let (people, reasons) = desk_people::load(files)?;
        diagnostics.extend(reasons);
        if diagnostics.is_empty() {
            Ok(Self {
                plugins,
                licenses,
                offers,
                people,
            })
        } else {
            Err(RegistryError::Diagnostics(diagnostics))
        }
    }

    /// Loads only the offers, or reports every error in them.
    pub fn load_offers(folder: &Path) -> Result<Offers, RegistryError> {
        match Offers::load(&RegistryFiles::folder(folder))? {
            (offers, diagnostics) if diagnostics.is_empty() => Ok(offers),
            (_, diagnostics) => Err(RegistryError::Diagnostics(diagnostics)),
        }
    }

    /// What the products of shops grant.
    pub fn offers(&self) -> &Offers {
        &self.offers
    }

    /// Who may use the desk, in the order of the file.
    pub fn people(&self) -> &[DeskPerson] {
        &self.people
    }

    /// The plugin with that slug.
    pub fn plugin(&self, slug: &str) -> Option<&Plugin> {
        self.plugins.get(slug)
    }

    /// All plugins, in no order.
    pub fn plugins(&self) -> impl Iterator<Item = &Plugin> {
        self.plugins.values()
    }

    /// The license with that id.
    pub fn license(&self, id: &LicenseId) -> Option<&License> {
        self.licenses.find(id).map(|number| self.licenses.get(number))
    }

    /// The license whose id begins so.
    pub fn license_beginning_with(&self, beginning: &[u8]) -> Option<&License> {
        self.licenses.beginning_with(beginning)
    }

    /// The modules that plugins have.
    pub fn sold_modules(&self) -> SoldModules {
        self.plugins().collect()
    }

    /// Whether packages of a plugin are hosted here.
    pub fn hosts_packages(&self) -> bool {
        self.plugins().any(Plugin::hosts_packages)
    }

    /// The position of a license: its file, and the line from 1.
    pub fn place(&self, id: &LicenseId) -> Option<(&Path, usize)> {
        Some(self.licenses.place(self.licenses.find(id)?))
    }

    /// All licenses, sorted by id.
    pub fn licenses(&self) -> impl Iterator<Item = &License> {
        self.licenses.iter()
    }

    /// All licenses, in file order.
    pub fn licenses_in_order(&self) -> impl Iterator<Item = &License> {
        self.licenses
            .in_order()
            .into_iter()
            .map(|number| self.licenses.get(number))
    }

    /// The number of plugins.
    pub fn plugin_count(&self) -> usize {
        self.plugins.len()
    }

    /// The number of licenses.
    pub fn license_count(&self) -> usize {
        self.licenses.len()
    }

    /// The licenses of `earlier` that are missing here, sorted by id.
    pub fn dropped_since<'e>(&self, earlier: &'e Self) -> impl Iterator<Item = &'e License> {
        let mut ids = self.licenses().map(|license| license.id).peekable();
        let is_dropped = move |license: &&License| {
            while ids.next_if(|id| *id < license.id).is_some() {}
            ids.peek() != Some(&license.id)
        };
        earlier.licenses().filter(is_dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LICENSE: &str = concat!(
        "[[license]]\nid = '00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff'\n",
        "expires = 2027-12-31\nmodules = { acme = [] }\n"
    );

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        folder
    }

    #[test]
    fn a_registry_answers_by_slug_and_by_id_and_knows_the_place_of_a_license() {
        let folder = folder(&[("plugins/acme.toml", "\n"), ("licenses/a.toml", LICENSE)]);
        let registry = Registry::load(folder.path()).unwrap();
        let id = registry.licenses().next().unwrap().id;
        assert_eq!((registry.plugin_count(), registry.license_count()), (1, 1));
        assert_eq!(registry.plugin("acme").unwrap().slug.as_str(), "acme");
        assert!(registry.plugin("beta").is_none());
        assert_eq!(registry.license(&id).unwrap().id, id);
        assert_eq!(
            registry.place(&id),
            Some((folder.path().join("licenses/a.toml").as_path(), 1))
        );
    }

    #[test]
    fn a_license_that_changed_is_not_dropped_and_one_that_is_replaced_is() {
        let read =
            |text: &str| Registry::load(folder(&[("plugins/.gitkeep", ""), ("licenses/a.toml", text)]).path()).unwrap();
        let license = |first: char| LICENSE.replace("'0", &format!("'{first}"));
        let first = read(LICENSE);
        let changed = read(&format!("{LICENSE}sites = 7\n"));
        assert_ne!(first.licenses().next(), changed.licenses().next());
        let dropped = |next: &Registry, earlier| next.dropped_since(earlier).count();
        assert_eq!(dropped(&changed, &first), 0);
        let all = read(&['0', '1', '2', '3'].map(license).concat());
        let some = read(&['1', '3', '4'].map(license).concat());
        assert_eq!((dropped(&all, &some), dropped(&some, &all)), (1, 2));
        assert_eq!((dropped(&all, &read("\n")), dropped(&read("\n"), &all)), (0, 4));
    }

    #[test]
    fn one_mistake_refuses_the_whole_and_every_mistake_is_reported() {
        let folder = folder(&[
            ("plugins/a.toml", "x = 1\n"),
            ("licenses/a.toml", LICENSE),
            ("licenses/b.toml", "y = 1\n"),
        ]);
        let error = Registry::load(folder.path()).unwrap_err().to_string();
        let lines: Vec<_> = error.lines().map(|line| line.rsplit('/').next().unwrap()).collect();
        assert_eq!(
            lines,
            ["a.toml:1:1: unknown field \"x\"", "b.toml:1:1: unknown field \"y\""]
        );
    }

    #[test]
    fn empty_folders_are_an_empty_registry_and_missing_ones_are_not() {
        let folder = folder(&[("plugins/.gitkeep", ""), ("licenses/.gitkeep", "")]);
        assert_eq!(Registry::load(folder.path()).unwrap().license_count(), 0);
        std::fs::remove_dir_all(folder.path().join("licenses")).unwrap();
        let error = Registry::load(folder.path()).unwrap_err().to_string();
        assert_eq!(
            error,
            format!("{}: there is no such folder", folder.path().join("licenses").display())
        );
    }
}
