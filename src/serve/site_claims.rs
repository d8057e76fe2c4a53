//! Claims of sites that were installed again begin here: only where a mail notifies the license's customer.
//!
//! The mail is on disk first, then a line of the ledger begins the claim, and only then it is sent:
//! [`mailed_licenses`](crate::serve::mailed_licenses) asks whether the claim waits. Without an address, a mail server, `public_url` or
//! `keys/downloads.key`, the key alone begins none.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use tokio::task::spawn_blocking;

use crate::serve::gate::Snapshot;
use crate::serve::state::Service;
use countersign_ledger::{SeenHash, StoreError};
use countersign_mail::address::MailAddress;
use countersign_mail::queued_mail::{MailQueueError, QueuedMail, QueuedSite};
use countersign_model::issued_license::Hex128;
use countersign_model::license::License;
use countersign_model::site_claim::ClaimStep;
use countersign_model::site_host::SiteHost;
use countersign_model::site_release::ReleaseHash;

/// A claim that may begin.
pub(super) struct NewClaim<'a> {
    /// The license; it is active.
    pub(super) license: &'a License,
    /// The bound host that was installed again.
    pub(super) host: &'a SiteHost,
    /// Its new hash.
    pub(super) hash: ReleaseHash,
    /// The time of the request.
    pub(super) now: DateTime<Utc>,
}

/// Why a claim does not begin now. The site asks again.
#[derive(Debug, thiserror::Error)]
enum ClaimError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Queue(#[from] MailQueueError),
    #[error("the system has no random numbers")]
    Random,
    #[error("the task that writes the mail failed")]
    Task,
}

/// Begins the claim if its customer can be notified. The answer to the validation does not depend on it.
pub(super) async fn begin(service: &Service, snapshot: &Snapshot, new: NewClaim<'_>) {
    let tag = new.license.id.log_tag();
    match try_begin(service, snapshot, &new).await {
        Ok(false) => {}
        Ok(true) => tracing::info!(license = tag, site = %new.host, step = "begun", "a site that was installed again"),
        Err(error) => {
            tracing::warn!(license = tag, %error, "the claim of a site cannot begin now");
        }
    }
}

async fn try_begin(service: &Service, snapshot: &Snapshot, new: &NewClaim<'_>) -> Result<bool, ClaimError> {
    let Some(queue) = service.mail.get().map(Arc::clone) else {
        return Ok(false);
    };
    let has_links = service.links.public_url().is_some() && snapshot.secrets.downloads.is_some();
    // What a file declares has no customer.
    let holder = new.license.details.remarks().holder;
    let Some(to) = holder.filter(|_| has_links && !new.license.is_declared) else {
        return Ok(false);
    };
    let Some(address) = address(service, to).await? else {
        return Ok(false);
    };
    let mut number = [0; 16];
    getrandom::fill(&mut number).map_err(|_| ClaimError::Random)?;
    let site = QueuedSite {
        host: new.host.clone(),
        hash: new.hash,
        number: Hex128(number),
        to,
    };
    let mail = QueuedMail::site_claimed(address, new.license.id, site)?;
    let id = mail.id();
    let now = new.now;
    let put = {
        let queue = Arc::clone(&queue);
        spawn_blocking(move || queue.put(mail, now))
    };
    put.await.map_err(|_| ClaimError::Task)??;
    let seen = SeenHash {
        license: new.license,
        host: new.host,
        hash: new.hash,
        is_active: true,
        may_begin: true,
        now,
    };
    // Where it fails, or nobody waits for it any more, the mail is dropped if no claim turns out to wait.
    match service.gate.bindings().see_hash(seen).await? {
        Some(ClaimStep::Begun) => Ok(true),
        // Another request was faster.
        _ => {
            spawn_blocking(move || queue.forget(id));
            Ok(false)
        }
    }
}

/// The address that is kept of a customer. A customer who wants no reminders gets this mail, too.
async fn address(service: &Service, customer: Hex128) -> Result<Option<MailAddress>, StoreError> {
    let bindings = service.gate.bindings();
    if bindings.is_erased(customer) {
        return Ok(None);
    }
    let rows = bindings.customers([customer].into()).await?;
    let mut addresses = rows.iter().filter_map(|row| row.address.as_deref()?.parse().ok());
    Ok(addresses.next())
}
