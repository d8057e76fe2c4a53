//! How licenses are shown in lists: with their customers and orders, as far as the visitor may see them;
//! and how a customer is written to.

use std::sync::Arc;

use chrono::NaiveDate;

use crate::serve::desk::asked::Asked;
use crate::serve::desk::sales_look::order_number;
use crate::serve::found_license::{self, FoundLicense};
use crate::serve::license_texts::LicenseTexts;
use crate::serve::pages::page_problem::PageProblem;
use crate::serve::pages::shown::{ShownDay, ShownHost, covers, percent};
use countersign_mail::address::MailAddress;
use countersign_mail::queue::MailQueue;
use countersign_model::customer::{CustomerAddress, CustomerRow};
use countersign_model::license::{License, LicenseState, SiteLimit};
use countersign_model::license_key::LicenseId;
use countersign_model::site_host::SiteHost;
use countersign_model::text::outside_text::OutsideText;

/// A license that ends within so many days is marked.
const SOON: u64 = 7;

/// How many sites a row names.
const MOST_HOSTS: usize = 3;

/// The state of a license, and how it is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StatePill {
    pub(super) word: &'static str,
    pub(super) class: &'static str,
}

impl StatePill {
    pub(super) fn of(license: &License, today: NaiveDate) -> Self {
        let ends_soon = super::figures::ends_within(license, today, SOON) && !license.renews();
        let (word, class) = match license.state(today) {
            LicenseState::Active if ends_soon => ("Ends soon", "warn"),
            LicenseState::Active => ("Active", "good"),
            LicenseState::Expired => ("Expired", ""),
            LicenseState::Suspended => ("Suspended", "warn"),
            LicenseState::Revoked => ("Revoked", "bad"),
        };
        Self { word, class }
    }
}

/// Whose license it is, as far as the visitor may see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CustomerName {
    /// The name, or else the address, or else nothing.
    pub(super) name: OutsideText,
    /// `None` where there is none, or the visitor does not see it.
    pub(super) address: Option<OutsideText>,
}

/// The names of customers and the orders of some licenses.
pub(super) struct LicenseNames {
    texts: LicenseTexts,
    sees_customers: bool,
}

impl LicenseNames {
    /// Those of these licenses.
    pub(super) async fn of(asked: &Asked<'_>, licenses: &[FoundLicense<'_>]) -> Result<Self, PageProblem> {
        let bindings = asked.state.service.gate.bindings();
        let texts = LicenseTexts::of_found(bindings, licenses).await?;
        let texts = texts
            .with_customers(bindings, licenses.iter().map(|found| &**found))
            .await?;
        Ok(Self {
            texts,
            sees_customers: asked.visitor.sees_customers(),
        })
    }

    /// The row of a license's customer, with the newest of several addresses. Callers hide it from a visitor who may not see it.
    pub(super) fn row(&self, license: &License) -> Option<CustomerRow> {
        let mut rows = self.texts.customer(license.details.remarks().holder?);
        let first = rows.next()?.clone();
        Some(rows.fold(first, |row, other| row.with(other)))
    }

    /// Whether this is an address of its customer that is kept.
    pub(super) fn has_address(&self, license: &License, address: &CustomerAddress) -> bool {
        let Some(holder) = license.details.remarks().holder else {
            return false;
        };
        let mut kept = self.texts.customer(holder).filter_map(|row| row.address.as_deref());
        kept.any(|kept| kept.parse::<CustomerAddress>().is_ok_and(|kept| kept == *address))
    }

    /// The addresses of its customer that are kept, the newest first; none where the visitor does not see them.
    pub(super) fn addresses(&self, license: &License) -> Vec<OutsideText> {
        let holder = license.details.remarks().holder.filter(|_| self.sees_customers);
        let rows = holder.into_iter().flat_map(|holder| self.texts.customer(holder));
        rows.filter_map(|row| row.address.as_deref())
            .map(OutsideText::of)
            .collect()
    }

    /// Whose license it is.
    pub(super) fn customer(&self, license: &License) -> CustomerName {
        let Some(row) = self.row(license) else {
            return CustomerName::default();
        };
        let address = row
            .address
            .as_deref()
            .filter(|_| self.sees_customers)
            .map(OutsideText::of);
        CustomerName {
            name: row
                .name
                .as_deref()
                .map(OutsideText::of)
                .or_else(|| address.clone())
                .unwrap_or_default(),
            address,
        }
    }

    /// The text of its order.
    pub(super) fn order(&self, license: &FoundLicense<'_>) -> Option<OutsideText> {
        self.order_text(license).map(order_number)
    }

    /// The same as it was written.
    pub(super) fn order_text(&self, license: &FoundLicense<'_>) -> Option<&str> {
        match license {
            FoundLicense::Ledger(issued) => self.texts.order(issued),
            FoundLicense::Declared(_) => None,
        }
    }
}

/// The first hosts of a list.
#[derive(Default)]
pub(super) struct ShownHosts {
    pub(super) hosts: Vec<ShownHost>,
    /// How many more there are.
    pub(super) more: usize,
}

impl ShownHosts {
    pub(super) fn of(hosts: &[SiteHost]) -> Self {
        Self {
            hosts: hosts.iter().take(MOST_HOSTS).map(ShownHost::from).collect(),
            more: hosts.len().saturating_sub(MOST_HOSTS),
        }
    }
}

/// A license in a list.
pub(super) struct LicenseRow {
    pub(super) id: LicenseId,
    /// The first digits of the id.
    pub(super) tag: String,
    pub(super) customer: CustomerName,
    pub(super) covers: OutsideText,
    pub(super) pill: StatePill,
    pub(super) used: usize,
    pub(super) limit: String,
    /// How much of the seats is used, in percent.
    pub(super) share: usize,
    pub(super) ends: ShownDay,
    pub(super) renews: bool,
    pub(super) order: Option<OutsideText>,
    /// The sites that run the version that was asked for.
    pub(super) running: ShownHosts,
}

impl LicenseRow {
    pub(super) fn of(asked: &Asked<'_>, names: &LicenseNames, found: &FoundLicense<'_>) -> Self {
        let license: &License = found;
        let gate = &asked.state.service.gate;
        let used = license.used_seats(&gate.bindings().of(&license.id), &gate.rules().staging);
        let (limit, share) = match license.sites {
            SiteLimit::Unlimited => ("any number".to_owned(), 0),
            SiteLimit::Limited(limit) => (limit.to_string(), percent(used, limit.get() as usize).min(100)),
        };
        Self {
            id: license.id,
            tag: license.id.log_tag(),
            customer: names.customer(license),
            covers: covers(license, asked.snapshot),
            pill: StatePill::of(license, asked.today()),
            used,
            limit,
            share,
            ends: ShownDay::of(license.end_on(asked.today()), asked.today()),
            renews: license.renews(),
            order: names.order(found),
            running: ShownHosts::default(),
        }
    }

    /// What a link to it says: its customer, else its first digits.
    pub(super) fn shown_name(&self) -> OutsideText {
        if self.customer.name.is_empty() {
            OutsideText::of(&self.tag)
        } else {
            self.customer.name.clone()
        }
    }

    /// The rows of these licenses, in their order; ids that nobody has are left out.
    pub(super) async fn of_ids(asked: &Asked<'_>, ids: &[LicenseId]) -> Result<Vec<Self>, PageProblem> {
        let bindings = asked.state.service.gate.bindings();
        let found = ids
            .iter()
            .filter_map(|id| found_license::find(&asked.snapshot.registry, bindings, id));
        let found: Vec<_> = found.collect();
        let names = LicenseNames::of(asked, &found).await?;
        Ok(found.iter().map(|found| Self::of(asked, &names, found)).collect())
    }
}

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
