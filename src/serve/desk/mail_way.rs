//! How a customer is written to: by the queue of mails, at the kept address.

use std::sync::Arc;

use crate::serve::desk::asked::Asked;
use crate::serve::desk::license_rows::LicenseNames;
use crate::serve::found_license::FoundLicense;
use crate::serve::pages::page_problem::PageProblem;
use countersign_mail::address::MailAddress;
use countersign_mail::queue::MailQueue;

/// The queue of mails, and the kept address of a license's customer.
pub(super) async fn mail_way(
    asked: &Asked<'_>,
    found: &FoundLicense<'_>,
    otherwise: &str,
) -> Result<(Arc<MailQueue>, MailAddress), PageProblem> {
    let Some(queue) = asked.state.service.mail.get().map(Arc::clone) else {
        return Err(PageProblem::refused(format!("There is no mail server. {otherwise}")));
    };
    let names = LicenseNames::of(asked, std::slice::from_ref(found)).await?;
    let kept = names.row(found).and_then(|row| row.address);
    let address = kept.and_then(|address| address.parse::<MailAddress>().ok());
    let address =
        address.ok_or_else(|| PageProblem::refused(format!("No address of the customer is kept. {otherwise}")))?;
    Ok((queue, address))
}
