//! The pages before the gravest changes of a license: what will happen, and why somebody wants it.

use std::sync::Arc;

use askama::Template;

use crate::serve::desk::asked::Asked;
use crate::serve::desk::frame::{NavEntry, PageFrame};
use crate::serve::desk::license_page::{named, once};
use crate::serve::desk::license_rows::{LicenseNames, LicenseRow};
use crate::serve::desk::page_table::DeskPage;
use crate::serve::found_license::FoundLicense;
use crate::serve::pages::answer::PageAnswer;
use crate::serve::pages::page_problem::PageProblem;
use crate::serve::pages::shown::counted;
use countersign_model::issued_license::Hex128;
use countersign_model::license::LicenseStatus;
use countersign_model::text::outside_text::OutsideText;

/// How many characters of the license are typed before something that cannot be undone.
const TYPED: usize = 4;

#[derive(Template)]
#[template(path = "desk/question.html")]
struct QuestionPage {
    frame: PageFrame,
    row: LicenseRow,
    heading: OutsideText,
    question: &'static str,
    consequence: OutsideText,
    /// Whether it cannot be undone.
    is_final: bool,
    /// Whether suspending is the gentler way.
    is_revoke: bool,
    /// What is typed to be sure.
    typed: Option<String>,
    /// The last part of the form's address.
    action: &'static str,
    button: &'static str,
    revision: u32,
    once: String,
}

/// What is typed before a license is revoked.
pub(super) fn typed(license: &str) -> &str {
    &license[..TYPED]
}

/// How many licenses a customer has.
async fn of_customer(asked: &Asked<'_>, holder: Option<Hex128>) -> Result<usize, PageProblem> {
    let service = Arc::clone(&asked.state.service);
    let look = move || {
        let mut count = 0;
        service.gate.bindings().each_issued(|issued| {
            let of = issued.license.details.remarks().holder;
            count += usize::from(holder.is_some() && of == holder);
        });
        count
    };
    Ok(asked.state.scans.look(look).await?)
}

/// The page with the question.
pub(super) async fn page(asked: &Asked<'_>, page: DeskPage) -> Result<PageAnswer, PageProblem> {
    asked.state.service.catch_up().await;
    let found = named(asked)?;
    let back = format!("/licenses/{}", found.id);
    let FoundLicense::Ledger(issued) = &found else {
        let sentence = "A file declares this license. Change it there.".to_owned();
        return Err(PageProblem::refused(sentence).back_to(back));
    };
    if issued.license.status == LicenseStatus::Revoked && page != DeskPage::AskErase {
        let sentence = "This license is revoked, which cannot be undone.".to_owned();
        return Err(PageProblem::refused(sentence).back_to(back));
    }
    let names = LicenseNames::of(asked, std::slice::from_ref(&found)).await?;
    let row = LicenseRow::of(asked, &names, &found);
    let sites = counted(row.used, "site");
    let licenses = match page {
        DeskPage::AskErase => of_customer(asked, issued.license.details.remarks().holder).await?,
        _ => 0,
    };
    let (question, consequence, action, button) = match page {
        DeskPage::AskSuspend => (
            "Suspend this license?",
            format!(
                "{sites} with a seat get no updates from their next check on. The plugin keeps running. You can lift it at any time."
            ),
            "suspend",
            "Suspend",
        ),
        DeskPage::AskNewKey => (
            "Give this license a new key?",
            format!(
                "The old key never works again: {sites} with a seat must be given the new one, and get no updates until then. The new \
                 key is mailed to the customer’s kept address."
            ),
            "new-key",
            "Make a new key",
        ),
        DeskPage::AskErase => (
            "Erase this customer?",
            format!(
                "The kept addresses and the name are erased from {}, with their mails. The licenses stay and work on. No restart and no \
                 backup brings the customer back; who buys again is another customer. Notes, reasons, orders, and mails that wait stay: \
                 `countersign license forget` erases them.",
                counted(licenses, "license")
            ),
            "erase-customer",
            "Erase for good",
        ),
        _ => (
            "Revoke this license for good?",
            format!("The key never works again. {sites} with a seat get no updates and are told so."),
            "revoke",
            "Revoke for good",
        ),
    };
    let is_final = matches!(page, DeskPage::AskRevoke | DeskPage::AskErase);
    Ok(PageAnswer::ok(&QuestionPage {
        frame: asked.frame(question, NavEntry::Licenses),
        typed: is_final.then(|| typed(&row.tag).to_owned()),
        heading: row.shown_name(),
        question,
        consequence: OutsideText::of_sentence(&consequence),
        is_final,
        is_revoke: page == DeskPage::AskRevoke,
        action,
        button,
        revision: issued.revision,
        once: once()?,
        row,
    }))
}
