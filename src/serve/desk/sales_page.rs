//! Sales: which wait, for what, and the latest with their licenses. As `countersign shop sales list`.

use std::collections::HashMap;

use askama::Template;

use crate::serve::desk::asked::Asked;
use crate::serve::desk::frame::{NavEntry, PageFrame};
use crate::serve::desk::license_questions::typed;
use crate::serve::desk::license_rows::{LicenseRow, StatePill};
use crate::serve::desk::sale_changes;
use crate::serve::desk::sales_look::{LatestSale, ParkedDelivery, SalesLook, ShownOrder, WaitingSales, order_number};
use crate::serve::pages::answer::PageAnswer;
use crate::serve::pages::page_problem::PageProblem;
use crate::serve::pages::shown::{ShownTime, address, counted, grouped};
use crate::serve::waiting_sales::ListedWait;
use countersign_files::spool::AwaitedThing;
use countersign_model::desk_person::DeskRole;
use countersign_model::issued_license::Hex128;
use countersign_model::license_key::LicenseId;
use countersign_model::text::folded;
use countersign_model::text::outside_text::OutsideText;

/// How many of those that wait a list has.
const PAGE: usize = 50;

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

/// The page.
pub(super) async fn page(asked: &Asked<'_>) -> Result<PageAnswer, PageProblem> {
    asked.state.service.catch_up().await;
    let look = SalesLook::now(asked).await?;
    let find = asked.fields.get("find").trim();
    let wanted = folded(find);
    let ids: Vec<_> = look.latest.iter().flat_map(|sale| &sale.licenses).copied().collect();
    let rows = LicenseRow::of_ids(asked, &ids).await?;
    let rows: HashMap<_, _> = rows.into_iter().map(|row| (row.id, row)).collect();
    let latest: Vec<_> = look.latest.iter().map(|sale| shown_sale(asked, sale, &rows)).collect();
    let sees_customers = asked.visitor.sees_customers();
    let WaitingSales {
        sales: mut waiting,
        mut parked,
    } = look.waiting;
    waiting.retain(|wait| wait.order.contains(&wanted, sees_customers));
    parked.retain(|delivery| delivery.order.contains(&wanted, sees_customers));
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
        parked_said: match parked.len() {
            more if more > PAGE => format!("the oldest {PAGE} of {more}, on this node"),
            count => format!("{}, on this node", grouped(count)),
        },
        parked: parked
            .iter()
            .take(PAGE)
            .map(|delivery| shown_parked(asked, delivery))
            .collect(),
        may_decide: asked.visitor.may(DeskRole::Support),
        said: counted(latest.len(), "sale"),
        latest,
    }))
}

fn shown_sale(asked: &Asked<'_>, sale: &LatestSale, rows: &HashMap<LicenseId, LicenseRow>) -> ShownSale {
    let of_sale: Vec<_> = sale.licenses.iter().filter_map(|license| rows.get(license)).collect();
    ShownSale {
        id: short(sale.id),
        take_back: Some(format!("/sales/{}", sale.id))
            .filter(|_| sale.is_left_aside && asked.visitor.may(DeskRole::Support)),
        is_left_aside: sale.is_left_aside,
        shop: OutsideText::of(sale.shop.as_deref().unwrap_or_default()),
        order: (of_sale.iter().find_map(|row| row.order.clone())).or_else(|| sale.order.as_deref().map(order_number)),
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
}

fn shown_parked(asked: &Asked<'_>, delivery: &ParkedDelivery) -> ShownParked {
    ShownParked {
        id: delivery.id,
        tag: short(delivery.id),
        typed: typed(&delivery.id.to_string()).to_owned(),
        shop: OutsideText::of(delivery.shop.as_str()),
        order: ShownOrder::of(&delivery.order, asked.visitor.sees_customers()),
        reason: OutsideText::of_sentence(delivery.reason.as_deref().unwrap_or_default()),
        since: ShownTime::of(delivery.since, asked.now),
    }
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
        AwaitedThing::RenewedLicense => of_delivery("Choose the license"),
        AwaitedThing::Offer => Some((format!("/sales/{}", wait.sale?), "Choose an offer")),
        AwaitedThing::Answer | AwaitedThing::FirstPayment => None,
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
            AwaitedThing::FirstPayment => "nothing is to do: it is issued when it is paid",
            AwaitedThing::Key => "the shop makes the key",
            AwaitedThing::Offer => "it is paid, and no offer here is for what the shop sold",
            AwaitedThing::RenewedLicense => "it is paid, for a subscription that no license here has",
        },
        since: wait.since.map(|since| ShownTime::of(since, asked.now)),
    }
}
