//! Where mails get what they say from: licenses of the ledger with the secrets that their keys are derived with, and the texts beside it.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use chrono::{DateTime, SubsecRound as _, TimeDelta, Utc};

use crate::serve::gate::Snapshot;
use crate::serve::links::FirstCopyPages;
use crate::serve::state::Service;
use countersign_files::queue::Queued;
use countersign_ledger::{Ledger, LedgerLicense, StoreError};
use countersign_mail::queued_mail::{QueuedMail, QueuedReminder, QueuedSite};
use countersign_mail::sending::LicenseSource;
use countersign_mail::{MailContent, MailKind, MailedLicense, MailedReminder, MailedSite};
use countersign_model::customer::{CustomerRow, LicenseMails, mails_name};
use countersign_model::issued_license::Hex128;
use countersign_model::license::{LicenseStatus, Modules};
use countersign_model::license_key::LicenseId;
use countersign_model::site_claim::{CLAIM_PERIOD, ClaimStep};
use countersign_model::stored_text::StoredText;
use countersign_package::catalog::Catalog;
use countersign_registry::Registry;

/// How long a reminder waits for its claim, and a mail about a site for that of the site. A commit takes seconds; a server that was killed has no claim, or has one at its start.
const UNCLAIMED: TimeDelta = TimeDelta::minutes(15);

/// Why a mail waits: the store does not answer.
const NO_TEXTS: &str = "the texts beside the ledger cannot be read";

/// Why a mail waits: the server cannot make its link.
const NO_LINK: &str = "there is no public_url, or no keys/downloads.key";

/// The licenses of a running server.
pub(crate) struct MailedLicenses {
    service: Arc<Service>,
    /// Only to wait for the store.
    runtime: tokio::runtime::Runtime,
}

/// What is kept beside the ledger for one mail.
struct KeptForMail {
    texts: HashMap<Hex128, StoredText>,
    customers: Vec<CustomerRow>,
}

impl MailedLicenses {
    pub(crate) fn new(service: Arc<Service>) -> io::Result<Self> {
        Ok(Self {
            service,
            runtime: tokio::runtime::Builder::new_current_thread().build()?,
        })
    }

    /// One license. The key is in a mail with keys alone, the page with first copies also in one about that.
    fn mailed(
        &self,
        snapshot: &Snapshot,
        issued: &LedgerLicense,
        kept: &KeptForMail,
        kind: MailKind,
    ) -> Result<MailedLicense, &'static str> {
        let secrets = snapshot.secrets.licensing.as_ref();
        let key = match kind == MailKind::License {
            true => {
                let key = secrets.and_then(|secrets| secrets.license_key(&issued.origin));
                Some(key.ok_or("the secret that its key is derived with is not here")?)
            }
            false => None,
        };
        let license = &issued.license;
        let has_page = matches!(kind, MailKind::License | MailKind::Download);
        let pages = self.service.first_copy_pages(snapshot).filter(|_| has_page);
        let page = |pages: FirstCopyPages| pages.link(license, Utc::now().date_naive());
        let download_page = pages.and_then(page);
        if kind == MailKind::Download && download_page.is_none() {
            return Err("the server has no first copies of what the license covers");
        }
        let order = issued.reference.and_then(|name| kept.texts.get(&name)?.text());
        Ok(MailedLicense {
            key,
            order: order.map(Box::<str>::from),
            product: kept.mails(&license.id).and_then(|mails| mails.product.clone()),
            download_page,
            links: self.service.license_links(snapshot, license),
            plugins: plugins(&snapshot.registry, &snapshot.catalog, &license.modules),
            license: license.clone(),
        })
    }

    /// The licenses that a reminder is still about, or why it is about none.
    fn still_due(
        &self,
        licenses: Vec<LedgerLicense>,
        mail: &Queued<QueuedMail>,
        reminder: &QueuedReminder,
        now: DateTime<Utc>,
    ) -> Result<Result<Vec<LedgerLicense>, &'static str>, &'static str> {
        let bindings = self.service.gate.bindings();
        let is_claimed = |issued: &LedgerLicense| {
            let mail = bindings.reminder_of(&issued.license.id, reminder.expires, reminder.kind);
            mail == Some(reminder.number)
        };
        let claimed: Vec<_> = licenses.into_iter().filter(is_claimed).collect();
        if claimed.is_empty() {
            return match now - mail.queued > UNCLAIMED {
                true => Ok(Err("no line of the ledger has it")),
                false => Err("no line of the ledger has it yet"),
            };
        }
        if reminder.kind.is_before() && now.date_naive() > reminder.expires {
            return Ok(Err("its licenses have ended by now"));
        }
        let is_due = |issued: &LedgerLicense| {
            let license = &issued.license;
            license.status == LicenseStatus::Active && !license.renews() && license.expires == reminder.expires
        };
        let due: Vec<_> = claimed.into_iter().filter(is_due).collect();
        Ok(match due.is_empty() {
            true => Err("its licenses do not end so any more"),
            false => Ok(due),
        })
    }

    /// What a mail says of a site that was installed again, or why it is about none.
    fn still_claimed(
        &self,
        snapshot: &Snapshot,
        issued: Option<&LedgerLicense>,
        mail: &Queued<QueuedMail>,
        site: &QueuedSite,
        now: DateTime<Utc>,
    ) -> Result<Result<MailedSite, &'static str>, &'static str> {
        let bindings = self.service.gate.bindings();
        let Some(license) = issued.map(|issued| &issued.license) else {
            return Ok(Err("its license is revoked"));
        };
        if license.details.remarks().holder != Some(site.to) || bindings.is_erased(site.to) {
            return Ok(Err("its license has another customer"));
        }
        let mut claims = bindings.claims_of(&license.id);
        claims.retain(|claim| claim.host == site.host && claim.hash == site.hash);
        // The mail is on disk before its claim begins, and a line has whole seconds.
        let began = mail.queued.trunc_subsecs(0);
        let has_ended = claims
            .iter()
            .any(|claim| claim.step != ClaimStep::Begun && claim.time >= began);
        let Some(claim) = claims.into_iter().find(|claim| claim.step == ClaimStep::Begun) else {
            return match has_ended || now - mail.queued > UNCLAIMED {
                true => Ok(Err("no claim of the site waits")),
                false => Err("no claim of the site waits yet"),
            };
        };
        if !claim.may_be_confirmed(claim.replaces, now) {
            return Ok(Err("the time of its claim is over"));
        }
        let link = self.service.site_claim_link(snapshot, &license.id, site.to, &claim);
        Ok(Ok(MailedSite {
            day: (claim.time + CLAIM_PERIOD).date_naive(),
            confirm: link.ok_or(NO_LINK)?,
            host: claim.host,
        }))
    }
}

impl KeptForMail {
    async fn read(bindings: &Ledger, licenses: &[LedgerLicense], number: Option<Hex128>) -> Result<Self, StoreError> {
        let rows = licenses.iter().map(|issued| mails_name(&issued.license.id));
        let orders = licenses.iter().filter_map(|issued| issued.reference);
        let texts = bindings.texts(rows.chain(orders).collect()).await?;
        let customers = match number {
            Some(number) => bindings.customers([number].into()).await?,
            None => Vec::new(),
        };
        Ok(Self {
            texts: texts.into_iter().collect(),
            customers,
        })
    }

    fn mails(&self, license: &LicenseId) -> Option<&LicenseMails> {
        self.texts.get(&mails_name(license))?.customer()?.mails.as_deref()
    }
}

impl LicenseSource for MailedLicenses {
    fn content(&self, mail: &Queued<QueuedMail>) -> Result<Result<MailContent, &'static str>, &'static str> {
        let snapshot = self.service.gate.snapshot();
        let bindings = self.service.gate.bindings();
        let found = |id: &LicenseId| bindings.issued(id).ok_or("the ledger has no such license");
        let found: Result<Vec<_>, _> = mail.item.licenses.iter().map(found).collect();
        let mut licenses = found?;
        licenses.retain(|issued| issued.license.status != LicenseStatus::Revoked);
        let reminder = mail.item.reminder.as_ref();
        let site = match &mail.item.site {
            None => None,
            Some(site) => match self.still_claimed(&snapshot, licenses.first(), mail, site, Utc::now())? {
                Ok(site) => Some(site),
                Err(reason) => return Ok(Err(reason)),
            },
        };
        if let Some(reminder) = reminder {
            licenses = match self.still_due(licenses, mail, reminder, Utc::now())? {
                Ok(licenses) => licenses,
                Err(reason) => return Ok(Err(reason)),
            };
            if bindings.is_erased(reminder.to) {
                return Ok(Err("its customer was erased"));
            }
        }
        let Some(first) = licenses.first() else {
            return Ok(Err("its licenses are revoked"));
        };
        let number = reminder.map_or(first.license.details.remarks().holder, |reminder| Some(reminder.to));
        let read = KeptForMail::read(bindings, &licenses, number);
        let kept = self.runtime.block_on(read).map_err(|_| NO_TEXTS)?;
        if reminder.is_some() && kept.customers.iter().any(|row| row.unsubscribed) {
            return Ok(Err("its customer wants no reminders"));
        }
        let mailed = licenses
            .iter()
            .map(|issued| self.mailed(&snapshot, issued, &kept, mail.item.kind()));
        let mailed = mailed.collect::<Result<Vec<_>, _>>()?;
        let unsubscribe = |reminder: &QueuedReminder| -> Result<MailedReminder, &'static str> {
            let link = self.service.unsubscribe_link(&snapshot, reminder.to);
            Ok(MailedReminder {
                kind: reminder.kind,
                unsubscribe: link.ok_or(NO_LINK)?,
            })
        };
        let mut named = kept.customers.iter().filter(|row| row.is_of_address());
        let mut languages = licenses
            .iter()
            .filter_map(|issued| kept.mails(&issued.license.id)?.language.clone());
        Ok(Ok(MailContent {
            kind: mail.item.kind(),
            name: named.find_map(|row| row.name.clone()),
            language: languages.next(),
            licenses: mailed,
            reminder: reminder.map(unsubscribe).transpose()?,
            site,
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
