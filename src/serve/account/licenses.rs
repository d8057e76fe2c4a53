//! All licenses of a customer, the newest first, or those of a site.

use std::collections::HashSet;
use std::sync::Arc;

use askama::Template;

use crate::serve::account::asked::AccountAsked;
use crate::serve::account::frame::AccountFrame;
use crate::serve::account::list_part::{ListPart, SiteSearch};
use crate::serve::account::problem::AccountProblem;
use crate::serve::account::shown_license::ShownLicense;
use crate::serve::pages::answer::PageAnswer;
use countersign_ledger::Ledger;
use countersign_model::binding::Stored as _;
use countersign_model::license::{License, LicenseStatus};

/// How many licenses the page has. Each is some hundred bytes.
const MOST: usize = 12;

#[derive(Template)]
#[template(path = "account/licenses.html")]
struct AccountLicensesPage<'a> {
    frame: AccountFrame<'a>,
    licenses: Vec<ShownLicense<'a>>,
    part: Option<ListPart>,
}

/// The page.
pub(super) async fn page(asked: &AccountAsked<'_>) -> Result<PageAnswer, AccountProblem> {
    asked.service.catch_up().await;
    let number = asked.visitor.row.number;
    let service = Arc::clone(asked.service);
    let look = move || {
        let bindings = service.gate.bindings();
        let ids = bindings.issued_to(&[number]);
        let own = ids.iter().filter_map(|id| bindings.issued(id));
        own.map(|issued| (issued.origin.issued, issued.license.clone()))
            .collect::<Vec<_>>()
    };
    let mut found = asked.setup.scans.look(look).await?;
    let replaced: HashSet<_> = found
        .iter()
        .filter_map(|(_, license)| license.details.replaces)
        .collect();
    let is_over = |license: &License| license.status == LicenseStatus::Revoked && replaced.contains(&license.id);
    found.retain(|(_, license)| !is_over(license));
    found.sort_by_key(|(issued, license)| (std::cmp::Reverse(*issued), license.id));
    let search = SiteSearch::of(asked);
    if search.is_on() {
        let ledger = asked.service.gate.bindings();
        found.retain(|(_, license)| has_site(ledger, license, &search));
    }
    let part = ListPart::take(asked, "/account", &search, &mut found, MOST);
    let shown = found
        .iter()
        .map(|(_, license)| ShownLicense::of(asked.service, asked.snapshot, asked.words, license, asked.today()));
    Ok(PageAnswer::ok(&AccountLicensesPage {
        licenses: shown.collect(),
        part,
        frame: asked.frame(&asked.words.licenses),
    }))
}

/// Whether a license has a site that is looked for.
fn has_site(ledger: &Ledger, license: &License, search: &SiteSearch) -> bool {
    let bound = ledger.of(&license.id);
    let mut held = bound.all().iter().filter(|binding| !license.is_void(binding));
    held.any(|binding| search.has(&binding.host)) || license.details.hosts.iter().any(|host| search.has(host))
}
