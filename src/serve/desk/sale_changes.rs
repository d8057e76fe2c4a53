//! What forms do with what waits: say what an order is, try what is parked again, leave it aside. The same functions as
//! `countersign shop parked`, and an offer that is added later.

use std::collections::BTreeSet;
use std::sync::Arc;

use askama::Template;
use tokio::task::spawn_blocking;
use warp::http::StatusCode;

use crate::serve::deliveries::later_offers::{self, ChosenTerms};
use crate::serve::desk::asked::Asked;
use crate::serve::desk::frame::{NavEntry, PageFrame};
use crate::serve::desk::license_changes::author;
use crate::serve::desk::license_questions::typed;
use crate::serve::desk::page_table::DeskPage;
use crate::serve::desk::sales_look::{LEFT_ASIDE, ShownOrder, WaitingSales, is_left_aside};
use crate::serve::pages::answer::PageAnswer;
use crate::serve::pages::page_problem::PageProblem;
use crate::serve::reply::problem::Problem;
use countersign_files::json_folder::JsonFolderError;
use countersign_files::queue::{Queue, QueueState};
use countersign_files::spool::{self, Delivery};
use countersign_ledger::KnownSale;
use countersign_mail::address::MailAddress;
use countersign_model::issued_license::{ChangeScope, Hex128};
use countersign_model::license::{Modules, SiteLimit};
use countersign_model::offer::{LicenseTerm, Offer, QuantityMeaning, SalesMode, ShopId};
use countersign_model::sale::terms::Terms;
use countersign_model::slug::Slug;
use countersign_model::text::outside_text::OutsideText;

/// The value of the choice that grants nothing. No offer has this name: an underscore is in none.
const NOTHING: &str = "_nothing";

#[derive(Template)]
#[template(path = "desk/sale.html")]
struct SalePage {
    frame: PageFrame,
    id: Hex128,
    tag: String,
    shop: OutsideText,
    /// What was ordered, while the sale waits.
    order: Option<ShownOrder>,
    prices: Vec<OutsideText>,
    /// Prices that a person left aside.
    aside: Vec<OutsideText>,
    offers: Vec<OfferChoice>,
    nothing: &'static str,
}

/// An offer that an order may be.
struct OfferChoice {
    name: String,
    grants: OutsideText,
}

/// A sale that lacks an offer, with the prices that no offer is for.
struct LackingSale {
    sale: KnownSale,
    shop: Slug,
    prices: Vec<ShopId>,
}

fn lacking(asked: &Asked<'_>) -> Result<LackingSale, PageProblem> {
    let none = || PageProblem::new(StatusCode::NOT_FOUND, "No such sale", "There is no sale with this id.");
    let name: Hex128 = asked.name.parse().map_err(|_| none())?;
    let sale = asked.state.service.gate.bindings().known_sale(name).ok_or_else(none)?;
    let shop = sale.shop.as_ref().and_then(|scope| scope.shop()).ok_or_else(none)?;
    let mut prices: Vec<_> = sale
        .facts
        .without_terms()
        .into_iter()
        .map(|(_, thing)| thing.price.clone())
        .collect();
    prices.sort();
    prices.dedup();
    Ok(LackingSale { sale, shop, prices })
}

impl LackingSale {
    /// The offers that it may be: those of its shop, and of its mode where something of it was granted before.
    fn offers<'r>(&self, asked: &Asked<'r>) -> Vec<&'r Offer> {
        let all = asked.snapshot.registry.offers();
        let mode = all.mode_of(&self.shop, &self.sale.facts);
        let offers = all.all().iter().map(|(offer, _)| offer);
        let is_of = |offer: &&Offer| offer.shop == self.shop && mode.is_none_or(|mode| offer.mode == mode);
        offers.filter(is_of).collect()
    }
}

/// The page with the offers.
pub(super) async fn question(asked: &Asked<'_>) -> Result<PageAnswer, PageProblem> {
    asked.state.service.catch_up().await;
    let back = |problem: PageProblem| problem.back_to("/sales".to_owned());
    let lacking = lacking(asked).map_err(back)?;
    let offers = lacking.offers(asked);
    let choice = |offer: &&Offer| {
        let modules: Vec<_> = offer.modules.keys().map(ToString::to_string).collect();
        let test = match offer.mode {
            SalesMode::Live => "",
            SalesMode::Test => ", test mode",
        };
        let grants = match offer.is_nothing {
            true => "grants nothing".to_owned(),
            false => format!("{} · sites: {}{test}", modules.join(", "), offer.sites),
        };
        OfferChoice {
            name: offer.name.to_string(),
            grants: OutsideText::of(&grants),
        }
    };
    let left = lacking
        .sale
        .facts
        .terms()
        .iter()
        .filter(|(_, terms)| is_left_aside(terms));
    let aside: BTreeSet<&ShopId> = left.map(|((_, price), _)| price).collect();
    let aside = aside.into_iter().map(|price| OutsideText::of(price.as_str())).collect();
    let mut tag = lacking.sale.id.to_string();
    tag.truncate(8);
    let waiting = WaitingSales::now(asked).await?.sales.into_iter();
    let order = waiting
        .filter(|wait| wait.sale == Some(lacking.sale.id))
        .map(|wait| ShownOrder::of(&wait.order, asked.visitor.sees_customers()))
        .next();
    Ok(PageAnswer::ok(&SalePage {
        frame: asked.frame("Which offer is it?", NavEntry::Sales),
        id: lacking.sale.id,
        tag,
        shop: OutsideText::of(lacking.shop.as_str()),
        order,
        prices: lacking
            .prices
            .iter()
            .map(|price| OutsideText::of(price.as_str()))
            .collect(),
        aside,
        offers: offers.iter().map(choice).collect(),
        nothing: NOTHING,
    }))
}

/// Grants what a person says that a price is.
pub(super) async fn match_offer(asked: &Asked<'_>) -> Result<PageAnswer, PageProblem> {
    asked.state.service.catch_up().await;
    let id = asked.name;
    let back = |problem: PageProblem| problem.back_to(format!("/sales/{id}"));
    let refused = |sentence: &str| back(PageProblem::refused(sentence.to_owned()));
    let offer = asked.fields.get("offer");
    let price = asked.fields.get("price").parse::<ShopId>();
    let (false, Ok(price)) = (offer.is_empty(), price) else {
        return Err(refused("The form does not say what it is. Choose an offer."));
    };
    let lacking = lacking(asked).map_err(back)?;
    let terms = match offer {
        NOTHING => nothing()?,
        name => {
            let offers = lacking.offers(asked);
            let offer = offers.into_iter().find(|offer| offer.name.as_str() == name);
            Terms::from(offer.ok_or_else(|| refused("There is no such offer of this shop any more."))?)
        }
    };
    if !lacking.prices.contains(&price) {
        let mut known = lacking.sale.facts.terms().iter();
        return match known.find(|((_, of), _)| *of == price) {
            Some((_, known)) if known.offer == terms.offer => Ok(done("same")),
            Some(_) => Err(back(PageProblem::new(
                StatusCode::CONFLICT,
                "Somebody was faster",
                "The order has another offer meanwhile. Nothing of yours was saved.",
            ))),
            None => Err(refused("The order has no such price.")),
        };
    }
    let all = asked.snapshot.registry.offers();
    let of_name = all.named(terms.offer.as_str()).ok().map(|offer| offer.mode);
    let mode = of_name.or_else(|| all.mode_of(&lacking.shop, &lacking.sale.facts));
    let is_nothing = terms.is_nothing;
    let chosen = ChosenTerms {
        sale: lacking.sale,
        price,
        terms,
        mode: mode.unwrap_or(SalesMode::Live),
        is_again: false,
        author: author(asked).map_err(back)?,
        address: None,
    };
    let by = Arc::new(ChangeScope::desk());
    let granted = later_offers::grant_chosen(&asked.state.service, chosen, &by).await?;
    granted.map_err(|reason| back(PageProblem::refused(format!("It was not granted: {reason}."))))?;
    tracing::info!(sale = id, %by, is_nothing, "said what was sold");
    Ok(done(if is_nothing { "aside" } else { "matched" }))
}

/// Grants an offer for a price that was left aside. Its delivery is gone, so that the form may have the buyer's address.
pub(super) async fn take_back(asked: &Asked<'_>) -> Result<PageAnswer, PageProblem> {
    asked.state.service.catch_up().await;
    let id = asked.name;
    let back = |problem: PageProblem| problem.back_to(format!("/sales/{id}"));
    let refused = |sentence: &str| back(PageProblem::refused(sentence.to_owned()));
    let price = asked.fields.get("price").parse::<ShopId>();
    let price = price.map_err(|_| refused("The form does not say what it is. Choose an offer."))?;
    let address = match asked.fields.get("address") {
        "" => None,
        address => Some(
            address
                .parse::<MailAddress>()
                .map_err(|_| refused("This is no mail address."))?,
        ),
    };
    let lacking = lacking(asked).map_err(back)?;
    let name = asked.fields.get("offer");
    let offer = lacking
        .offers(asked)
        .into_iter()
        .find(|offer| offer.name.as_str() == name && !offer.is_nothing);
    let offer = offer.ok_or_else(|| refused("There is no such offer of this shop any more."))?;
    let terms = Terms::from(offer);
    let mut known = lacking.sale.facts.terms().iter();
    match known.find(|((_, of), _)| *of == price) {
        Some((_, known)) if is_left_aside(known) => {}
        Some((_, known)) if known.offer == terms.offer => return Ok(done("same")),
        _ => {
            return Err(refused(
                "The price is not left aside any more. Nothing of yours was saved.",
            ));
        }
    }
    let chosen = ChosenTerms {
        mode: offer.mode,
        sale: lacking.sale,
        price,
        terms,
        is_again: true,
        author: author(asked).map_err(back)?,
        address,
    };
    let by = Arc::new(ChangeScope::desk());
    let granted = later_offers::grant_chosen(&asked.state.service, chosen, &by).await?;
    granted.map_err(|reason| back(PageProblem::refused(format!("It was not granted: {reason}."))))?;
    tracing::info!(sale = id, %by, "took back what was left aside");
    Ok(done("taken-back"))
}

/// The terms of what is left aside.
fn nothing() -> Result<Terms, PageProblem> {
    Ok(Terms {
        grace_days: 0,
        is_nothing: true,
        lasts: LicenseTerm::Lifetime,
        modules: Arc::new(Modules::default()),
        offer: LEFT_ASIDE.parse().map_err(|error| Problem::internal(&error))?,
        quantity: QuantityMeaning::Sites,
        site_moves: None,
        sites: SiteLimit::DEFAULT,
        staging_sites: None,
    })
}

/// The page of sales, with what was done.
pub(super) fn done(word: &str) -> PageAnswer {
    PageAnswer::SeeOther(format!("/sales?done={word}"))
}

/// What a form did that led to the page of sales.
pub(super) fn notice(done: &str) -> Option<&'static str> {
    Some(match done {
        "matched" => "The offer is in force for this order. A license that is new appears within seconds.",
        "aside" => "It is left aside: nothing is issued for it.",
        "taken-back" => "It is not left aside any more. Its licenses appear within seconds.",
        "said" => "It is tried again with that within seconds.",
        "attached" => "The subscription renews the license. Parked payments of it are tried again within seconds.",
        "retried" => "It is tried again within seconds.",
        "dropped" => "The delivery is deleted: nothing of it is done.",
        "same" => "Nothing changed: it is so already.",
        _ => return None,
    })
}

/// Has a parked delivery tried again, or deletes it.
pub(super) async fn parked(asked: &Asked<'_>, page: DeskPage) -> Result<PageAnswer, PageProblem> {
    let back = |problem: PageProblem| problem.back_to("/sales".to_owned());
    let id = asked.name.parse::<Hex128>();
    let id = id.map_err(|_| back(PageProblem::refused("The form names no delivery.".to_owned())))?;
    let is_drop = page == DeskPage::DropDelivery;
    if is_drop && !asked.fields.get("sure").eq_ignore_ascii_case(typed(&id.to_string())) {
        let sentence = "The four characters are not those of the delivery.".to_owned();
        return Err(back(PageProblem::refused(sentence)));
    }
    let folder = spool::folder(&asked.state.store);
    let now = asked.now;
    let work = move || {
        let Some(queue) = Queue::<Delivery>::existing(folder) else {
            return Ok(false);
        };
        let is_parked = |queue: &Queue<Delivery>| Ok(queue.read(id)?.is_some_and(|it| it.state == QueueState::Parked));
        match is_drop {
            true if is_parked(&queue)? => queue.discard(id),
            true => Ok(false),
            false => queue.retry_changed(id, now, |_| {}),
        }
    };
    let changed = blocking(work).await.map_err(back)?;
    if changed {
        tracing::info!(delivery = %id, by = "operator:desk", is_drop, "a parked delivery was decided");
    }
    Ok(done(match (changed, is_drop) {
        (false, _) => "same",
        (true, true) => "dropped",
        (true, false) => "retried",
    }))
}

/// Work of the disk, on a thread that may wait.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, JsonFolderError> + Send + 'static,
) -> Result<T, PageProblem> {
    match spawn_blocking(work).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(Problem::internal(&error).into()),
        Err(error) => Err(Problem::internal(&error).into()),
    }
}
