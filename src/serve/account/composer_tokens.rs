//! The Composer token of a license: an agency makes one for its CI, sees it once, and revokes it.

use std::sync::Arc;

use askama::Template;

use crate::serve::account::asked::AccountAsked;
use crate::serve::account::frame::AccountFrame;
use crate::serve::account::problem::{AccountProblem, AccountRefusal};
use crate::serve::account::shown_license::ShownLicense;
use crate::serve::ledger_licenses::{self, Changer, ExpectedRevision};
use crate::serve::links::ComposerRepository;
use crate::serve::pages::answer::PageAnswer;
use countersign_model::binding::Stored as _;
use countersign_model::composer::{ComposerToken, ComposerTokens};
use countersign_model::issued_license::ChangeScope;
use countersign_model::license::{License, LicenseState};
use countersign_model::license_key::LicenseId;
use countersign_model::license_step::{LicenseStep, LicenseTerms};
use countersign_model::text::outside_text::OutsideText;

#[derive(Template)]
#[template(path = "account/composer.html")]
struct AccountComposerPage<'a> {
    frame: AccountFrame<'a>,
    id: LicenseId,
    covers: OutsideText,
    tokens: ComposerTokens,
    /// The token that was just made.
    made: Option<String>,
    /// How the names of the packages begin.
    vendor: &'a str,
    /// The address of the repository, and its host.
    repository: String,
    host: String,
    /// A site of the license, or a made-up one: the password.
    site: String,
}

/// The repository, if a license may have a token for it.
///
/// # Errors
/// There is no repository here, or the license is not active.
fn repository<'a>(asked: &AccountAsked<'a>, license: &License) -> Result<&'a ComposerRepository, AccountProblem> {
    let hosts = asked.snapshot.secrets.downloads.is_some();
    let repository = asked.service.composer.as_ref().filter(|_| hosts);
    let repository = repository.ok_or(AccountRefusal::NotFound)?;
    match license.state(asked.today()) {
        LicenseState::Active => Ok(repository),
        _ => Err(AccountRefusal::NotActive.into()),
    }
}

/// Whether the page of a license links to its Composer token.
pub(super) fn is_offered(asked: &AccountAsked<'_>, license: &License) -> bool {
    repository(asked, license).is_ok()
}

/// The page of the token: how it is used, and the forms that make and revoke it.
pub(super) async fn page(asked: &AccountAsked<'_>) -> Result<PageAnswer, AccountProblem> {
    asked.service.catch_up().await;
    let found = asked.license()?;
    shown(asked, &found, found.details.rights.composer, None)
}

fn shown(
    asked: &AccountAsked<'_>,
    license: &License,
    tokens: ComposerTokens,
    made: Option<String>,
) -> Result<PageAnswer, AccountProblem> {
    let repository = repository(asked, license)?;
    let bound = asked.service.gate.bindings().of(&license.id);
    let mut sites = bound.all().iter().filter(|binding| !license.is_void(binding));
    let site = sites.next().map(|binding| &binding.host);
    let site = license.details.hosts.iter().next().or(site);
    let address = repository.public_url.as_str();
    let host = url::Url::parse(address).ok();
    let host = host.as_ref().and_then(url::Url::host_str).unwrap_or_default();
    Ok(PageAnswer::ok(&AccountComposerPage {
        frame: asked.frame(&asked.words.composer),
        id: license.id,
        covers: ShownLicense::of(asked.service, asked.snapshot, asked.words, license, asked.today()).covers,
        tokens,
        made,
        vendor: repository.vendor.as_str(),
        repository: format!("{address}/composer"),
        host: host.to_owned(),
        site: site.map_or("www.example.com", |host| host.as_str()).to_owned(),
    }))
}

/// Makes a token and shows it, or revokes the one that works. A form that is sent twice makes one token and shows it twice.
pub(super) async fn change(asked: &AccountAsked<'_>) -> Result<PageAnswer, AccountProblem> {
    asked.service.catch_up().await;
    let found = asked.license()?;
    let id = found.id;
    let back = |problem: AccountProblem| problem.back_to(&format!("/account/licenses/{id}/composer"));
    repository(asked, &found)?;
    let keys = asked
        .snapshot
        .secrets
        .downloads
        .as_deref()
        .ok_or(AccountRefusal::NotFound)?;
    let before = found.details.rights.composer;
    let after = match asked.fields.get("what") {
        "make" => before.with_another(),
        "revoke" if !before.valid => return Ok(AccountAsked::done(id, "same")),
        "revoke" => before.revoked(),
        _ => return Err(back(AccountRefusal::ForeignForm.into())),
    };
    let seen: u32 = asked
        .fields
        .get("made")
        .parse()
        .map_err(|_| back(AccountRefusal::ForeignForm.into()))?;
    let is_repeated = after.valid && before.valid && before.made == seen.saturating_add(1);
    if before.made != seen && !is_repeated {
        return Err(back(AccountRefusal::Faster.into()));
    }
    let after = if is_repeated { before } else { after };
    if after != before {
        let step = LicenseStep::Edit(LicenseTerms::with_composer(after));
        let by = Changer::from(Arc::new(ChangeScope::account()));
        let ledger = asked.service.gate.bindings();
        let applied = ledger_licenses::apply(&asked.snapshot.registry, ledger, &by, id, ExpectedRevision::Any, &step);
        applied.await.map_err(|error| back(error.into()))?;
    }
    match after.number() {
        Some(number) => {
            let token = ComposerToken::new(keys.current(), &id, number).reveal();
            shown(asked, &found, after, Some(token))
        }
        None => Ok(AccountAsked::done(id, "revoked-token")),
    }
}
