//! Where mails get licenses and their keys from: the ledger, and the secrets that keys are derived with.

use std::sync::Arc;

use crate::mail::MailedLicense;
use crate::mail::license_source::LicenseSource;
use crate::model::license::LicenseStatus;
use crate::model::license_key::LicenseId;
use crate::registry::Registry;
use crate::serve::state::Service;

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
            plugins: plugins(&snapshot.registry, &issued.license.modules),
            license: issued.license.clone(),
        }))
    }
}

/// The names of the plugins that these modules cover, as the registry has them.
fn plugins(registry: &Registry, modules: &crate::model::license::Modules) -> Vec<String> {
    let covered = registry.plugins().filter(|plugin| modules.contains_key(&plugin.module));
    let mut names: Vec<String> = covered
        .map(|plugin| match plugin.name.as_str() {
            "" => plugin.slug.to_string(),
            name => name.to_owned(),
        })
        .collect();
    names.sort_unstable();
    names
}
