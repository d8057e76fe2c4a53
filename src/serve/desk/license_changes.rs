//! What forms change of a license. A form has the revision that its page showed: what is so already is a success and writes nothing,
//! and what somebody else changed meanwhile is shown, not overwritten.

use std::num::NonZeroU32;
use std::sync::Arc;

use askama::Template;
use chrono::{Months, NaiveDate};
use warp::http::StatusCode;

use crate::serve::desk::asked::{Asked, text};
use crate::serve::desk::frame::{NavEntry, PageFrame};
use crate::serve::desk::license_page::{MOST_SUPPORT_SITES, changed_by, named, texts};
use crate::serve::desk::license_questions::{self, typed};
use crate::serve::desk::license_rows::{LicenseNames, mail_way};
use crate::serve::desk::page_table::DeskPage;
use crate::serve::desk::terms_form::{self, MOST_SITES};
use crate::serve::found_license::{ChangeError, FoundLicense};
use crate::serve::ledger_licenses::{self, Changer, ExpectedRevision, LicenseChangeError};
use crate::serve::license_mails::{MailAgain, MailedAgain, enqueue_key};
use crate::serve::ops::customer_answers::{self, CustomerOrder};
use crate::serve::ops::license_answers::{LicenseReply, named_note};
use crate::serve::pages::answer::PageAnswer;
use crate::serve::pages::page_problem::PageProblem;
use crate::serve::pages::shown::{ShownDay, sentence};
use crate::serve::reply::problem::Problem;
use countersign_ledger::{ChangeOutcome, ChangeRefusal, LedgerLicense, named_at_random};
use countersign_model::binding::Stored as _;
use countersign_model::customer::CustomerAddress;
use countersign_model::desk_person::DeskRole;
use countersign_model::issued_license::{ChangeScope, Hex128};
use countersign_model::issuing_key::IssueRequest;
use countersign_model::license::{License, SiteLimit};
use countersign_model::license_key::LicenseId;
use countersign_model::license_step::{LicenseStep, LicenseTerms};
use countersign_model::offer::SalesMode;
use countersign_model::remarks::{Author, MAX_REASON, NewRemarks, check_remark};
use countersign_model::site_host::SiteHost;
use countersign_model::text::outside_text::OutsideText;

#[derive(Template)]
#[template(path = "desk/conflict.html")]
struct ConflictPage {
    frame: PageFrame,
    id: LicenseId,
    tag: String,
    by: OutsideText,
    /// What differs, if it is one value.
    value: Option<ConflictValue>,
    /// The last part of the form's address.
    action: &'static str,
    revision: u32,
    reason: String,
}

/// A value that two people changed.
struct ConflictValue {
    name: &'static str,
    then: OutsideText,
    now: OutsideText,
    wanted: OutsideText,
    /// The field of the form that wants it anyway, and its value.
    field: &'static str,
    field_value: String,
}

/// Carries a form out.
pub(super) async fn change(asked: &Asked<'_>, page: DeskPage) -> Result<PageAnswer, PageProblem> {
    asked.state.service.catch_up().await;
    let found = named(asked)?;
    let id = found.id;
    let back = |problem: PageProblem| problem.back_to(format!("/licenses/{id}"));
    let revision = revision(asked).map_err(back)?;
    let author = author(asked).map_err(back)?;
    let issued = match &found {
        FoundLicense::Ledger(issued) => issued,
        FoundLicense::Declared(_) => {
            return Err(back(refused("A file declares this license. Change it there.")));
        }
    };
    if page == DeskPage::NewKey {
        return new_key(asked, &found, issued, revision, author).await.map_err(back);
    }
    let expected = ExpectedRevision::Only(revision);
    if page == DeskPage::Assign {
        return assign(asked, &found, expected, author).await.map_err(back);
    }
    if page == DeskPage::NewAddress {
        return new_address(asked, &found, author).await.map_err(back);
    }
    let step = step(asked, page, issued).map_err(back)?;
    if is_so(asked, page, issued, &step).await.map_err(back)? {
        return Ok(done(id, "same"));
    }
    if revision == issued.revision
        && let Some(question) = license_questions::confirm(asked, &found, &step).await.map_err(back)?
    {
        return Ok(question);
    }
    let note = match page {
        DeskPage::Note => {
            Some(named_note(asked.fields.get("note")).map_err(|reason| back(PageProblem::refused(sentence(&reason))))?)
        }
        _ => None,
    };
    let by = Changer {
        author,
        remarks: NewRemarks {
            note,
            ..NewRemarks::default()
        },
        ..Changer::from(Arc::new(ChangeScope::desk()))
    };
    let service = &asked.state.service;
    let bindings = service.gate.bindings();
    let applied = ledger_licenses::apply(&asked.snapshot.registry, bindings, &by, id, expected, &step).await;
    match applied {
        Ok((_, false)) => Ok(done(id, "same")),
        Ok((_, true)) => Ok(match &step {
            LicenseStep::ReleaseHost(site) | LicenseStep::Move { to: site, .. } => {
                done_about(id, done_word(page), site)
            }
            _ => done(id, done_word(page)),
        }),
        Err(LicenseChangeError::Revised) => conflict(asked, page, id, &step).await,
        Err(error) => Err(back(failed(error))),
    }
}

fn refused(sentence: &str) -> PageProblem {
    PageProblem::refused(sentence.to_owned())
}

/// The page of the license, with what was done.
pub(super) fn done(id: LicenseId, word: &str) -> PageAnswer {
    PageAnswer::SeeOther(format!("/licenses/{id}?done={word}"))
}

/// The page of the license, with what was done about a site.
fn done_about(id: LicenseId, word: &str, site: &SiteHost) -> PageAnswer {
    let site: String = url::form_urlencoded::byte_serialize(site.as_str().as_bytes()).collect();
    PageAnswer::SeeOther(format!("/licenses/{id}?done={word}&site={site}"))
}

fn done_word(page: DeskPage) -> &'static str {
    match page {
        DeskPage::Extend => "extended",
        DeskPage::Sites => "sites",
        DeskPage::Free => "freed",
        DeskPage::Move => "moved",
        DeskPage::Modules => "modules",
        DeskPage::Note => "note",
        DeskPage::Suspend => "suspended",
        DeskPage::Lift => "lifted",
        _ => "revoked",
    }
}

/// The last part of a form's address.
fn action(page: DeskPage) -> &'static str {
    match page {
        DeskPage::Extend => "extend",
        DeskPage::Sites => "sites",
        DeskPage::Modules => "modules",
        DeskPage::Note => "note",
        DeskPage::Suspend => "suspend",
        DeskPage::NewKey => "new-key",
        DeskPage::Revoke => "revoke",
        _ => "",
    }
}

fn revision(asked: &Asked<'_>) -> Result<u32, PageProblem> {
    let revision = asked.fields.get("revision").parse();
    revision.map_err(|_| refused("The form has no revision. Open the page of the license again."))
}

/// Who changes it, and why.
pub(super) fn author(asked: &Asked<'_>) -> Result<Author, PageProblem> {
    let reason = match asked.fields.get("reason") {
        "" => None,
        reason => {
            let checked = check_remark(reason, MAX_REASON);
            checked.map_err(|error| PageProblem::refused(format!("The reason is not taken: {error}.")))?;
            Some(named_at_random(reason).map_err(|error| Problem::internal(&error))?)
        }
    };
    Ok(Author {
        who: Some(asked.secrets.person(&asked.visitor.name)),
        reason,
    })
}

/// What a form asks for, if the visitor may.
fn step(asked: &Asked<'_>, page: DeskPage, issued: &LedgerLicense) -> Result<LicenseStep, PageProblem> {
    let license = &issued.license;
    match page {
        DeskPage::Extend => until(asked, license).map(LicenseStep::Renew),
        DeskPage::Sites => {
            let most = if asked.visitor.may(DeskRole::Admin) {
                MOST_SITES
            } else {
                MOST_SUPPORT_SITES
            };
            let wanted: Option<NonZeroU32> = asked.fields.get("sites").parse().ok();
            let wanted = wanted.filter(|wanted| wanted.get() <= most);
            let wanted = wanted.ok_or_else(|| {
                PageProblem::refused(format!("The number of sites must be from 1 to {most} for your role."))
            })?;
            Ok(LicenseStep::Edit(LicenseTerms {
                sites: Some(Some(wanted)),
                ..LicenseTerms::default()
            }))
        }
        DeskPage::Free => {
            let host = asked.fields.get("host").parse::<SiteHost>();
            host.map(LicenseStep::ReleaseHost)
                .map_err(|_| refused("The form names no site."))
        }
        DeskPage::Move => {
            let host = |field| asked.fields.get(field).parse::<SiteHost>();
            let from = host("host").map_err(|_| refused("The form names no site."))?;
            let to = host("to").map_err(|_| refused("The new site must be like www.example.com."))?;
            if from == to {
                return Err(refused("The new site is the one that it is on."));
            }
            let staging = asked.state.service.gate.rules().staging.clone();
            Ok(LicenseStep::Move { from, to, staging })
        }
        DeskPage::Modules => {
            let modules = terms_form::modules(asked.fields.get("modules"), &asked.snapshot.registry)?;
            Ok(LicenseStep::Edit(LicenseTerms {
                modules: Some(modules),
                ..LicenseTerms::default()
            }))
        }
        // The note itself is a remark.
        DeskPage::Note => Ok(LicenseStep::Edit(LicenseTerms::default())),
        DeskPage::Suspend => Ok(LicenseStep::Suspend),
        DeskPage::Lift => Ok(LicenseStep::Resume),
        _ => match asked
            .fields
            .get("sure")
            .eq_ignore_ascii_case(typed(&license.id.log_tag()))
        {
            true => Ok(LicenseStep::Revoke),
            false => Err(refused("The four characters are not those of the license.")),
        },
    }
}

/// The new last day. Support gives a year at most at once, and takes nothing away.
fn until(asked: &Asked<'_>, license: &License) -> Result<NaiveDate, PageProblem> {
    let until: Result<NaiveDate, _> = asked.fields.get("until").parse();
    let until = until.map_err(|_| refused("The day must be like 2027-12-31."))?;
    if asked.visitor.may(DeskRole::Admin) || until == license.expires {
        return Ok(until);
    }
    let from = license.expires.max(asked.today());
    let most = from.checked_add_months(Months::new(12)).unwrap_or(from);
    if until < license.expires {
        return Err(refused("Your role can extend a license, not shorten it."));
    }
    match until <= most {
        true => Ok(until),
        false => Err(PageProblem::refused(format!(
            "Your role can extend it by a year at most at once: until {}.",
            ShownDay::of(most, asked.today()).exact
        ))),
    }
}

/// Whether what is wanted is so already.
async fn is_so(
    asked: &Asked<'_>,
    page: DeskPage,
    issued: &LedgerLicense,
    step: &LicenseStep,
) -> Result<bool, PageProblem> {
    let license = &issued.license;
    if page == DeskPage::Note {
        let texts = texts(asked, issued).await?;
        let note = text(&texts, license.details.remarks().note).unwrap_or_default();
        return Ok(note == asked.fields.get("note"));
    }
    let bound = asked.state.service.gate.bindings().of(&license.id);
    Ok(matches!(step.applied(license, bound.all(), asked.now), Ok(None)))
}

fn failed(error: LicenseChangeError) -> PageProblem {
    match error {
        LicenseChangeError::Change(ChangeError::Store(error)) => error.into(),
        LicenseChangeError::NoSuchLicense => PageProblem::no_license(),
        error => PageProblem::refused(sentence(&error.to_string())),
    }
}

/// Somebody changed the license since the page was made. Unless it is now as it was wanted, both see what differs.
async fn conflict(
    asked: &Asked<'_>,
    page: DeskPage,
    id: LicenseId,
    step: &LicenseStep,
) -> Result<PageAnswer, PageProblem> {
    let found = named(asked)?;
    let FoundLicense::Ledger(issued) = &found else {
        return Err(PageProblem::no_license());
    };
    if is_so(asked, page, issued, step).await? {
        return Ok(done(id, "same"));
    }
    conflict_page(asked, page, id, Some(step)).await
}

/// The page of a conflict. `step` is what was wanted, if the page can show it.
async fn conflict_page(
    asked: &Asked<'_>,
    page: DeskPage,
    id: LicenseId,
    step: Option<&LicenseStep>,
) -> Result<PageAnswer, PageProblem> {
    let found = named(asked)?;
    let FoundLicense::Ledger(issued) = &found else {
        return Err(PageProblem::no_license());
    };
    let day = |day: NaiveDate| OutsideText::of(&ShownDay::of(day, asked.today()).exact);
    let sites = |limit: SiteLimit| OutsideText::of(&limit.to_string());
    let then = asked.fields.get("then");
    let value = match step {
        Some(LicenseStep::Renew(until)) => Some(ConflictValue {
            name: "Ends",
            then: then.parse().map_or_else(|_| OutsideText::of(then), day),
            now: day(issued.license.expires),
            wanted: day(*until),
            field: "until",
            field_value: until.to_string(),
        }),
        Some(LicenseStep::Edit(LicenseTerms {
            sites: Some(Some(wanted)),
            ..
        })) => Some(ConflictValue {
            name: "Sites",
            then: OutsideText::of(then),
            now: sites(issued.license.sites),
            wanted: sites(SiteLimit::Limited(*wanted)),
            field: "sites",
            field_value: wanted.to_string(),
        }),
        Some(LicenseStep::Edit(LicenseTerms {
            modules: Some(wanted), ..
        })) => Some(ConflictValue {
            name: "Covers",
            then: OutsideText::of(then),
            now: OutsideText::of(&terms_form::modules_text(&issued.license.modules)),
            wanted: OutsideText::of(&terms_form::modules_text(wanted)),
            field: "modules",
            field_value: terms_form::modules_text(wanted),
        }),
        _ => None,
    };
    let texts = texts(asked, issued).await?;
    let conflict = ConflictPage {
        frame: asked.frame("Somebody was faster", NavEntry::Licenses),
        id,
        tag: id.log_tag(),
        by: changed_by(issued, &texts),
        value,
        action: action(page),
        revision: issued.revision,
        reason: asked.fields.get("reason").to_owned(),
    };
    Ok(PageAnswer::page(StatusCode::CONFLICT, &conflict))
}

/// Says for whom the license is, as `license assign`.
async fn assign(
    asked: &Asked<'_>,
    found: &FoundLicense<'_>,
    expected: ExpectedRevision,
    author: Author,
) -> Result<PageAnswer, PageProblem> {
    let id = found.id;
    let address = asked.fields.get("address").parse::<CustomerAddress>();
    let address = address.map_err(|_| refused("This is no mail address."))?;
    if LicenseNames::of(asked, std::slice::from_ref(found))
        .await?
        .has_address(found, &address)
    {
        return Ok(done(id, "same"));
    }
    let assigned = asked.tools().assign(id, &address, expected, author).await;
    match assigned {
        Ok(LicenseReply::Done { changed: false }) => Ok(done(id, "same")),
        Ok(LicenseReply::Refused(reason)) => Err(PageProblem::refused(sentence(&reason))),
        Ok(_) => Ok(done(id, "assigned")),
        Err(LicenseChangeError::Revised) => conflict_page(asked, DeskPage::Assign, id, None).await,
        Err(error) => Err(failed(error)),
    }
}

/// Gives the customer of the license another address, to which mails go from then on.
async fn new_address(asked: &Asked<'_>, found: &FoundLicense<'_>, author: Author) -> Result<PageAnswer, PageProblem> {
    let address = asked.fields.get("address").parse::<CustomerAddress>();
    let address = address.map_err(|_| refused("This is no mail address."))?;
    let said = asked.tools().new_address(found, &address, author, asked.now).await?;
    match said {
        LicenseReply::Done { changed: false } => Ok(done(found.id, "same")),
        LicenseReply::Refused(reason) => Err(PageProblem::refused(sentence(&reason))),
        _ => Ok(done(found.id, "address")),
    }
}

/// Erases the customer of the license, as `customer forget`.
pub(super) async fn erase_customer(asked: &Asked<'_>) -> Result<PageAnswer, PageProblem> {
    asked.state.service.catch_up().await;
    let found = named(asked)?;
    let id = found.id;
    let back = |problem: PageProblem| problem.back_to(format!("/licenses/{id}"));
    if !asked.fields.get("sure").eq_ignore_ascii_case(typed(&id.log_tag())) {
        return Err(back(refused("The four characters are not those of the license.")));
    }
    let holder = found.details.remarks().holder;
    let holder = holder.ok_or_else(|| back(refused("The license has no customer.")))?;
    let author = author(asked).map_err(back)?;
    let bindings = asked.state.service.gate.bindings();
    let order = CustomerOrder { forget: holder };
    let reply = customer_answers::erase(bindings, author, &ChangeScope::desk(), order).await;
    match reply.map_err(PageProblem::from).map_err(back)?.addresses {
        0 => Ok(done(id, "same")),
        _ => Ok(done(id, "erased")),
    }
}

/// Gives the license a new key, and mails it. A form that is sent twice makes one key and one mail.
async fn new_key(
    asked: &Asked<'_>,
    found: &FoundLicense<'_>,
    issued: &LedgerLicense,
    revision: u32,
    author: Author,
) -> Result<PageAnswer, PageProblem> {
    let (queue, address) = mail_way(
        asked,
        found,
        "`countersign license rekey` on the server shows the key instead.",
    )
    .await?;
    let once = once(asked)?;
    let id = issued.license.id;
    let scope = Arc::new(ChangeScope::desk());
    let body = format!("rekey {id}");
    let request = IssueRequest {
        scope: &scope,
        mode: SalesMode::Live,
        idempotency_key: &once,
        body: body.as_bytes(),
    };
    let new = asked
        .secrets
        .new_origin(&request)
        .map_err(|error| Problem::internal(&error))?;
    let expected = ExpectedRevision::Only(revision);
    let bindings = asked.state.service.gate.bindings();
    let outcome = ledger_licenses::rekey(&asked.snapshot.registry, bindings, &new, id, expected, author).await;
    let made = match outcome.map_err(failed)? {
        ChangeOutcome::Recorded(made) | ChangeOutcome::Repeated(made) => made.license.id,
        ChangeOutcome::Refused(ChangeRefusal::Revised { .. }) => {
            return conflict(asked, DeskPage::NewKey, id, &LicenseStep::Suspend).await;
        }
        ChangeOutcome::Refused(ChangeRefusal::Revoked) => {
            return Err(refused("The license is revoked, which cannot be undone."));
        }
        ChangeOutcome::Refused(_) => return Err(refused("The license cannot have a new key.")),
    };
    match enqueue_key(queue, address, made, desk_event(&once), asked.now).await {
        Ok(()) => Ok(done(made, "new-key")),
        Err(_) => {
            let sentence = "The license has a new key, and the mail with it could not be queued: `countersign license resend` sends it.";
            Err(refused(sentence).back_to(format!("/licenses/{made}")))
        }
    }
}

/// Mails the key of a license again, or the page of its first copies, to the kept address of its customer. A form that is sent twice
/// is one mail.
pub(super) async fn mail_again(asked: &Asked<'_>, what: MailedAgain) -> Result<PageAnswer, PageProblem> {
    asked.state.service.catch_up().await;
    let found = named(asked)?;
    let id = found.id;
    let back = |problem: PageProblem| problem.back_to(format!("/licenses/{id}"));
    let once = once(asked).map_err(back)?;
    let FoundLicense::Ledger(issued) = &found else {
        return Err(back(refused("A file declares this license: nothing can be mailed.")));
    };
    let (_, address) = mail_way(asked, &found, "`countersign license resend` sends it elsewhere.")
        .await
        .map_err(back)?;
    let tools = asked.tools();
    let mails = tools.mail_tools();
    let wanted = MailAgain {
        what,
        address,
        event: desk_event(&once),
        scope: Arc::clone(&tools.scope),
        author: author(asked).map_err(back)?,
        now: asked.now,
    };
    let queued = mails.mail_again(issued, wanted).await;
    queued.map_err(|reason| back(PageProblem::refused(sentence(&reason.to_string()))))?;
    tracing::info!(license = id.log_tag(), by = "operator:desk", ?what, "mailed again");
    let notice = match what {
        MailedAgain::Key => "mailed",
        MailedAgain::Download => "mailed-page",
    };
    Ok(done(id, notice))
}

/// What makes a form one, however often it is sent.
pub(super) fn once(asked: &Asked<'_>) -> Result<String, PageProblem> {
    let once = asked.fields.get("once").parse::<Hex128>();
    let once = once.map_err(|_| refused("The form is not whole. Open the page of the license again."))?;
    Ok(once.to_string())
}

/// What makes the mail of a form one.
pub(super) fn desk_event(once: &str) -> String {
    format!("desk {once}")
}
