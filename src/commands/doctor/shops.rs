//! Checks shops: the secret and the API key of each, whether its keys work and its buyers get them, and what is parked.

use std::collections::BTreeSet;

use crate::commands::doctor::finding::{Finding, broken, ok, warning};
use crate::commands::serve::parts::{FOREIGN_KEYS, check_keys, lacks_addresses, lacks_api_key};
use crate::commands::store::store_source;
use countersign_files::json_folder::JsonFolderError;
use countersign_files::queue::{Queue, QueueState};
use countersign_files::spool::{self, Delivery};
use countersign_model::sale::facts::SaleFacts;
use countersign_model::sale::grants::SoldLicense;
use countersign_model::sale::terms::Terms;
use countersign_registry::offers::Offers;
use countersign_settings::config::{Config, ShopConfig};
use countersign_settings::keys::service_secrets;

/// The findings; none without shops.
pub(super) fn findings(offers: Option<&Offers>, config: &Config) -> Vec<Finding> {
    if config.shops.is_empty() {
        return Vec::new();
    }
    let shops = config.shops.iter().flat_map(|shop| of_shop(shop, config));
    let others = offers.and_then(|offers| other_terms(offers, config));
    shops.chain(parked(config)).chain(others).collect()
}

/// How many licenses were sold by other terms than their offer has today. A store that cannot be read is another finding.
fn other_terms(offers: &Offers, config: &Config) -> Option<Finding> {
    let stored = countersign_ledger::stored_sales(store_source(&config.paths)).ok()?;
    let mut count = 0_u64;
    let mut names = BTreeSet::new();
    for sale in stored.all() {
        let Some(shop) = sale.shop.as_ref().and_then(|shop| shop.shop()) else {
            continue;
        };
        let today = offers.of_sale(&shop, &sale.facts);
        let mut facts = SaleFacts::clone(&sale.facts);
        if facts.regrant(|price| today.get(price).map(|offer| Terms::from(*offer))) == 0 {
            continue;
        }
        let changed = facts.terms().iter().filter(|((_, price), terms)| {
            let mut known = sale.facts.terms().iter();
            known.any(|((_, of), before)| of == price && before != *terms)
        });
        let of_offers = changed.filter_map(|((_, price), _)| today.get(price));
        names.extend(of_offers.map(|offer| &offer.name));
        let before = sale.facts.grants().licenses;
        let differs = |after: &&SoldLicense<_>| {
            before
                .iter()
                .any(|sold| sold.place == after.place && sold.copy == after.copy && sold.grant != after.grant)
        };
        count += facts.grants().licenses.iter().filter(differs).count() as u64;
    }
    let first = names.first().filter(|_| count > 0)?;
    let said = format!(
        "licenses with other terms than their offers have today: {count}; `countersign shop regrant {first} --dry-run`"
    );
    Some(ok("shop", said))
}

fn of_shop(shop: &ShopConfig, config: &Config) -> Vec<Finding> {
    let name = &shop.name;
    let mut findings = Vec::new();
    let api_key = shop
        .api
        .as_ref()
        .map(|api| service_secrets::read_shop_api_key(&api.key_file).map(drop));
    let secret = service_secrets::read_shop(&shop.secret_file).map(drop);
    for read in [Some(secret), api_key].into_iter().flatten() {
        if let Err(error) = read {
            let hint = error.hint();
            findings.push(broken("shop", error.to_string(), Some(hint)));
        }
    }
    if let Err(error) = check_keys(shop, config) {
        findings.push(broken("shop", error.to_string(), Some(FOREIGN_KEYS.to_owned())));
    }
    if let Some(complaint) = lacks_addresses(shop, config) {
        let said = format!("{name}: {complaint}");
        findings.push(warning("shop", said, "set api_key_file in its table: docs/shops.md"));
    }
    if findings.is_empty() {
        let without = lacks_api_key(shop).map(|without| format!("; {without}"));
        let without = without.unwrap_or_default();
        findings.push(ok("shop", format!("{name} at /hooks/{name}{without}")));
    }
    findings
}

/// The deliveries that a person has to decide.
fn parked(config: &Config) -> Option<Finding> {
    let queue = Queue::<Delivery>::existing(spool::folder(&config.paths.store))?;
    match count_parked(&queue) {
        Ok(0) => None,
        Ok(parked) => {
            let said = format!("parked deliveries: {parked}");
            Some(warning("shop", said, "`countersign shop parked list` says why"))
        }
        Err(error) => Some(broken("shop", error.to_string(), None)),
    }
}

/// Those that are damaged count, too.
fn count_parked(queue: &Queue<Delivery>) -> Result<usize, JsonFolderError> {
    let is_parked = |id| match queue.read(id) {
        Ok(delivery) => delivery.is_some_and(|delivery| delivery.state == QueueState::Parked),
        Err(_) => true,
    };
    Ok(queue.list()?.into_iter().filter(|(id, _)| is_parked(*id)).count())
}
