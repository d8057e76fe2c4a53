//! The mail address of a buyer: in the delivery, or asked of the shop where the delivery names only the customer.

use std::sync::Arc;

use crate::serve::hooks::Hook;
use crate::serve::hooks::customers::CustomerError;
use crate::serve::state::Service;
use countersign_mail::address::MailAddress;
use countersign_shops::event::Buyer;

/// The address; `None` if nobody can tell it.
///
/// # Errors
/// The shop did not tell it yet. Deliveries are applied again once it answers.
pub(super) fn find(service: &Arc<Service>, hook: &Hook, buyer: &Buyer) -> Result<Option<MailAddress>, CustomerError> {
    if let Some(address) = &buyer.address {
        return Ok(address.parse().ok());
    }
    let (Some(customers), Some(customer)) = (&hook.customers, &buyer.customer) else {
        return Ok(None);
    };
    let service = Arc::clone(service);
    customers.address(customer, move || service.hooks.announce())
}
