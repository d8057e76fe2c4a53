//! `POST /customers` of the admin socket: erases a customer, for commands beside a running server.
//!
//! The command looks the number up itself, so that the order has no address.

use std::sync::Arc;

use chrono::Utc;
use serde::{Deserialize, Serialize};

use crate::serve::ops::command_user::{CommandUser, GivenOrder};
use crate::serve::state::Service;
use countersign_ledger::{CustomerErasure, Ledger, StoreError};
use countersign_model::issued_license::{ChangeScope, Hex128};
use countersign_model::remarks::Author;
use countersign_settings::keys::license_secrets::LicenseSecrets;

/// A customer to erase.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct CustomerOrder {
    /// The customer's number.
    pub forget: Hex128,
}

/// The customer is erased.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct CustomerReply {
    /// How many addresses were kept until now.
    pub addresses: usize,
}

/// Who erases, as a command says it. Without secrets, nobody has a number to say who did it.
pub fn author(secrets: Option<&LicenseSecrets>, user: &CommandUser) -> Author {
    Author {
        who: secrets.map(|secrets| secrets.person(user.as_str())),
        reason: None,
    }
}

/// Erases a customer. `by` is for the log.
///
/// # Errors
/// It is not known whether everything is erased. The same order may be given again.
pub async fn erase(
    bindings: &Ledger,
    author: Author,
    by: &ChangeScope,
    order: CustomerOrder,
) -> Result<CustomerReply, StoreError> {
    if !bindings.may_issue() {
        return Err(StoreError::Differs);
    }
    let erasure = CustomerErasure {
        number: order.forget,
        author,
        now: Utc::now(),
    };
    let addresses = bindings.erase_customer(erasure).await?;
    tracing::info!(customer = %order.forget, addresses, %by, "erased a customer");
    Ok(CustomerReply { addresses })
}

/// The result of an order to the running server.
pub(super) async fn carry_out(
    service: Arc<Service>,
    given: GivenOrder<CustomerOrder>,
) -> Result<CustomerReply, StoreError> {
    let secrets = service.gate.snapshot().secrets.licensing.clone();
    let author = author(secrets.as_deref(), &given.user);
    erase(service.gate.bindings(), author, &ChangeScope::operator(), given.order).await
}
