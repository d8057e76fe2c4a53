//! What a license covers, as ZIP: a first copy, marked for the license and the site that the customer names.

use askama::Template;

use crate::serve::account::asked::AccountAsked;
use crate::serve::account::changes::note_handout;
use crate::serve::account::frame::AccountFrame;
use crate::serve::account::problem::{AccountProblem, AccountRefusal};
use crate::serve::account::shown_license::ShownLicense;
use crate::serve::first_copy_page::{self, CopyOrder, OfferedPackage};
use crate::serve::net::handler::Sending;
use crate::serve::package_answer;
use crate::serve::pages::answer::PageAnswer;
use crate::serve::pages::form::new_once;
use crate::serve::reply::outcome::Code;
use crate::serve::reply::problem::Problem;
use countersign_ledger::{HandedPackage, Handout};
use countersign_model::license::{License, LicenseState};
use countersign_model::license_key::LicenseId;
use countersign_model::plugin::PluginKind;
use countersign_model::site_host::SiteHost;
use countersign_model::text::outside_text::OutsideText;

#[derive(Template)]
#[template(path = "account/download.html")]
struct AccountDownloadPage<'a> {
    frame: AccountFrame<'a>,
    id: LicenseId,
    covers: OutsideText,
    packages: Vec<OfferedPackage>,
}

/// The page.
pub(super) async fn page(asked: &AccountAsked<'_>) -> Result<PageAnswer, AccountProblem> {
    asked.service.catch_up().await;
    let found = asked.license()?;
    let id = found.id;
    let license = License::clone(&found);
    let is_active = license.state(asked.today()) == LicenseState::Active;
    let snapshot = std::sync::Arc::clone(asked.snapshot);
    let now = asked.now;
    let offered = move |service: &std::sync::Arc<_>| {
        Ok::<_, Problem>(first_copy_page::offered_packages(service, &snapshot, &license, now))
    };
    let packages = match is_active && asked.service.first_copies.are_on() {
        true => package_answer::decide(asked.service, offered).await?,
        false => Vec::new(),
    };
    let shown = ShownLicense::of(asked.service, asked.snapshot, asked.words, &found, asked.today());
    Ok(PageAnswer::ok(&AccountDownloadPage {
        frame: asked.frame(&asked.words.download),
        id,
        covers: shown.covers,
        packages,
    }))
}

/// The package of a button.
pub(super) async fn package(asked: &AccountAsked<'_>) -> Result<(Code, Sending), AccountProblem> {
    asked.service.catch_up().await;
    let found = asked.license()?;
    let id = found.id;
    let back = format!("/account/licenses/{id}/download");
    let refused = |refusal: AccountRefusal| AccountProblem::from(refusal).back_to(&back);
    if !asked.service.first_copies.are_on() {
        return Err(refused(AccountRefusal::NoPackage));
    }
    let host = match asked.fields.get("host") {
        "" => None,
        host => Some(host.parse::<SiteHost>().map_err(|_| refused(AccountRefusal::BadSite))?),
    };
    let slug = asked.fields.get("plugin").to_owned();
    let client = asked.client;
    let now = asked.now;
    let for_host = host.clone();
    let open = move |service: &std::sync::Arc<crate::serve::state::Service>| {
        let snapshot = service.gate.snapshot();
        let found = service.gate.license(&snapshot, &id);
        let order = CopyOrder {
            slug: &slug,
            host: host.clone(),
            day: now.date_naive(),
            client,
            now,
        };
        first_copy_page::open_copy(service, &snapshot, found.as_deref(), order)
    };
    let opened = package_answer::decide(asked.service, open).await;
    let copy = opened.map_err(|problem| AccountProblem::from(problem).back_to(&back))?;
    let package = HandedPackage {
        plugin: copy.plugin.clone(),
        version: copy.version.clone(),
        host: for_host,
    };
    let number = new_once().map_err(|error| Problem::internal(&error))?;
    // The package is counted already, and worth more than its line.
    if let Err(error) = note_handout(asked, id, number, Handout::Package(package)).await {
        tracing::warn!(license = id.log_tag(), %error, "the history of a license lacks a download");
    }
    Ok(first_copy_page::saved(asked.service, copy))
}
