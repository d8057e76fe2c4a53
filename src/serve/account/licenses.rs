//! All licenses of a customer, the newest first.

use std::collections::HashSet;
use std::sync::Arc;

use askama::Template;

use crate::serve::account::asked::AccountAsked;
use crate::serve::account::frame::AccountFrame;
use crate::serve::account::problem::AccountProblem;
use crate::serve::account::shown_license::ShownLicense;
use crate::serve::account::words::filled;
use crate::serve::pages::answer::PageAnswer;
use countersign_model::license::{License, LicenseStatus};

/// How many licenses the page has. Each is some hundred bytes.
const MOST: usize = 15;

#[derive(Template)]
#[template(path = "account/licenses.html")]
struct AccountLicensesPage<'a> {
    frame: AccountFrame<'a>,
    licenses: Vec<ShownLicense<'a>>,
    more: Option<String>,
}

/// The page. Looks at every license, in turns.
pub(super) async fn page(asked: &AccountAsked<'_>) -> Result<PageAnswer, AccountProblem> {
    asked.service.catch_up().await;
    let number = asked.visitor.row.number;
    let service = Arc::clone(asked.service);
    let look = move || {
        let mut found = Vec::new();
        service.gate.bindings().each_issued(|issued| {
            if issued.license.details.remarks().holder == Some(number) {
                found.push((issued.origin.issued, issued.license.clone()));
            }
        });
        found
    };
    let mut found = asked.setup.scans.look(look).await?;
    let replaced: HashSet<_> = found
        .iter()
        .filter_map(|(_, license)| license.details.replaces)
        .collect();
    let is_over = |license: &License| license.status == LicenseStatus::Revoked && replaced.contains(&license.id);
    found.retain(|(_, license)| !is_over(license));
    found.sort_by_key(|(issued, license)| (std::cmp::Reverse(*issued), license.id));
    let more = found.len().saturating_sub(MOST);
    let shown = found.iter().take(MOST);
    let shown =
        shown.map(|(_, license)| ShownLicense::of(asked.service, asked.snapshot, asked.words, license, asked.today()));
    Ok(PageAnswer::ok(&AccountLicensesPage {
        licenses: shown.collect(),
        more: (more > 0).then(|| filled(&asked.words.more, &[("count", &more.to_string())])),
        frame: asked.frame(&asked.words.licenses),
    }))
}
