//! What a saved delivery would do, and how `countersign shop check` prints it.

use serde::Serialize;

use countersign_model::license::Modules;
use countersign_model::offer::SalesMode;
use countersign_model::slug::Slug;
use countersign_model::text::printable::Printable;
use countersign_shops::event::{ShopAction, ShopDelivery};
use countersign_shops::shop::Shop;

/// What would be done.
#[derive(Serialize)]
pub(super) struct CheckedDelivery<'a> {
    pub(super) shop: &'a Slug,
    pub(super) kind: &'static Shop,
    /// `right`, `not_checked`, or why it is not accepted.
    pub(super) signature: String,
    /// The mode whose offers were looked through.
    pub(super) offers_of: SalesMode,
    pub(super) delivery: &'a ShopDelivery,
    pub(super) licenses: Vec<CheckedLine>,
}

/// A line of a sale, and what it grants.
#[derive(Serialize)]
pub(super) struct CheckedLine {
    /// As the shop names it.
    pub(super) sold: String,
    pub(super) quantity: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) offer: Option<Slug>,
    /// The number of licenses; 0 if it grants none.
    pub(super) count: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) grants: Option<PrintedGrant>,
    /// Why it grants none: it would be parked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parked: Option<String>,
}

#[derive(Serialize)]
pub(super) struct PrintedGrant {
    pub(super) modules: Modules,
    pub(super) sites: String,
    pub(super) expires: String,
}

/// For people.
pub(super) fn text(checked: &CheckedDelivery<'_>) -> String {
    let delivery = checked.delivery;
    let (action, reason) = match &delivery.action {
        ShopAction::Issue(_) => ("issue", None),
        ShopAction::Renew(_) => ("renew", None),
        ShopAction::Change(_) => ("change", None),
        ShopAction::Revoke(subject) => ("revoke", Some(subject.reason)),
        ShopAction::Suspend(subject) => ("suspend", Some(subject.reason)),
        ShopAction::Resume(subject) => ("resume", Some(subject.reason)),
        ShopAction::LetExpire(subject) => ("let expire", Some(subject.reason)),
        ShopAction::Key(_) => ("take the shop's key", None),
        ShopAction::Record(subject) => ("record only", Some(subject.reason)),
        ShopAction::Park(subject) => ("park", Some(subject.reason)),
        ShopAction::Ignore { reason } => ("ignore", Some(*reason)),
    };
    let mut lines = vec![
        format!("event      {}", Printable(&delivery.event)),
        format!("signature  {}", checked.signature),
        format!("mode       {}", checked.offers_of.as_str()),
        match reason {
            Some(reason) => format!("action     {action}: {reason}"),
            None => format!("action     {action}"),
        },
    ];
    let names = delivery.action.names();
    if !names.is_empty() {
        lines.push(format!("names      {}", Printable(names.join(" "))));
    }
    if let ShopAction::Key(key) = &delivery.action {
        lines.push(match &key.license {
            Ok(license) => format!("license    {license}"),
            Err(reason) => format!("PARKED     {reason}"),
        });
    }
    for line in &checked.licenses {
        let sold = Printable(&line.sold);
        lines.push(match (&line.grants, &line.parked) {
            (Some(grants), _) => format!(
                "license    {} x {sold}: {} of offer {}, sites {}, until {}",
                line.quantity,
                line.count,
                line.offer.as_ref().map_or("", Slug::as_str),
                grants.sites,
                grants.expires
            ),
            (None, parked) => format!(
                "PARKED     {} x {sold}: {}",
                line.quantity,
                parked.as_deref().unwrap_or_default()
            ),
        });
    }
    lines.join("\n") + "\n"
}
