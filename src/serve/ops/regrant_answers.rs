//! `POST /regrants` of the admin socket: grants what was sold under an offer the terms that the offer has today, for commands beside
//! a running server. A command without a server does it itself.

use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde::{Deserialize, Serialize};

use crate::serve::deliveries::regranting::Regranting;
use crate::serve::ops::command_user::GivenOrder;
use crate::serve::ops::license_answers::{LedgerTools, NO_SECRETS};
use crate::serve::state::Service;
use countersign_ledger::{KnownSale, StoreError};
use countersign_model::issued_license::{ChangeScope, Hex128};
use countersign_model::license_key::LicenseId;
use countersign_model::sale::terms::SoldGrant;
use countersign_model::sale::terms::Terms;
use countersign_model::slug::Slug;

/// Sales that one order looks at.
const MOST_SALES: usize = 500;

/// Sales at once, so that they share commits.
const AT_ONCE: usize = 32;

/// Licenses that one reply shows.
pub const SHOWN: usize = 10;

/// What to grant again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RegrantOrder {
    /// The offer.
    pub offer: Slug,
    /// What it grants, as the command read it. A server that has another offer in force refuses.
    pub terms: Terms,
    /// Whether nothing is changed.
    pub dry_run: bool,
    /// Only sales after this one: the `next` of the reply before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Hex128>,
}

/// What became of an order.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RegrantReply {
    /// Some sales were looked at.
    Done(RegrantedSales),
    /// Nothing was changed. Why.
    Refused(String),
}

/// What became of some sales.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RegrantedSales {
    /// How many licenses change.
    pub changed: u64,
    /// The first of them, at most [`SHOWN`].
    pub licenses: Vec<RegrantedLicense>,
    /// Why sales were not changed, each reason once.
    pub failed: Vec<String>,
    /// If there are more sales: the last one that was looked at.
    pub next: Option<Hex128>,
}

/// A license before and after.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RegrantedLicense {
    /// Its id.
    pub id: LicenseId,
    /// What it had.
    pub before: SoldGrant,
    /// What it has now, with what people changed.
    pub after: SoldGrant,
}

impl LedgerTools<'_> {
    /// Grants some sales again.
    ///
    /// # Errors
    /// The ledger cannot be written. Some sales may be changed; the same order may be given again.
    pub async fn regrant(&self, order: RegrantOrder) -> Result<RegrantReply, StoreError> {
        let refused = |reason: String| Ok(RegrantReply::Refused(reason));
        let Some(secrets) = self.secrets.as_deref() else {
            return refused(NO_SECRETS.to_owned());
        };
        let offer = match self.registry.offers().named(order.offer.as_str()) {
            Ok(offer) => offer,
            Err(error) => return refused(error.to_string()),
        };
        if Terms::from(offer) != order.terms {
            return refused(
                "the server has another version of this offer in force: try again in some seconds".to_owned(),
            );
        }
        let author = match self.author(None) {
            Ok(author) => author,
            Err(reason) => return refused(reason),
        };
        let shop = ChangeScope::of_shop(&offer.shop);
        let mut sales = self.bindings.sales();
        sales.retain(|sale| order.after.is_none_or(|after| sale.id > after));
        sales.retain(|sale| sale.shop.as_deref() == Some(&shop));
        let is_more = sales.len() > MOST_SALES;
        sales.truncate(MOST_SALES);
        let mut done = RegrantedSales {
            next: sales.last().map(|sale| sale.id).filter(|_| is_more),
            ..RegrantedSales::default()
        };
        let regranting = &Regranting {
            registry: self.registry,
            bindings: self.bindings,
            secrets,
            offer,
            author,
        };
        let regrant = async |sale: KnownSale| regranting.regrant(&sale, !order.dry_run).await;
        let mut regranted = stream::iter(sales).map(regrant).buffered(AT_ONCE);
        while let Some(followed) = regranted.try_next().await? {
            match followed {
                Ok(followed) => {
                    done.changed += followed.len() as u64;
                    let room = SHOWN - done.licenses.len();
                    done.licenses
                        .extend(followed.iter().take(room).map(|followed| RegrantedLicense {
                            id: followed.found.license.id,
                            before: followed.found.license.sold_grant(),
                            after: followed.license.sold_grant(),
                        }));
                }
                Err(reason) if done.failed.contains(&reason) => {}
                Err(reason) => done.failed.push(reason),
            }
        }
        if !order.dry_run {
            tracing::info!(offer = %order.offer, licenses = done.changed, by = "operator:cli", "granted sales again");
        }
        Ok(RegrantReply::Done(done))
    }
}

/// The result of an order to the running server.
pub(super) async fn regrant(
    service: Arc<Service>,
    given: GivenOrder<RegrantOrder>,
) -> Result<RegrantReply, StoreError> {
    let snapshot = service.gate.snapshot();
    LedgerTools::of(&service, &snapshot, given.user)
        .regrant(given.order)
        .await
}
