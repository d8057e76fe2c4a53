//! Sends an order about one license to the running server; where none runs, the command carries it out itself.

use std::sync::Arc;

use chrono::Utc;

use crate::commands::{Failure, ledger_access, server_questions};
use crate::serve::links::FirstCopyPages;
use crate::serve::ops::issue_answers::{IssueOrder, IssueReply};
use crate::serve::ops::license_answers::{
    AdoptionError, AdoptionOrder, AdoptionReply, LedgerTools, LicenseOrder, LicenseReply,
};
use countersign_ledger::{Ledger, StoreError};
use countersign_mail::queue::MailQueue;
use countersign_mail::{NO_MAIL_SERVER, NO_MAIL_SERVER_HINT};
use countersign_model::issued_license::ChangeScope;
use countersign_registry::{Registry, RegistryFiles, plugins};
use countersign_settings::config::{Config, FirstCopyRule};
use countersign_settings::keys::license_secrets::LicenseSecrets;
use countersign_settings::keys::secret_keys::{DownloadKeys, IssuingKeys, ReferenceKeys, SecretKeyError};

/// Why an order was not carried out.
#[derive(Debug, thiserror::Error)]
#[error("license {tag}: {reason}")]
pub(super) struct NotChanged {
    pub tag: String,
    pub reason: String,
}

/// Has an order about a license carried out.
pub(super) fn carry_out(config: &Config, registry: &Registry, order: &LicenseOrder) -> Result<LicenseReply, Failure> {
    let reply = ledger_access::through(
        config,
        || server_questions::change_license(config, order),
        async |bindings| match own_tools(config, registry, bindings) {
            Ok(tools) => tools.carry_out(order.clone()).await,
            Err(reason) => Ok(LicenseReply::Refused(reason)),
        },
    )?;
    match reply {
        LicenseReply::Refused(reason) => {
            let hint = match reason == NO_MAIL_SERVER {
                true => NO_MAIL_SERVER_HINT,
                false => "`countersign license show` shows it",
            };
            let tag = order.license.log_tag();
            Err(Failure::input(NotChanged { tag, reason }).hint(hint))
        }
        reply => Ok(reply),
    }
}

/// Has declared licenses adopted: at most [`MAX_ADOPTED`](crate::serve::ops::license_answers::MAX_ADOPTED). The replies are in their
/// order.
pub(super) fn adopt(
    config: &Config,
    registry: &Registry,
    order: &AdoptionOrder,
) -> Result<Vec<AdoptionReply>, Failure> {
    ledger_access::through(
        config,
        || server_questions::adopt(config, order),
        async |bindings| match own_tools(config, registry, bindings) {
            Ok(tools) => tools.adopt(order.clone()).await.map_err(|error| match error {
                AdoptionError::Store(error) => error,
                AdoptionError::TooMany => StoreError::Busy,
            }),
            Err(reason) => Ok(vec![AdoptionReply::Refused(reason); order.licenses.len()]),
        },
    )
}

/// Has a license issued.
///
/// # Errors
/// As the connection to the server, or the store. What the ledger refuses is a reply.
pub(in crate::commands) fn issue(config: &Config, order: &IssueOrder) -> Result<IssueReply, Failure> {
    let registry = Registry::load_licenses(&config.paths.registry)?;
    ledger_access::through(
        config,
        || server_questions::issue_license(config, order),
        async |bindings| match own_tools(config, &registry, bindings) {
            Ok(tools) => tools.issue(order.clone()).await,
            Err(reason) => Ok(IssueReply::Refused(reason)),
        },
    )
}

/// What a command without a server carries out orders with, or why it cannot.
pub(in crate::commands) fn own_tools<'a>(
    config: &Config,
    registry: &'a Registry,
    bindings: &'a Ledger,
) -> Result<LedgerTools<'a>, String> {
    let mail = match &config.mail {
        Some(_) => Some(MailQueue::open(&config.paths.store, Utc::now()).map_err(|error| error.to_string())?),
        None => None,
    };
    Ok(LedgerTools {
        registry,
        bindings,
        secrets: license_secrets(config)
            .map_err(|error| error.to_string())?
            .map(Arc::new),
        mail: mail.map(Arc::new),
        downloads: download_keys(config).map(Arc::new),
        pages: first_copy_pages(config),
        staging: config.serve.staging.clone(),
        customers: config.serve.customers,
        user: server_questions::own_user(),
        scope: Arc::new(ChangeScope::operator()),
    })
}

/// What links to pages with first copies are made with; `None` where there are none, or something that they need cannot be read.
fn first_copy_pages(config: &Config) -> Option<FirstCopyPages> {
    let is_on = config.serve.first_copies == FirstCopyRule::On;
    let public_url = config.serve.links_begin_with().filter(|_| is_on)?;
    let keys = download_keys(config)?;
    let entries = plugins::load(&RegistryFiles::folder(&config.paths.registry)).ok()?;
    let plugins = entries.iter().filter_map(|entry| entry.plugin.as_ref().ok());
    Some(FirstCopyPages::new(public_url, Arc::new(keys), plugins))
}

/// The keys of downloads; `None` if there are none, or they cannot be read.
fn download_keys(config: &Config) -> Option<DownloadKeys> {
    let loaded = DownloadKeys::load(&config.paths.downloads_key, &config.paths.retired_keys);
    loaded.ok().map(|(keys, _)| keys)
}

/// The secrets that licenses are issued with; `None` if there are none.
pub(in crate::commands) fn license_secrets(config: &Config) -> Result<Option<LicenseSecrets>, SecretKeyError> {
    let paths = &config.paths;
    let issuing = match IssuingKeys::load(&paths.issuing_key, &paths.retired_keys) {
        Err(SecretKeyError::Missing { .. }) => return Ok(None),
        loaded => loaded?.0,
    };
    let (references, _) = ReferenceKeys::load(&paths.references_key, &paths.retired_keys)?;
    Ok(Some(LicenseSecrets::new(issuing, references)))
}
