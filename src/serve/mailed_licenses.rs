//! Where mails get licenses and their keys from: the ledger, and the secrets that keys are derived with.

use std::sync::Arc;

use chrono::Utc;

use crate::serve::state::Service;
use countersign_mail::MailedLicense;
use countersign_mail::license_source::LicenseSource;
use countersign_model::license::{LicenseStatus, Modules};
use countersign_model::license_key::LicenseId;
use countersign_package::catalog::Catalog;
use countersign_registry::Registry;

/// The licenses of a running server.
pub(crate) struct MailedLicenses(pub(crate) Arc<Service>);

impl LicenseSource for MailedLicenses {
    fn license(&self, id: &LicenseId) -> Result<Option<MailedLicense>, &'static str> {
        let snapshot = self.0.gate.snapshot();
        let issued = self
            .0
            .gate
            .bindings()
            .issued(id)
            .ok_or("the ledger has no such license")?;
        if issued.license.status == LicenseStatus::Revoked {
            return Ok(None);
        }
        let secrets = snapshot.secrets.licensing.as_ref();
        let key = secrets.and_then(|secrets| secrets.license_key(&issued.origin));
        let key = key.ok_or("the secret that its key is derived with is not here")?;
        Ok(Some(MailedLicense {
            key,
            download_page: self
                .0
                .first_copy_pages(&snapshot)
                .and_then(|pages| pages.link(&issued.license, Utc::now().date_naive())),
            links: self.0.license_links(&snapshot, &issued.license),
            plugins: plugins(&snapshot.registry, &snapshot.catalog, &issued.license.modules),
            license: issued.license.clone(),
        }))
    }
}

/// The names of the plugins that these modules cover, as sites show them.
fn plugins(registry: &Registry, catalog: &Catalog, modules: &Modules) -> Vec<String> {
    let covered = registry.plugins().filter(|plugin| modules.contains_key(&plugin.module));
    let mut names: Vec<_> = covered
        .map(|plugin| {
            let published = catalog.plugin_name(&plugin.slug);
            plugin.shown_name(published).to_owned()
        })
        .collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use countersign_model::digest::Digest;

    fn write(folder: &Path, name: &str, text: &str) {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn buyers_read_the_name_that_sites_show_and_the_slug_only_before_the_first_release() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        write(path, "registry/plugins/acme-forms.toml", "\n");
        write(path, "registry/plugins/acme-maps.toml", "\n");
        write(path, "registry/plugins/acme-pdf.toml", "name = 'PDF of Acme'\n");
        write(path, "registry/licenses/licenses.toml", "# none\n");
        let release = |slug: &str| {
            let manifest = "{\"name\":\"Acme Forms & More\"}";
            write(path, &format!("releases/{slug}/1.0.json"), manifest);
            let digest = Digest::of(manifest.as_bytes()).to_string();
            let release = json!({ "version": "1.0", "tag": "1.0", "commit": "0".repeat(40), "sha256": digest });
            json!({ "latest": "1.0", "releases": [release] })
        };
        let index = json!({ "plugins": { "acme-forms": release("acme-forms"), "acme-pdf": release("acme-pdf") } });
        write(path, "releases/index.json", &index.to_string());
        let registry = Registry::load(&path.join("registry")).unwrap();
        let catalog = Catalog::load(&path.join("releases")).unwrap();
        let modules = ["acme-forms", "acme-maps", "acme-pdf"].map(|module| (module.parse().unwrap(), Vec::new()));
        assert_eq!(
            plugins(&registry, &catalog, &modules.into()),
            ["Acme Forms & More", "PDF of Acme", "acme-maps"]
        );
    }
}
