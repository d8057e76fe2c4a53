//! The pages before the gravest changes of a license: what will happen, and why somebody wants it.

use askama::Template;

use crate::serve::desk::asked::Asked;
use crate::serve::desk::frame::{NavEntry, PageFrame};
use crate::serve::desk::license_page::{named, once};
use crate::serve::desk::license_rows::{LicenseNames, LicenseRow, mail_way};
use crate::serve::desk::page_table::DeskPage;
use crate::serve::found_license::FoundLicense;
use crate::serve::pages::answer::PageAnswer;
use crate::serve::pages::page_problem::PageProblem;
use crate::serve::pages::shown::{ShownDay, grouped};
use countersign_model::license::{License, LicenseStatus};
use countersign_model::license_step::{LicenseStep, LicenseTerms};
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
    /// Whether mailing the key again may be enough.
    is_new_key: bool,
    /// Whether it can be done here.
    is_possible: bool,
    /// What is typed to be sure.
    typed: Option<String>,
    /// The last part of the form's address.
    action: &'static str,
    button: &'static str,
    revision: u32,
    once: String,
}

/// A page that asks before a form is carried out which takes something away.
#[derive(Template)]
#[template(path = "desk/confirm.html")]
struct ConfirmPage {
    frame: PageFrame,
    row: LicenseRow,
    heading: OutsideText,
    question: &'static str,
    now: String,
    consequence: String,
    /// The last part of the form's address.
    action: &'static str,
    button: &'static str,
    /// The fields of the form, which are sent again.
    fields: Vec<(&'static str, String)>,
}

/// What is typed before a license is revoked.
pub(super) fn typed(license: &str) -> &str {
    &license[..TYPED]
}

/// A number with the words for one and for several.
fn counted(number: usize, one: &str, several: &str) -> String {
    let words = if number == 1 { one } else { several };
    format!("{} {words}", grouped(number))
}

/// The page that asks first, if this step makes a license shorter or leaves it fewer sites than use it, and nobody confirmed that.
pub(super) async fn confirm(
    asked: &Asked<'_>,
    found: &FoundLicense<'_>,
    step: &LicenseStep,
) -> Result<Option<PageAnswer>, PageProblem> {
    let license: &License = found;
    if asked.fields.get("sure") == "yes" {
        return Ok(None);
    }
    let names = LicenseNames::of(asked, std::slice::from_ref(found)).await?;
    let row = LicenseRow::of(asked, &names, found);
    let day = |day| {
        let day = ShownDay::of(day, asked.today());
        match day.relative.is_empty() {
            true => day.exact,
            false => format!("{} ({})", day.exact, day.relative),
        }
    };
    let used = row.used;
    let (question, now, consequence, action, button, field, value) = match step {
        LicenseStep::Renew(until) if *until < license.expires => (
            "Shorten this license?",
            format!(
                "It ends {}. {}.",
                day(license.expires),
                counted(used, "seat is used", "seats are used")
            ),
            format!("It ends {}. Its sites get no updates from then on.", day(*until)),
            "extend",
            "Shorten",
            "until",
            until.to_string(),
        ),
        LicenseStep::Edit(LicenseTerms {
            sites: Some(Some(wanted)),
            ..
        }) if (wanted.get() as usize) < used => (
            "Fewer sites than use it?",
            format!("{} of {}.", counted(used, "seat is used", "seats are used"), row.limit),
            format!(
                "It is for {} then, and all {used} sites go on and keep their updates: none loses its seat by this. No other site gets \
                 one until fewer than {wanted} are used. Free the seats of the sites that shall leave.",
                counted(wanted.get() as usize, "site", "sites")
            ),
            "sites",
            "Save",
            "sites",
            wanted.to_string(),
        ),
        _ => return Ok(None),
    };
    let sent = ["revision", "then", "reason"].map(|name| (name, asked.fields.get(name).to_owned()));
    let fields = [(field, value), ("sure", "yes".to_owned())];
    Ok(Some(PageAnswer::ok(&ConfirmPage {
        frame: asked.frame(question, NavEntry::Licenses),
        heading: row.shown_name(),
        question,
        now,
        consequence,
        action,
        button,
        fields: sent.into_iter().chain(fields).collect(),
        row,
    })))
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
    let gets = counted(row.used, "site with a seat gets", "sites with a seat get");
    let licenses = match page {
        DeskPage::AskErase => {
            let holder = issued.license.details.remarks().holder;
            asked.issued_to(Vec::from(holder.as_slice())).await?.len()
        }
        _ => 0,
    };
    let mut is_possible = true;
    let (question, consequence, action, button) = match page {
        DeskPage::AskSuspend => (
            "Suspend this license?",
            format!("{gets} no updates from the next check on. The plugin keeps running. You can lift it at any time."),
            "suspend",
            "Suspend",
        ),
        DeskPage::AskNewKey => (
            "Give this license a new key?",
            match mail_way(
                asked,
                &found,
                "`countersign license rekey` on the server makes a new key and shows it.",
            )
            .await
            {
                Ok(_) => format!(
                    "The old key never works again: {gets} no updates until somebody enters the new one there. The new key is mailed to \
                     the customer’s kept address."
                ),
                Err(problem) => {
                    is_possible = false;
                    let sentences = problem.sentences();
                    sentences.iter().map(OutsideText::as_str).collect::<Vec<_>>().join(" ")
                }
            },
            "new-key",
            "Make a new key",
        ),
        DeskPage::AskErase => (
            "Erase this customer?",
            format!(
                "The kept addresses and the name are erased from {}, with their mails. The licenses stay and work on. No restart and no \
                 backup brings the customer back; who buys again is another customer. Notes, reasons, orders, and mails that wait stay: \
                 `countersign license forget` erases them.",
                counted(licenses, "license", "licenses")
            ),
            "erase-customer",
            "Erase for good",
        ),
        _ => (
            "Revoke this license for good?",
            format!("The key never works again. {gets} no updates, and the plugin says why."),
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
        is_new_key: page == DeskPage::AskNewKey,
        is_possible,
        action,
        button,
        revision: issued.revision,
        once: once()?,
        row,
    }))
}
