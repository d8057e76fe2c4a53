//! What customers do: each step calls what the desk, the management API and the clients call, and is the customer's in the ledger.

use std::sync::Arc;

use crate::serve::account::asked::AccountAsked;
use crate::serve::account::license_page::{MovesOf, issued_with_key, moves_left};
use crate::serve::account::problem::{AccountProblem, AccountRefusal};
use crate::serve::ledger_licenses::{self, ExpectedRevision};
use crate::serve::license_mails::enqueue_key;
use crate::serve::pages::answer::PageAnswer;
use crate::serve::pages::label::PageLabel;
use crate::serve::reply::problem::Problem;
use countersign_ledger::{ChangeOutcome, ChangeRefusal, Handout, NewHandout, StoreError};
use countersign_mail::address::MailAddress;
use countersign_model::customer::CustomerAddress;
use countersign_model::issued_license::{ChangeScope, Hex128};
use countersign_model::issuing_key::IssueRequest;
use countersign_model::license_key::LicenseId;
use countersign_model::offer::SalesMode;
use countersign_model::remarks::Author;
use countersign_model::site_host::SiteHost;

/// Frees the seat of a site, or gives it to the site's new address.
pub(super) async fn move_site(asked: &AccountAsked<'_>) -> Result<PageAnswer, AccountProblem> {
    asked.service.catch_up().await;
    let found = asked.license()?;
    let id = found.id;
    let back = format!("/account/licenses/{id}");
    let refused = |refusal: AccountRefusal| AccountProblem::from(refusal).back_to(&back);
    asked
        .service
        .limits
        .check_license(&id)
        .map_err(|_| refused(AccountRefusal::TooMany))?;
    let host: SiteHost = asked
        .fields
        .get("host")
        .parse()
        .map_err(|_| refused(AccountRefusal::NotOnIt))?;
    let to = match asked.fields.get("what") {
        "gone" => None,
        "moved" => {
            let to = asked.fields.get("to").parse::<SiteHost>();
            Some(to.map_err(|_| refused(AccountRefusal::BadSite))?)
        }
        _ => return Err(refused(AccountRefusal::ForeignForm)),
    };
    if to.as_ref() == Some(&host) {
        return Err(refused(AccountRefusal::SameSite));
    }
    let word = if to.is_some() { "moved" } else { "freed" };
    let released = asked
        .service
        .gate
        .release_for_customer(&found, &host, to.clone(), asked.now);
    let changed = released
        .await
        .map_err(|error| AccountProblem::from(error).back_to(&back))?;
    if !changed {
        return Ok(AccountAsked::done(id, "same"));
    }
    let to = to.as_ref().map(SiteHost::as_str);
    tracing::info!(license = id.log_tag(), site = %host, to, "released by the customer");
    Ok(AccountAsked::done(id, word))
}

/// Where the key goes: the kept address, or the one that the customer signed in with and says again.
fn address(asked: &AccountAsked<'_>) -> Result<MailAddress, AccountProblem> {
    let visitor = asked.visitor;
    let kept = visitor.row.address.as_deref();
    let written = match kept {
        Some(kept) => kept.to_owned(),
        None => {
            let said: CustomerAddress = asked
                .fields
                .get("address")
                .parse()
                .map_err(|_| AccountRefusal::BadAddress)?;
            let names = asked.secrets.references().customer_names(&said);
            if !names.contains(&visitor.name) {
                return Err(AccountRefusal::OtherAddress.into());
            }
            said.normal().to_owned()
        }
    };
    written.parse().map_err(|_| AccountRefusal::NoMail.into())
}

/// Mails the key of a license again. A form that is sent twice is one mail.
pub(super) async fn mail_key(asked: &AccountAsked<'_>) -> Result<PageAnswer, AccountProblem> {
    asked.service.catch_up().await;
    let found = asked.license()?;
    let id = found.id;
    let back = |problem: AccountProblem| problem.back_to(&format!("/account/licenses/{id}"));
    issued_with_key(asked, &found).map_err(back)?;
    let to = address(asked).map_err(back)?;
    let once = once(asked).map_err(back)?;
    let may = asked
        .setup
        .mailed_keys
        .take_mail(PageLabel::ACCOUNT, asked.visitor.name, asked.now);
    if !may {
        return Err(back(AccountRefusal::Slowed.into()));
    }
    enqueue(asked, to, id, once).await.map_err(back)?;
    // The page shows a failure, so that the customer sends the form again: that is the same mail.
    let noted = note_handout(asked, id, once, Handout::Key).await;
    noted.map_err(|error| back(error.into()))?;
    tracing::info!(
        license = id.log_tag(),
        "the license key will be mailed again: the customer asked for it"
    );
    Ok(AccountAsked::done(id, "mailed"))
}

/// Gives a license a new key, and mails it. A form that is sent twice makes one key and one mail.
pub(super) async fn new_key(asked: &AccountAsked<'_>) -> Result<PageAnswer, AccountProblem> {
    asked.service.catch_up().await;
    let found = asked.license()?;
    let id = found.id;
    let back = |problem: AccountProblem| problem.back_to(&format!("/account/licenses/{id}"));
    let refused = |refusal: AccountRefusal| back(refusal.into());
    let to = address(asked).map_err(back)?;
    let once = once(asked).map_err(back)?;
    let revision: u32 = asked
        .fields
        .get("revision")
        .parse()
        .map_err(|_| refused(AccountRefusal::ForeignForm))?;
    let scope = Arc::new(ChangeScope::account());
    let key = once.to_string();
    let body = format!("rekey {id}");
    let request = IssueRequest {
        scope: &scope,
        mode: SalesMode::Live,
        idempotency_key: &key,
        body: body.as_bytes(),
    };
    let bindings = asked.service.gate.bindings();
    let known = asked.secrets.request_keys(&request);
    let is_repeated = known.into_iter().any(|key| bindings.issued_for(key).is_some());
    if !is_repeated {
        issued_with_key(asked, &found).map_err(back)?;
        if moves_left(asked, &found, MovesOf::Replaced) == 0 {
            return Err(refused(AccountRefusal::NoMoves));
        }
    }
    let new = asked
        .secrets
        .new_origin(&request)
        .map_err(|error| Problem::internal(&error))?;
    let expected = ExpectedRevision::Only(revision);
    let author = Author::default();
    let outcome = ledger_licenses::rekey(&asked.snapshot.registry, bindings, &new, id, expected, author).await;
    let made = match outcome.map_err(|error| back(error.into()))? {
        ChangeOutcome::Recorded(made) | ChangeOutcome::Repeated(made) => made.license.id,
        ChangeOutcome::Refused(ChangeRefusal::Revised { .. }) => return Err(refused(AccountRefusal::Faster)),
        ChangeOutcome::Refused(_) => return Err(refused(AccountRefusal::NotActive)),
    };
    let queued = enqueue(asked, to, made, once).await;
    queued.map_err(|problem| problem.back_to(&format!("/account/licenses/{made}")))?;
    Ok(AccountAsked::done(made, "new-key"))
}

/// Notes what the customer got, for webhooks and the history of the license.
pub(super) async fn note_handout(
    asked: &AccountAsked<'_>,
    license: LicenseId,
    id: Hex128,
    what: Handout,
) -> Result<(), StoreError> {
    let new = NewHandout {
        id,
        license,
        what,
        scope: Arc::new(ChangeScope::account()),
        author: Author::default(),
        now: asked.now,
    };
    asked.service.gate.bindings().note_handout(new).await
}

/// What makes the form one, however often it is sent.
fn once(asked: &AccountAsked<'_>) -> Result<Hex128, AccountProblem> {
    asked.fields.once().ok_or_else(|| AccountRefusal::ForeignForm.into())
}

/// Puts the mail with the key of a license into the queue.
async fn enqueue(
    asked: &AccountAsked<'_>,
    to: MailAddress,
    license: LicenseId,
    once: Hex128,
) -> Result<(), AccountProblem> {
    let Some(queue) = asked.service.mail.get().map(Arc::clone) else {
        return Err(AccountRefusal::NoMail.into());
    };
    let event = format!("account {once}");
    Ok(enqueue_key(queue, to, license, event, asked.now).await?)
}
