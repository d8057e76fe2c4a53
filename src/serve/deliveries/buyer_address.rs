//! The mail address of a buyer: in the delivery, or asked of the shop where the delivery names only the customer.

use std::sync::Arc;

use crate::serve::hooks::Hook;
use crate::serve::hooks::shop_client::ShopError;
use crate::serve::state::Service;
use countersign_mail::address::MailAddress;
use countersign_shops::event::Buyer;

/// The address; `None` if nobody can tell it.
///
/// # Errors
/// The shop did not answer yet. Deliveries are applied again once it answers.
pub(super) fn find(service: &Arc<Service>, hook: &Hook, buyer: &Buyer) -> Result<Option<MailAddress>, ShopError> {
    if let Some(address) = &buyer.address {
        return Ok(address.parse().ok());
    }
    let (Some(questions), Some(customer)) = (&hook.questions, &buyer.customer) else {
        return Ok(None);
    };
    let service = Arc::clone(service);
    questions.address(customer, move || service.hooks.announce())
}
