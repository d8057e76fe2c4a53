//! The mail address of a buyer: in the delivery, said by a person, or asked of the shop where the delivery names only the customer.

use std::sync::Arc;

use crate::serve::hooks::Hook;
use crate::serve::hooks::shop_client::ShopError;
use crate::serve::state::Service;
use countersign_files::spool::SaidOfDelivery;
use countersign_mail::address::MailAddress;
use countersign_shops::event::Buyer;

/// The address; `None` if nobody can tell it. What a person said counts where the delivery has none.
///
/// # Errors
/// The shop did not answer yet. Deliveries are applied again once it answers.
pub(super) fn find(
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
