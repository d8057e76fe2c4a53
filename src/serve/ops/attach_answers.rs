//! `POST /attachments` of the admin socket: says which licenses subscriptions renew, for commands beside a running server. A command
//! without a server does it itself.

use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde::{Deserialize, Serialize};

use crate::serve::deliveries::attaching::Attaching;
use crate::serve::ops::command_user::GivenOrder;
use crate::serve::ops::license_answers::{LedgerTools, NO_SECRETS};
use crate::serve::state::Service;
use countersign_ledger::StoreError;
use countersign_model::license_key::LicenseId;
use countersign_model::offer::SalesMode;
use countersign_model::slug::Slug;

/// The most subscriptions in one order.
pub const MAX_ATTACHED: usize = 500;

/// Subscriptions at once, so that they share commits.
const AT_ONCE: usize = 32;

/// Which licenses subscriptions of a shop renew.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AttachOrder {
    /// The shop.
    pub shop: Slug,
    /// Whether they are sales or tests.
    pub mode: SalesMode,
    /// Subscriptions, as facts name them, at most [`MAX_ATTACHED`], and their licenses.
    pub subscriptions: Vec<(String, LicenseId)>,
    /// Why, as a person says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What became of a subscription of an order. The replies are in the order of the subscriptions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttachReply {
    /// It renews the license.
    Done {
        /// Whether it did not before.
        changed: bool,
    },
    /// Nothing was changed. Why.
    Refused(String),
}

impl LedgerTools<'_> {
    /// Has subscriptions renew licenses.
    ///
    /// # Errors
    /// The ledger cannot be written. Some may be attached; the same order may be given again.
    pub async fn attach(&self, order: AttachOrder) -> Result<Vec<AttachReply>, StoreError> {
        let count = order.subscriptions.len();
        let refused = |reason: String| Ok(vec![AttachReply::Refused(reason); count]);
        if count > MAX_ATTACHED {
            return refused(format!("an order has more than {MAX_ATTACHED} subscriptions"));
        }
        let Some(secrets) = self.secrets.as_deref() else {
            return refused(NO_SECRETS.to_owned());
        };
        let author = match self.author(order.reason.as_deref()) {
            Ok(author) => author,
            Err(reason) => return refused(reason),
        };
        let attaching = &Attaching {
            registry: self.registry,
            bindings: self.bindings,
            secrets,
            shop: &order.shop,
            mode: order.mode,
            author,
            scope: Arc::clone(&self.scope),
        };
        let shop = &order.shop;
        let attach = async |(subscription, license): (String, LicenseId)| {
            let attached = attaching.attach(&subscription, &license).await?;
            if attached == Ok(true) {
                tracing::info!(license = license.log_tag(), %shop, by = %self.scope, "attached a subscription");
            }
            Ok(match attached {
                Ok(changed) => AttachReply::Done { changed },
                Err(reason) => AttachReply::Refused(reason),
            })
        };
        let replies = stream::iter(order.subscriptions).map(attach).buffered(AT_ONCE);
        replies.try_collect().await
    }
}

/// The result of an order to the running server.
pub(super) async fn attach(
    service: Arc<Service>,
    given: GivenOrder<AttachOrder>,
) -> Result<Vec<AttachReply>, StoreError> {
    let snapshot = service.gate.snapshot();
    LedgerTools::of(&service, &snapshot, given.user)
        .attach(given.order)
        .await
}
