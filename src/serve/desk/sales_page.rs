//! Sales: which wait, for what, and the latest with their licenses. As `countersign shop sales list`.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use askama::Template;
use chrono::{DateTime, Utc};

use crate::serve::desk::asked::Asked;
use crate::serve::desk::frame::{NavEntry, PageFrame};
use crate::serve::desk::license_rows::{LicenseRow, StatePill};
use crate::serve::pages::answer::PageAnswer;
use crate::serve::pages::page_problem::PageProblem;
use crate::serve::pages::shown::{ShownTime, counted};
use crate::serve::reply::problem::Problem;
use crate::serve::state::Service;
use crate::serve::waiting_sales::{self, ListedWait};
use countersign_files::queue::QueueState;
use countersign_files::spool::AwaitedThing;
use countersign_model::issued_license::Hex128;
use countersign_model::license_key::LicenseId;
use countersign_model::text::outside_text::OutsideText;

/// How many sales a list has.
const PAGE: usize = 50;

/// The first digits of a sale's id that a page shows.
const SHOWN_DIGITS: usize = 8;

#[derive(Template)]
#[template(path = "desk/sales.html")]
struct SalesPage {
    frame: PageFrame,
    shops: String,
    waiting: Vec<ShownWait>,
    waiting_said: String,
    /// How many deliveries are parked.
    parked: usize,
    latest: Vec<ShownSale>,
    said: String,
}

/// What waits.
struct ShownWait {
    id: String,
    shop: OutsideText,
    waits_for: &'static str,
    /// What to do about it.
    advice: &'static str,
    since: Option<ShownTime>,
}

/// A sale with its licenses.
struct ShownSale {
    id: String,
    shop: OutsideText,
    order: Option<OutsideText>,
    began: Option<ShownTime>,
    licenses: Vec<LicenseOfSale>,
}

/// A license of a sale.
struct LicenseOfSale {
    id: LicenseId,
    name: OutsideText,
    pill: StatePill,
}

/// What waits and what was sold last.
pub(super) struct SalesLook {
    pub(super) waiting: Vec<ListedWait>,
    latest: Vec<(Option<DateTime<Utc>>, Hex128, Option<String>)>,
    licenses: HashMap<Hex128, Vec<LicenseId>>,
    all: usize,
}

impl SalesLook {
    /// Looks at every sale and at the spool.
    pub(super) async fn now(asked: &Asked<'_>) -> Result<Self, PageProblem> {
        let service = Arc::clone(&asked.state.service);
        let store = asked.state.store.clone();
        let look = move || {
            let spooled = waiting_sales::in_spool(&store).map_err(|error| Problem::internal(&error))?;
            Ok::<_, Problem>(Self::of(&service, spooled))
        };
        Ok(asked.state.scans.look(look).await??)
    }

    /// The sales of the ledger, with what waits in the spool. Blocks.
    fn of(service: &Service, spooled: Vec<ListedWait>) -> Self {
        let bindings = service.gate.bindings();
        let mut waiting = spooled;
        let mut latest = Vec::new();
        let sales = bindings.sales();
        for sale in &sales {
            waiting.extend(waiting_sales::in_ledger(sale));
            latest.push((sale.facts.began(), sale.id, waiting_sales::shop_of(sale)));
        }
        waiting.sort_by_key(|wait| wait.since);
        latest.sort_by_key(|(began, id, _)| (Reverse(*began), *id));
        latest.truncate(PAGE);
        let shown: HashSet<_> = latest.iter().map(|(_, id, _)| *id).collect();
        let mut licenses: HashMap<Hex128, Vec<LicenseId>> = HashMap::new();
        if !shown.is_empty() {
            let mut sold = Vec::new();
            bindings.each_issued(|issued| {
                if let Some(of) = issued.license.details.remarks().sold.as_deref() {
                    sold.push((of.sale, issued.license.id));
                }
            });
            for (sale, license) in sold {
                // A sale may have got another id since.
                let sale = if shown.contains(&sale) {
                    Some(sale)
                } else {
                    bindings.sale(sale).map(|(id, _)| id)
                };
                if let Some(sale) = sale.filter(|sale| shown.contains(sale)) {
                    licenses.entry(sale).or_default().push(license);
                }
            }
        }
        Self {
            waiting,
            latest,
            licenses,
            all: sales.len(),
        }
    }
}

/// The page.
pub(super) async fn page(asked: &Asked<'_>) -> Result<PageAnswer, PageProblem> {
    asked.state.service.catch_up().await;
    let look = SalesLook::now(asked).await?;
    let ids: Vec<_> = look.licenses.values().flatten().copied().collect();
    let rows = LicenseRow::of_ids(asked, &ids).await?;
    let rows: HashMap<_, _> = rows.into_iter().map(|row| (row.id, row)).collect();
    let waiting: Vec<_> = look
        .waiting
        .iter()
        .take(PAGE)
        .map(|wait| shown_wait(asked, wait))
        .collect();
    let latest = look.latest.iter().map(|(began, id, shop)| {
        let of_sale = look
            .licenses
            .get(id)
            .into_iter()
            .flatten()
            .filter_map(|license| rows.get(license));
        let of_sale: Vec<&LicenseRow> = of_sale.collect();
        ShownSale {
            id: short(*id),
            shop: OutsideText::of(shop.as_deref().unwrap_or_default()),
            order: of_sale.iter().find_map(|row| row.order.clone()),
            began: began.map(|began| ShownTime::of(began, asked.now)),
            licenses: of_sale
                .iter()
                .map(|row| LicenseOfSale {
                    id: row.id,
                    name: if row.customer.name.is_empty() {
                        OutsideText::of(&row.tag)
                    } else {
                        row.customer.name.clone()
                    },
                    pill: row.pill,
                })
                .collect(),
        }
    });
    let spool = asked.state.service.hooks.spool();
    Ok(PageAnswer::ok(&SalesPage {
        frame: asked.frame("Sales", NavEntry::Sales),
        shops: match spool {
            Some(_) => format!("{} in the ledger", counted(look.all, "sale")),
            None => "No shop is connected".to_owned(),
        },
        waiting_said: match look.waiting.len() {
            more if more > PAGE => format!("the oldest {PAGE} of {more}"),
            count => counted(count, "sale"),
        },
        waiting,
        parked: spool.map_or(0, |spool| spool.count(QueueState::Parked).0),
        latest: latest.collect(),
        said: counted(look.latest.len(), "sale"),
    }))
}

fn short(id: Hex128) -> String {
    let mut digits = id.to_string();
    digits.truncate(SHOWN_DIGITS);
    digits
}

fn shown_wait(asked: &Asked<'_>, wait: &ListedWait) -> ShownWait {
    ShownWait {
        id: wait.sale.or(wait.delivery).map(short).unwrap_or_default(),
        shop: OutsideText::of(wait.shop.as_deref().unwrap_or_default()),
        waits_for: wait.waits_for.words(),
        advice: match wait.waits_for {
            AwaitedThing::Address => "the shop is asked for the buyer’s mail address",
            AwaitedThing::Answer => "the shop is asked again",
            AwaitedThing::FirstPayment => "nothing is to do: it is issued when it is paid",
            AwaitedThing::Key => "the shop makes the key",
            AwaitedThing::Offer => "no file of registry/offers/ is for what was sold",
        },
        since: wait.since.map(|since| ShownTime::of(since, asked.now)),
    }
}
