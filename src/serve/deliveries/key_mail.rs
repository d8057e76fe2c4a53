//! Mails the keys of new licenses to the buyer, or says that nobody got them.

use chrono::Utc;
use tokio::task::spawn_blocking;

use crate::mail::address::MailAddress;
use crate::mail::mail_queue_error::MailQueueError;
use crate::mail::queued_mail::MAX_LICENSES;
use crate::model::digest::Digest;
use crate::model::issued_license::Hex128;
use crate::model::license_key::LicenseId;
use crate::serve::deliveries::error::ApplyError;
use crate::serve::state::Service;
use crate::spool::SpoolError;

/// Has the keys of new licenses mailed to the buyer, so many in a mail as one can have. When it returns, the mails are on disk.
pub(super) async fn send(
    service: &Service,
    sale: Hex128,
    buyer: Option<MailAddress>,
    issued: Vec<LicenseId>,
) -> Result<(), ApplyError> {
    let nobody = |reason: &'static str| {
        let ids: Vec<_> = issued.iter().map(LicenseId::log_tag).collect();
        tracing::warn!(
            licenses = ids.join(" "),
            reason,
            "licenses were issued, and nobody was sent the keys: `countersign license resend` sends one"
        );
    };
    let Some(queue) = service.mail.get().cloned() else {
        nobody("there is no mail server in countersign.toml");
        return Ok(());
    };
    let Some(address) = buyer else {
        nobody("the shop tells no mail address of the buyer");
        return Ok(());
    };
    let enqueue = move || {
        for licenses in issued.chunks(MAX_LICENSES) {
            // The same licenses of a sale are mailed once, however often the delivery is applied.
            let ids: Vec<_> = licenses.iter().map(ToString::to_string).collect();
            let event = format!("sale {}", Digest::of(format!("{sale} {}", ids.join(" ")).as_bytes()));
            queue.enqueue(&address, licenses, &event, Utc::now())?;
        }
        Ok(())
    };
    let queued: Result<(), MailQueueError> = spawn_blocking(enqueue)
        .await
        .map_err(|error| SpoolError::Stopped(error.to_string()))?;
    Ok(queued?)
}
