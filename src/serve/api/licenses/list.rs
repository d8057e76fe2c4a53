//! `GET /api/v1/licenses`: licenses of files and of the ledger, in the order of their ids, page by page.

use std::borrow::Cow;
use std::collections::BTreeSet;

use chrono::Utc;
use serde::Serialize;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use url::form_urlencoded;
use warp::http::StatusCode;

use crate::serve::api::licenses::caller::Caller;
use crate::serve::api::licenses::document::{KnownSites, LicenseAnswer, LicenseDocument};
use crate::serve::found_license::{self, FoundLicense};
use crate::serve::hooks::Hooks;
use crate::serve::ledger_licenses::refresh;
use crate::serve::license_texts::LicenseTexts;
use crate::serve::reply::problem::Problem;
use crate::serve::reply::response::{JSON, Response};
use crate::serve::state::Service;
use countersign_ledger::{Ledger, StoreError};
use countersign_model::api_token::TokenScope;
use countersign_model::customer::CustomerAddress;
use countersign_model::issued_license::{Hex128, MAX_REFERENCE};
use countersign_model::license::License;
use countersign_model::license_key::{LicenseId, LicenseKey};
use countersign_model::site_host::SiteHost;
use countersign_registry::Registry;
use countersign_settings::keys::license_secrets::LicenseSecrets;

/// Licenses on a page, unless the caller wants another number.
const PAGE: usize = 50;

/// The most licenses on a page.
const MOST: usize = 500;

/// One list at a time: the search for a host looks at every binding.
static TURN: Semaphore = Semaphore::const_new(1);

/// Which licenses are wanted.
#[derive(Debug, Default, PartialEq, Eq)]
struct ListQuery {
    /// The order.
    reference: Option<WantedOrder>,
    host: Option<SiteHost>,
    customer: Option<CustomerFilter>,
    /// As `standing` in a license.
    status: Option<&'static str>,
    after: Option<LicenseId>,
    limit: usize,
}

/// How the ledger may name an order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::serve) struct WantedOrder {
    /// In lines of licenses.
    references: Vec<Hex128>,
    /// As an object of a shop.
    sales: Vec<Hex128>,
}

impl WantedOrder {
    /// The order with this text, or the object of a shop.
    pub(in crate::serve) fn new(text: &str, secrets: &LicenseSecrets, hooks: &Hooks) -> Self {
        let objects = hooks.all().flat_map(|hook| hook.config.sale_names(text));
        Self {
            references: secrets.hidden(text),
            sales: objects.flat_map(|name| secrets.hidden(&name)).collect(),
        }
    }

    /// The licenses of the order, and of the sale that has an object of this name.
    pub(in crate::serve) fn licenses(&self, bindings: &Ledger) -> Vec<LicenseId> {
        let mut found = bindings.issued_of_order(&self.references);
        let sales = self.sales.iter().filter_map(|name| Some(bindings.sale(*name)?.0));
        let sales: Vec<_> = sales.collect();
        if sales.is_empty() {
            return found;
        }
        let is_of_sale = |license: &License| {
            let sold = license.details.remarks().sold.as_deref();
            let sale = sold.and_then(|sold| bindings.sale(sold.sale));
            sale.is_some_and(|(sale, _)| sales.contains(&sale))
        };
        let of_sales = bindings.issued_after(None, usize::MAX, &is_of_sale);
        found.extend(of_sales.iter().map(|issued| issued.license.id));
        found
    }
}

/// Whose licenses are wanted.
#[derive(Debug, PartialEq, Eq)]
enum CustomerFilter {
    /// How the rows of an address may be named.
    Address(Vec<Hex128>),
    /// The customer's number.
    Number(Hex128),
}

#[derive(Serialize)]
struct ListedPage {
    licenses: Vec<Value>,
    /// The cursor of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<LicenseId>,
}

/// Answers with a page.
pub(super) async fn reply(service: &Service, caller: &Caller, query: &str) -> Result<LicenseAnswer, Problem> {
    let snapshot = service.gate.snapshot();
    let mut wanted = ListQuery::parse(query, snapshot.secrets.licensing.as_deref(), &service.hooks)?;
    let shows_customers = caller.may(TokenScope::CustomersRead);
    if let Some(CustomerFilter::Address(_)) = &wanted.customer {
        caller.require(TokenScope::CustomersRead)?;
    }
    refresh(service.gate.bindings()).await?;
    wanted.find_customer(service.gate.bindings()).await?;
    let bindings = service.gate.shared_bindings();
    let staging = service.gate.rules().staging.clone();
    let shop_links = service.shop_links.clone();
    let turn = TURN.acquire().await.map_err(|error| Problem::internal(&error))?;
    let work = move || {
        // Until the page is made, also if nobody waits for it any more.
        let _turn = turn;
        let sites = KnownSites {
            bindings: &bindings,
            staging: &staging,
            registry: &snapshot.registry,
            shop_links: &shop_links,
            downloads: snapshot.secrets.downloads.as_deref(),
            now: Utc::now(),
        };
        let page = wanted.page(sites, shows_customers)?;
        Ok::<_, StoreError>(serde_json::to_vec(&page))
    };
    let body = spawn_blocking(work)
        .await
        .map_err(|error| Problem::internal(&error))??;
    let body = body.map_err(|error| Problem::internal(&error))?;
    Ok(LicenseAnswer {
        response: Response {
            status: StatusCode::OK,
            ..JSON.answer(body)
        },
        headers: Vec::new(),
    })
}

impl ListQuery {
    fn parse(query: &str, secrets: Option<&LicenseSecrets>, hooks: &Hooks) -> Result<Self, Problem> {
        let mut wanted = Self {
            limit: PAGE,
            ..Self::default()
        };
        let mut seen: Vec<Cow<'_, str>> = Vec::new();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let malformed = |must: &str| Problem::Malformed(format!("'{name}' must be {must}."));
            // SECURITY: a host of the query is not stored, but people paste the key into the wrong field.
            if LicenseKey::is_in(&value) {
                return Err(Problem::Malformed(
                    "The query has a license key. Name a license by its id.".to_owned(),
                ));
            }
            match &*name {
                "reference" if value.is_empty() => return Err(malformed("an order of the shop")),
                "reference" if value.len() > MAX_REFERENCE => {
                    return Err(Problem::FieldTooLong {
                        field: "reference",
                        limit: MAX_REFERENCE,
                    });
                }
                "reference" => {
                    let order = secrets.map(|secrets| WantedOrder::new(&value, secrets, hooks));
                    wanted.reference = Some(order.unwrap_or_default());
                }
                "host" => {
                    let host = value
                        .parse()
                        .map_err(|error: countersign_model::site_host::SiteHostError| Problem::SiteUrl {
                            reason: error.code(),
                            text: error.to_string(),
                        })?;
                    wanted.host = Some(host);
                }
                "customer" => {
                    let address = || {
                        let address: CustomerAddress = value.parse().ok()?;
                        let names = secrets.map(|secrets| secrets.references().customer_names(&address));
                        Some(CustomerFilter::Address(names.unwrap_or_default()))
                    };
                    let filter = value.parse().ok().map(CustomerFilter::Number).or_else(address);
                    wanted.customer = Some(filter.ok_or_else(|| malformed("a customer's number or mail address"))?);
                }
                "status" => {
                    let known = ["active", "expired", "suspended", "revoked"];
                    let status = known.into_iter().find(|known| *known == value);
                    wanted.status = Some(status.ok_or_else(|| malformed("active, expired, suspended or revoked"))?);
                }
                "cursor" => wanted.after = Some(value.parse().map_err(|_| malformed("the 'next' of the page before"))?),
                "limit" => {
                    let limit = value.parse().ok().filter(|limit| (1..=MOST).contains(limit));
                    wanted.limit = limit.ok_or_else(|| malformed(&format!("a number from 1 to {MOST}")))?;
                }
                _ => {
                    return Err(Problem::Malformed(
                        "The query may have 'reference', 'host', 'customer', 'status', 'cursor' and 'limit'."
                            .to_owned(),
                    ));
                }
            }
            if seen.contains(&name) {
                return Err(Problem::Malformed("A parameter was sent twice.".to_owned()));
            }
            seen.push(name);
        }
        Ok(wanted)
    }

    /// Looks up the number of the customer with the wanted address. Nobody has a license of an unknown one.
    async fn find_customer(&mut self, bindings: &Ledger) -> Result<(), StoreError> {
        let Some(CustomerFilter::Address(names)) = &self.customer else {
            return Ok(());
        };
        let found = bindings.texts(names.clone()).await?;
        let row = found.iter().find_map(|(_, stored)| stored.customer());
        if let Some(row) = row {
            self.customer = Some(CustomerFilter::Number(row.number));
        }
        Ok(())
    }

    fn page(&self, sites: KnownSites<'_>, shows_customers: bool) -> Result<ListedPage, StoreError> {
        let KnownSites {
            bindings,
            now,
            registry,
            ..
        } = sites;
        let is_wanted = |license: &License| {
            let status = license.state(now.date_naive()).word();
            self.status.is_none_or(|wanted| wanted == status)
        };
        let mut found = match (&self.reference, &self.host, &self.customer) {
            (None, None, None) => self.all(registry, bindings, &is_wanted),
            _ => self.named(registry, bindings, &is_wanted),
        };
        let has_more = found.len() > self.limit;
        found.truncate(self.limit);
        let next = found.last().filter(|_| has_more).map(|last| last.id);
        let texts = Handle::current().block_on(async {
            let texts = LicenseTexts::of_found(bindings, &found).await?;
            match shows_customers {
                true => texts.with_customers(bindings, found.iter().map(|found| &**found)).await,
                false => Ok(texts),
            }
        })?;
        let document = |found: &FoundLicense<'_>| {
            let document = LicenseDocument::new(found, &texts, sites);
            // Texts, numbers and times always serialize.
            serde_json::to_value(document).unwrap_or_default()
        };
        Ok(ListedPage {
            licenses: found.iter().map(document).collect(),
            next,
        })
    }

    fn is_after(&self, id: &LicenseId) -> bool {
        self.after.is_none_or(|after| *id > after)
    }

    /// The licenses of all files and of the ledger after the cursor: one more than the page has, if there are so many.
    fn all<'r>(
        &self,
        registry: &'r Registry,
        bindings: &Ledger,
        is_wanted: &dyn Fn(&License) -> bool,
    ) -> Vec<FoundLicense<'r>> {
        let declared = registry
            .licenses()
            .filter(|license| self.is_after(&license.id) && is_wanted(license))
            .filter(|license| bindings.issued(&license.id).is_none());
        let mut found: Vec<_> = declared.take(self.limit + 1).map(FoundLicense::Declared).collect();
        let issued = bindings.issued_after(self.after.as_ref(), self.limit + 1, is_wanted);
        found.extend(issued.into_iter().map(FoundLicense::Ledger));
        // A license may be adopted between the two looks.
        found.sort_by_key(|found| (found.id, matches!(found, FoundLicense::Declared(_))));
        found.dedup_by_key(|found| found.id);
        found.truncate(self.limit + 1);
        found
    }

    /// The licenses of an order, a host or a customer.
    fn named<'r>(
        &self,
        registry: &'r Registry,
        bindings: &Ledger,
        is_wanted: &dyn Fn(&License) -> bool,
    ) -> Vec<FoundLicense<'r>> {
        let of_host = self.host.as_ref().map(|host| {
            let mut ids = bindings.licenses_of_host(host);
            let lists = |license: &License| license.details.hosts.contains(host);
            let declared = registry.licenses().filter(|license| lists(license));
            ids.extend(declared.map(|license| license.id));
            let issued = bindings.issued_after(None, usize::MAX, &lists);
            ids.extend(issued.iter().map(|issued| issued.license.id));
            ids
        });
        let of_order = self.reference.as_ref().map(|order| order.licenses(bindings));
        let of_customer = self.customer.as_ref().map(|customer| match customer {
            CustomerFilter::Number(number) => bindings.issued_to(&[*number]),
            // Nobody has this address.
            CustomerFilter::Address(_) => Vec::new(),
        });
        let each = [of_host, of_order, of_customer].into_iter().flatten();
        let sets = each.map(BTreeSet::from_iter);
        let mut ids = sets.reduce(|one, other| &one & &other).unwrap_or_default();
        ids.retain(|id| self.is_after(id));
        let found = ids.iter().filter_map(|id| found_license::find(registry, bindings, id));
        let found = found.filter(|license| is_wanted(license) && self.is_bound(license, bindings));
        found.take(self.limit + 1).collect()
    }

    /// Whether the wanted host may use the license now, and was not released.
    fn is_bound(&self, license: &License, bindings: &Ledger) -> bool {
        let Some(host) = &self.host else { return true };
        let bound = bindings.of(&license.id);
        let mut valid = bound.iter().filter(|binding| !license.is_void(binding));
        license.details.hosts.contains(host) || valid.any(|binding| binding.host == *host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_has_known_parameters_once_each() {
        let id = "ab".repeat(32);
        let wanted = ListQuery::parse(
            &format!("status=expired&host=https://www.A.com/x&cursor={id}&limit=500"),
            None,
            &Hooks::none(),
        );
        let wanted = wanted.unwrap();
        assert_eq!(wanted.host.as_ref().map(SiteHost::as_str), Some("a.com"));
        assert_eq!((wanted.status, wanted.limit), (Some("expired"), 500));
        assert_eq!(wanted.after, Some(id.parse().unwrap()));
        assert_eq!(ListQuery::parse("", None, &Hooks::none()).unwrap().limit, PAGE);
        for bad in [
            "limit=0",
            "limit=501",
            "limit=x",
            "status=lost",
            "reference=",
            "cursor=ab",
            "host=",
            "more=1",
            "customer=anna",
            "limit=1&limit=1",
        ] {
            assert!(ListQuery::parse(bad, None, &Hooks::none()).is_err(), "{bad}");
        }
    }
}
