//! Sales: which wait, for what, and the latest with their licenses. As `countersign shop sales list`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use askama::Template;
use chrono::{DateTime, Utc};
use tokio::task::spawn_blocking;

use crate::serve::deliveries::fold;
use crate::serve::desk::asked::Asked;
use crate::serve::desk::frame::{NavEntry, PageFrame};
use crate::serve::desk::license_questions::typed;
use crate::serve::desk::license_rows::{LicenseRow, StatePill};
use crate::serve::desk::sale_changes;
use crate::serve::pages::answer::PageAnswer;
use crate::serve::pages::page_problem::PageProblem;
use crate::serve::pages::shown::{ShownTime, address, counted, grouped};
use crate::serve::reply::problem::Problem;
use crate::serve::state::Service;
use crate::serve::waiting_sales::{self, ListedWait, WaitingOrder};
use countersign_files::json_folder::JsonFolderError;
use countersign_files::queue::{Queue, QueueState, WholeItem};
use countersign_files::spool::{self, AwaitedThing, Delivery};
use countersign_ledger::KnownSale;
use countersign_model::desk_person::DeskRole;
use countersign_model::issued_license::Hex128;
use countersign_model::license_key::LicenseId;
use countersign_model::slug::Slug;
use countersign_model::text::folded;
use countersign_model::text::outside_text::OutsideText;

/// How many sales a list has.
const PAGE: usize = 50;

/// How many parked deliveries are read for the page.
const MOST_READ: usize = 2_000;

/// The first digits of a sale's id that a page shows.
const SHOWN_DIGITS: usize = 8;

#[derive(Template)]
#[template(path = "desk/sales.html")]
struct SalesPage {
    frame: PageFrame,
    /// What was done just now.
    notice: Option<&'static str>,
    shops: String,
    /// The text that the visitor searches for among waiting orders, and the address of the same search among licenses.
    find: OutsideText,
    elsewhere: Option<String>,
    waiting: Vec<ShownWait>,
    waiting_said: String,
    /// The parked deliveries of this node, the oldest first.
    parked: Vec<ShownParked>,
    parked_said: String,
    /// Whether the visitor may decide what waits.
    may_decide: bool,
    latest: Vec<ShownSale>,
    said: String,
}

/// A delivery that is left to a person.
struct ShownParked {
    id: Hex128,
    tag: String,
    /// What is typed before it is deleted.
    typed: String,
    shop: OutsideText,
    order: ShownOrder,
    reason: OutsideText,
    since: ShownTime,
}

/// What was ordered, and by whom, as far as it is known and the visitor may see it.
struct ShownOrder {
    number: Option<OutsideText>,
    sold: OutsideText,
    amount: Option<OutsideText>,
    buyer: Option<OutsideText>,
}

impl ShownOrder {
    fn of(order: &WaitingOrder, sees_customers: bool) -> Self {
        let buyer = [&order.buyer.name, &order.buyer.address];
        let buyer: Vec<_> = buyer.into_iter().flatten().map(String::as_str).collect();
        Self {
            number: order.number.as_deref().map(OutsideText::of),
            sold: OutsideText::of(&order.sold.join(", ")),
            amount: order.amount.as_deref().map(OutsideText::of),
            buyer: (sees_customers && !buyer.is_empty()).then(|| OutsideText::of(&buyer.join(", "))),
        }
    }
}

/// The parked deliveries in a node's own folder that a search finds, the oldest first, and how many there are. A delivery whose sale waits
/// in the ledger is left out: the row of the sale in `waiting` gets its order. Blocks.
fn parked(
    store: &Path,
    service: &Service,
    waiting: &mut [ListedWait],
    (now, sees_customers, wanted): (DateTime<Utc>, bool, &str),
) -> Result<(Vec<ShownParked>, usize), JsonFolderError> {
    let Some(queue) = Queue::<Delivery>::existing(spool::folder(store)) else {
        return Ok((Vec::new(), 0));
    };
    let mut found = Vec::new();
    for (id, _) in queue.list()? {
        // `shop parked list` tells of one that cannot be read.
        let Ok(Some(queued)) = queue.read(id) else { continue };
        if queued.state == QueueState::Parked {
            found.push((queued.queued, id));
        }
    }
    found.sort_unstable();
    let mut all = found.len();
    let mut shown = Vec::new();
    for (since, id) in found.iter().take(MOST_READ) {
        let Ok(Some(WholeItem { queued, body })) = queue.read_with_body(*id) else {
            continue;
        };
        let shop = &queued.item.shop;
        let hook = service.hooks.find(shop.as_str()).map(|(hook, _)| &hook.config);
        let order = hook.map(|hook| WaitingOrder::of_delivery(hook.kind, &body));
        let order = order.unwrap_or_default();
        if queued.item.waits_for == Some(AwaitedThing::Offer)
            && let Some(sale) = hook.and_then(|hook| fold::sale_of(service, hook, &body))
            && let Some(wait) = waiting.iter_mut().find(|wait| wait.sale == Some(sale))
        {
            wait.order = order;
            all -= 1;
            continue;
        }
        if !order.contains(wanted, sees_customers) {
            all -= 1;
            continue;
        }
        if shown.len() == PAGE {
            continue;
        }
        shown.push(ShownParked {
            id: *id,
            tag: short(*id),
            typed: typed(&id.to_string()).to_owned(),
            shop: OutsideText::of(shop.as_str()),
            order: ShownOrder::of(&order, sees_customers),
            reason: OutsideText::of_sentence(queued.reason.as_deref().unwrap_or_default()),
            since: ShownTime::of(*since, now),
        });
    }
    Ok((shown, all))
}

/// What waits.
struct ShownWait {
    id: String,
    /// Where a person says what it is, and how the button is called, if that helps and the visitor may.
    button: Option<(String, &'static str)>,
    shop: OutsideText,
    order: ShownOrder,
    waits_for: &'static str,
    /// What to do about it.
    advice: &'static str,
    since: Option<ShownTime>,
}

/// A sale among the newest.
struct LatestSale {
    began: Option<DateTime<Utc>>,
    id: Hex128,
    shop: Option<String>,
    is_left_aside: bool,
}

/// A sale with its licenses.
struct ShownSale {
    id: String,
    shop: OutsideText,
    order: Option<OutsideText>,
    /// Whether a person left something of the order aside.
    is_left_aside: bool,
    /// The address of the form that takes this back.
    take_back: Option<String>,
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
    latest: Vec<LatestSale>,
    licenses: HashMap<Hex128, Vec<LicenseId>>,
    all: usize,
}

impl SalesLook {
    /// Looks at every sale and at the spool.
    pub(super) async fn now(asked: &Asked<'_>) -> Result<Self, PageProblem> {
        let service = Arc::clone(&asked.state.service);
        let store = asked.state.store.clone();
        let look = move || {
            let kind_of = |shop: &Slug| Some(service.hooks.find(shop.as_str())?.0.config.kind);
            let spooled = waiting_sales::in_spool(&store, kind_of).map_err(|error| Problem::internal(&error))?;
            Ok::<_, Problem>(Self::of(&service, spooled))
        };
        Ok(asked.state.scans.look(look).await??)
    }

    /// The sales of the ledger, with what waits in the spool. Blocks.
    fn of(service: &Service, spooled: Vec<ListedWait>) -> Self {
        let bindings = service.gate.bindings();
        let mut all = 0;
        let mut newest = BTreeMap::new();
        let mut candidates = Vec::new();
        bindings.each_sale(|id, facts, shop| {
            all += 1;
            let known = || KnownSale {
                id,
                facts: Arc::clone(facts),
                shop: shop.cloned(),
            };
            let place = (Reverse(facts.began()), id);
            if newest.len() < PAGE || newest.last_key_value().is_some_and(|(last, _)| place < *last) {
                newest.insert(place, known());
            }
            if newest.len() > PAGE {
                newest.pop_last();
            }
            if facts.may_wait() {
                candidates.push(known());
            }
        });
        let mut waiting = spooled;
        waiting.extend(candidates.iter().filter_map(waiting_sales::in_ledger));
        waiting.sort_by_key(|wait| wait.since);
        let latest: Vec<_> = newest
            .into_iter()
            .map(|((Reverse(began), id), sale)| LatestSale {
                began,
                id,
                shop: waiting_sales::shop_of(&sale),
                is_left_aside: sale_changes::has_left_aside(&sale),
            })
            .collect();
        let shown: HashSet<_> = latest.iter().map(|sale| sale.id).collect();
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
            all,
        }
    }
}

/// The page.
pub(super) async fn page(asked: &Asked<'_>) -> Result<PageAnswer, PageProblem> {
    asked.state.service.catch_up().await;
    let mut look = SalesLook::now(asked).await?;
    let find = asked.fields.get("find").trim();
    let wanted = folded::folded(find);
    let ids: Vec<_> = look.licenses.values().flatten().copied().collect();
    let rows = LicenseRow::of_ids(asked, &ids).await?;
    let rows: HashMap<_, _> = rows.into_iter().map(|row| (row.id, row)).collect();
    let latest = look.latest.iter().map(|sale| {
        let of_sale = look
            .licenses
            .get(&sale.id)
            .into_iter()
            .flatten()
            .filter_map(|license| rows.get(license));
        let of_sale: Vec<&LicenseRow> = of_sale.collect();
        ShownSale {
            id: short(sale.id),
            take_back: Some(format!("/sales/{}", sale.id))
                .filter(|_| sale.is_left_aside && asked.visitor.may(DeskRole::Support)),
            is_left_aside: sale.is_left_aside,
            shop: OutsideText::of(sale.shop.as_deref().unwrap_or_default()),
            order: of_sale.iter().find_map(|row| row.order.clone()),
            began: sale.began.map(|began| ShownTime::of(began, asked.now)),
            licenses: of_sale
                .iter()
                .map(|row| LicenseOfSale {
                    id: row.id,
                    name: row.shown_name(),
                    pill: row.pill,
                })
                .collect(),
        }
    });
    let store = asked.state.store.clone();
    let service = Arc::clone(&asked.state.service);
    let sees_customers = asked.visitor.sees_customers();
    let now = asked.now;
    let mut waiting = std::mem::take(&mut look.waiting);
    let read = spawn_blocking({
        let wanted = wanted.clone();
        move || {
            let parked = parked(&store, &service, &mut waiting, (now, sees_customers, &wanted))?;
            Ok::<_, JsonFolderError>((waiting, parked))
        }
    });
    let read = read.await.map_err(|error| Problem::internal(&error))?;
    let (mut waiting, (parked, all_parked)) = read.map_err(|error| Problem::internal(&error))?;
    waiting.retain(|wait| wait.order.contains(&wanted, sees_customers));
    let spool = asked.state.service.hooks.spool();
    Ok(PageAnswer::ok(&SalesPage {
        frame: asked.frame("Sales", NavEntry::Sales),
        notice: sale_changes::notice(asked.fields.get("done")),
        shops: match spool {
            Some(_) => format!("{} in the ledger", counted(look.all, "sale")),
            None => "No shop is connected".to_owned(),
        },
        find: OutsideText::of(find),
        elsewhere: (!find.is_empty()).then(|| address("/licenses", &[("q", find)])),
        waiting_said: match waiting.len() {
            more if more > PAGE => format!("the oldest {PAGE} of {more}"),
            count => counted(count, "sale"),
        },
        waiting: waiting.iter().take(PAGE).map(|wait| shown_wait(asked, wait)).collect(),
        parked_said: match all_parked {
            more if more > PAGE => format!("the oldest {PAGE} of {more}, on this node"),
            count => format!("{}, on this node", grouped(count)),
        },
        parked,
        may_decide: asked.visitor.may(DeskRole::Support),
        latest: latest.collect(),
        said: counted(look.latest.len(), "sale"),
    }))
}

fn short(id: Hex128) -> String {
    let mut digits = id.to_string();
    digits.truncate(SHOWN_DIGITS);
    digits
}

/// Where a person says what ends the wait, and how the button is called.
fn button(wait: &ListedWait) -> Option<(String, &'static str)> {
    let of_delivery = |word| Some((format!("/deliveries/{}", wait.delivery?), word));
    match wait.waits_for {
        AwaitedThing::Address => of_delivery("Enter an address"),
        AwaitedThing::Key => of_delivery("Enter the key"),
        AwaitedThing::FirstPayment => of_delivery("Choose the license"),
        AwaitedThing::Offer => Some((format!("/sales/{}", wait.sale?), "Choose an offer")),
        AwaitedThing::Answer => None,
    }
}

fn shown_wait(asked: &Asked<'_>, wait: &ListedWait) -> ShownWait {
    ShownWait {
        id: wait.sale.or(wait.delivery).map(short).unwrap_or_default(),
        button: button(wait).filter(|_| asked.visitor.may(DeskRole::Support)),
        shop: OutsideText::of(wait.shop.as_deref().unwrap_or_default()),
        order: ShownOrder::of(&wait.order, asked.visitor.sees_customers()),
        waits_for: wait.waits_for.words(),
        advice: match wait.waits_for {
            AwaitedThing::Address => "the shop is asked for the buyer’s mail address",
            AwaitedThing::Answer => "the shop is asked again",
            AwaitedThing::FirstPayment if wait.delivery.is_some() => {
                "it renews a subscription that no license here has"
            }
            AwaitedThing::FirstPayment => "nothing is to do: it is issued when it is paid",
            AwaitedThing::Key => "the shop makes the key",
            AwaitedThing::Offer => "no file of registry/offers/ is for what was sold",
        },
        since: wait.since.map(|since| ShownTime::of(since, asked.now)),
    }
}
