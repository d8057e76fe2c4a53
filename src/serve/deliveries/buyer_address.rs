//! The mail address of a buyer: in the delivery, or asked of the shop where the delivery names only the customer.

use crate::mail::address::MailAddress;
use crate::serve::hooks::Hook;
use crate::serve::hooks::customers::CustomerError;
use crate::shop::event::Buyer;

/// The address; `None` if nobody can tell it.
///
/// # Errors
/// The shop does not tell it now.
pub(super) async fn find(hook: &Hook, buyer: &Buyer) -> Result<Option<MailAddress>, CustomerError> {
    if let Some(address) = &buyer.address {
        return Ok(address.parse().ok());
    }
    match (&hook.customers, &buyer.customer) {
        (Some(customers), Some(customer)) => customers.address(customer).await,
        _ => Ok(None),
    }
}
