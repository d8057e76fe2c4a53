//! What a person says of a delivery that waits, because the shop does not: the buyer's address, the key that the shop made, or which
//! license a subscription renews. The same functions as `countersign shop parked retry` and `shop attach`.

use std::sync::Arc;

use askama::Template;
use warp::http::StatusCode;

use crate::serve::desk::asked::Asked;
use crate::serve::desk::frame::{NavEntry, PageFrame};
use crate::serve::desk::license_rows::LicenseRow;
use crate::serve::desk::page_table::DeskPage;
use crate::serve::desk::sale_changes::{blocking, done};
use crate::serve::desk::sales_look::ShownOrder;
use crate::serve::ops::attach_answers::{AttachOrder, AttachReply};
use crate::serve::pages::answer::PageAnswer;
use crate::serve::pages::page_problem::PageProblem;
use crate::serve::pages::shown::{ShownTime, sentence};
use crate::serve::waiting_sales::{self, WaitingOrder};
use countersign_files::queue::{Queue, WholeItem};
use countersign_files::spool::{self, AwaitedThing, Delivery, SaidOfDelivery};
use countersign_model::customer::CustomerAddress;
use countersign_model::foreign_key;
use countersign_model::issued_license::Hex128;
use countersign_model::license_key::LicenseId;
use countersign_model::offer::SalesMode;
use countersign_model::remarks::{MAX_REASON, check_remark};
use countersign_model::text::outside_text::OutsideText;
use countersign_settings::config::{KeyIssuer, ShopConfig};

/// The fewest digits that name a license.
const FEWEST_DIGITS: usize = 8;

/// How many licenses of the buyer the page offers.
const MOST_OFFERED: usize = 20;

/// The choices beside licenses of the buyer. No license has such an id.
const OTHER: &str = "_other";
const NEW: &str = "_new";

#[derive(Template)]
#[template(path = "desk/delivery.html")]
struct DeliveryPage {
    frame: PageFrame,
    id: Hex128,
    tag: String,
    shop: OutsideText,
    order: ShownOrder,
    since: ShownTime,
    waits_for: Option<AwaitedThing>,
    /// The subscription as the shop shows it, where a person can say which license it renews.
    subscription: Option<OutsideText>,
    /// The licenses of the buyer, which it may renew.
    of_buyer: Vec<LicenseRow>,
    other: &'static str,
    new: &'static str,
}

/// A delivery of this node.
struct FoundDelivery {
    id: Hex128,
    whole: WholeItem<Delivery>,
    shop: ShopConfig,
}

impl FoundDelivery {
    async fn of(asked: &Asked<'_>) -> Result<Self, PageProblem> {
        let none = || {
            let words = "It was done meanwhile, or it waits on another node.";
            PageProblem::new(StatusCode::NOT_FOUND, "No such delivery", words).back_to("/sales".to_owned())
        };
        let id: Hex128 = asked.name.parse().map_err(|_| none())?;
        let folder = spool::folder(&asked.state.store);
        let read = blocking(move || match Queue::<Delivery>::existing(folder) {
            Some(queue) => queue.read_with_body(id),
            None => Ok(None),
        });
        let whole = read.await?.ok_or_else(none)?;
        let hook = asked.state.service.hooks.find(whole.queued.item.shop.as_str());
        let (hook, _) = hook.ok_or_else(none)?;
        Ok(Self {
            id,
            shop: hook.config.clone(),
            whole,
        })
    }

    fn waits_for(&self) -> Option<AwaitedThing> {
        self.whole.queued.item.waits_for
    }

    /// The subscription that it renews and nobody knows, as facts name it, and its mode.
    fn subscription(&self) -> Option<(String, SalesMode)> {
        if self.waits_for() != Some(AwaitedThing::RenewedLicense) || self.shop.keys == KeyIssuer::Shop {
            return None;
        }
        waiting_sales::renewed(&self.shop, &self.whole.body)
    }
}

/// The page with the form for what it waits for.
pub(super) async fn question(asked: &Asked<'_>) -> Result<PageAnswer, PageProblem> {
    let found = FoundDelivery::of(asked).await?;
    let mut tag = found.id.to_string();
    tag.truncate(FEWEST_DIGITS);
    let ids = found.shop.kind.ids;
    let order = WaitingOrder::of_delivery(found.shop.kind, &found.whole.body);
    let subscription = found.subscription();
    let buyer = order.buyer.address.as_deref().filter(|_| subscription.is_some());
    Ok(PageAnswer::ok(&DeliveryPage {
        frame: asked.frame("What is in the way?", NavEntry::Sales),
        id: found.id,
        tag,
        shop: OutsideText::of(found.shop.name.as_str()),
        order: ShownOrder::of(&order, asked.visitor.sees_customers()),
        since: ShownTime::of(found.whole.queued.queued, asked.now),
        waits_for: found.waits_for(),
        subscription: subscription.map(|(name, _)| OutsideText::of(ids.subscription_id(&name))),
        of_buyer: of_buyer(asked, buyer).await?,
        other: OTHER,
        new: NEW,
    }))
}

/// The licenses of the customer with this address.
// SECURITY: who does not see addresses does not find out by the licenses, either.
async fn of_buyer(asked: &Asked<'_>, address: Option<&str>) -> Result<Vec<LicenseRow>, PageProblem> {
    let address = address.and_then(|address| address.parse::<CustomerAddress>().ok());
    let Some(address) = address.filter(|_| asked.visitor.sees_customers()) else {
        return Ok(Vec::new());
    };
    let customers = asked.customers_of(&address).await?;
    let mut ids = asked.issued_to(customers).await?;
    ids.truncate(MOST_OFFERED);
    LicenseRow::of_ids(asked, &ids).await
}

fn refused(sentence: &str) -> PageProblem {
    PageProblem::refused(sentence.to_owned())
}

/// Says the buyer's address, or the key that the shop made.
pub(super) async fn say(asked: &Asked<'_>, page: DeskPage) -> Result<PageAnswer, PageProblem> {
    let found = FoundDelivery::of(asked).await?;
    let id = found.id;
    let back = |problem: PageProblem| problem.back_to(format!("/deliveries/{id}"));
    let wanted = match page {
        DeskPage::SayKey => AwaitedThing::Key,
        _ => AwaitedThing::Address,
    };
    if found.waits_for() != Some(wanted) {
        return Err(back(refused("The delivery does not wait for that any more.")));
    }
    let mut said = said(asked).map_err(back)?;
    match wanted {
        AwaitedThing::Key => {
            // SECURITY: of the key only its license is kept.
            let key = foreign_key::any_id(asked.fields.get("key").trim());
            said.key =
                Some(key.map_err(|error| back(PageProblem::refused(format!("The key is not taken: {error}."))))?);
        }
        _ => {
            let address = asked.fields.get("address").parse::<CustomerAddress>();
            said.address = Some(address.map_err(|_| back(refused("This is no mail address.")))?);
        }
    }
    let store = asked.state.store.clone();
    let now = asked.now;
    let is_here = blocking(move || waiting_sales::say(&store, id, said, now))
        .await
        .map_err(back)?;
    if is_here {
        tracing::info!(delivery = %id, by = "operator:desk", what = wanted.words(), "a person said what a delivery waits for");
    }
    Ok(done(if is_here { "said" } else { "same" }))
}

/// Attaches the subscription of a delivery to a license and retries its parked renewals, or issues a new license where the form says that
/// the delivery is a first purchase.
pub(super) async fn attach(asked: &Asked<'_>) -> Result<PageAnswer, PageProblem> {
    asked.state.service.catch_up().await;
    let found = FoundDelivery::of(asked).await?;
    let id = found.id;
    let back = |problem: PageProblem| problem.back_to(format!("/deliveries/{id}"));
    let (subscription, mode) = found
        .subscription()
        .ok_or_else(|| back(refused("The delivery does not wait for that any more.")))?;
    let license = match asked.fields.get("license").trim() {
        NEW => return issue(asked, id).await.map_err(back),
        OTHER => license(asked, asked.fields.get("other").trim()).await,
        named => license(asked, named).await,
    };
    let license = license.map_err(back)?;
    let order = AttachOrder {
        shop: found.shop.name.clone(),
        mode,
        subscriptions: vec![(subscription, license)],
        reason: Some(asked.fields.get("reason").to_owned()),
    };
    let changed = match asked.tools().attach(order).await?.pop() {
        Some(AttachReply::Refused(reason)) => {
            return Err(back(PageProblem::refused(sentence(&reason))));
        }
        Some(AttachReply::Done { changed }) => changed,
        None => false,
    };
    let store = asked.state.store.clone();
    let now = asked.now;
    blocking(move || waiting_sales::retry_renewals(&store, now))
        .await
        .map_err(back)?;
    Ok(done(if changed { "attached" } else { "same" }))
}

/// Has a delivery tried again as a first purchase.
async fn issue(asked: &Asked<'_>, id: Hex128) -> Result<PageAnswer, PageProblem> {
    let said = said(asked)?;
    let folder = spool::folder(&asked.state.store);
    let now = asked.now;
    let change = move |delivery: &mut Delivery| {
        delivery.is_sale = true;
        delivery.said = Some(said);
    };
    let is_here = blocking(move || match Queue::<Delivery>::existing(folder) {
        Some(queue) => queue.retry_with(id, now, change),
        None => Ok(false),
    });
    let is_here = is_here.await?;
    if is_here {
        tracing::info!(delivery = %id, by = "operator:desk", "a person said that a renewal is a first purchase");
    }
    Ok(done(if is_here { "said" } else { "same" }))
}

/// What a person says, without the thing itself.
fn said(asked: &Asked<'_>) -> Result<SaidOfDelivery, PageProblem> {
    let reason = asked.fields.get("reason");
    check_remark(reason, MAX_REASON)
        .map_err(|error| PageProblem::refused(format!("The reason is not taken: {error}.")))?;
    Ok(SaidOfDelivery {
        address: None,
        key: None,
        who: asked.visitor.name.clone(),
        reason: Some(reason.into()),
    })
}

/// The license of the ledger with this id, or with the only one that begins so.
async fn license(asked: &Asked<'_>, text: &str) -> Result<LicenseId, PageProblem> {
    if let Ok(id) = text.parse::<LicenseId>() {
        return Ok(id);
    }
    let is_beginning = text.len() >= FEWEST_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_beginning {
        return Err(refused(
            "A license is named by 8 or more of the first digits of its id.",
        ));
    }
    let beginning = text.to_ascii_lowercase();
    let service = Arc::clone(&asked.state.service);
    let look = move || {
        let mut found = Vec::new();
        service.gate.bindings().each_issued(|issued| {
            if issued.license.id.to_string().starts_with(&beginning) {
                found.push(issued.license.id);
            }
        });
        Ok(found)
    };
    match blocking(look).await?.as_slice() {
        [license] => Ok(*license),
        [] => Err(refused("No license of the ledger has this id.")),
        _ => Err(refused("More than one license begins so. Give more digits.")),
    }
}
