//! The mail address of a buyer: in the delivery, or asked of the shop where the delivery names only the customer.

use chrono::{DateTime, TimeDelta, Utc};

use crate::mail::address::MailAddress;
use crate::serve::hooks::Hook;
use crate::serve::hooks::customers::CustomerError;
use crate::shop::event::Buyer;

/// How long a shop is asked that does not answer. Then the key waits for a person: `license resend`.
const ASKED: TimeDelta = TimeDelta::days(3);

/// The address; `None` if there is none, or if it stayed unknown for [`ASKED`].
///
/// # Errors
/// The shop does not answer now.
pub(super) async fn find(
    hook: &Hook,
    buyer: &Buyer,
    received: DateTime<Utc>,
) -> Result<Option<MailAddress>, CustomerError> {
    if let Some(address) = &buyer.address {
        return Ok(address.parse().ok());
    }
    let (Some(customers), Some(customer)) = (&hook.customers, &buyer.customer) else {
        return Ok(None);
    };
    match customers.address(customer).await {
        Err(error) if Utc::now() - received > ASKED => {
            tracing::warn!(shop = hook.config.name.as_str(), %error, "a buyer's address stays unknown");
            Ok(None)
        }
        asked => asked,
    }
}
