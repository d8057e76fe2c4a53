//! The keys that a delivery owes to the buyer: noted before the licenses are issued, and paid when their mail is in the queue.
//!
//! Whatever happens in between, to the server or to the licenses, the next attempt finds the note and mails the same keys under the
//! same event, which the queue takes once. The buyer's address is in the delivery, said by a person, or asked of the shop.

use std::sync::Arc;

use chrono::Utc;
use tokio::task::spawn_blocking;

use crate::serve::deliveries::delivered::{Delivered, in_spool};
use crate::serve::deliveries::error::{ApplyError, ParkReason};
use crate::serve::deliveries::sale_licenses::SaleLicenses;
use crate::serve::deliveries::sale_places::place_key;
use crate::serve::hooks::Hook;
use crate::serve::hooks::shop_client::ShopError;
use crate::serve::state::Service;
use countersign_files::spool::{SaidOfDelivery, SpoolError};
use countersign_mail::address::MailAddress;
use countersign_mail::queue::MailQueue;
use countersign_mail::queued_mail::{MAX_LICENSES, MailQueueError};
use countersign_model::digest::Digest;
use countersign_model::issued_license::Hex128;
use countersign_model::license_key::LicenseId;
use countersign_settings::config::KeyIssuer;
use countersign_shops::event::Buyer;

/// What is owed, and to whom: the places of licenses in the sale.
pub(super) enum KeyDebt {
    /// Nothing: the shop mails its own keys, or nothing is issued.
    None,
    /// There is no mail server.
    NoServer,
    /// Nobody knows the buyer's address.
    NoAddress(Vec<String>),
    /// The keys of these licenses.
    Owed(Arc<MailQueue>, MailAddress, Vec<String>),
}

impl KeyDebt {
    /// Notes durably what is owed once the licenses that are missing are issued. The buyer's address is known before: a sale
    /// whose key cannot be sent is not issued either.
    pub(super) async fn of(
        service: &Arc<Service>,
        delivered: &Delivered<'_>,
        licenses: &SaleLicenses<'_>,
    ) -> Result<Self, ApplyError> {
        let hook = delivered.hook;
        if hook.config.keys == KeyIssuer::Shop {
            return Ok(Self::None);
        }
        let Some(queue) = service.mail.get().cloned() else {
            return Ok(Self::NoServer);
        };
        let delivery = &delivered.queued.item;
        let mut owed = delivery.owed.clone();
        let missing = licenses.missing().map_err(ParkReason::from)?;
        let missing = missing.iter().map(|sold| place_key(&sold.place, sold.copy));
        let new: Vec<_> = missing.filter(|place| !owed.contains(place)).collect();
        if owed.is_empty() && new.is_empty() {
            return Ok(Self::None);
        }
        let address = find_address(service, hook, &delivered.record.buyer, delivery.said.as_ref())?;
        if !new.is_empty() {
            owed.extend(new);
            let id = delivery.id;
            let noted = owed.clone();
            in_spool(service, move |spool| spool.update(id, |delivery| delivery.owed = noted)).await?;
        }
        Ok(match address {
            Some(address) => Self::Owed(queue, address, owed),
            None => Self::NoAddress(owed),
        })
    }

    /// The address that the keys are mailed to.
    pub(super) fn address(&self) -> Option<&MailAddress> {
        match self {
            Self::Owed(_, address, _) => Some(address),
            Self::None | Self::NoServer | Self::NoAddress(_) => None,
        }
    }

    /// The licenses whose mails this delivery knows something of.
    pub(super) fn owed(&self, licenses: &SaleLicenses<'_>, issued: &[LicenseId]) -> Vec<LicenseId> {
        let mut ids = match self {
            Self::None | Self::NoServer => Vec::new(),
            Self::NoAddress(owed) | Self::Owed(_, _, owed) => licenses.own(owed),
        };
        ids.extend(issued);
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Has the keys mailed, so many in a mail as one can have. When it returns, the mails are on disk.
    pub(super) async fn pay(self, licenses: &SaleLicenses<'_>, issued: &[LicenseId]) -> Result<(), ApplyError> {
        let (queue, address, owed) = match self {
            Self::None => return Ok(()),
            Self::NoServer => {
                warn_keys_not_mailed(issued, "there is no mail server in countersign.toml");
                return Ok(());
            }
            Self::NoAddress(owed) => {
                warn_keys_not_mailed(&licenses.own(&owed), "nobody knows the buyer's mail address");
                return Ok(());
            }
            Self::Owed(queue, address, owed) => (queue, address, owed),
        };
        enqueue(queue, address, licenses.sale(), licenses.own(&owed)).await
    }
}

/// Has the keys of licenses of a sale mailed to this address. An event of the same licenses gets one mail.
async fn enqueue(
    queue: Arc<MailQueue>,
    address: MailAddress,
    sale: Hex128,
    licenses: Vec<LicenseId>,
) -> Result<(), ApplyError> {
    let enqueue = move || {
        for licenses in licenses.chunks(MAX_LICENSES) {
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

/// Has keys mailed to a customer whose address is kept. Gives whether it is, and there is a mail server. No delivery notes this debt: a
/// server that is killed before the mail is in the queue mails nothing.
pub(super) async fn mail_to_customer(
    service: &Service,
    sale: Hex128,
    customer: Hex128,
    licenses: &[LicenseId],
) -> Result<bool, ApplyError> {
    let rows = service.gate.bindings().customers([customer].into()).await?;
    let mut addresses = rows.iter().filter_map(|row| row.address.as_deref()?.parse().ok());
    match addresses.next() {
        Some(address) => mail_to(service, sale, address, licenses).await,
        None => Ok(false),
    }
}

/// Has keys mailed to this address. Gives whether there is a mail server. As of [`mail_to_customer`], no delivery notes this debt.
pub(super) async fn mail_to(
    service: &Service,
    sale: Hex128,
    address: MailAddress,
    licenses: &[LicenseId],
) -> Result<bool, ApplyError> {
    let Some(queue) = service.mail.get().cloned() else {
        return Ok(false);
    };
    enqueue(queue, address, sale, licenses.to_vec()).await?;
    Ok(true)
}

/// Logs licenses whose keys nobody received.
pub(super) fn warn_keys_not_mailed(licenses: &[LicenseId], reason: &'static str) {
    if licenses.is_empty() {
        return;
    }
    let ids: Vec<_> = licenses.iter().map(LicenseId::log_tag).collect();
    tracing::warn!(
        licenses = ids.join(" "),
        reason,
        "licenses were issued, and nobody was sent the keys: `countersign license resend` sends one"
    );
}

/// The address; `None` if nobody can tell it. What a person said counts where the delivery has none.
///
/// # Errors
/// The shop did not answer yet. Deliveries are applied again once it answers.
fn find_address(
    service: &Arc<Service>,
    hook: &Hook,
    buyer: &Buyer,
    said: Option<&SaidOfDelivery>,
) -> Result<Option<MailAddress>, ShopError> {
    if let Some(address) = &buyer.address {
        return Ok(address.parse().ok());
    }
    if let Some(address) = said.and_then(|said| said.address.as_ref()) {
        return Ok(address.written().parse().ok());
    }
    let (Some(questions), Some(customer)) = (&hook.questions, &buyer.customer) else {
        return Ok(None);
    };
    let service = Arc::clone(service);
    questions.address(customer, move || service.hooks.announce())
}
